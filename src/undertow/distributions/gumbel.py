"""The Gumbel distribution."""

from __future__ import annotations

import math

from undertow.distributions._family import constraints, euler_constant, torch, validated
from undertow.distributions.transformed_distribution import TransformedDistribution
from undertow.distributions.transforms import AffineTransform, ExpTransform
from undertow.distributions.uniform import Uniform

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """Maxima of many values: -log(-log u) of uniform u, scaled and shifted."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    _batch_attributes = ("loc", "scale")

    def __init__(self, loc: torch.Value, scale: torch.Value, validate_args: bool | None = None) -> None:
        self._broadcast(loc, scale)
        limits, one = torch.finfo(self.loc.dtype), torch.ones_like(self.loc)
        base = Uniform(one * limits.tiny, one * (1 - limits.eps), validate_args=validate_args)
        minus_log = [ExpTransform().inv, AffineTransform(0, -one)]
        transforms = [*minus_log, ExpTransform().inv, AffineTransform(self.loc, -self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    mode = torch.alias("loc")
    mean = torch.formula(lambda self: self.loc + self.scale * euler_constant)
    stddev = torch.formula(lambda self: (math.pi / math.sqrt(6)) * self.scale)
    variance = torch.formula(lambda self: self.stddev.pow(2))

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        """Return the log density by a direct formula, because the transforms lose precision."""
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    def entropy(self) -> torch.Tensor:
        return self.scale.log() + (1 + euler_constant)
