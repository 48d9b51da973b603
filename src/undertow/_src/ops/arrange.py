"""Public functions that move elements: repeating, rotating, triangles, diagonals, padding, plain copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray, lying
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import (
    as_int,
    as_ints,
    check_tensor,
    invalid_combination,
    is_int,
    must_be,
    no_kernel,
    spread_ints,
    wrap_dim,
    wrap_dims,
    wrap_real_dim,
)
from undertow._src.engine.outputs import into
from undertow._src.engine.writes import apply_in_place
from undertow._src.ops.broadcasting import expand_to, unsqueeze
from undertow._src.ops.image_order import ordered_like
from undertow._src.ops.public import overloaded, public
from undertow._src.ops.shape import reshape_to
from undertow._src.ops.slicing import diagonal_dims
from undertow._src.rules import arrange as rules
from undertow._src.rules import index as index_rules
from undertow._src.rules import shape as shape_rules
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.devices import cpu, get_default_device
from undertow._src.types.dtypes import DTYPE_OF, as_dtype
from undertow._src.types.layouts import CHANNELS_LAST, axes_of, contiguous_format, memory_format, preserve_format

if TYPE_CHECKING:
    from undertow._src.rules.rule import Rule
    from undertow._src.types.aliases import Device, Number, _size
    from undertow._src.types.dtypes import dtype
    from undertow._tensor import Tensor

# --- copies


def _in_format(input: Tensor, order: object, name: str) -> Tensor:
    """Return a copy with the memory order of a format."""
    if order is None or order is preserve_format:
        result = apply(rules.clone, input)
        if type(result._array) is DeviceArray:
            result._array.lie_like([input._array])
        return result
    if not isinstance(order, memory_format):
        raise must_be("torch.memory_format", order, name, "memory_format")
    if order is contiguous_format:
        return apply(rules.contiguous, input)
    axes = axes_of(order, input._array.ndim)
    result = apply(rules.reordered, input, axes=axes)
    if type(result._array) is DeviceArray:
        result._array.lie_in_order_of(axes)
    return result


@public
def clone(input: Tensor, *, memory_format: memory_format | None = None) -> Tensor:
    """Return a copy that gradients flow through."""
    check_tensor(input, "clone")
    return _in_format(input, memory_format, "clone")


@public
def contiguous(self: Tensor, *, memory_format: Any = contiguous_format) -> Tensor:
    """Return the tensor itself if it is contiguous, else a contiguous copy."""
    array = lying(self._array)
    axes = CHANNELS_LAST.get(memory_format) if not isinstance(memory_format, (int, str)) else None
    if axes is not None and array.ndim == len(axes):
        if array.transpose(axes).flags.c_contiguous:
            return self
    elif memory_format is preserve_format:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    elif memory_format is contiguous_format and array.flags.c_contiguous:
        return self
    return _in_format(self, memory_format, "contiguous")


# --- repeating


def _repeated(input: Tensor, repeats: tuple[int, ...]) -> Tensor:
    shape = input._array.shape
    if len(repeats) < len(shape):
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of those of the tensor")
    sizes = (1,) * (len(repeats) - len(shape)) + shape
    target = [n * m for n, m in zip(repeats, sizes, strict=True)]
    for n in target:
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {target}")
    return apply(rules.repeat, input, repeats=repeats)


@public
def repeat(self: Tensor, *repeats: object, **named: object) -> Tensor:
    """Return a tensor repeated along each dim, and along new leading dims."""
    return _repeated(self, spread_ints((*repeats, *named.values()), "repeat", "repeats"))


def _tiled(input: Tensor, dims: tuple[int, ...]) -> Tensor:
    return _repeated(input, (1,) * (input._array.ndim - len(dims)) + dims)


@public
def tile(input: Tensor, dims: _size) -> Tensor:
    """Return `repeat`, with ones for leading dims that are left out."""
    check_tensor(input, "tile")
    return _tiled(input, as_ints(dims, "tile", "dims", 2))


@public
def tile_method(self: Tensor, *dims: object, **named: object) -> Tensor:
    """Return `repeat`, with ones for leading dims that are left out."""
    return _tiled(self, spread_ints((*dims, *named.values()), "tile", "dims"))


def _counts(repeats: Any, output_size: int | None) -> Any:
    """Return indices for counts: [0, 0, 2] for [2, 0, 1]."""
    array = repeats._array
    if array.dtype.kind not in "iu" or array.itemsize < 4:
        raise no_kernel("repeat_interleave_cpu", repeats)
    if array.size and array.min() < 0:
        raise RuntimeError("repeats can not be negative")
    result = np.repeat(np.arange(array.size, dtype=array.dtype), array)
    if output_size is not None and output_size != result.size:
        raise RuntimeError("allocated size does not match required size")
    return wrap(result)


@overloaded
def repeat_interleave(
    input: Tensor, repeats: Tensor | int | None = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Repeat every element (or every slice of a dim); for counts alone, return the indices to take."""
    check_tensor(input, "repeat_interleave")
    if repeats is None:
        if input._array.ndim != 1:
            raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
        return _counts(input, output_size)
    if not (is_int(repeats) or isinstance(repeats, TensorCore)):
        raise invalid_combination("repeat_interleave", (repeats,))
    if dim is None:
        input, dim = reshape_to(input, (-1,)), 0
    dim = wrap_dim(as_int(dim, "repeat_interleave", "dim", 3), input._array.ndim)
    if not input._array.ndim:
        input = reshape_to(input, (1,))
    n = input._array.shape[dim]
    if isinstance(repeats, TensorCore):
        counts = repeats
        if counts._array.ndim > 1:
            raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
        if counts._array.size == 1:
            counts = expand_to(reshape_to(counts, (1,)), (n,))
        elif counts._array.size != n:
            raise RuntimeError(
                f"repeats must have the same size as input along dim, but got {counts._array.size} of them, and "
                f"input.size({dim}) = {n}"
            )
        return apply(index_rules.index_select, input, _counts(counts, output_size), dim=dim)
    if repeats < 0:
        raise RuntimeError("Repeats must be non-negative")
    shape = input._array.shape
    wide = expand_to(unsqueeze(input, dim + 1), (*shape[: dim + 1], repeats, *shape[dim + 1 :]))
    return apply(rules.contiguous, wide).flatten(dim, dim + 1)


