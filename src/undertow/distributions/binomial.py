"""The binomial distribution."""

from __future__ import annotations

from typing import Any

from undertow.distributions._family import constraints, torch, validated
from undertow.distributions._odds import ByOdds

__all__ = ["Binomial"]


def _clamp_by_zero(x: torch.Tensor) -> torch.Tensor:
    """Return max(x, 0), with gradient 1/2 at 0."""
    return (x.clamp(min=0) + x - x.clamp(max=0)) / 2


class Binomial(ByOdds):
    """Numbers of successes in `total_count` trials, each with probability `probs`."""

    arg_constraints = {
        "total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval, "logits": constraints.real,
    }  # fmt: skip
    has_enumerate_support = True
    _batch_attributes = ("total_count",)

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(self._broadcast_odds(probs, logits, total_count), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    mean = torch.formula(lambda self: self.total_count * self.probs)
    mode = torch.formula(lambda self: ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count))
    variance = torch.formula(lambda self: self.total_count * self.probs * (1 - self.probs))

    def sample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            return torch.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        n, logits = self.total_count, self.logits
        log_ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        minus_log_failure = _clamp_by_zero(logits) + (-logits.abs()).exp().log1p()  # -log(1 - probs)
        return value * logits + log_ways - n * minus_log_failure

    def _trials(self, asker: str) -> int:
        """Return the number of trials, which must be the same for the whole batch."""
        most = int(self.total_count.max())
        if self.total_count.min() != most:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{asker}`.")
        return most

    def entropy(self) -> torch.Tensor:
        self._trials("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> torch.Tensor:
        return self._enumerated(torch.arange(1 + self._trials("enumerate_support")).to(self._param), expand)
