"""Public functions that return views of parts of a tensor: select, narrow, split, diagonal, windows, strides."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from undertow._src.arrays.device.array import DeviceArray, lying
from undertow._src.arrays.device.memory import NeedsValue
from undertow._src.arrays.numpy import shape as numpy_shape
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import (
    as_int,
    as_ints,
    check_tensor,
    invalid_combination,
    is_int,
    wrap_dim,
    wrap_real_dim,
)
from undertow._src.ops.public import overloaded, public
from undertow._src.ops.views import apply_view_in_place, view_of, views_of
from undertow._src.rules import shape as rules
from undertow._src.rules.rule import Spec, twin
from undertow._src.tensor.core import TensorCore, View, ndarray
from undertow._src.types.sizes import DefaultInt, wrapped_dim
from undertow.storage import extent_of, flat_memory, layout_of, offset_of, root_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from undertow._src.rules.rule import Rule
    from undertow._src.types.aliases import _size
    from undertow._tensor import Tensor

END = 2**63 - 1  # the end of a slice without one


# --- one index, one range


@public
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """One index along a dim, which goes away."""
    check_tensor(input, "select")
    array = lying(input._array)
    if not array.ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(as_int(dim, "select", "dim", 2), array.ndim)
    index = as_int(index, "select", "index", 3)
    n = array.shape[dim]
    if not -n <= index < n:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(array.shape)} at dimension {dim}"
        )
    if index < 0:
        index = wrapped_dim(index, n)
    return view_of(rules.select, input, numpy_shape.select(array, dim, index), {"dim": dim, "index": index})


def slice_dim(input: Tensor, dim: int, start: int = 0, end: int = END, step: int = 1) -> Tensor:
    """Return a range of one dim; the arguments are checked and start is not negative."""
    value = numpy_shape.slice_along(lying(input._array), dim, start, end, step)
    return view_of(rules.slice, input, value, {"dim": dim, "start": start, "end": end, "step": step})


@overloaded
def narrow(input: Tensor, dim: int, start: int | Tensor, length: int) -> Tensor:
    """Return the range of a dim that begins at start and has a length."""
    check_tensor(input, "narrow")
    shape = input._array.shape
    if not shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if isinstance(start, TensorCore) and (start._array.ndim or start._array.dtype.kind not in "iu"):
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    if not (is_int(dim) and is_int(start) and is_int(length)):
        raise invalid_combination("narrow", (dim, start, length))
    start, length = as_int(start, "narrow", "start"), as_int(length, "narrow", "length")
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    dim = wrap_dim(as_int(dim, "narrow", "dim"), len(shape))
    start = start_of(start, length, shape[dim])
    return slice_dim(input, dim, start, start + length)


def start_of(start: int, length: int, n: int) -> int:
    """Return the start of a range of a dim of n elements, counted from the front; refuse one that exceeds the dim."""
    if not -n <= start <= n:
        raise IndexError(f"start out of range (expected to be in range of [{-n}, {n}], but got {start})")
    if start < 0:
        start += n
    if length < 0 or start + length > n:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    return start


# --- several parts


def _split_dim(input: Tensor, dim: int, name: str) -> int:
    if not input._array.ndim:
        raise RuntimeError(f"{name} expects at least a 1-dimensional tensor")
    return wrap_dim(as_int(dim, name, "dim", 3), input._array.ndim)


def _split_evenly(input: Tensor, split_size: int, dim: int) -> tuple[Any, ...]:
    if split_size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={split_size}")
    n = input._array.shape[dim]
    if split_size == 0:
        if n:
            raise RuntimeError(f"split_size can only be 0 if dimension size is 0, which here is {n}")
        split_size = 1
    points = rules.split_points(input._array, split_size, dim)
    return _parts(rules.split, input, points, {"split_size": split_size, "dim": dim})


def _parts(rule: Rule, input: Tensor, points: list[int], statics: dict[str, Any]) -> tuple[Any, ...]:
    return views_of(rule, input, rules.parts(numpy_shape, lying(input._array), points, statics["dim"]), statics)


@public
def split(input: Tensor, split_size: Any, dim: int = 0) -> tuple[Any, ...]:
    """Parts of one size along a dim (the last may be shorter), or parts of the given sizes."""
    check_tensor(input, "split")
    if is_int(split_size):
        dim = _split_dim(input, dim, "split")
        return _split_evenly(input, as_int(split_size, "split", "split_size"), dim)
    return split_with_sizes(input, split_size, dim)


@public
def split_with_sizes(input: Tensor, split_sizes: _size, dim: int = 0) -> tuple[Any, ...]:
    """Parts of the given sizes along a dim."""
    check_tensor(input, "split_with_sizes")
    sizes = as_ints(split_sizes, "split_with_sizes", "split_sizes", 2)
    dim = _split_dim(input, dim, "split_with_sizes")
    n = input._array.shape[dim]
    if any(size < 0 for size in sizes):
        raise RuntimeError(
            f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={list(sizes)}"
        )
    if sum(sizes) != n:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension {dim}), but "
            f"got split_sizes={list(sizes)}"
        )
    return _parts(rules.split_with_sizes, input, rules.running_sums(sizes), {"split_sizes": sizes, "dim": dim})


@public
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """Split a tensor along a dim into at most `chunks` parts of one size; the last may be smaller."""
    check_tensor(input, "chunk")
    chunks = as_int(chunks, "chunk", "chunks", 2)
    if not input._array.ndim:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    dim = _split_dim(input, dim, "chunk")
    n = input._array.shape[dim]
    size = (n + chunks - 1) // chunks
    if size == 0:
        sizes = (0,) * chunks
        return _parts(rules.split_with_sizes, input, rules.running_sums(sizes), {"split_sizes": sizes, "dim": dim})
    return _split_evenly(input, size, dim)


@overloaded
def tensor_split(
    input: Tensor, indices_or_sections: int | Sequence[int] | None = None, dim: int = 0, *,
    sections: int | None = None, indices: _size | None = None, tensor_indices_or_sections: Tensor | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """So many parts along a dim, of sizes that differ by at most one, or parts between the given indices."""
    check_tensor(input, "tensor_split")
    indices_or_sections = _where_to_split(
        "tensor_split", input, (indices_or_sections, sections, indices, tensor_indices_or_sections)
    )
    if isinstance(indices_or_sections, TensorCore):
        listed = indices_or_sections._array.tolist()
        indices_or_sections = listed if isinstance(listed, int) else tuple(listed)
    shape = input._array.shape
    if not shape:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    dim = wrap_dim(as_int(dim, "tensor_split", "dim", 3), len(shape))
    n = shape[dim]
    if is_int(indices_or_sections):
        sections = as_int(indices_or_sections, "tensor_split", "sections")
        if sections <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {sections}")
        size, more = divmod(n, sections)
        points = [nr * size + min(nr, more) for nr in range(sections + 1)]
    elif isinstance(indices_or_sections, (tuple, list)):
        points = [0, *as_ints(indices_or_sections, "tensor_split", "indices"), END]
    else:
        raise invalid_combination("tensor_split", (input, indices_or_sections))
    parts = []
    for start, end in pairwise(points):
        start = min(max(start + n, 0) if start < 0 else start, n)
        end = max(min(max(end + n, 0) if end < 0 else end, n), start) if end != END else END
        parts.append(slice_dim(input, dim, start, end))
    return tuple(parts)


def _where_to_split(name: str, input: Tensor, spellings: tuple[Any, ...]) -> Any:
    """Return the one argument that was given, under its name in one of PyTorch's signatures."""
    given = [value for value in spellings if value is not None]
    if len(given) != 1:
        raise invalid_combination(name, (input, *given))
    return given[0]


