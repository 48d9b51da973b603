"""The gamma distribution."""

from __future__ import annotations

from typing import Any

from undertow.distributions._family import ExponentialFamily, constraints, torch, validated
from undertow.distributions._functions import standard_gamma as _standard_gamma
from undertow.special import gammainc

__all__ = ["Gamma"]


class Gamma(ExponentialFamily):
    """Sums of `concentration` exponential variables with `rate`, for any positive concentration."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _batch_attributes: tuple[str, ...] = ("concentration", "rate")
    _mean_carrier_measure = 0

    def __init__(self, concentration: torch.Value, rate: torch.Value, validate_args: bool | None = None) -> None:
        super().__init__(self._broadcast(concentration, rate), validate_args=validate_args)

    mean = torch.formula(lambda self: self.concentration / self.rate)
    mode = torch.formula(lambda self: ((self.concentration - 1) / self.rate).clamp(min=0))
    variance = torch.formula(lambda self: self.concentration / self.rate.pow(2))

    def rsample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        shape = self._extended_shape(sample_shape)
        value = _standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        value.detach().clamp_(min=torch.finfo(value.dtype).tiny)  # a draw of 0 has no logarithm
        return value

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        a, b, x = self.concentration, self.rate, torch.as_tensor(value, dtype=self.rate.dtype)
        if self._validate_args:
            self._validate_sample(x)
        return a.xlogy(b) + (a - 1).xlogy(x) - b * x - a.lgamma()

    @validated
    def cdf(self, value: torch.Tensor) -> torch.Tensor:
        return gammainc(self.concentration, self.rate * value)

    def entropy(self) -> torch.Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1.0 - a) * a.digamma()

    _natural_params = torch.formula(lambda self: (self.concentration - 1, -self.rate))

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return (x + 1).lgamma() + (x + 1) * (-y.reciprocal()).log()
