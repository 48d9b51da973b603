"""The log-normal distribution."""

from __future__ import annotations

from undertow.distributions._family import constraints, torch
from undertow.distributions.normal import Normal
from undertow.distributions.transformed_distribution import TransformedDistribution
from undertow.distributions.transforms import ExpTransform

__all__ = ["LogNormal"]


class LogNormal(TransformedDistribution):
    """Exponentials of normal values."""

    arg_constraints = Normal.arg_constraints
    support = constraints.positive
    has_rsample = True
    _batch_attributes = ()
    loc = torch.alias("base_dist.loc")
    scale = torch.alias("base_dist.scale")

    def __init__(self, loc: torch.Value, scale: torch.Value, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args=validate_args)

    mean = torch.formula(lambda self: (self.loc + self.scale.pow(2) / 2).exp())
    mode = torch.formula(lambda self: (self.loc - self.scale.square()).exp())

    @property
    def variance(self) -> torch.Tensor:
        squared = self.scale.pow(2)
        return squared.expm1() * (2 * self.loc + squared).exp()

    def entropy(self) -> torch.Tensor:
        return self.base_dist.entropy() + self.loc
