"""The Cauchy distribution."""

from __future__ import annotations

import math

from undertow.distributions._family import Distribution, constraints, torch, validated

__all__ = ["Cauchy"]


class Cauchy(Distribution):
    """A peak at `loc` of half-width `scale`, with tails so heavy that there is no mean."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _batch_attributes = ("loc", "scale")

    def __init__(self, loc: torch.Value, scale: torch.Value, validate_args: bool | None = None) -> None:
        super().__init__(self._broadcast(loc, scale), validate_args=validate_args)

    mode = torch.alias("loc")
    mean = torch.formula(lambda self: self.loc.new_full(self._extended_shape(), math.nan))
    variance = torch.formula(lambda self: self.loc.new_full(self._extended_shape(), math.inf))

    def rsample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        return self.loc + self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_() * self.scale

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    @validated
    def cdf(self, value: torch.Tensor) -> torch.Tensor:
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: torch.Tensor) -> torch.Tensor:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> torch.Tensor:
        return math.log(4 * math.pi) + self.scale.log()
