"""Rules that multiply by random noise. Dropout in `nn.functional` is a plain multiplication."""

# fmt: off
from __future__ import annotations

from undertow._src.rules.rule import op

native_dropout = op("native_dropout", lambda xp, input, mask, *, scale: input * mask * scale, promote="same", mask="mask",
                    input=lambda g, mask, scale: g * mask * scale)

# `noise` is the slope below zero, drawn for each element, and 1 above.
rrelu_with_noise = op("rrelu_with_noise", lambda xp, self, noise: self * noise, promote="same", accepts="f",
                      keeps=("self",), stepwise=True, self=lambda g, noise: g * noise)

rrelu_with_noise_ = op("rrelu_with_noise", lambda xp, self, noise: self * noise, promote="same", accepts="f",
                       node="RreluWithNoiseBackward1", self=lambda g, noise: g * noise)
