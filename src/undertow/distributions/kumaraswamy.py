"""The Kumaraswamy distribution."""

from __future__ import annotations

import math

from undertow.distributions._family import constraints, euler_constant, torch
from undertow.distributions.transformed_distribution import TransformedDistribution
from undertow.distributions.transforms import AffineTransform, PowerTransform
from undertow.distributions.uniform import Uniform

__all__ = ["Kumaraswamy"]


def _moments(a: torch.Tensor, b: torch.Tensor, n: int) -> torch.Tensor:
    """Return the expected n-th power of a value."""
    first = 1 + n / a
    return b * (first.lgamma() + b.lgamma() - (first + b).lgamma()).exp()


class Kumaraswamy(TransformedDistribution):
    """Values in [0, 1], similar to a beta distribution, with a closed-form distribution function."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    _batch_attributes = ("concentration1", "concentration0")

    def __init__(
        self, concentration1: torch.Value, concentration0: torch.Value, validate_args: bool | None = None
    ) -> None:
        self._broadcast(concentration1, concentration0)
        a, b = self.concentration1, self.concentration0
        base = Uniform(torch.zeros_like(b), torch.ones_like(b), validate_args=validate_args)
        outer, inner = PowerTransform(a.reciprocal()), PowerTransform(b.reciprocal())
        super().__init__(base, [inner, AffineTransform(1.0, -1.0), outer], validate_args=validate_args)

    mean = torch.formula(lambda self: _moments(self.concentration1, self.concentration0, 1))

    @property
    def mode(self) -> torch.Tensor:
        a, b = self.concentration1, self.concentration0
        mode = (a.reciprocal() * (-b).log1p() - (-a * b).log1p()).exp()
        return mode.masked_fill((b < 1) | (a < 1), math.nan)

    variance = torch.formula(lambda self: _moments(self.concentration1, self.concentration0, 2) - self.mean.pow(2))

    def entropy(self) -> torch.Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return 1 - b.reciprocal() + (1 - a.reciprocal()) * harmonic - a.log() - b.log()
