"""The geometric distribution."""

from __future__ import annotations

from undertow.distributions._family import (
    Distribution,
    broadcast_all,
    constraints,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
    torch,
    validated,
)
from undertow.distributions._odds import given

__all__ = ["Geometric"]


class Geometric(Distribution):
    """Numbers of failures before the first success, each trial succeeding with probability `probs`."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer
    _batch_attributes = ("probs", "logits")

    def __init__(
        self, probs: torch.Value | None = None, logits: torch.Value | None = None, validate_args: bool | None = None
    ) -> None:
        name, odds = given(probs, logits)
        (odds,) = broadcast_all(odds)
        setattr(self, name, odds)
        super().__init__(odds.shape, validate_args=validate_args)
        if self._validate_args and name == "probs" and not (odds > 0).all():
            raise ValueError(
                f"Expected parameter probs ({type(odds).__name__} of shape {tuple(odds.shape)}) of distribution "
                f"{self!r} to be positive but found invalid values:\n{odds.detach()[odds <= 0]}"
            )

    @lazy_property
    def logits(self) -> torch.Tensor:
        """Return the log-odds of success."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> torch.Tensor:
        """Return the probability of success."""
        return logits_to_probs(self.logits, is_binary=True)

    mean = torch.formula(lambda self: 1.0 / self.probs - 1.0)
    mode = torch.formula(lambda self: torch.zeros_like(self.probs))
    variance = torch.formula(lambda self: (1.0 / self.probs - 1.0) / self.probs)

    def sample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        with torch.no_grad():
            u = self.probs.new_empty(self._extended_shape(sample_shape))
            u.uniform_(torch.finfo(u.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        value, probs = broadcast_all(value, self.probs)
        probs = probs.masked_fill((probs == 1) & (value == 0), 0)  # 0 · log 0 is 0 here
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> torch.Tensor:
        return torch.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
