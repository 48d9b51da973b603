"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from undertow.distributions._family import (
    ExponentialFamily,
    broadcast_all,
    clamp_probs,
    constraints,
    lazy_property,
    logits_to_probs,
    torch,
    validated,
)
from undertow.distributions._odds import ByOdds

__all__ = ["ContinuousBernoulli"]

Formula = Callable[[torch.Tensor], torch.Tensor]


def _log_failure_odds(p: torch.Tensor) -> torch.Tensor:
    return (-p).log1p() - p.log()


class ContinuousBernoulli(ByOdds, ExponentialFamily):
    """Values in [0, 1] with a density proportional to probs^x (1 - probs)^(1 - x).

    Close to probs = 0.5 the formulas are 0 / 0; between `lims`, series are used instead.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _batch_attributes = ()
    _shared_attributes = ("_lims",)
    _mean_carrier_measure = 0

    def __init__(
        self, probs: Any = None, logits: Any = None, lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        batch_shape = self._broadcast_odds(probs, logits)
        if probs is not None:
            if validate_args is not None and not self.arg_constraints["probs"].check(self.probs).all():
                raise ValueError("The parameter probs has invalid values")
            self.probs = self._param = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(batch_shape, validate_args=validate_args)

    @lazy_property
    def probs(self) -> torch.Tensor:
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _outside_unstable_region(self) -> torch.Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> torch.Tensor:
        """Return the probabilities; those between the limits become the lower limit."""
        return torch.where(self._outside_unstable_region(), self.probs, self._lims[0] * torch.ones_like(self.probs))

    def _by_region(self, formula: Formula, series: Formula) -> torch.Tensor:
        """Return a formula of probs outside the limits, and a series in probs - 0.5 between them."""
        return torch.where(self._outside_unstable_region(), formula(self._cut_probs()), series(self.probs - 0.5))

    def _cont_bern_log_norm(self) -> torch.Tensor:
        """Return the logarithm of the density's normalizing factor."""

        def formula(p: torch.Tensor) -> torch.Tensor:
            low = p <= 0.5
            distance = torch.where(low, (-2.0 * p * low).log1p(), (2.0 * p.masked_fill(low, 1.0) - 1.0).log())
            return _log_failure_odds(p).abs().log() - distance

        return self._by_region(formula, lambda x: math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x**2) * x**2)

    @property
    def mean(self) -> torch.Tensor:
        return self._by_region(
            lambda p: p / (2.0 * p - 1.0) + 1.0 / _log_failure_odds(p),
            lambda x: 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x**2) * x,
        )

    @property
    def variance(self) -> torch.Tensor:
        return self._by_region(
            lambda p: p * (p - 1.0) / (1.0 - 2.0 * p) ** 2 + 1.0 / _log_failure_odds(p) ** 2,
            lambda x: 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x**2) * x**2,
        )

    def rsample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        return self.icdf(torch.rand_as(self.probs, self._extended_shape(sample_shape)))

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        logits, value = broadcast_all(self.logits, value)
        return -torch.binary_cross_entropy_with_logits(logits, value, reduction="none") + self._cont_bern_log_norm()

    @validated
    def cdf(self, value: torch.Tensor) -> torch.Tensor:
        cdf = self._by_region(
            lambda p: (p.pow(value) * (1.0 - p).pow(1.0 - value) + p - 1.0) / (2.0 * p - 1.0), lambda x: value
        )
        return cdf.masked_fill(value >= 1.0, 1.0).masked_fill(value <= 0.0, 0.0)

    def icdf(self, value: torch.Tensor) -> torch.Tensor:
        return self._by_region(
            lambda p: ((-p).log1p() - (-p + value * (2.0 * p - 1.0)).log1p()) / _log_failure_odds(p), lambda x: value
        )

    def entropy(self) -> torch.Tensor:
        return self.mean * _log_failure_odds(self.probs) - self._cont_bern_log_norm() - (-self.probs).log1p()

    _natural_params = torch.formula(lambda self: (self.logits,))

    def _log_normalizer(self, x: Any) -> Any:
        """Return the logarithm of the normalizing factor for log-odds."""
        low, high = self._lims[0] - 0.5, self._lims[1] - 0.5
        stable = (x <= low) | (x > high)
        cut = torch.where(stable, x, low * torch.ones_like(x))
        series = 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0
        return torch.where(stable, (cut.exp() - 1.0).abs().log() - cut.abs().log(), series)
