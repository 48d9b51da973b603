"""The categorical distribution."""

from __future__ import annotations

import math
from typing import Any

from undertow.distributions._family import Distribution, constraints, torch, validated
from undertow.distributions._odds import ByOdds, given

__all__ = ["Categorical"]


class Categorical(ByOdds):
    """One of K classes, 0 to K - 1, with the weights `probs` (or the log-weights `logits`) along the last dim.

    >>> torch.distributions.Categorical(torch.tensor([0.25, 0.75])).log_prob(torch.tensor(1))
    tensor(-0.2877)
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _batch_attributes = ()
    _shared_attributes = ("_num_events",)
    _is_binary = False

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        name, weights = given(probs, logits)
        if weights.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if name == "probs":
            self.probs = self._param = weights / weights.sum(-1, keepdim=True)
        else:
            self.logits = self._param = weights - weights.logsumexp(dim=-1, keepdim=True)
        *batch_shape, self._num_events = weights.shape
        super().__init__(torch.Size(batch_shape), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    mean = torch.formula(lambda self: self.probs.new_full(self._extended_shape(), math.nan))

    variance = mean

    mode = torch.formula(lambda self: self.probs.argmax(dim=-1))

    def sample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        sample_shape = torch.Size(sample_shape)
        drawn = torch.multinomial(self.probs.reshape(-1, self._num_events), sample_shape.numel(), True)
        return drawn.T.reshape(self._extended_shape(sample_shape))

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        index, logits = torch.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> torch.Tensor:
        lowest = torch.finfo(self.logits.dtype).min
        return -(self.logits.clamp(min=lowest) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> torch.Tensor:
        return self._enumerated(torch.arange(self._num_events, device=self._param.device), expand)


class OfCategorical(Distribution):
    """A distribution based on `_categorical`; an event has one element per class."""

    _batch_attributes: tuple[str, ...] = ("_categorical",)
    arg_constraints = Categorical.arg_constraints
    probs = torch.alias("_categorical.probs")
    logits = torch.alias("_categorical.logits")
    param_shape = torch.alias("_categorical.param_shape")

    def _choose(self, probs: Any, logits: Any) -> tuple[torch.Size, torch.Size]:
        """Set the categorical distribution, and return the batch shape and the event shape."""
        self._categorical = Categorical(probs, logits)
        return self._categorical.batch_shape, self._categorical.param_shape[-1:]

    def _new(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        return self._categorical._new(*args, **kwargs)
