"""Reductions: sums, products, extremes, variance, norms. `dim` is a tuple of dims to reduce; () reduces none."""

from __future__ import annotations

import builtins
from math import inf
from typing import TYPE_CHECKING, Any

from undertow._src.rules.rule import Spec, op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace

Dims = tuple[int, ...]


def unfold(xp: Namespace, g: Array, ndim: int, dim: Dims, keepdim: bool) -> Array:
    """Return a reduced value with the reduced dims restored, with length 1."""
    if keepdim or not dim or ndim == 0:
        return g
    if len(dim) == ndim:
        return xp.reshape(g, (1,) * ndim)
    sizes = iter(g.shape)
    return xp.reshape(g, tuple([1 if axis in dim else next(sizes) for axis in range(ndim)]))


def spread(xp: Namespace, g: Array, spec: Spec, dim: Dims, keepdim: bool) -> Array:
    """Return a reduced gradient broadcast back over the reduced dims."""
    if len(dim) != spec.ndim:
        g = unfold(xp, g, spec.ndim, dim, keepdim)
    return xp.broadcast_to(g, spec.shape)


def folded_count(shape: tuple[int, ...], dim: Dims) -> int:
    """Return how many elements are reduced into each result."""
    count = 1
    for axis in dim:
        count *= shape[axis] if shape else 1
    return count


# --- sums and means: `dtype` is the result's, None for the input's own

sum_all = op("sum", lambda xp, self, *, dtype: xp.sum(self, dtype=dtype),
             self=lambda xp, g, self_spec: xp.astype(xp.broadcast_to(g, self_spec.shape), self_spec.dtype))  # fmt: skip

sum = op("sum", lambda xp, self, *, dim, keepdim, dtype: xp.sum(self, axis=dim, keepdims=keepdim, dtype=dtype),
         node="SumBackward1",
         self=lambda xp, g, self_spec, dim, keepdim:
             xp.astype(spread(xp, g, self_spec, dim, keepdim), self_spec.dtype))  # fmt: skip

# The gradient is broadcast first and then divided, so that hooks may write to it.
mean_all = op("mean", lambda xp, self, *, dtype: xp.mean(self, dtype=dtype),
              self=lambda xp, g, self_spec:
                  xp.astype(xp.broadcast_to(g, self_spec.shape) / (self_spec.size or 1), self_spec.dtype))  # fmt: skip

mean = op("mean", lambda xp, self, *, dim, keepdim, dtype: xp.mean(self, axis=dim, keepdims=keepdim, dtype=dtype),
          node="MeanBackward1",
          self=lambda xp, g, self_spec, dim, keepdim: xp.astype(
              spread(xp, g, self_spec, dim, keepdim) / (folded_count(self_spec.shape, dim) or 1),
              self_spec.dtype))  # fmt: skip

nansum = op("nansum", lambda xp, self, *, dim, keepdim, dtype:
            xp.sum(xp.where(xp.isnan(self), xp.zeros_like(self), self), axis=dim, keepdims=keepdim, dtype=dtype),
            self=lambda xp, g, self, dim, keepdim:
                xp.astype(spread(xp, g, self, dim, keepdim), xp.dtype_of(self)) * (self == self))  # fmt: skip

prod_all = op("prod", lambda xp, self: xp.prod(self), promote="same",
              self=lambda xp, g, self, result: g * xp.reshape(
                  xp.prod_of_others(xp.reshape(self, (-1,)), 0, xp.reshape(result, (1,))), self.shape))  # fmt: skip

prod = op("prod", lambda xp, self, *, dim, keepdim: xp.prod(self, axis=dim, keepdims=keepdim), promote="same",
          node="ProdBackward1",
          self=lambda xp, g, self, result, dim, keepdim: unfold(xp, g, self.ndim, (dim,), keepdim) * xp.prod_of_others(
              self, dim, unfold(xp, result, self.ndim, (dim,), keepdim)))  # fmt: skip


# --- extremes


def share(xp: Namespace, g: Array, winners: Array, dim: Dims | None) -> Array:
    """Split a gradient evenly among the extreme elements."""
    count = xp.sum(winners, axis=dim, keepdims=True)
    return xp.where(winners, g / xp.astype(count, xp.dtype_of(g)), xp.zeros_like(g))


