"""Raw views and rearrangements on NumPy, with the strides PyTorch gives them.

NumPy does not define the stride of an axis of length 1 and makes diagonals and broadcast arrays read-only; PyTorch
defines the one (`stride()` shows it) and allows writes to the other. Where they differ `restride` makes the view.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided as _slow_as_strided

from undertow._src.arrays.numpy.order import empty_copy_of

Array = np.ndarray[Any, np.dtype[Any]]

_ndarray = np.ndarray
_concatenate = np.concatenate
_ALL = slice(None)
_LEADING: list[tuple[Any, ...]] = [(_ALL,) * axis for axis in range(8)]


def leading(axis: int) -> tuple[Any, ...]:
    """Return the part of an index that keeps every axis before this one whole."""
    return _LEADING[axis] if axis < 8 else (_ALL,) * axis


# --- views


def alias(x: Array) -> Array:
    """Return a view of the whole array."""
    return x.view()


_NO_INFINITY = np.dtype("float8_e4m3fn")


def restride(x: Array, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Array:
    """Return a view of x's buffer with these strides, starting `offset` bytes from x's first element."""
    if type(x) is not _ndarray:
        return x  # on a device there is no buffer to address: a view is what its rule makes of its source
    if x.flags.c_contiguous:
        if x.size and offset >= 0:
            return _ndarray(shape, x.dtype, x, offset, strides)
        if not x.size:
            return _ndarray(shape, x.dtype, x, 0, strides)
    memory = memory_of(x)
    if memory is None:
        return _slow_as_strided(x, shape, strides) if not offset else _slow_as_strided(
            x.reshape(-1)[offset // x.itemsize :], shape, strides
        )  # fmt: skip
    whole, start = memory
    return _ndarray(shape, x.dtype, whole, start + offset, strides)


def memory_of(x: Array) -> tuple[Array, int] | None:
    """Return the contiguous array that owns x's buffer, and x's offset there in bytes; None if its owner is foreign."""
    owner = x
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    if not owner.flags.c_contiguous:
        owner = owner.T
        if not owner.flags.c_contiguous:
            return None
    return owner, x.__array_interface__["data"][0] - owner.__array_interface__["data"][0]


def contiguous_strides(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return the strides of a dense array in C order, in bytes; an empty axis counts as one of length 1."""
    strides = []
    for n in reversed(shape):
        strides.append(itemsize)
        itemsize *= n or 1
    return tuple(reversed(strides))


def view_strides(x: Array, shape: Sequence[int]) -> tuple[int, ...] | None:
    """Return the strides of a view of x in `shape`, or None if it needs a copy."""
    if not x.size:
        return x.strides if x.shape == tuple(shape) else contiguous_strides(shape, x.itemsize)
    if not x.ndim:
        return (x.itemsize,) * len(shape)
    new = list(shape)
    place = len(new) - 1
    strides: list[int] = [0] * len(new)
    old, steps = x.shape, x.strides
    elements = covered = 1  # of the run of old axes, and of the new axes over it
    base = steps[-1]
    for axis in reversed(range(x.ndim)):
        elements *= old[axis]
        # A run ends where the next axis does not continue it.
        if axis == 0 or (old[axis - 1] != 1 and steps[axis - 1] != elements * base):
            while place >= 0 and (covered < elements or new[place] == 1):
                strides[place] = covered * base
                covered *= new[place]
                place -= 1
            if covered != elements:
                return None
            if axis > 0:
                base = steps[axis - 1]
                elements = covered = 1
    return tuple(strides) if place < 0 else None


def is_plain(x: Array) -> bool:
    """Whether x is dense and in C order, its axes of length 1 included."""
    return x.flags.c_contiguous and (1 not in x.shape or x.strides == contiguous_strides(x.shape, x.itemsize))


def reshape(x: Array, shape: Any) -> Array:
    """Return a view where the strides allow it, else a copy."""
    if x.flags.c_contiguous or type(shape) is int or -1 in shape:
        return x.reshape(shape)
    strides = view_strides(x, shape)
    return x.reshape(shape) if strides is None else restride(x, shape, strides)


