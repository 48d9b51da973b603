"""The Weibull distribution."""

from __future__ import annotations

from typing import Any

from undertow.distributions import _functions as torch
from undertow.distributions import constraints
from undertow.distributions.exponential import Exponential
from undertow.distributions.transformed_distribution import TransformedDistribution
from undertow.distributions.transforms import AffineTransform, PowerTransform
from undertow.distributions.utils import broadcast_all, euler_constant

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """Lifetimes of a `scale` whose risk grows (or falls) as a power of age, `concentration` - 1."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(torch.ones_like(self.scale), validate_args=validate_args)
        transforms = [
            PowerTransform(exponent=self.concentration_reciprocal), AffineTransform(loc=0, scale=self.scale),
        ]  # fmt: skip
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Weibull, _instance)
        new.scale, new.concentration = self.scale.expand(batch_shape), self.concentration.expand(batch_shape)
        new.concentration_reciprocal = new.concentration.reciprocal()
        base = self.base_dist.expand(batch_shape)
        transforms = [
            PowerTransform(exponent=new.concentration_reciprocal), AffineTransform(loc=0, scale=new.scale),
        ]  # fmt: skip
        super(Weibull, new).__init__(base, transforms, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def mean(self) -> Any:
        return self.scale * (1 + self.concentration_reciprocal).lgamma().exp()

    @property
    def mode(self) -> Any:
        shape = self.concentration
        return self.scale * ((shape - 1) / shape) ** shape.reciprocal()

    @property
    def variance(self) -> Any:
        second = (1 + 2 * self.concentration_reciprocal).lgamma().exp()
        return self.scale.pow(2) * (second - (2 * (1 + self.concentration_reciprocal).lgamma()).exp())

    def entropy(self) -> Any:
        return (
            euler_constant * (1 - self.concentration_reciprocal)
            + (self.scale * self.concentration_reciprocal).log()
            + 1
        )
