"""Keys in square brackets: the view that ints, slices, None and Ellipsis take, the tensors left to index it, and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.numpy.shape import leading, slice_along
from undertow._src.base import tracer
from undertow._src.base.modes import slow_path
from undertow._src.base.sites import warn
from undertow._src.engine.arguments import type_name, wrap_dim
from undertow._src.ops.broadcasting import unsqueeze
from undertow._src.ops.placement import moved
from undertow._src.ops.scatter import check_in_range
from undertow._src.ops.slicing import END
from undertow._src.ops.views import view_of
from undertow._src.rules import shape as rules
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.devices import cpu
from undertow._src.types.sizes import wrapped_dim

if TYPE_CHECKING:
    from undertow._tensor import Tensor

# --- views


def select_item(x: Tensor, dim: int, index: int, place: int = 0) -> Tensor:
    """Return x[index] along a dim; `place` is the index's position in the key, which errors name."""
    array = x._array
    n = array.shape[dim] if dim < array.ndim else 0  # a second Ellipsis can lead beyond the last dim
    at = wrapped_dim(index, n) if index < 0 else index
    if not 0 <= at < n:
        raise IndexError(f"index {index} is out of bounds for dimension {place} with size {n}")
    return view_of(rules.select, x, array[(*leading(dim), at, ...)], {"dim": dim, "index": at})


def slice_item(x: Tensor, dim: int, key: slice, keep: bool) -> Tensor:
    """Return x[key] along a dim; for a full slice x itself, unless the view is to be kept."""
    start, end, step = key.start, key.stop, key.step
    start = 0 if start is None else _slice_int(start)
    end = END if end is None else _slice_int(end)
    step = 1 if step is None else _slice_int(step)
    if step <= 0:
        raise ValueError("slice step cannot be zero" if step == 0 else "step must be greater than zero")
    array = x._array
    n = array.shape[dim] if dim < array.ndim else 0
    if not keep and start == 0 and step == 1 and end >= n:
        return x
    wrap_dim(dim, array.ndim)
    value = slice_along(array, dim, start, end, step)
    return view_of(rules.slice, x, value, {"dim": dim, "start": start, "end": end, "step": step})


def _slice_int(value: object) -> int:
    if type(value) is int:
        return value
    if isinstance(value, TensorCore):
        return int(value._array)
    if not hasattr(value, "__index__"):
        raise TypeError("slice indices must be integers or None or have an __index__ method")
    return value.__index__()


# --- keys


def is_mask(tensor: Any) -> bool:
    return tensor._array.dtype.kind == "b" or tensor._array.dtype == np.uint8


def _as_tuple(key: object) -> tuple[Any, ...]:
    """Return a key as the tuple it stands for: a short list that holds anything but numbers counts as one."""
    if isinstance(key, tuple):
        return key
    if isinstance(key, (list, range)) and len(key) < 32:
        for item in key:
            if (
                item is None
                or item is Ellipsis
                or isinstance(item, (slice, TensorCore, np.ndarray, list, tuple, range))
            ):
                warn(
                    "Using a non-tuple sequence for multidimensional indexing is deprecated: x[seq] is treated as "
                    "x[tuple(seq)] here. Write that, or x[torch.tensor(seq)]."
                )
                return tuple(key)
    return (key,)


def listed(key: Any) -> Tensor:
    """Return a list of numbers (or of lists of them) as an index tensor."""
    if isinstance(key, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(key).__name__}'")
    array = np.asarray(_plain(key)) if not isinstance(key, np.ndarray) else key
    if array.dtype.kind not in "bi":
        if array.dtype.kind in "US":
            raise TypeError(f"new(): invalid data type '{'str' if array.dtype.kind == 'U' else 'bytes'}'")
        if array.dtype != np.uint8:
            array = array.astype(np.int64)
    return wrap(array)


def _plain(key: object) -> Any:
    if isinstance(key, TensorCore):
        return key._array.tolist()
    if isinstance(key, (list, tuple, range)):
        return [_plain(item) for item in key]
    return key


def _normal(item: object) -> Any:
    """One entry of a key as an int, slice, None, Ellipsis, bool or tensor."""
    kind = type(item)
    if kind is int or kind is slice or item is None or item is Ellipsis or kind is bool:
        return item
    if isinstance(item, TensorCore):
        return _normal_tensor(item)
    if isinstance(item, np.ndarray):
        return _normal_tensor(listed(item))
    if not isinstance(item, np.bool_) and hasattr(item, "__index__"):
        return item.__index__()
    if isinstance(item, (list, tuple, range, str, bytes)):
        return listed(item)
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got "
        f"{type_name(item)})"
    )


def _normal_tensor(tensor: Any) -> Any:
    """Return a 0-dim tensor as an int or a bool."""
    array = tensor._array
    if array.ndim or array.dtype.kind not in "biu":
        return tensor
    return bool(array) if is_mask(tensor) else int(array)