def _split_along(name: str, least: int, dim: int) -> Callable[..., Any]:
    """`hsplit`, `vsplit` and `dsplit`: tensor_split along a fixed dim, even parts only."""

    def function(
        input: Tensor, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None
    ) -> tuple[Tensor, ...]:
        check_tensor(input, name)
        indices_or_sections = _where_to_split(name, input, (indices_or_sections, sections, indices))
        if isinstance(indices_or_sections, str):
            raise invalid_combination(name, (input, indices_or_sections))
        ndim = input._array.ndim
        if ndim < least:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {ndim} dimensions!"
            )
        axis = 0 if name == "hsplit" and ndim == 1 else dim
        if is_int(indices_or_sections):
            n, count = input._array.shape[axis], int(indices_or_sections)
            if count <= 0 or n % count:
                raise RuntimeError(
                    f"torch.{name} attempted to split along dimension {axis}, but the size of the dimension {n} is not "
                    f"divisible by the split_size {count}!"
                )
        return tensor_split(input, indices_or_sections, axis)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"tensor_split along dim {dim}."
    return overloaded(function)


hsplit, vsplit, dsplit = _split_along("hsplit", 1, 1), _split_along("vsplit", 2, 0), _split_along("dsplit", 3, 2)


@public
def unbind(input: Tensor, dim: int = 0) -> tuple[Any, ...]:
    """Every index along a dim, each without that dim."""
    check_tensor(input, "unbind")
    dim = wrap_real_dim(as_int(dim, "unbind", "dim", 2), input._array.ndim)
    array, lead = lying(input._array), numpy_shape.leading(dim)
    values = tuple([array[(*lead, nr, ...)] for nr in range(array.shape[dim])])
    return views_of(rules.unbind, input, values, {"dim": dim})


