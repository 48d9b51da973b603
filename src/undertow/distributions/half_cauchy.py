"""The half-Cauchy distribution."""

from __future__ import annotations

import math

from undertow.distributions._family import torch, validated
from undertow.distributions.cauchy import Cauchy
from undertow.distributions.half_normal import Half
from undertow.distributions.transforms import AbsTransform

__all__ = ["HalfCauchy"]


class HalfCauchy(Half):
    """The absolute values of Cauchy values around 0."""

    _batch_attributes = ()

    def __init__(self, scale: torch.Value, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    variance = torch.alias("base_dist.variance")
    mean = torch.formula(lambda self: self.scale.new_full(self._extended_shape(), math.inf))

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        return self._folded(torch.as_tensor(value, dtype=self.scale.dtype))
