"""Distributions parametrized by probabilities or logits; the other one is computed on demand."""

from __future__ import annotations

from typing import Any

from undertow.distributions._family import (
    Distribution,
    broadcast_all,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
    torch,
)


def given(probs: Any, logits: Any) -> tuple[str, Any]:
    """Return the name and the value of the one parameter that is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return ("probs", probs) if logits is None else ("logits", logits)


class ByOdds(Distribution):
    """A distribution parametrized by `probs` or `logits`."""

    _batch_attributes: tuple[str, ...] = ("probs", "logits", "_param")
    _is_binary = True
    _param: Any

    def _broadcast_odds(self, probs: Any, logits: Any, total_count: Any = None) -> torch.Size:
        """Set the parameter that is given, and a number of trials of the same shape; return the shape."""
        name, odds = given(probs, logits)
        if total_count is None:
            (self._param,) = broadcast_all(odds)
        else:
            count, self._param = broadcast_all(total_count, odds)
            self.total_count = count.type_as(self._param)
        setattr(self, name, self._param)
        return self._param.shape

    def _new(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        return self._param.new(*args, **kwargs)

    @lazy_property
    def logits(self) -> torch.Tensor:
        """Return the log-odds of success, or the logarithms of the probabilities."""
        return probs_to_logits(self.probs, self._is_binary)

    @lazy_property
    def probs(self) -> torch.Tensor:
        """Return the probability of success, or of each class."""
        return logits_to_probs(self.logits, self._is_binary)

    param_shape = torch.alias("_param.shape")