# --- diagonals, windows, strides


def diagonal_dims(ndim: int, offset: Any, dim1: Any, dim2: Any, name: str) -> tuple[int, int, int]:
    offset = as_int(offset, name, "offset", 2)
    given = as_int(dim1, name, "dim1", 3), as_int(dim2, name, "dim2", 4)
    dims = wrap_dim(given[0], ndim), wrap_dim(given[1], ndim)
    if dims[0] == dims[1]:
        raise RuntimeError(f"diagonal dimensions cannot be identical {given[0]}, {given[1]}")
    return offset, dims[0], dims[1]


@public
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Return the diagonal of two dims, as a new last dim."""
    check_tensor(input, "diagonal")
    offset, dim1, dim2 = diagonal_dims(input._array.ndim, offset, dim1, dim2, "diagonal")
    return apply(rules.diagonal, input, offset=offset, dim1=dim1, dim2=dim2)


@public
def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of a size along a dim, a step apart; positions within a window become the last dim."""
    shape = self._array.shape
    dimension = wrap_dim(as_int(dimension, "unfold", "dimension", 1), len(shape))
    size, step = as_int(size, "unfold", "size", 2), as_int(step, "unfold", "step", 3)
    n = shape[dimension] if shape else 1
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > n:
        raise RuntimeError(f"maximum size for tensor at dimension {dimension} is {n} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    return apply(rules.unfold, self, dimension=dimension, size=size, step=step)


def strides_wanted(
    input: Tensor, size: object, stride: int | _size, storage_offset: object, name: str
) -> dict[str, Any]:
    """Return the checked statics of an `as_strided` call."""
    check_tensor(input, name)
    size, stride = as_ints(size, name, "size", 2), as_ints(stride, name, "stride", 3)
    array = input._array
    here = offset_of(array)
    offset = DefaultInt(here) if storage_offset is None else as_int(storage_offset, name, "storage_offset", 4)
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if any(step < 0 for step in stride):
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}")
    if any(n < 0 for n in size):
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(size)} and strides={list(stride)}")
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    last = offset + sum([(n - 1) * step for n, step in zip(size, stride, strict=True)]) + 1 if 0 not in size else 0
    held = extent_of(root_of(array))
    if last * array.itemsize > held:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and itemsize "
            f"{array.itemsize} require {last * array.itemsize} bytes and are out of bounds for storage of size {held}"
        )
    return {"size": size, "stride": stride, "storage_offset": offset, "layout": layout_of(array)}


def _strided_view(array: Any, statics: dict[str, Any]) -> Any:
    size, strides = statics["size"], [step * array.itemsize for step in statics["stride"]]
    if 0 in size:
        return numpy_shape.restride(array.reshape(-1)[:0], size, strides)
    return ndarray(size, array.dtype, flat_memory(root_of(array)), statics["storage_offset"] * array.itemsize, strides)


@public
def as_strided(input: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """Return a view of a tensor's memory with any size, strides and offset, counted in elements."""
    statics = strides_wanted(input, size, stride, storage_offset, "as_strided")
    if type(input._array) is DeviceArray:
        if not input._array.lies_in_order():
            raise NeedsValue(
                f"as_strided was called on a tensor of shape {list(input._array.shape)} that is not contiguous, which a "
                "compiled step and a device do not support. Call contiguous() first."
            )
        return apply(rules.as_strided, input, **statics)
    result = view_of(rules.as_strided, input, _strided_view(input._array, statics), statics)
    view = result._view
    if view is not None and len(view.steps) > 1:  # it may show elements that the view before it did not
        base = view.base._array
        step = (rules.as_strided, {**statics, "layout": layout_of(base)}, Spec(base.shape, base.dtype), 0)
        result._view = View(view.base, (step,), view.version, view.origin)
    return result


_as_strided_in_place = twin(rules.as_strided, "AsStridedBackward1", view=True)


@public
def as_strided_(self: Tensor, size: _size, stride: _size, storage_offset: int | None = None) -> Tensor:
    """Give a tensor another size, strides and offset in its memory."""
    statics = strides_wanted(self, size, stride, storage_offset, "as_strided_")
    value = _strided_view(self._array, statics)
    result = apply_view_in_place(_as_strided_in_place, self, **statics)
    result._array = value
    return result


class PartMethods(TensorCore):
    """Parts of a tensor as its methods."""

    __slots__ = ()

    select, narrow, diagonal, unfold = select, narrow, diagonal, unfold
    as_strided, as_strided_ = as_strided, as_strided_
    split, split_with_sizes, chunk, tensor_split, unbind = split, split_with_sizes, chunk, tensor_split, unbind
    hsplit, vsplit, dsplit = hsplit, vsplit, dsplit
