"""The generalised Pareto distribution."""

from __future__ import annotations

from math import inf, nan
from typing import Any

from undertow.distributions import _functions as torch
from undertow.distributions import constraints
from undertow.distributions.distribution import Distribution
from undertow.distributions.utils import broadcast_all

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """What exceeds a high threshold `loc`: exponential for concentration 0, with a heavy tail above, bounded below."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(GeneralizedPareto, batch_shape, _instance, "loc", "scale", "concentration")

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.icdf(torch.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device))

    def _by_tail(self, exponential: Any, otherwise: Any) -> Any:
        """`exponential` where the concentration is 0; elsewhere `otherwise` of it, which may divide by it."""
        none = torch.isclose(self.concentration, torch.zeros_like(self.concentration))
        return torch.where(none, exponential, otherwise(self.concentration.masked_fill(none, 1.0)))

    def _excess(self, value: Any) -> Any:
        """How many scales a value lies above loc."""
        return (value - self.loc) / self.scale

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        z = self._excess(value)
        return -self.scale.log() - self._by_tail(z, lambda c: self._decay(1 / c + 1, (c * z).log1p()))

    def _decay(self, power: Any, logarithm: Any) -> Any:
        """power · logarithm, 0 for power 0: a flat density, also at its end, where the logarithm is not finite."""
        return torch.where(power == 0, power, power * logarithm)

    def log_survival_function(self, value: Any) -> Any:
        """log of the probability of more than `value`."""
        if self._validate_args:
            self._validate_sample(value)
        z = self._excess(value)
        return self._by_tail(-z, lambda c: -(c * z).log1p() / c)

    def log_cdf(self, value: Any) -> Any:
        """log of the probability of `value` or less."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Any) -> Any:
        return self.log_cdf(value).exp()

    def icdf(self, value: Any) -> Any:
        log_rest = (-value).log1p()
        return self.loc + self.scale * self._by_tail(-log_rest, lambda c: (-c * log_rest).expm1() / c)

    @property
    def mean(self) -> Any:
        mean = self.loc + self.scale / (1 - self.concentration)
        return mean.masked_fill(self.concentration >= 1, nan)

    @property
    def variance(self) -> Any:
        variance = self.scale**2 / ((1 - self.concentration) ** 2 * (1 - 2 * self.concentration))
        return variance.masked_fill(self.concentration >= 0.5, nan)

    def entropy(self) -> Any:
        return self.scale.log() + self.concentration + 1

    @property
    def mode(self) -> Any:
        return self.loc

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, end.masked_fill(self.concentration >= 0, inf))