def slicing(x: Any, key: object, keep: bool) -> tuple[Any, list[Any]]:
    """Return the view that a key's ints, slices, None and Ellipsis take, and the tensors left to index it.

    `keep`: a lone slice is a view even if it takes everything.
    """
    entries = [_normal(item) for item in _as_tuple(key)]
    consumed = 0
    for item in entries:
        if isinstance(item, TensorCore):
            consumed += item._array.ndim if is_mask(item) else 1
        elif item is not None and item is not Ellipsis and item is not True and item is not False:
            consumed += 1
    ndim = x._array.ndim
    lone = not isinstance(key, (tuple, list))
    if consumed > ndim:
        if lone and type(entries[0]) is int and not isinstance(key, (TensorCore, np.ndarray)):
            if entries[0]:
                raise IndexError(f"index {entries[0]} is out of bounds for dimension 0 with size 0")
            raise IndexError("invalid index of a 0-dim tensor. It holds one number, which tensor.item() gives.")
        if lone and type(key) is slice:
            raise IndexError("slice() cannot be applied to a 0-dim tensor.")
        raise IndexError(f"too many indices for tensor of dimension {ndim}")
    dim = 0
    indices: list[Any] = []
    for place, item in enumerate(entries):
        if type(item) is int:
            x = select_item(x, dim, item, place)
        elif type(item) is slice:
            x = slice_item(x, dim, item, keep and lone)
            dim += 1
        elif item is Ellipsis:
            dim += ndim - consumed  # a second one skips as many dims again
        elif item is None:
            x = unsqueeze(x, dim)
            dim += 1
        else:
            if type(item) is bool:
                x = unsqueeze(x, dim)
                item = wrap(np.zeros(1 if item else 0, np.int64))
            indices += [None] * (dim - _axes_of(indices)) + [item]
            dim += item._array.ndim if is_mask(item) else 1
    return x, indices


def _axes_of(indices: list[Any]) -> int:
    return sum([each._array.ndim if each is not None and is_mask(each) else 1 for each in indices])


# --- tensors as indices


def check_indices(x: Tensor, indices: list[Any]) -> None:
    """Refuse index tensors of the wrong dtype and masks of the wrong shape."""
    shape, axis = x._array.shape, 0
    for each in indices:
        if each is None:
            axis += 1
            continue
        array = each._array
        if not is_mask(each):
            if array.dtype not in (np.int64, np.int32):
                raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
            axis += 1
            continue
        if array.dtype == np.uint8:
            warn("indexing with dtype torch.uint8 is now deprecated, please convert the mask to torch.bool.")
        for place, n in enumerate(array.shape):
            if axis + place >= len(shape) or shape[axis + place] != n:
                raise IndexError(
                    f"The shape of the mask {list(array.shape)} at index {place} does not match that of the indexed "
                    f"tensor {list(shape)} at index {axis + place}"
                )
        axis += array.ndim
    if axis > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)} (got {axis})")


def beside(x: Tensor, indices: list[Any]) -> list[Any]:
    """Return index tensors on the device of the tensor that they index: those on the CPU may index any device."""
    if not slow_path.count or (tracer.current is not None and tracer.current.device is cpu):
        return indices
    where = x.device
    for each in indices:
        if each is not None and each.device is not where and each.device is not cpu:
            raise RuntimeError(f"indices should be either on cpu or on the same device as the indexed tensor ({where})")
    if where is not cpu and tracer.current is None:
        check_when_known(x, indices)  # JAX would clamp to the nearest index
    return [each if each is None or each.device is where else moved(each, where) for each in indices]


def check_when_known(x: Tensor, indices: list[Any]) -> None:
    """Let the compiler check, before a program runs, indices whose values it will know."""
    shape, axis = x._array.shape, 0
    for each in indices:
        if each is not None and not is_mask(each):
            check_in_range(each._array, shape[axis], axis, "", IndexError, negative=True)
        axis += each._array.ndim if each is not None and is_mask(each) else 1


def explain_index(x: Tensor, indices: list[Any]) -> None:
    """Raise the error for indices that NumPy refused."""
    shape, axis, number, found = x._array.shape, 0, 0, []
    for each in indices:
        if each is None:
            axis += 1
            continue
        array = each._array
        if is_mask(each):
            axis, number = axis + array.ndim, number + array.ndim
            found += [[int(np.count_nonzero(array))]] * array.ndim
            continue
        n = shape[axis]
        outside = (array < -n) | (array >= n)
        if outside.any():
            if 0 in shape:
                raise IndexError(f"index is out of bounds for dimension with size {n}")
            first = array[outside].reshape(-1)[0]
            raise IndexError(f"index {int(first)} is out of bounds for dimension {number} with size {n}")
        found.append(list(array.shape))
        axis, number = axis + 1, number + 1
    shapes = ", ".join(map(str, found))
    raise IndexError(f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}") from None
