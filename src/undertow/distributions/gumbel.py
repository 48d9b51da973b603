"""The Gumbel distribution."""

from __future__ import annotations

import math
from typing import Any

from undertow.distributions import _functions as torch
from undertow.distributions import constraints
from undertow.distributions.transformed_distribution import TransformedDistribution
from undertow.distributions.transforms import AffineTransform, ExpTransform
from undertow.distributions.uniform import Uniform
from undertow.distributions.utils import broadcast_all, euler_constant, is_number

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """Largest values of many: -log(-log u) of uniform values, scaled and shifted."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = torch.finfo(self.loc.dtype)
        if is_number(loc) and is_number(scale):
            base = Uniform(limits.tiny, 1 - limits.eps, validate_args=validate_args)
        else:
            low, high = torch.full_like(self.loc, limits.tiny), torch.full_like(self.loc, 1 - limits.eps)
            base = Uniform(low, high, validate_args=validate_args)
        transforms = [
            ExpTransform().inv,
            AffineTransform(loc=0, scale=-torch.ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(loc=self.loc, scale=-self.scale),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Gumbel, _instance)
        new.loc, new.scale = self.loc.expand(batch_shape), self.scale.expand(batch_shape)
        return super().expand(batch_shape, _instance=new)

    def log_prob(self, value: Any) -> Any:
        """The transforms are precise for draws, this is for densities."""
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    @property
    def mean(self) -> Any:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Any:
        return self.stddev.pow(2)

    def entropy(self) -> Any:
        return self.scale.log() + (1 + euler_constant)
