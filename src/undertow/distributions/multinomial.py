"""The multinomial distribution."""

from __future__ import annotations

from math import inf
from typing import Any

from undertow.distributions._family import broadcast_all, constraints, torch, validated
from undertow.distributions.binomial import Binomial
from undertow.distributions.categorical import OfCategorical

__all__ = ["Multinomial"]


class Multinomial(OfCategorical):
    """Numbers of times that each of K classes comes up in `total_count` draws."""

    _batch_attributes = ()  # not `_binomial`, as in PyTorch: the entropy of an expanded Multinomial raises
    _shared_attributes = ("total_count",)

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count, shapes = total_count, self._choose(probs, logits)
        self._binomial = Binomial(total_count, self.probs)
        super().__init__(*shapes, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    mean = torch.formula(lambda self: self.probs * self.total_count)
    variance = torch.formula(lambda self: self.total_count * self.probs * (1 - self.probs))

    def sample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        draws = self._categorical.sample((self.total_count, *torch.Size(sample_shape))).movedim(0, -1)
        counts = draws.new_zeros(self._extended_shape(sample_shape))
        return counts.scatter_add_(-1, draws, torch.ones_like(draws)).type_as(self.probs)

    def entropy(self) -> torch.Tensor:
        n = torch.tensor(self.total_count)
        counts = self._binomial.enumerate_support(expand=False)[1:]
        weights = self._binomial.log_prob(counts).exp()
        repeats = ((counts + 1).lgamma() * weights).sum([0, -1])  # the number of orders of equal draws
        return n * self._categorical.entropy() - (n + 1).lgamma() + repeats

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        logits, value = broadcast_all(self.logits, value)
        logits = logits.masked_fill((value == 0) & (logits == -inf), 0)
        return (value.sum(-1) + 1).lgamma() + (logits * value - (value + 1).lgamma()).sum(-1)
