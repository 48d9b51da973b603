"""The half-normal distribution."""

from __future__ import annotations

import math

from undertow.distributions._family import torch
from undertow.distributions._half import Half
from undertow.distributions.normal import Normal
from undertow.distributions.transforms import AbsTransform

__all__ = ["HalfNormal"]


class HalfNormal(Half):
    """The absolute values of normal values around 0."""

    _batch_attributes = ()

    def __init__(self, scale: torch.Value, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    mean = torch.formula(lambda self: self.scale * math.sqrt(2 / math.pi))
    variance = torch.formula(lambda self: self.scale.pow(2) * (1 - 2 / math.pi))
