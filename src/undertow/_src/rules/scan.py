"""Running reductions along a dim: cumsum, cumprod, cummax, cummin, logcumsumexp."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from undertow._src.rules.rule import op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace
    from undertow._src.rules.rule import Spec


def shift(xp: Namespace, x: Array, dim: int, fill: object) -> Array:
    """Return x shifted by one along a dim; `fill` takes the first position."""
    return xp.pad(x, tuple([(1, -1) if axis == dim else (0, 0) for axis in range(x.ndim)]), fill)


def reversed_scan(xp: Namespace, scan: Callable[..., Any], x: Array, dim: int) -> Array:
    """Return a scan that runs from the end."""
    return xp.flip(scan(xp.flip(x, (dim,)), dim), (dim,)) if x.ndim else scan(x, dim)


cumsum = op("cumsum", lambda xp, self, *, dim, dtype: xp.cumsum(self, dim, dtype),
            self=lambda xp, g, self_spec, dim:
                xp.astype(reversed_scan(xp, xp.cumsum, g, dim), self_spec.dtype))  # fmt: skip


# y[i] = x[i] + factor[i] y[i-1], the linear recurrence that gradients of scans are made of.
# Its own gradient is the same recurrence run backwards.
recurrence = op("linear_recurrence", lambda xp, self, factor, *, dim: xp.recurrence(self, factor, dim), promote="same",
                joint=lambda xp, g, needs, factor, result, dim: recurrence_gradient(xp, g, factor, result, dim),
                )  # fmt: skip


def backward_recurrence(xp: Namespace, x: Array, factor: Array, dim: int) -> Array:
    """y[i] = x[i] + factor[i+1] y[i+1]."""
    if not x.ndim:
        return x
    later = shift(xp, xp.flip(factor, (dim,)), dim, 0)
    return xp.flip(xp.recurrence(xp.flip(x, (dim,)), later, dim), (dim,))


def recurrence_gradient(xp: Namespace, g: Array, factor: Array, result: Array, dim: int) -> tuple[Any, Any]:
    """Return the gradients of y[i] = x[i] + factor[i] y[i−1]: the reversed recurrence, and that times y[i−1]."""
    adjoint = backward_recurrence(xp, g, factor, dim)
    return adjoint, adjoint * shift(xp, result, dim, 0)


def cumprod_gradient(xp: Namespace, g: Array, self: Array, result: Array, dim: int) -> Array:
    """Return Π(before i) · Σ over j ≥ i of g[j] Π(between i and j). Exact at zeros."""
    if not self.ndim:
        return g
    return shift(xp, result, dim, 1) * backward_recurrence(xp, g, self, dim)


cumprod = op("cumprod", lambda xp, self, *, dim: xp.cumprod(self, dim), promote="same", self=cumprod_gradient)


def picked_gradient(xp: Namespace, g: Any, indices: Array, self_spec: Spec, dim: int) -> Array:
    """Add g to the elements that were picked."""
    if not self_spec.ndim:
        return g[0]
    return xp.scatter_add(xp.zeros(self_spec.shape, xp.dtype_of(g[0])), dim, indices, g[0])


PICKED: dict[str, Any] = {"outputs": 2, "names": ("values", "indices"), "differentiable": 1, "materialize": False}

cummax = op("cummax", lambda xp, self, *, dim: xp.cummax(self, dim), **PICKED, keeps=("self",), self=picked_gradient)
cummin = op("cummin", lambda xp, self, *, dim: xp.cummin(self, dim), **PICKED, keeps=("self",), self=picked_gradient)


def logcumsumexp_gradient(xp: Namespace, g: Array, self: Array, result: Array, dim: int) -> Array:
    """Σ over j ≥ i of g[j] e^(x[i] - y[j]), by steps e^(y[i-1] - y[i]) that are never above 1."""
    if not self.ndim:
        return g
    if xp.dtype_of(self).kind == "c":
        return xp.exp(self - result) * backward_recurrence(xp, g, xp.exp(shift(xp, result, dim, 0) - result), dim)
    nothing = xp.isinf(result) & (result < 0)
    solid = xp.where(nothing, xp.zeros_like(result), result)
    steps = xp.exp(shift(xp, solid, dim, 0) - solid)
    steps = xp.where(nothing | shift(xp, nothing, dim, True), xp.zeros_like(steps), steps)
    return xp.exp(self - solid) * backward_recurrence(xp, g, steps, dim)


logcumsumexp = op("logcumsumexp", lambda xp, self, *, dim: xp.logcumsumexp(self, dim), promote="same",
                  self=logcumsumexp_gradient)  # fmt: skip
