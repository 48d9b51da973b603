"""Views and rearrangements on JAX. Its arrays are immutable, so a view is a separate value and a copy is the array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from undertow._src.arrays.jax.tracing import picked
from undertow._src.arrays.numpy.shape import Geometry, extent_of, shows_twice

Array = Any
Shape = tuple[int, ...]


# --- views


alias = copy = contiguous = in_rows = lambda x: x  # XLA chooses the memory order
reshape, broadcast_to, transpose, expand_dims = jnp.reshape, jnp.broadcast_to, jnp.transpose, jnp.expand_dims
squeeze = jnp.squeeze
swapaxes = lambda x, axis1, axis2: jnp.swapaxes(x, axis1, axis2) if x.ndim else x


def sum_to_shape(x: Array, shape: Shape) -> Array:
    """Undo broadcasting: sum over the axes that were broadcast from `shape` to x's shape."""
    if x.shape == shape:
        return x
    lead = x.ndim - len(shape)
    axes = tuple([axis for axis, n in enumerate(x.shape) if axis < lead or (shape[axis - lead] == 1 and n != 1)])
    return jnp.reshape(jnp.sum(x, axes, dtype=x.dtype) if axes else x, shape)


def select(x: Array, axis: int, index: int) -> Array:
    """Take one index along an axis, which is removed."""
    return lax.index_in_dim(x, index, axis, keepdims=False)


def slice_along(x: Array, axis: int, start: int, stop: int, step: int = 1) -> Array:
    """Return a range of one axis."""
    start, stop, step = slice(start, stop, step).indices(x.shape[axis])
    return lax.slice_in_dim(x, start, max(start, stop), step, axis)