def sum_to_shape(x: Any, shape: tuple[int, ...]) -> Any:
    """Undo broadcasting: sum over the axes that were broadcast from `shape` to x's shape."""
    if x.shape == shape:
        return x
    lead = x.ndim - len(shape)
    if lead == 1 and x.shape[1:] == shape and shape:
        return np.add.reduce(x, axis=0)
    axes = tuple([axis for axis, n in enumerate(x.shape) if axis < lead or (shape[axis - lead] == 1 and n != 1)])
    return np.add.reduce(x, axis=axes).reshape(shape) if axes else x.reshape(shape)


def broadcast_to(x: Array, shape: tuple[int, ...]) -> Array:
    """Return a view broadcast along axes of length 1 and new leading axes."""
    if type(x) is not _ndarray:
        x = np.asarray(x)
    have = x.shape
    lead = len(shape) - len(have)
    strides: list[int] = [0] * len(shape)
    after = x.itemsize
    for axis in range(len(shape) - 1, -1, -1):
        n, stride = (have[axis - lead], x.strides[axis - lead]) if axis >= lead else (1, after)
        if n != shape[axis]:
            if n != 1:
                raise ValueError(f"an array of shape {have} can't be broadcast to {shape}")
            stride = 0
        strides[axis] = stride
        after = shape[axis] * stride
    return restride(x, shape, strides)


def transpose(x: Array, axes: tuple[int, ...] | None = None) -> Array:
    return x.transpose(axes)


def swapaxes(x: Array, axis1: int, axis2: int) -> Array:
    return x.swapaxes(axis1, axis2) if x.ndim else x


def expand_dims(x: Array, axis: int) -> Array:
    """Return a view with a new axis of length 1."""
    shape = x.shape
    if axis < 0:
        axis += len(shape) + 1
    if 1 in shape or (axis == len(shape) and not x.flags.c_contiguous):  # where NumPy's strides would differ
        strides = x.strides
        stride = x.itemsize if axis == len(shape) else strides[axis] * shape[axis]
        return restride(x, shape[:axis] + (1,) + shape[axis:], strides[:axis] + (stride,) + strides[axis:])
    return x.reshape(shape[:axis] + (1,) + shape[axis:])


def squeeze(x: Array, axis: int | tuple[int, ...] | None = None) -> Array:
    """Remove the given axes, all of length 1 (None: every such axis)."""
    return x.squeeze(axis)


def select(x: Array, axis: int, index: int) -> Array:
    """Take one index along an axis, which is removed."""
    return x[(*leading(axis), index, ...)]


def slice_along(x: Array, axis: int, start: int, stop: int, step: int = 1) -> Array:
    """Return a range of one axis. NumPy starts an empty one at the axis's beginning, PyTorch at the given start."""
    view = x[(*leading(axis), slice(start, stop, step))]
    if not view.size and x.size:
        at = min(start, x.shape[axis]) if start >= 0 else max(start + x.shape[axis], 0)
        if x.flags.c_contiguous and at * x.strides[axis] <= x.nbytes:
            strides = (*x.strides[:axis], x.strides[axis] * step, *x.strides[axis + 1 :])
            return restride(x, view.shape, strides, at * x.strides[axis])
    return view


