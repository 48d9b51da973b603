"""Rules that take complex numbers apart and put them together. Gradients here are conjugated by the formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from undertow._src.rules.rule import op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace

real = op("real", lambda xp, self: xp.real(self), view=True, node="SelectBackward0",
          self=lambda xp, g: xp.complex(g, xp.zeros_like(g)))  # fmt: skip

imag = op("imag", lambda xp, self: xp.imag(self), view=True, node="SelectBackward0",
          self=lambda xp, g: xp.complex(xp.zeros_like(g), g))  # fmt: skip

view_as_real = op("view_as_real", lambda xp, self: xp.view_as_real(self), view=True,
                  self=lambda xp, g: xp.view_as_complex(xp.contiguous(g)))  # fmt: skip

view_as_complex = op("view_as_complex", lambda xp, self: xp.view_as_complex(self), view=True,
                     self=lambda xp, g: xp.view_as_real(g))  # fmt: skip

conj = op("conj", lambda xp, self: xp.conj(self), self=lambda xp, g: xp.conj(g))

# The same as a view, whose buffer undertow._src.tensor.lazy_conj keeps in sync.
conj_view = op("conj", lambda xp, self: xp.conj(self), view=True, self=lambda xp, g: xp.conj(g))

neg_view = op("neg_view", lambda xp, self: -self, view=True, self=lambda g: -g)

conj_physical = op("conj_physical", lambda xp, self: xp.conj(self), self=lambda xp, g: xp.conj(g))

conj_physical_ = op("conj_physical", lambda xp, self: xp.conj(self), node="ConjPhysicalBackward1",
                    self=lambda xp, g: xp.conj(g))  # fmt: skip

complex = op("complex", lambda xp, real, imag: xp.complex(real, imag), promote="numeric", holomorphic=False,
             real=lambda xp, g, real: xp.real(g), imag=lambda xp, g, imag: xp.imag(g))  # fmt: skip

polar = op("polar", lambda xp, abs, angle: xp.complex(abs * xp.cos(angle), abs * xp.sin(angle)), promote="numeric",
           holomorphic=False,
           abs=lambda xp, g, angle: xp.real(g) * xp.cos(angle) + xp.imag(g) * xp.sin(angle),
           angle=lambda xp, g, abs, angle: abs * (xp.imag(g) * xp.cos(angle) - xp.real(g) * xp.sin(angle)))  # fmt: skip

angle = op("angle", lambda xp, self: xp.angle(self), promote="float", holomorphic=False,
           self=lambda xp, g, self: angle_slope(xp, g, self))  # fmt: skip


def angle_slope(xp: Namespace, g: Array, x: Array) -> Array:
    """Return i x g / |x|², the gradient of the angle; a real number's angle is 0 or π and has slope 0."""
    if xp.dtype_of(x).kind != "c":
        return xp.zeros_like(g)
    size = xp.real(x) * xp.real(x) + xp.imag(x) * xp.imag(x)
    scale = xp.where(size == 0, 0, g / xp.where(size == 0, 1, size))
    return xp.complex(-xp.imag(x) * scale, xp.real(x) * scale)
