"""Distributions of successes: given by a probability or by its log-odds."""

from __future__ import annotations

from typing import Any

from undertow.distributions.distribution import Distribution
from undertow.distributions.utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits


class ByOdds(Distribution):
    """A distribution with a parameter `probs` or `logits`; the other one is worked out of it."""

    _param: Any

    def _set_odds(self, probs: Any, logits: Any, *others: Any) -> list[Any]:
        """Keeps the parameter that is given; the others, broadcast with it."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        *others_now, self._param = broadcast_all(*others, logits if probs is None else probs)
        setattr(self, "logits" if probs is None else "probs", self._param)
        return others_now

    def _expanded(self, cls: Any, batch_shape: Any, _instance: Any, *names: str) -> Any:
        given = [name for name in ("probs", "logits") if name in self.__dict__]
        new = super()._expanded(cls, batch_shape, _instance, *names, *given)
        new._param = getattr(new, given[-1])
        return new

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._param.new(*args, **kwargs)

    @lazy_property
    def logits(self) -> Any:
        """The log-odds of success."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Any:
        """The probability of success."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> Any:
        return self._param.size()
