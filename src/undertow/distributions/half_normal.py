"""The half-normal distribution, and half of any distribution around 0."""

from __future__ import annotations

import math

from undertow.distributions._family import constraints, torch, validated
from undertow.distributions.normal import Normal
from undertow.distributions.transformed_distribution import TransformedDistribution
from undertow.distributions.transforms import AbsTransform

__all__ = ["HalfNormal"]


class Half(TransformedDistribution):
    """The absolute values of a distribution that is symmetric around 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    scale = torch.alias("base_dist.scale")
    mode = torch.formula(lambda self: torch.zeros_like(self.scale))

    def _folded(self, value: torch.Tensor) -> torch.Tensor:
        return torch.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        return self._folded(value)

    @validated
    def cdf(self, value: torch.Tensor) -> torch.Tensor:
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: torch.Tensor) -> torch.Tensor:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> torch.Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(Half):
    """The absolute values of normal values around 0."""

    _batch_attributes = ()

    def __init__(self, scale: torch.Value, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    mean = torch.formula(lambda self: self.scale * math.sqrt(2 / math.pi))
    variance = torch.formula(lambda self: self.scale.pow(2) * (1 - 2 / math.pi))
