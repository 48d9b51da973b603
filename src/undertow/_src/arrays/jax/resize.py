"""Resizing along an axis on JAX. See numpy/resize.py for what taps are."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from undertow._src.arrays.jax.tracing import picked
from undertow._src.arrays.numpy.resize import Taps, resize_matrix

Array = Any


def _applied(x: Array, matrix: Any, axis: int) -> Array:
    """matrix · x along an axis."""
    wide = x.astype(np.float32) if x.dtype.itemsize < 4 else x
    return jnp.moveaxis(jnp.tensordot(wide, matrix, ((axis,), (1,))), -1, axis).astype(x.dtype)


def _in_dtype_of(x: Array, taps: Taps) -> Taps:
    return taps.astype(np.float32 if x.dtype.itemsize < 4 else x.dtype)


def resize(x: Array, taps: Taps, axis: int) -> Array:
    """Along an axis, out[i] = Σₜ weights[i, t] x[indices[i, t]]; the adjoint of resize_adjoint."""
    axis, taps = axis % x.ndim, _in_dtype_of(x, taps)
    shape = [1] * x.ndim
    shape[axis] = -1
    out: Any = 0
    for indices, weights in zip(taps.indices.T.astype(np.int32), taps.weights.T, strict=True):
        out = out + picked(x, indices, axis) * weights.reshape(shape)
    return out.astype(x.dtype)


def resize_adjoint(g: Array, taps: Taps, axis: int) -> Array:
    """Along an axis, out[indices[i, t]] += weights[i, t] g[i]; the adjoint of resize."""
    return _applied(g, resize_matrix(_in_dtype_of(g, taps)).T, axis % g.ndim)
