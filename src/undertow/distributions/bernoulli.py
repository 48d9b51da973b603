"""The Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

from undertow.distributions._family import ExponentialFamily, broadcast_all, constraints, torch, validated
from undertow.distributions._odds import ByOdds

__all__ = ["Bernoulli"]


class Bernoulli(ByOdds, ExponentialFamily):
    """1 with probability `probs` (or with the log-odds `logits`), else 0."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _batch_attributes = ()
    _mean_carrier_measure = 0

    def __init__(
        self, probs: torch.Value | None = None, logits: torch.Value | None = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(self._broadcast_odds(probs, logits), validate_args=validate_args)

    mean = torch.alias("probs")
    mode = torch.formula(lambda self: (self.probs >= 0.5).to(self.probs).masked_fill(self.probs == 0.5, math.nan))
    variance = torch.formula(lambda self: self.probs * (1 - self.probs))

    def sample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        with torch.no_grad():
            return torch.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        logits, value = broadcast_all(self.logits, value)
        return -torch.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> torch.Tensor:
        return torch.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> torch.Tensor:
        return self._enumerated(torch.arange(2).to(self._param), expand)

    _natural_params = torch.formula(lambda self: (self.probs.logit(),))

    def _log_normalizer(self, x: Any) -> Any:
        return x.exp().log1p()