# --- rotating


def _flipped(input: Tensor, dims: tuple[int, ...]) -> Tensor:
    dims = wrap_dims(dims, input._array.ndim)
    return apply(rules.flip, input, dims=dims if input._array.ndim else ())


@public
def flip(input: Tensor, dims: _size) -> Tensor:
    """Return a copy with the order along some dims reversed."""
    check_tensor(input, "flip")
    return _flipped(input, as_ints(dims, "flip", "dims", 2))


@public
def flip_method(self: Tensor, *dims: object, **named: object) -> Tensor:
    """Return a copy with the order along some dims reversed."""
    return _flipped(self, spread_ints((*dims, *named.values()), "flip", "dims"))


@public
def fliplr(input: Tensor) -> Tensor:
    """Return a copy with the order along dim 1 reversed."""
    if input._array.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return _flipped(input, (1,))


@public
def flipud(input: Tensor) -> Tensor:
    """Return a copy with the order along dim 0 reversed."""
    if input._array.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return _flipped(input, (0,))


@public
def roll(input: Any, shifts: object, dims: Any = ()) -> Tensor:
    """Return a copy rolled along dims, elements re-entering at the opposite end; without dims, rolled flat."""
    check_tensor(input, "roll")
    shifts = (shifts,) if is_int(shifts) else as_ints(shifts, "roll", "shifts", 2)
    dims = (dims,) if is_int(dims) else as_ints(dims, "roll", "dims", 3)
    if not shifts:
        raise RuntimeError("`shifts` required")
    if len(shifts) != len(dims) and (dims or len(shifts) != 1):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    dims = tuple([wrap_real_dim(dim, input._array.ndim) for dim in dims])
    return ordered_like(apply(rules.roll, input, shifts=shifts, dims=dims), input)


@public
def rot90(input: Tensor, k: int = 1, dims: _size = (0, 1)) -> Tensor:
    """Return a copy rotated k times by 90 degrees from the first dim towards the second."""
    check_tensor(input, "rot90")
    dims = as_ints(dims, "rot90", "dims", 3)
    ndim = input._array.ndim
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {ndim}")
    if dims[0] == dims[1] or abs(dims[0] - dims[1]) == ndim:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    dims = tuple([wrap_dim(dim, ndim) for dim in dims])
    return apply(rules.rot90, input, k=as_int(k, "rot90", "k", 2), dims=dims)


# --- triangles and diagonals


