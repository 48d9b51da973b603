"""The normal distribution."""

from __future__ import annotations

import math
from typing import Any

from undertow.distributions._family import ExponentialFamily, constraints, torch, validated

__all__ = ["Normal"]


class Normal(ExponentialFamily):
    """Normal (Gaussian) values with mean `loc` and standard deviation `scale`.

    >>> torch.distributions.Normal(0.0, 1.0).log_prob(torch.tensor(0.0))
    tensor(-0.9189)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _batch_attributes = ("loc", "scale")
    _mean_carrier_measure = 0

    def __init__(self, loc: torch.Value, scale: torch.Value, validate_args: bool | None = None) -> None:
        super().__init__(self._broadcast(loc, scale), validate_args=validate_args)

    mean = mode = torch.alias("loc")
    stddev = torch.alias("scale")
    variance = torch.formula(lambda self: self.stddev.pow(2))

    def sample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            return torch.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        return self.loc + torch.normal_as(self.loc, self._extended_shape(sample_shape)) * self.scale

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        return -((value - self.loc) ** 2) / (2 * self.scale**2) - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    @validated
    def cdf(self, value: torch.Tensor) -> torch.Tensor:
        return 0.5 * (1 + ((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)).erf())

    def icdf(self, value: torch.Tensor) -> torch.Tensor:
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> torch.Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    _natural_params = torch.formula(lambda self: (self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal()))

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return -0.25 * x.pow(2) / y + 0.5 * (-math.pi / y).log()
