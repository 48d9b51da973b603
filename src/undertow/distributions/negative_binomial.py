"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

from undertow.distributions import _functions as torch
from undertow.distributions import constraints
from undertow.distributions._odds import ByOdds
from undertow.distributions.gamma import Gamma
from undertow.distributions.utils import lazy_property
from undertow.ops.activation import logsigmoid as log_sigmoid

__all__ = ["NegativeBinomial"]


class NegativeBinomial(ByOdds):
    """How many trials succeed before `total_count` of them have failed, each succeeding with probability `probs`."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0), "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }  # fmt: skip
    support = constraints.nonnegative_integer

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        (count,) = self._set_odds(probs, logits, total_count)
        self.total_count = count.type_as(self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(NegativeBinomial, batch_shape, _instance, "total_count")

    @property
    def mean(self) -> Any:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Any:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Any:
        return self.mean / (-self.logits).sigmoid()

    @lazy_property
    def _gamma(self) -> Any:
        """The rate of a Poisson distribution, drawn itself, gives the same counts."""
        return Gamma(concentration=self.total_count, rate=(-self.logits).exp(), validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Any:
        with torch.no_grad():
            return torch.poisson(self._gamma.sample(sample_shape=sample_shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        weight = self.total_count * log_sigmoid(-self.logits) + value * log_sigmoid(self.logits)
        ways = -(self.total_count + value).lgamma() + (1.0 + value).lgamma() + self.total_count.lgamma()
        ways = ways.masked_fill(self.total_count + value == 0.0, 0.0)
        return weight - ways
