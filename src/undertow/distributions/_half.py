"""Half of a distribution around 0."""

from __future__ import annotations

import math

from undertow.distributions._family import constraints, torch, validated
from undertow.distributions.transformed_distribution import TransformedDistribution


class Half(TransformedDistribution):
    """The absolute values of draws that lie evenly around 0."""

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
