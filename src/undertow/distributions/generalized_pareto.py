"""The generalized Pareto distribution."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any

from undertow.distributions._family import Distribution, constraints, torch, validated

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """Excesses over a threshold `loc`: exponential for concentration 0, heavy-tailed above 0, bounded below 0."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True
    _batch_attributes = ("loc", "scale", "concentration")

    def __init__(
        self, loc: torch.Value, scale: torch.Value, concentration: torch.Value, validate_args: bool | None = None
    ) -> None:
        super().__init__(self._broadcast(loc, scale, concentration), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, end.masked_fill(self.concentration >= 0, inf))

    mode = torch.alias("loc")

    @property
    def mean(self) -> torch.Tensor:
        c, undefined = self._concentration_below(1.0)
        return (self.loc + self.scale / (1 - c)).masked_fill(undefined, nan)

    @property
    def variance(self) -> torch.Tensor:
        c, undefined = self._concentration_below(0.5)
        return (self.scale**2 / ((1 - c) ** 2 * (1 - 2 * c))).masked_fill(undefined, nan)

    def _concentration_below(self, limit: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the concentration, set to 0 from a limit on to keep gradients finite, and the mask of these."""
        above = self.concentration >= limit
        return self.concentration.masked_fill(above, 0.0), above

    def rsample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        return self.icdf(torch.rand_as(self.loc, self._extended_shape(sample_shape)))

    def _by_tail(self, exponential: torch.Tensor, otherwise: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """Return `exponential` where the concentration is 0 and `otherwise(concentration)` elsewhere."""
        none = self.concentration.abs() <= 1e-8
        return torch.where(none, exponential, otherwise(self.concentration.masked_fill(none, 1.0)))

    def _z(self, x: torch.Tensor) -> torch.Tensor:
        """Return (value - loc) / scale."""
        return (x - self.loc) / self.scale

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        z = self._z(value)
        return -self.scale.log() - self._by_tail(z, lambda c: _decay(1 / c + 1, (c * z).log1p()))

    @validated
    def log_survival_function(self, value: torch.Tensor) -> torch.Tensor:
        """Return the logarithm of the probability of more than `value`."""
        z = self._z(value)
        return self._by_tail(-z, lambda c: -(c * z).log1p() / c)

    def log_cdf(self, value: torch.Tensor) -> torch.Tensor:
        """Return the logarithm of the probability of `value` or less."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: torch.Tensor) -> torch.Tensor:
        return self.log_cdf(value).exp()

    def icdf(self, value: torch.Tensor) -> torch.Tensor:
        log_rest = (-value).log1p()
        return self.loc + self.scale * self._by_tail(-log_rest, lambda c: (-c * log_rest).expm1() / c)

    def entropy(self) -> torch.Tensor:
        return self.scale.log() + self.concentration + 1


def _decay(power: torch.Tensor, logarithm: torch.Tensor) -> torch.Tensor:
    """Return power · logarithm, and 0 for power 0, even where the logarithm is not finite."""
    return torch.where(power == 0, power, power * logarithm)
