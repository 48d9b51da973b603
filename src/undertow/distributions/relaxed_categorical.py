"""Continuous relaxations of one-hot vectors."""

from __future__ import annotations

from typing import Any

from undertow.distributions._family import broadcast_all, clamp_probs, constraints, torch, validated
from undertow.distributions.categorical import OfCategorical
from undertow.distributions.relaxed_bernoulli import Relaxed
from undertow.distributions.transforms import ExpTransform

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(OfCategorical):
    """The logarithms of RelaxedOneHotCategorical values."""

    support = constraints.real_vector
    has_rsample = True
    _batch_attributes = ()
    _shared_attributes = ("temperature",)

    def __init__(
        self, temperature: torch.Tensor, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        super().__init__(*self._choose(probs, logits), validate_args=validate_args)

    def rsample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        waits = -clamp_probs(torch.rand_as(self.logits, self._extended_shape(sample_shape))).log()
        return ((self.logits - waits.log()) / self.temperature).log_softmax(-1)

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        logits, value = broadcast_all(self.logits, value)
        k, score = self._event_shape[0], logits - value * self.temperature
        log_scale = torch.full_like(self.temperature, float(k)).lgamma() + (k - 1) * self.temperature.log()
        return score.log_softmax(-1).sum(-1) + log_scale


class RelaxedOneHotCategorical(Relaxed):
    """Points of the simplex, closer to one-hot vectors the lower the `temperature` (Gumbel-softmax)."""

    arg_constraints = ExpRelaxedCategorical.arg_constraints
    support = constraints.simplex
    _batch_attributes = ()

    def __init__(
        self, temperature: torch.Tensor, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)
