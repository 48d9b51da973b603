"""Categorical distributions over one-hot vectors."""

from __future__ import annotations

from typing import Any

from undertow._src.ops.masks import one_hot
from undertow.distributions._family import constraints, torch, validated
from undertow.distributions.categorical import OfCategorical

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(OfCategorical):
    """One of K classes, drawn as a one-hot vector."""

    support = constraints.one_hot
    has_enumerate_support = True
    _batch_attributes = ()
    _param = torch.alias("_categorical._param")

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(*self._choose(probs, logits), validate_args=validate_args)

    mean = torch.alias("probs")

    def _encoded(self, index: torch.Tensor) -> torch.Tensor:
        return one_hot(index, self._event_shape[0]).to(self.probs)

    mode = torch.formula(lambda self: self._encoded(self._categorical.mode))
    variance = torch.formula(lambda self: self.probs * (1 - self.probs))

    def sample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        return self._encoded(self._categorical.sample(sample_shape))

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> torch.Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> torch.Tensor:
        return self._enumerated(torch.eye(self._event_shape[0]).to(self._param), expand)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical with a straight-through estimator: gradients of draws pass to the probabilities."""

    has_rsample = True

    def rsample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
