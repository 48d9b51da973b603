"""Rules that change a tensor's dtype, layout or identity, not its values: casts and aliases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow._src.rules.rule import op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace

# A fresh array of a different (or the same) dtype. The imaginary part that a cast to real drops gets no gradient.
to_copy = op("to_copy", lambda xp, self, *, dtype: xp.cast(self, dtype), holomorphic=False,
             self=lambda xp, g, self_spec: cast_back(xp, g, self_spec.dtype))  # fmt: skip

# The same with a different memory order, such as channels last.
to_copy_in_order = op("to_copy", lambda xp, self, *, dtype, axes: copy_in_order(xp, xp.cast(self, dtype), axes),
                      holomorphic=False, self=lambda xp, g, self_spec: cast_back(xp, g, self_spec.dtype))  # fmt: skip

# An alias with the same values, as a separate tensor: what `as_subclass` returns.
alias = op("alias", lambda xp, self: xp.alias(self), view=True, self=lambda g: g)


def cast_back(xp: Namespace, g: Array, dtype: Any) -> Array:
    """Return a gradient in the dtype of the input that was cast."""
    return xp.astype(xp.real(g) if xp.dtype_of(g).kind == "c" and dtype.kind != "c" else g, dtype)


def copy_in_order(xp: Namespace, x: Array, axes: tuple[int, ...]) -> Array:
    """Return a copy with a different memory order, such as channels last."""
    inverse = tuple(sorted(range(len(axes)), key=axes.__getitem__))
    return xp.transpose(xp.contiguous(xp.transpose(x, axes)), inverse)