def _triangle(rule: Rule) -> tuple[Any, Any]:
    name = rule.name

    def check(input: Tensor, diagonal: object) -> int:
        check_tensor(input, name)
        diagonal = as_int(diagonal, name, "diagonal", 2)
        if input._array.ndim < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
        return diagonal

    def function(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
        diagonal = check(input, diagonal)
        if out is None:
            return apply(rule, input, diagonal=diagonal)
        return into(out, lambda: apply(rule, input, diagonal=diagonal), (input,), name)

    def method(self: Tensor, diagonal: int = 0) -> Any:
        return apply_in_place(rule, self, diagonal=check(self, diagonal))

    half = "lower" if name == "tril" else "upper"
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Matrices with only their {half} triangle kept."
    method.__name__ = method.__qualname__ = name + "_"
    method.__doc__ = f"Keeps only the {half} triangle, in place."
    return public(function), public(method)


tril, tril_ = _triangle(rules.tril)
triu, triu_ = _triangle(rules.triu)


def _triangle_indices(name: str, positions: Callable[..., Any]) -> Callable[..., Any]:
    def function(
        row: int, col: int, offset: int = 0, *, dtype: dtype | None = None, device: Device = None, layout: Any = None
    ) -> Tensor:
        row, col = as_int(row, name, "row", 1), as_int(col, name, "col", 2)
        for label, n in (("row", row), ("col", col)):
            if n < 0:
                raise RuntimeError(f"{label} must be non-negative, got{n}")
        kind = np.dtype(np.int64) if dtype is None else as_dtype(dtype, name, "dtype").numpy
        if kind.kind not in "iu":
            raise NotImplementedError(f"\"{name}\" not implemented for '{DTYPE_OF[kind].scalar_name}'")
        found = wrap(np.array(positions(row, as_int(offset, name, "offset", 3), col)).astype(kind).reshape(2, -1))
        where = get_default_device() if device is None else device
        return found if where is cpu else found.to(where)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Rows and columns of the elements of a triangle."
    return public(function)


tril_indices = _triangle_indices("tril_indices", np.tril_indices)
triu_indices = _triangle_indices("triu_indices", np.triu_indices)


@public
def diag(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Return the diagonal of a matrix, or a matrix with a vector as its diagonal."""
    check_tensor(input, "diag")
    diagonal = as_int(diagonal, "diag", "diagonal", 2)
    ndim = input._array.ndim
    if ndim not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {ndim}D")
    rule = rules.diag_embed if ndim == 1 else shape_rules.diagonal_copy
    compute = lambda: apply(rule, input, offset=diagonal, dim1=0, dim2=1)
    return compute() if out is None else into(out, compute, (input,), "diagonal_copy" if ndim == 2 else "diag_embed")


@public
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices along two new dims whose diagonals are the last dim."""
    check_tensor(input, "diag_embed")
    offset, dim1, dim2 = diagonal_dims(input._array.ndim + 1, offset, dim1, dim2, "diag_embed")
    return apply(rules.diag_embed, input, offset=offset, dim1=dim1, dim2=dim2)


@public
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """Return a matrix whose diagonal is all of a tensor's elements."""
    check_tensor(input, "diagflat")
    return diag(reshape_to(input, (-1,)), offset)


# --- padding


@public
def constant_pad_nd(input: Tensor, pad: _size, value: Number | complex = 0) -> Tensor:
    """Return a tensor padded with a value; widths come in pairs from the last dim on, and negative ones crop."""
    check_tensor(input, "constant_pad_nd")
    pad = as_ints(pad, "constant_pad_nd", "pad", 2)
    shape = input._array.shape
    if len(pad) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
    if len(pad) > 2 * len(shape):
        raise RuntimeError(
            f"Length of pad should be no more than twice the number of the input's dims. It is {len(pad)} "
            f"for {len(shape)} dims."
        )
    pairs = [(pad[place], pad[place + 1]) for place in range(0, len(pad), 2)]
    widths = tuple([(0, 0)] * (len(shape) - len(pairs)) + pairs[::-1])
    for axis, (n, (before, after)) in enumerate(zip(shape, widths, strict=True)):
        if n + min(before, 0) + min(after, 0) < 0:
            raise RuntimeError(
                f"narrow(): length must be non-negative. Padding by {before} and {after} leaves nothing of the {n} "
                f"elements of dim {axis}."
            )
    return apply(rules.constant_pad_nd, input, pad=pad, value=value, widths=widths)


class ArrangeMethods(TensorCore):
    """Rearrangements and copies as methods of a tensor."""

    __slots__ = ()

    clone, contiguous, repeat, tile, repeat_interleave = clone, contiguous, repeat, tile_method, repeat_interleave
    flip, fliplr, flipud, roll, rot90 = flip_method, fliplr, flipud, roll, rot90
    tril, triu, tril_, triu_ = tril, triu, tril_, triu_
    diag, diag_embed, diagflat = diag, diag_embed, diagflat
