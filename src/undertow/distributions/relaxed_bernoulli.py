"""Continuous relaxations of Bernoulli values."""

from __future__ import annotations

from typing import Any

from undertow.distributions._family import broadcast_all, constraints, probs_to_logits, torch, validated
from undertow.distributions._odds import ByOdds
from undertow.distributions.transformed_distribution import TransformedDistribution
from undertow.distributions.transforms import SigmoidTransform

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(ByOdds):
    """The log-odds of RelaxedBernoulli values."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    _batch_attributes = ()
    _shared_attributes = ("temperature",)

    def __init__(
        self, temperature: torch.Tensor, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        super().__init__(self._broadcast_odds(probs, logits), validate_args=validate_args)

    def rsample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        noise = torch.rand_as(self.probs, self._extended_shape(sample_shape))
        logits = probs_to_logits(noise, is_binary=True) + probs_to_logits(self.probs, is_binary=True)
        return logits / self.temperature

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        logits, value = broadcast_all(self.logits, value)
        diff = logits - value.mul(self.temperature)
        return self.temperature.log() + diff - 2 * diff.exp().log1p()


class Relaxed(TransformedDistribution):
    """A transform of a relaxed distribution, with its parameters."""

    temperature = torch.alias("base_dist.temperature")
    probs = torch.alias("base_dist.probs")
    logits = torch.alias("base_dist.logits")
    has_rsample = True


class RelaxedBernoulli(Relaxed):
    """Differentiable values in [0, 1], closer to 0 and 1 the lower the `temperature`."""

    arg_constraints = LogitRelaxedBernoulli.arg_constraints
    support = constraints.unit_interval
    _batch_attributes = ()

    def __init__(
        self, temperature: torch.Tensor, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)
