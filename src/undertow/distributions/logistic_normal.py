"""The logistic-normal distribution."""

from __future__ import annotations

from undertow.distributions._family import constraints, torch
from undertow.distributions.normal import Normal
from undertow.distributions.transformed_distribution import TransformedDistribution
from undertow.distributions.transforms import StickBreakingTransform

__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """Normal values mapped to a simplex with one more dim by stick breaking."""

    arg_constraints = Normal.arg_constraints
    support = constraints.simplex
    has_rsample = True
    _batch_attributes = ()
    loc = torch.alias("base_dist.base_dist.loc")
    scale = torch.alias("base_dist.base_dist.scale")

    def __init__(self, loc: torch.Value, scale: torch.Value, validate_args: bool | None = None) -> None:
        normal = Normal(loc, scale, validate_args=validate_args)
        vector = normal if normal.batch_shape else normal.expand([1])
        super().__init__(vector, StickBreakingTransform(), validate_args=validate_args)
