"""The inverse gamma distribution."""

from __future__ import annotations

import math

from undertow.distributions._family import constraints, torch
from undertow.distributions.gamma import Gamma
from undertow.distributions.transformed_distribution import TransformedDistribution
from undertow.distributions.transforms import PowerTransform

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """Reciprocals of gamma values."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _batch_attributes = ()
    concentration = torch.alias("base_dist.concentration")
    rate = torch.alias("base_dist.rate")

    def __init__(self, concentration: torch.Value, rate: torch.Value, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args=validate_args)

    @property
    def mean(self) -> torch.Tensor:
        mean = self.rate / (self.concentration - 1)
        return torch.where(self.concentration > 1, mean, math.inf)

    mode = torch.formula(lambda self: self.rate / (self.concentration + 1))

    @property
    def variance(self) -> torch.Tensor:
        a = self.concentration
        variance = self.rate.square() / ((a - 1).square() * (a - 2))
        return torch.where(a > 2, variance, math.inf)

    def entropy(self) -> torch.Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