def diagonal(x: Array, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Return the diagonal of two axes, as a new last axis."""
    return jnp.diagonal(x, offset, axis1, axis2)


def windows(x: Array, axis: int, size: int, step: int) -> Array:
    """Return windows of `size` along an axis, `step` apart; the positions within a window become the last axis."""
    if not x.ndim:
        return jnp.broadcast_to(x, (size,))
    count = (x.shape[axis] - size) // step + 1
    places = np.arange(count)[:, None] * step + np.arange(size)
    taken = picked(x, places.reshape(-1), axis)
    shape = (*x.shape[:axis], count, size, *x.shape[axis + 1 :])
    return jnp.moveaxis(taken.reshape(shape), axis + 1, -1)


def as_strided(x: Array, size: Shape, stride: Shape, offset: int, layout: Geometry) -> Array:
    """Return the elements of a strided view of a buffer, in which x has the given `layout`."""
    memory = jnp.zeros(extent_of((size, stride, offset), layout), x.dtype)
    memory = memory.at[_places(layout)].set(x)
    return memory.at[_places((size, stride, offset))].get(mode="promise_in_bounds")


def as_strided_backward(g: Array, size: Shape, stride: Shape, offset: int, layout: Geometry) -> Array:
    """Return the adjoint of `as_strided`: elements viewed several times are summed, elements stored once are shared."""
    here = (size, stride, offset)
    extent = extent_of(here, layout)
    memory = jnp.zeros(extent, g.dtype).at[_places(here)].add(g)
    if shows_twice(layout):
        counts = np.zeros(extent, g.dtype)
        np.add.at(counts, _places(layout), 1)
        memory = memory / np.maximum(counts, 1)
    return memory.at[_places(layout)].get(mode="promise_in_bounds")


def _places(layout: Geometry) -> Any:
    """Return the index in a flat buffer of each element of a strided view."""
    places = np.asarray(layout[2], np.int32)
    for n, step in zip(layout[0], layout[1], strict=True):
        places = places[..., None] + np.arange(n, dtype=np.int32) * step
    return places.astype(np.int32)


# --- adjoints of views: the part in its place, zeros elsewhere


def select_backward(g: Array, shape: Shape, axis: int, index: int) -> Array:
    index %= shape[axis]
    return slice_backward(jnp.expand_dims(g, axis), shape, axis, index, index + 1, 1)


def slice_backward(g: Array, shape: Shape, axis: int, start: int, stop: int, step: int) -> Array:
    n = shape[axis]
    start, _, step = slice(start, stop, step).indices(n)
    count = g.shape[axis]
    after = n - start - ((count - 1) * step + 1) if count else n - start
    widths = [(0, 0, 0)] * len(shape)
    widths[axis] = (start, after, step - 1)
    return lax.pad(g, jnp.zeros((), g.dtype), widths)


def diagonal_backward(g: Array, shape: Shape, offset: int, axis1: int, axis2: int) -> Array:
    rows, columns = shape[axis1], shape[axis2]
    inner = tuple([n for axis, n in enumerate(shape) if axis not in (axis1 % len(shape), axis2 % len(shape))])
    places = np.arange(g.shape[-1], dtype=np.int32)
    out = jnp.zeros((*inner, rows, columns), g.dtype)
    out = out.at[..., places + max(-offset, 0), places + max(offset, 0)].set(g)
    return jnp.moveaxis(out, (-2, -1), (axis1, axis2))


def windows_backward(g: Array, shape: Shape, axis: int, size: int, step: int) -> Array:
    """Add windows back where they came from."""
    if not shape:
        return jnp.sum(g)
    out = jnp.zeros(shape, g.dtype)
    stop = (g.shape[axis] - 1) * step + 1
    for within in range(size):
        out = out + slice_backward(g[..., within], shape, axis, within, within + stop, step)
    return out


# --- rearrangements

flip, rot90, roll, concatenate, stack = jnp.flip, jnp.rot90, jnp.roll, jnp.concatenate, jnp.stack


def tile(x: Array, repeats: Shape) -> Array:
    """Tile x; one number per axis of the result."""
    return jnp.tile(x, repeats)


def diag_embed(x: Array, offset: int, axis1: int, axis2: int) -> Array:
    """Zeros whose diagonal along two new axes is x's last axis."""
    n = x.shape[-1] + abs(offset)
    shape = list(x.shape[:-1])
    for axis in sorted((axis1, axis2)):
        shape.insert(axis, n)
    return diagonal_backward(x, tuple(shape), offset, axis1, axis2)


def pad(x: Array, widths: tuple[tuple[int, int], ...], value: Any) -> Array:
    """Pad x with a value; a negative width crops."""
    return lax.pad(x, jnp.asarray(value, x.dtype), [(before, after, 0) for before, after in widths])


# --- dtypes and constants


def astype(x: Array, dtype: np.dtype[Any]) -> Array:
    """Return x in a dtype; complex numbers lose their imaginary part, integers out of range wrap around."""
    if x.dtype == dtype:
        return x
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        x = x.real
    if x.dtype.kind in "fV" and (dtype.kind == "i" or dtype == np.uint8):
        # XLA would take the nearest integer. A CPU has one value for all that int64 can't hold, and truncates the bits
        # of others.
        wide: Any = np.dtype(np.int64 if dtype.itemsize == 8 or dtype.kind == "u" else np.int32)
        limit = 2.0 ** (8 * wide.itemsize - 1)
        x = jnp.where((x >= -limit) & (x < limit), x.astype(wide), np.iinfo(wide).min)
    return x.astype(dtype)


cast = astype
zeros, ones = jnp.zeros, jnp.ones


def constant(array: Any, device: Any = None) -> Array:
    """Return an array as a value of this namespace, independent of later changes of the array.

    NumPy's arrays are copied at once: JAX might copy them later, or never.
    """
    return jnp.asarray(array.copy() if isinstance(array, np.ndarray) else array, device=device)


def dtype_of(x: Array) -> np.dtype[Any]:
    return x.dtype


def as_index(x: Array) -> Array:
    """Return integers as indices, which have no gradient."""
    return x.astype(np.int64)


# --- shapes without values


def outline(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Return the shapes and dtypes of a function's results without computing; NumPy's functions stand for JAX's."""
    home = getattr(function, "__module__", None) or "numpy"  # a ufunc's method has none
    if home.partition(".")[0] == "numpy":
        owner = getattr(function, "__self__", None)
        space = getattr(jnp, owner.__name__) if isinstance(owner, np.ufunc) else jnp.linalg if "linalg" in home else jnp
        function = getattr(space, function.__name__)
    leaves, nest = jax.tree.flatten((args, kwargs))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, np.ndarray)]

    def run(*arrays: Array) -> Any:
        given = list(leaves)
        for place, array in zip(places, arrays):
            given[place] = array
        args, kwargs = jax.tree.unflatten(nest, given)
        return function(*args, **kwargs)

    return jax.eval_shape(run, *[jax.ShapeDtypeStruct(leaves[place].shape, leaves[place].dtype) for place in places])
