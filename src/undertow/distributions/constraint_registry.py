"""Transforms from unconstrained numbers to a constraint.

`biject_to(constraint)` is bijective, for sampling and densities; `transform_to(constraint)` may be simpler and is meant
for optimizing parameters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from undertow.distributions import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = Callable[[Any], transforms.Transform]


class ConstraintRegistry:
    """Factories of transforms by the class of the constraint."""

    def __init__(self) -> None:
        self._registry: dict[type, Factory] = {}

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Register a factory for a class of constraints (or that of an instance); without one, return a decorator."""
        if factory is None:
            return functools.partial(self.register, constraint)
        is_instance = isinstance(constraint, constraints.Constraint)
        kind = type(constraint) if is_instance else constraint
        if not (isinstance(kind, type) and issubclass(kind, constraints.Constraint)):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {kind}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> transforms.Transform:
        """Return the transform for a constraint."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _transform_to_positive(constraint: Any) -> transforms.Transform:
    shift = transforms.AffineTransform(constraint.lower_bound, 1)
    return transforms.ComposeTransform([transforms.ExpTransform(), shift])


_transform_to_greater_than = _transform_to_positive  # PyTorch has both names


def _transform_to_less_than(constraint: Any) -> transforms.Transform:
    shift = transforms.AffineTransform(constraint.upper_bound, -1)
    return transforms.ComposeTransform([transforms.ExpTransform(), shift])


def _transform_to_interval(constraint: Any) -> transforms.Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


def _register_shared(registry: ConstraintRegistry) -> None:
    """Add the factories that both registries have."""

    @registry.register(constraints.independent)
    def _independent(constraint: Any) -> transforms.Transform:
        base = registry(constraint.base_constraint)
        return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)

    @registry.register(constraints.cat)
    def _cat(constraint: Any) -> transforms.Transform:
        return transforms.CatTransform([registry(each) for each in constraint.cseq], constraint.dim, constraint.lengths)

    @registry.register(constraints.stack)
    def _stack(constraint: Any) -> transforms.Transform:
        return transforms.StackTransform([registry(each) for each in constraint.cseq], constraint.dim)

    registry.register(constraints.greater_than, _transform_to_positive)
    registry.register(constraints.greater_than_eq, _transform_to_positive)
    registry.register(constraints.interval, _transform_to_interval)
    registry.register(constraints.half_open_interval, _transform_to_interval)
    registry.register(constraints.less_than, _transform_to_less_than)
    registry.register(constraints.real, lambda constraint: transforms.identity_transform)
    registry.register(constraints.corr_cholesky, lambda constraint: transforms.CorrCholeskyTransform())


for _registry in (biject_to, transform_to):
    _register_shared(_registry)
biject_to.register(constraints.simplex, lambda constraint: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda constraint: transforms.LowerCholeskyTransform())
for _matrix in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_matrix, lambda constraint: transforms.PositiveDefiniteTransform())
