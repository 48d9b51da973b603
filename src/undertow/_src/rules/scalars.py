"""Ops of a tensor and a number that PyTorch's own composites record, under names with a 1."""

# fmt: off
from __future__ import annotations

from undertow._src.rules.rule import op

plus = op("add", lambda xp, self, *, other: self + other, node="AddBackward1", promote="same", self=lambda g: g)

minus = op("sub", lambda xp, self, *, other: self - other, node="SubBackward1", promote="same", self=lambda g: g)

times = op("mul", lambda xp, self, *, other: self * other, node="MulBackward1", promote="same",
           self=lambda g, other: g * other)

over = op("div", lambda xp, self, *, other: self / other, node="DivBackward1", promote="same",
          self=lambda g, other: g / other)
