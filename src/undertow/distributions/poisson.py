"""The Poisson distribution."""

from __future__ import annotations

from typing import Any

from undertow.distributions._family import ExponentialFamily, broadcast_all, constraints, torch, validated

__all__ = ["Poisson"]


class Poisson(ExponentialFamily):
    """Numbers of events per unit of time, at a `rate`."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    _batch_attributes = ("rate",)

    def __init__(self, rate: torch.Value, validate_args: bool | None = None) -> None:
        super().__init__(self._broadcast(rate), validate_args=validate_args)

    mean = variance = torch.alias("rate")
    mode = torch.formula(lambda self: self.rate.floor())

    def sample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        with torch.no_grad():
            return torch.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()

    _natural_params = torch.formula(lambda self: (self.rate.log(),))

    def _log_normalizer(self, x: Any) -> Any:
        return x.exp()
