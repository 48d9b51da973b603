"""Elementwise rules: arithmetic, powers, exponentials, trigonometry."""

from __future__ import annotations

from undertow.rules.rule import op

# --- arithmetic

add = op("add", lambda xp, self, other: self + other, promote="numeric", self=lambda g: g, other=lambda g: g)

sub = op("sub", lambda xp, self, other: self - other, promote="numeric", self=lambda g: g, other=lambda g: -g)

mul = op("mul", lambda xp, self, other: self * other, promote="numeric",
         self=lambda g, other: g * other,
         other=lambda g, self: g * self)  # fmt: skip

div = op("div", lambda xp, self, other: self / other, promote="float",
         self=lambda g, other: g / other,
         other=lambda g, self, other: -g * ((self / other) / other))  # fmt: skip

neg = op("neg", lambda xp, self: -self, promote="numeric", self=lambda g: -g)

# --- exponentials

exp = op("exp", lambda xp, self: xp.exp(self), promote="float", self=lambda g, result: g * result)

log = op("log", lambda xp, self: xp.log(self), promote="float", self=lambda g, self: g / self)

tanh = op("tanh", lambda xp, self: xp.tanh(self), promote="float", self=lambda g, result: g * (1 - result * result))
