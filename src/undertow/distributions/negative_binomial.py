"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

from undertow.distributions._family import constraints, lazy_property, torch, validated
from undertow.distributions._odds import ByOdds
from undertow.distributions.gamma import Gamma

__all__ = ["NegativeBinomial"]


class NegativeBinomial(ByOdds):
    """Numbers of successes before `total_count` failures, each trial succeeding with probability `probs`."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0), "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }  # fmt: skip
    support = constraints.nonnegative_integer
    _batch_attributes = ("total_count",)

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(self._broadcast_odds(probs, logits, total_count), validate_args=validate_args)

    mean = torch.formula(lambda self: self.total_count * self.logits.exp())
    mode = torch.formula(lambda self: ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0))
    variance = torch.formula(lambda self: self.mean / (-self.logits).sigmoid())

    @lazy_property
    def _gamma(self) -> Gamma:
        """Return the distribution of Poisson rates that gives the same counts."""
        return Gamma(concentration=self.total_count, rate=(-self.logits).exp(), validate_args=False)

    def sample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        with torch.no_grad():
            return torch.poisson(self._gamma.sample(sample_shape=sample_shape))

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        n, logits = self.total_count, self.logits
        weight = n * torch.logsigmoid(-logits) + value * torch.logsigmoid(logits)
        minus_log_ways = (1.0 + value).lgamma() + n.lgamma() - (n + value).lgamma()
        return weight - minus_log_ways.masked_fill(n + value == 0.0, 0.0)