def same(xp: Namespace, x: Array, y: Array) -> Any:
    """Return where two arrays are equal or both nan."""
    return (x == y) | ((x != x) & (y != y))


def route(xp: Namespace, g: Array, indices: Array, spec: Spec, dim: int, keepdim: bool) -> Array:
    """Put each gradient at the position its value was taken from, zeros elsewhere."""
    if spec.ndim == 0:
        return g
    places = unfold(xp, indices, spec.ndim, (dim,), keepdim)
    return xp.put_along(unfold(xp, g, spec.ndim, (dim,), keepdim), dim, places, spec.shape)


max_all = op("max", lambda xp, self: xp.max(self), promote="same", node="MaxBackward1",
             self=lambda xp, g, self, result: share(xp, g, same(xp, self, result), None))  # fmt: skip

min_all = op("min", lambda xp, self: xp.min(self), promote="same", node="MinBackward1",
             self=lambda xp, g, self, result: share(xp, g, same(xp, self, result), None))  # fmt: skip

PICKED: dict[str, Any] = {"outputs": 2, "names": ("values", "indices"), "differentiable": 1, "materialize": False}

max = op("max", lambda xp, self, *, dim, keepdim: xp.max_with_index(self, dim, keepdim), **PICKED,
         self=lambda xp, g, indices, self_spec, dim, keepdim:
             route(xp, g[0], indices, self_spec, dim, keepdim))  # fmt: skip

min = op("min", lambda xp, self, *, dim, keepdim: xp.min_with_index(self, dim, keepdim), **PICKED,
         self=lambda xp, g, indices, self_spec, dim, keepdim:
             route(xp, g[0], indices, self_spec, dim, keepdim))  # fmt: skip


def extreme_gradient(xp: Namespace, g: Array, self: Array, result: Array, dim: Dims, keepdim: bool) -> Array:
    """Return the gradient split among the extreme elements; nan if there is a nan."""
    winners = xp.astype(self == unfold(xp, result, self.ndim, dim, keepdim), xp.dtype_of(g))
    return unfold(xp, g, self.ndim, dim, keepdim) * winners / xp.sum(winners, axis=dim, keepdims=True)


amax = op("amax", lambda xp, self, *, dim, keepdim: xp.max(self, axis=dim, keepdims=keepdim), promote="same",
          self=extreme_gradient)  # fmt: skip

amin = op("amin", lambda xp, self, *, dim, keepdim: xp.min(self, axis=dim, keepdims=keepdim), promote="same",
          self=extreme_gradient)  # fmt: skip


def aminmax_gradient(xp: Namespace, g: Any, self: Array, min: Any, max: Any, dim: Dims, keepdim: bool) -> Array:
    """Return the gradients through minimum and maximum, of whichever has one."""
    parts = [extreme_gradient(xp, each, self, value, dim, keepdim)
             for each, value in zip(g, (min, max)) if each is not None]  # fmt: skip
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


aminmax = op("aminmax", lambda xp, self, *, dim, keepdim:
             (xp.min(self, axis=dim, keepdims=keepdim), xp.max(self, axis=dim, keepdims=keepdim)),
             promote="same", outputs=2, names=("min", "max"), materialize=False, self=aminmax_gradient)  # fmt: skip

argmax = op("argmax", lambda xp, self, *, dim, keepdim: xp.argmax(self, axis=dim, keepdims=keepdim))
argmin = op("argmin", lambda xp, self, *, dim, keepdim: xp.argmin(self, axis=dim, keepdims=keepdim))

# --- logic and counting: no gradients

any = op("any", lambda xp, self, *, dim, keepdim: xp.any(self, axis=dim, keepdims=keepdim))
all = op("all", lambda xp, self, *, dim, keepdim: xp.all(self, axis=dim, keepdims=keepdim))
count_nonzero = op("count_nonzero", lambda xp, self, *, dim: xp.sum(self != 0, axis=dim))


# --- variance and its root, divided by count - correction


def variance(xp: Namespace, x: Array, dim: Dims, correction: float, keepdim: bool) -> Array:
    """Σ |x − mean|² / (n − correction)."""
    if len(dim) < x.ndim:  # of equal numbers it is exactly 0, as from PyTorch's running means
        x = x - x[tuple([slice(0, 1) if axis in dim else slice(None) for axis in range(x.ndim)])]
    centred = x - xp.mean(x, axis=dim, keepdims=True)
    return xp.sum_of_squares(centred, axis=dim, keepdims=keepdim) / builtins.max(
        folded_count(x.shape, dim) - correction, 0
    )


