"""The Pareto distribution."""

from __future__ import annotations

from typing import Any

from undertow.distributions._family import constraints, torch
from undertow.distributions.exponential import Exponential
from undertow.distributions.transformed_distribution import TransformedDistribution
from undertow.distributions.transforms import AffineTransform, ExpTransform

__all__ = ["Pareto"]


class Pareto(TransformedDistribution):
    """Values above `scale` with a power-law tail of exponent `alpha`."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    _batch_attributes = ("scale", "alpha")

    def __init__(self, scale: torch.Value, alpha: torch.Value, validate_args: bool | None = None) -> None:
        self._broadcast(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    mode = torch.alias("scale")

    @property
    def mean(self) -> torch.Tensor:
        alpha = self.alpha.clamp(min=1)  # the mean is infinite for alpha <= 1
        return alpha * self.scale / (alpha - 1)

    @property
    def variance(self) -> torch.Tensor:
        alpha = self.alpha.clamp(min=2)
        return self.scale.pow(2) * alpha / ((alpha - 1).pow(2) * (alpha - 2))

    def entropy(self) -> torch.Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())
