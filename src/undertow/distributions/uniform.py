"""The uniform distribution."""

from __future__ import annotations

import math
from typing import Any

from undertow.distributions._family import Distribution, constraints, torch, validated

__all__ = ["Uniform"]


class Uniform(Distribution):
    """Values with constant density on [low, high)."""

    has_rsample = True
    _batch_attributes = ("low", "high")

    def __init__(self, low: torch.Value, high: torch.Value, validate_args: bool | None = None) -> None:
        super().__init__(self._broadcast(low, high), validate_args=validate_args)

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """Each end bounds the other."""
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    _length = torch.formula(lambda self: self.high - self.low)
    mean = torch.formula(lambda self: (self.high + self.low) / 2)
    mode = torch.formula(lambda self: math.nan * self.high)
    stddev = torch.formula(lambda self: self._length / 12**0.5)
    variance = torch.formula(lambda self: self._length.pow(2) / 12)

    def rsample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        return self.low + torch.rand_as(self.low, self._extended_shape(sample_shape)) * self._length

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        inside = (self.low <= value) & (value < self.high)
        return inside.type_as(self.low).log() - self._length.log()

    @validated
    def cdf(self, value: torch.Tensor) -> torch.Tensor:
        return ((value - self.low) / self._length).clamp(min=0, max=1)

    def icdf(self, value: torch.Tensor) -> torch.Tensor:
        return value * self._length + self.low

    def entropy(self) -> torch.Tensor:
        return self._length.log()