def variance_gradient(xp: Namespace, g: Array, self: Array, dim: Dims, correction: float, keepdim: bool) -> Array:
    """2 g (x − mean) / (n − correction)."""
    centred = self - xp.mean(self, axis=dim, keepdims=True)
    free = folded_count(self.shape, dim) - correction
    return unfold(xp, g, self.ndim, dim, keepdim) * (2.0 / free if free else inf) * centred


def deviation_gradient(
    xp: Namespace, g: Array, self: Array, result: Array, dim: Dims, correction: float, keepdim: bool
) -> Array:
    """Return the variance's gradient for g / (2 deviation); 0 where the deviation is 0."""
    still = result == 0
    scaled = xp.where(still, xp.zeros_like(g), g / (2 * xp.where(still, xp.ones_like(result), result)))
    return variance_gradient(xp, scaled, self, dim, correction, keepdim)


def mean_gradient(xp: Namespace, g: Any, self: Any, dim: Dims, keepdim: bool) -> Array:
    """Return g / n for every element."""
    return spread(xp, g / (folded_count(self.shape, dim) or 1), self, dim, keepdim)


var = op("var", lambda xp, self, *, dim, correction, keepdim: variance(xp, self, dim, correction, keepdim),
         promote="same", holomorphic=False, self=variance_gradient)  # fmt: skip

std = op("std", lambda xp, self, *, dim, correction, keepdim: xp.sqrt(variance(xp, self, dim, correction, keepdim)),
         promote="same", holomorphic=False, self=deviation_gradient)  # fmt: skip


def with_mean(xp: Namespace, spread_part: Any, g: Any, self: object, dim: Dims, keepdim: bool) -> Any:
    """Return the gradient of a variance and that of the mean, as far as they are defined."""
    if g[1] is None:
        return spread_part
    mean_part = mean_gradient(xp, g[1], self, dim, keepdim)
    return mean_part if spread_part is None else spread_part + mean_part


var_mean = op("var_mean", lambda xp, self, *, dim, correction, keepdim:
              (variance(xp, self, dim, correction, keepdim), xp.mean(self, axis=dim, keepdims=keepdim)),
              promote="same", outputs=2, holomorphic=False, materialize=False,
              self=lambda xp, g, self, dim, correction, keepdim: with_mean(
                  xp, None if g[0] is None else variance_gradient(xp, g[0], self, dim, correction, keepdim),
                  g, self, dim, keepdim))  # fmt: skip

std_mean = op("std_mean", lambda xp, self, *, dim, correction, keepdim:
              (xp.sqrt(variance(xp, self, dim, correction, keepdim)), xp.mean(self, axis=dim, keepdims=keepdim)),
              promote="same", outputs=2, names=("result0", "result1"), holomorphic=False, materialize=False,
              self=lambda xp, g, self, result0, dim, correction, keepdim: with_mean(
                  xp, None if g[0] is None else deviation_gradient(xp, g[0], self, result0, dim, correction, keepdim),
                  g, self, dim, keepdim))  # fmt: skip

# --- sums of exponentials

logsumexp = op("logsumexp", lambda xp, self, *, dim, keepdim: xp.logsumexp(self, dim, keepdim), promote="float",
               rows=True,
               self=lambda xp, g, self, result, dim, keepdim: unfold(xp, g, self.ndim, dim, keepdim) * xp.exp(
                   self - unfold(xp, result, self.ndim, dim, keepdim)))  # fmt: skip

# --- steps of functions that PyTorch composes, under its names

squeeze_in_place = op("squeeze", lambda xp, self, *, size: xp.reshape(self, size), node="SqueezeBackward4",
                      self=lambda xp, g, self_spec: xp.reshape(g, self_spec.shape))  # fmt: skip

halve = op("div", lambda xp, self: self / 2, promote="float", node="DivBackward1", self=lambda g: g / 2)

scale = op("mul", lambda xp, self, *, factor: self * factor, promote="float", node="MulBackward1",
           self=lambda g, factor: g * factor)  # fmt: skip
