"""The Weibull distribution."""

from __future__ import annotations

from undertow.distributions._family import constraints, euler_constant, torch
from undertow.distributions.exponential import Exponential
from undertow.distributions.transformed_distribution import TransformedDistribution
from undertow.distributions.transforms import AffineTransform, PowerTransform

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """Lifetimes with `scale` whose hazard rate is a power of age with exponent `concentration` - 1."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    _batch_attributes = ("scale", "concentration", "concentration_reciprocal")

    def __init__(self, scale: torch.Value, concentration: torch.Value, validate_args: bool | None = None) -> None:
        self._broadcast(scale, concentration)
        power = self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(torch.ones_like(self.scale), validate_args=validate_args)
        super().__init__(base, [PowerTransform(power), AffineTransform(0, self.scale)], validate_args=validate_args)

    def _log_moment(self, n: int) -> torch.Tensor:
        """Return the logarithm of the expected n-th power of a value of scale 1."""
        return (1 + n * self.concentration_reciprocal).lgamma()

    mean = torch.formula(lambda self: self.scale * self._log_moment(1).exp())

    @property
    def mode(self) -> torch.Tensor:
        power = self.concentration
        return self.scale * ((power - 1) / power) ** power.reciprocal()

    @property
    def variance(self) -> torch.Tensor:
        return self.scale.pow(2) * (self._log_moment(2).exp() - (2 * self._log_moment(1)).exp())

    def entropy(self) -> torch.Tensor:
        power = self.concentration_reciprocal
        return euler_constant * (1 - power) + (self.scale * power).log() + 1
