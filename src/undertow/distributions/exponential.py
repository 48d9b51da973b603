"""The exponential distribution."""

from __future__ import annotations

from typing import Any

from undertow.distributions._family import ExponentialFamily, constraints, torch, validated

__all__ = ["Exponential"]


class Exponential(ExponentialFamily):
    """Waiting times between events that happen at a `rate`."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _batch_attributes = ("rate",)
    _mean_carrier_measure = 0

    def __init__(self, rate: torch.Value, validate_args: bool | None = None) -> None:
        super().__init__(self._broadcast(rate), validate_args=validate_args)

    mean = torch.formula(lambda self: self.rate.reciprocal())

    stddev = mean

    mode = torch.formula(lambda self: torch.zeros_like(self.rate))
    variance = torch.formula(lambda self: self.rate.pow(-2))

    def rsample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        return self.rate.new_empty(self._extended_shape(sample_shape)).exponential_() / self.rate

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        return self.rate.log() - self.rate * value

    @validated
    def cdf(self, value: torch.Tensor) -> torch.Tensor:
        return 1 - (-self.rate * value).exp()

    def icdf(self, value: torch.Tensor) -> torch.Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> torch.Tensor:
        return 1.0 - self.rate.log()

    _natural_params = torch.formula(lambda self: (-self.rate,))

    def _log_normalizer(self, x: Any) -> Any:
        return -(-x).log()
