"""Constraints of the parameters and the support of distributions.

A constraint's `check(value)` says for each element, or for each event of `event_dim` dims, whether it is satisfied.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from undertow.distributions import _functions as torch

__all__ = [
    "Constraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property", "greater_than",
    "greater_than_eq", "independent", "integer_interval", "interval", "half_open_interval", "is_dependent", "less_than",
    "lower_cholesky", "lower_triangular", "MixtureSameFamilyConstraint", "multinomial", "nonnegative",
    "nonnegative_integer", "one_hot", "positive", "positive_semidefinite", "positive_definite", "positive_integer",
    "real", "real_vector", "simplex", "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """A set of values. `is_discrete`: it consists of separate points. `event_dim`: the number of dims of one value."""

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Any) -> Any:
        """Return which values satisfy the constraint, as a tensor of bools."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return type(self).__name__.lstrip("_") + "()"


# --- constraints that depend on other parameters


def _known(name: str) -> Any:
    """Return a property of a dependent constraint that raises if it is not known."""

    def read(self: _Dependent) -> Any:
        value = vars(self)[f"_{name}"]
        if value is NotImplemented:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return value

    return property(read)


class _Dependent(Constraint):
    """A placeholder for a constraint that depends on other parameters."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim

    is_discrete, event_dim = _known("is_discrete"), _known("event_dim")

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        """Return the same constraint with more properties known."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, x: Any) -> Any:
        raise ValueError("Cannot determine validity of dependent constraint")


class _DependentProperty(property, _Dependent):
    """A property that is a constraint; read from the class, it is a dependent constraint.

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self): ...
    """

    def __init__(self, fn: Any = None, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Any) -> Any:  # type: ignore[override]
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def is_dependent(constraint: Any) -> bool:
    """Return whether a constraint depends on other parameters."""
    return isinstance(constraint, _Dependent)


# --- events made of smaller ones


def _insist_on_constraint(value: object) -> None:
    torch.insist(isinstance(value, Constraint), f"base_constraint must be a Constraint, got {type(value).__name__}")


def _all_after(held: Any, shape: Sequence[int]) -> Any:
    """Return whether all elements hold, for each element of the batch."""
    return held.reshape((*shape, -1)).all(-1)


class _IndependentConstraint(Constraint):
    """Satisfied by a value of several dims if all elements satisfy a constraint."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        extra, kind = reinterpreted_batch_ndims, type(reinterpreted_batch_ndims).__name__
        _insist_on_constraint(base_constraint)
        torch.insist(isinstance(extra, int), f"reinterpreted_batch_ndims must be an int, got {kind}")
        torch.insist(extra >= 0, f"reinterpreted_batch_ndims must be >= 0, got {extra}")
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    is_discrete = torch.alias("base_constraint.is_discrete")

    @property
    def event_dim(self) -> Any:
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        held = self.base_constraint.check(value)
        kept = held.dim() - self.reinterpreted_batch_ndims
        if kept < 0:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return _all_after(held, held.shape[:kept])

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The support of a mixture: every component must support the value, which lacks the component dim."""

    def __init__(self, base_constraint: Constraint) -> None:
        _insist_on_constraint(base_constraint)
        self.base_constraint = base_constraint

    is_discrete = torch.alias("base_constraint.is_discrete")
    event_dim = torch.alias("base_constraint.event_dim")

    def check(self, value: Any) -> Any:
        for_each = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        batch = value.dim() - self.event_dim
        if batch < 0:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return _all_after(for_each, value.shape[:batch])

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


# --- numbers


class _Real(Constraint):
    def check(self, value: Any) -> Any:
        return value == value  # not nan


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value == 0) | (value == 1)


class _Bounded(Constraint):
    """Numbers between optional bounds; integers if discrete."""

    _above: Any = operator.ge
    _below: Any = operator.le

    def check(self, value: Any) -> Any:
        bounds, held = vars(self), []
        if self.is_discrete:
            held.append(value % 1 == 0)
        if "lower_bound" in bounds:
            held.append(self._above(value, bounds["lower_bound"]))
        if "upper_bound" in bounds:
            held.append(self._below(value, bounds["upper_bound"]))
        return functools.reduce(operator.and_, held)

    def __repr__(self) -> str:
        bounds = [f"{name}={vars(self)[name]}" for name in ("lower_bound", "upper_bound") if name in vars(self)]
        return f"{type(self).__name__.lstrip('_')}({', '.join(bounds)})"


class _Between(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound


class _Above(_Bounded):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound


class _Below(_Bounded):
    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound


class _Interval(_Between):
    pass


class _HalfOpenInterval(_Between):
    _below = operator.lt


class _IntegerInterval(_Between):
    is_discrete = True


class _GreaterThan(_Above):
    _above = operator.gt


class _GreaterThanEq(_Above):
    pass


class _IntegerGreaterThan(_Above):
    is_discrete = True


class _LessThan(_Below):
    _below = operator.lt


class _IntegerLessThan(_Below):
    is_discrete = True


# --- vectors and matrices


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Any:
        return boolean.check(value).all(-1) & value.sum(-1).eq(1)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, x: Any) -> Any:
        return (x >= 0).all(dim=-1) & (x.sum(dim=-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return _all_after(value.tril() == value, value.shape[:-2])


class _LowerCholesky(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return lower_triangular.check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        tolerance = torch.finfo(value.dtype).eps * value.size(-1) * 10
        lengths = value.detach().norm(dim=-1)
        return lower_cholesky.check(value) & (lengths - 1).abs().le(tolerance).all(dim=-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return torch.full(tuple(value.shape[:-2]), value.shape[-2] == value.shape[-1], dtype=torch.bool_dtype)


class _Symmetric(_Square):
    def check(self, value: Any) -> Any:
        square = super().check(value)
        return value.isclose(value.mT, atol=1e-6).all(-2).all(-1) if square.all() else square


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        symmetric = super().check(value)
        return torch.eigvalsh(value).ge(0).all(-1) if symmetric.all() else symmetric


class _PositiveDefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        symmetric = super().check(value)
        return torch.cholesky_ex(value).info.eq(0) if symmetric.all() else symmetric


# --- constraints of the parts of a tensor


class _SideBySide(Constraint):
    """Parts along a dim, each with its own constraint."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim
        are_constraints = all(isinstance(each, Constraint) for each in self.cseq)
        torch.insist(are_constraints, "All elements of cseq must be Constraint instances")

    @property
    def is_discrete(self) -> Any:
        return any(each.is_discrete for each in self.cseq)

    @property
    def event_dim(self) -> Any:
        return max(each.event_dim for each in self.cseq)


class _Cat(_SideBySide):
    """Consecutive parts along a dim, of the given lengths."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        count, given = len(self.cseq), len(self.lengths)
        torch.insist(given == count, f"lengths ({given}) must match cseq ({count})")

    def check(self, value: Any) -> Any:
        torch.insist_on_dim(value, self.dim, "value")
        starts = itertools.accumulate(self.lengths, initial=0)
        parts = zip(self.cseq, starts, self.lengths, strict=False)
        return torch.cat([each.check(value.narrow(self.dim, start, size)) for each, start, size in parts], self.dim)


class _Stack(_SideBySide):
    """Slices along a dim."""

    @property
    def event_dim(self) -> Any:
        dim = max(each.event_dim for each in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Any) -> Any:
        torch.insist_on_dim(value, self.dim, "value")
        slices = zip(self.cseq, value.unbind(self.dim), strict=False)
        return torch.stack([each.check(part) for each, part in slices], self.dim)


dependent = _Dependent()
dependent_property: Callable[..., Any] = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
