"""The inverse gamma distribution."""

from __future__ import annotations

from typing import Any

from undertow.distributions import _functions as torch
from undertow.distributions import constraints
from undertow.distributions.gamma import Gamma
from undertow.distributions.transformed_distribution import TransformedDistribution
from undertow.distributions.transforms import PowerTransform

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """Reciprocals of gamma values."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        minus_one = -base.rate.new_ones(())
        super().__init__(base, PowerTransform(minus_one), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, _instance=self._get_checked_instance(InverseGamma, _instance))

    @property
    def concentration(self) -> Any:
        return self.base_dist.concentration

    @property
    def rate(self) -> Any:
        return self.base_dist.rate

    @property
    def mean(self) -> Any:
        result = self.rate / (self.concentration - 1)
        return torch.where(self.concentration > 1, result, float("inf"))

    @property
    def mode(self) -> Any:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Any:
        shape = self.concentration
        result = self.rate.square() / ((shape - 1).square() * (shape - 2))
        return torch.where(shape > 2, result, float("inf"))

    def entropy(self) -> Any:
        shape = self.concentration
        return shape + self.rate.log() + shape.lgamma() - (1 + shape) * shape.digamma()
