"""The Kumaraswamy distribution."""

from __future__ import annotations

from typing import Any

from undertow.distributions import _functions as torch
from undertow.distributions import constraints
from undertow.distributions.transformed_distribution import TransformedDistribution
from undertow.distributions.transforms import AffineTransform, PowerTransform
from undertow.distributions.uniform import Uniform
from undertow.distributions.utils import broadcast_all, euler_constant

__all__ = ["Kumaraswamy"]


def _moments(a: Any, b: Any, n: int) -> Any:
    """The expected n-th power of a value."""
    first = 1 + n / a
    log_value = first.lgamma() + b.lgamma() - (first + b).lgamma()
    return b * log_value.exp()


class Kumaraswamy(TransformedDistribution):
    """Values in [0, 1], shaped much as beta values, with a distribution function of closed form."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        low, high = torch.full_like(self.concentration0, 0), torch.full_like(self.concentration0, 1)
        base = Uniform(low, high, validate_args=validate_args)
        transforms = [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Kumaraswamy, _instance)
        new.concentration1 = self.concentration1.expand(batch_shape)
        new.concentration0 = self.concentration0.expand(batch_shape)
        return super().expand(batch_shape, _instance=new)

    @property
    def mean(self) -> Any:
        return _moments(self.concentration1, self.concentration0, 1)

    @property
    def mode(self) -> Any:
        a, b = self.concentration1, self.concentration0
        log_mode = a.reciprocal() * (-b).log1p() - (-a * b).log1p()
        log_mode[(b < 1) | (a < 1)] = float("nan")
        return log_mode.exp()

    @property
    def variance(self) -> Any:
        return _moments(self.concentration1, self.concentration0, 2) - self.mean.pow(2)

    def entropy(self) -> Any:
        t1, t0 = 1 - self.concentration1.reciprocal(), 1 - self.concentration0.reciprocal()
        harmonic = (self.concentration0 + 1).digamma() + euler_constant
        return t0 + t1 * harmonic - self.concentration1.log() - self.concentration0.log()