def diagonal(x: Array, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Return the diagonal of two axes, as a new last axis that may be written to."""
    view = x.diagonal(offset, axis1, axis2)
    if x.flags.writeable:
        view.flags.writeable = True
    return view


def windows(x: Array, axis: int, size: int, step: int) -> Array:
    """Return windows of `size` along an axis, `step` apart; the positions within a window become the last axis."""
    if not x.ndim:
        return restride(x, (size,), (x.itemsize,))
    shape, strides = list(x.shape), list(x.strides)
    stride = strides[axis]
    shape[axis] = (shape[axis] - size) // step + 1
    strides[axis] = stride * step
    return restride(x, (*shape, size), (*strides, stride))


Geometry = tuple[tuple[int, ...], tuple[int, ...], int]  # sizes, strides and offset, counted in elements


def as_strided(x: Array, size: tuple[int, ...], stride: tuple[int, ...], offset: int, layout: Geometry) -> Array:
    """Return the elements of a strided view of a buffer, in which x has the given `layout`."""
    n = x.itemsize
    if x.strides == tuple([step * n for step in layout[1]]) and x.flags.c_contiguous and offset >= layout[2]:
        last = offset - layout[2] + sum([(m - 1) * step for m, step in zip(size, stride, strict=True)])
        if x.size and last < x.size:
            return restride(x, size, [step * n for step in stride], (offset - layout[2]) * n)
    memory = np.zeros(extent_of((size, stride, offset), layout), x.dtype)
    _laid_out(memory, layout)[...] = x
    return _laid_out(memory, (size, stride, offset))


def as_strided_backward(
    g: Array, size: tuple[int, ...], stride: tuple[int, ...], offset: int, layout: Geometry
) -> Array:
    """Return the adjoint of `as_strided`: elements viewed several times are summed, elements stored once are shared."""
    here = (size, stride, offset)
    extent = extent_of(here, layout)
    memory = np.zeros(extent, g.dtype)
    np.add.at(memory, _laid_out(np.arange(extent), here), g)
    if shows_twice(layout):
        counts = np.zeros(extent, g.dtype)
        np.add.at(counts, _laid_out(np.arange(extent), layout), 1)
        memory = memory / np.maximum(counts, 1)
    return _laid_out(memory, layout).copy()


def _laid_out(memory: Array, layout: Geometry) -> Array:
    n = memory.itemsize
    return _ndarray(layout[0], memory.dtype, memory, layout[2] * n, [step * n for step in layout[1]])


def extent_of(*layouts: Geometry) -> int:
    return max([1] + [
        offset + 1 + sum([(n - 1) * step for n, step in zip(size, stride, strict=True)])
        for size, stride, offset in layouts if 0 not in size
    ])  # fmt: skip


def shows_twice(layout: Geometry) -> bool:
    return any(step == 0 and n > 1 for n, step in zip(layout[0], layout[1], strict=True))


# --- adjoints of views: the part in its place, zeros elsewhere


def select_backward(g: Array, shape: tuple[int, ...], axis: int, index: int) -> Array:
    out = np.zeros(shape, g.dtype)
    out[(*leading(axis), index)] = g
    return out


def slice_backward(g: Array, shape: tuple[int, ...], axis: int, start: int, stop: int, step: int) -> Array:
    out = np.zeros(shape, g.dtype)
    out[(*leading(axis), slice(start, stop, step))] = g
    return out


def diagonal_backward(g: Array, shape: tuple[int, ...], offset: int, axis1: int, axis2: int) -> Array:
    out = np.zeros(shape, g.dtype)
    diagonal(out, offset, axis1, axis2)[...] = g
    return out


def windows_backward(g: Array, shape: tuple[int, ...], axis: int, size: int, step: int) -> Array:
    """Add windows back where they came from."""
    if not shape:
        return np.asarray(g.sum(), g.dtype)
    out = np.zeros(shape, g.dtype)
    count = g.shape[axis]
    if count < size:  # a few long windows, one after the other
        for place in range(count):
            window = np.moveaxis(g[(*leading(axis), place)], -1, axis)
            out[(*leading(axis), slice(place * step, place * step + size))] += window
        return out
    for within in range(size):
        out[(*leading(axis), slice(within, within + (count - 1) * step + 1, step))] += g[..., within]
    return out


# --- rearrangements


def copy(x: Array) -> Array:
    """Return a copy in x's own memory order, if x is dense."""
    if x.flags.c_contiguous:
        return x.copy()
    if 0 not in x.strides:
        return x.copy("K")
    out = empty_copy_of(x)
    out[...] = x
    return out


def contiguous(x: Array) -> Array:
    """Return a copy in C order."""
    return x.copy("C")


def flip(x: Array, axis: int | Sequence[int] | None = None) -> Array:
    """Reverse along axes, as a copy, as in the other namespaces: a hook may write to its argument."""
    return copy(np.flip(x if 0 not in x.strides else copy(x), axis))  # type: ignore[arg-type]


def roll(x: Array, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    """Roll along axes, in C order."""
    return np.roll(x if x.flags.c_contiguous else contiguous(x), shifts, axes)


def rot90(x: Array, k: int, axes: tuple[int, int]) -> Array:
    """Rotate k times, as a copy: the array reversed, with its axes swapped."""
    if k % 4 == 0:
        return contiguous(x)
    reversed_along = axes if k % 4 == 2 else axes[1:] if k % 4 == 1 else axes[:1]
    turned = flip(x, reversed_along)
    return turned if k % 4 == 2 else turned.swapaxes(*axes)


def concatenate(arrays: Sequence[Array], axis: int = 0) -> Array:
    """Concatenate arrays along an axis, in C order even where all of them are transposed."""
    joined = _concatenate(arrays, axis)
    return joined if joined.flags.c_contiguous else joined.copy("C")


def stack(arrays: Sequence[Array], axis: int = 0) -> Array:
    """Stack arrays of one shape along a new axis."""
    shape = arrays[0].shape
    if axis < 0:
        axis += len(shape) + 1
    out = np.empty((*shape[:axis], len(arrays), *shape[axis:]), arrays[0].dtype)
    lead = leading(axis)
    for place, array in enumerate(arrays):
        out[(*lead, place)] = array
    return out


def tile(x: Array, repeats: tuple[int, ...]) -> Array:
    """Tile x; one number per axis of the result."""
    lead = len(repeats) - x.ndim
    shape = (1,) * lead + x.shape
    pairs = [each for n, m in zip(repeats, shape, strict=True) for each in (n, m)]
    ones = [each for m in shape for each in (1, m)]
    copy = np.array(broadcast_to(x.reshape(ones), tuple(pairs)), order="C")  # the reshape alone may be a view
    return copy.reshape([n * m for n, m in zip(repeats, shape, strict=True)])


def diag_embed(x: Array, offset: int, axis1: int, axis2: int) -> Array:
    """Zeros whose diagonal along two new axes is x's last axis."""
    n = x.shape[-1] + abs(offset)
    shape = list(x.shape[:-1])
    for axis in sorted((axis1, axis2)):
        shape.insert(axis, n)
    return diagonal_backward(x, tuple(shape), offset, axis1, axis2)


def pad(x: Array, widths: tuple[tuple[int, int], ...], value: Any) -> Array:
    """Pad x with a value; a negative width crops."""
    inner, outer, shape = [], [], []
    for n, (before, after) in zip(x.shape, widths, strict=True):
        shape.append(n + before + after)
        outer.append(slice(max(before, 0), max(before, 0) + n + min(before, 0) + min(after, 0)))
        inner.append(slice(max(-before, 0), n - max(-after, 0)))
    out = np.full(shape, value, x.dtype)
    out[tuple(outer)] = x[tuple(inner)]
    return out


def cast(x: Array, dtype: np.dtype[Any]) -> Array:
    """Return a fresh copy in a different dtype; complex numbers lose their imaginary part, numbers out of range wrap."""
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        x = x.real
    if 0 in x.strides:  # where dims repeat, NumPy's order differs from PyTorch's
        x = copy(x)
    if dtype.kind in "iu" and x.dtype.kind in "fV":
        with np.errstate(invalid="ignore"):
            return x.astype(dtype)
    if dtype == _NO_INFINITY and x.dtype != dtype:
        x = np.clip(x, -448, 448)  # the largest number it holds; beyond it would be nan
    return x.astype(dtype)
