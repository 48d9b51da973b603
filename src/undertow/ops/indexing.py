"""`x[key]` and `x[key] = value`: ints, slices, None, Ellipsis, bools, tensors, lists, arrays, and tuples of them all.

Ints, slices, None and Ellipsis are views, taken one after the other as PyTorch takes them; what is left (tensors, masks,
lists) indexes the view so far, all at once, and copies.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from undertow._core import InferenceStorage, TensorCore, wrap
from undertow.autograd.apply import PLAIN, apply, bump
from undertow.autograd.node import edge_of, node_class
from undertow.autograd.saved import SavedInput
from undertow.autograd.views import refresh_view
from undertow.autograd.writes import guards
from undertow.dtypes import DTYPE_OF
from undertow.modes import local, special
from undertow.ops.arguments import check_tensor
from undertow.ops.parts import END
from undertow.ops.public import public
from undertow.ops.shape import reshape_to
from undertow.ops.stretch import expand_to, unsqueeze
from undertow.ops.views import view_of, view_through
from undertow.ops.writing import as_element, copy_into, fill_, write_in_place
from undertow.rules import convert, index
from undertow.rules import shape as rules
from undertow.rules.rule import Spec
from undertow.xp.numpy_index import numpy_key
from undertow.xp.numpy_shape import expand_dims, leading, slice_along

_FLOATS = np.float32, np.float64


# --- views


def select_item(x: Any, dim: int, index: int, place: int = 0) -> Any:
    """x[index] along a dim; `place` is where in the key the index stands, which errors name."""
    array = x._array
    n = array.shape[dim]
    at = index + n if index < 0 else index
    if not 0 <= at < n:
        raise IndexError(f"index {index} is out of bounds for dimension {place} with size {n}")
    return view_of(rules.select, x, array[(*leading(dim), at, ...)], {"dim": dim, "index": at})


def slice_item(x: Any, dim: int, key: slice, keep: bool) -> Any:
    """x[key] along a dim; a slice that takes everything gives x itself unless it is to be kept."""
    start, end, step = key.start, key.stop, key.step
    start = 0 if start is None else _slice_int(start)
    end = END if end is None else _slice_int(end)
    step = 1 if step is None else _slice_int(step)
    if step <= 0:
        raise ValueError("slice step cannot be zero" if step == 0 else "step must be greater than zero")
    array = x._array
    n = array.shape[dim]
    if not keep and start == 0 and step == 1 and end >= n:
        return x
    value = slice_along(array, dim, start, end, step)
    return view_of(rules.slice, x, value, {"dim": dim, "start": start, "end": end, "step": step})


def _slice_int(value: Any) -> int:
    if type(value) is int:
        return value
    if isinstance(value, TensorCore):
        return int(value._array)
    if not hasattr(value, "__index__"):
        raise TypeError("slice indices must be integers or None or have an __index__ method")
    return value.__index__()


# --- keys


def _is_mask(tensor: Any) -> bool:
    return tensor._array.dtype.kind == "b" or tensor._array.dtype == np.uint8


def _as_tuple(key: Any) -> tuple[Any, ...]:
    """A key as the tuple it stands for: a short list that holds anything but numbers counts as one."""
    if isinstance(key, tuple):
        return key
    if isinstance(key, (list, range)) and len(key) < 32:
        for item in key:
            if item is None or item is Ellipsis or isinstance(item, (slice, TensorCore, np.ndarray, list, tuple, range)):
                return tuple(key)
    return (key,)


def _listed(key: Any) -> Any:
    """A list of numbers (or of lists of them) as an index tensor."""
    if isinstance(key, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(key).__name__}'")
    array = np.asarray(_plain(key)) if not isinstance(key, np.ndarray) else key
    if array.dtype.kind not in "bi":
        if array.dtype.kind in "US":
            raise TypeError(f"new(): invalid data type '{'str' if array.dtype.kind == 'U' else 'bytes'}'")
        if array.dtype != np.uint8:
            array = array.astype(np.int64)
    return wrap(array)


def _plain(key: Any) -> Any:
    if isinstance(key, TensorCore):
        return key._array.tolist()
    if isinstance(key, (list, tuple, range)):
        return [_plain(item) for item in key]
    return key


def _normal(item: Any) -> Any:
    """One entry of a key as an int, slice, None, Ellipsis, bool or tensor."""
    kind = type(item)
    if kind is int or kind is slice or item is None or item is Ellipsis or kind is bool:
        return item
    if isinstance(item, TensorCore):
        return _normal_tensor(item)
    if isinstance(item, np.ndarray):
        return _normal_tensor(_listed(item))
    if not isinstance(item, np.bool_) and hasattr(item, "__index__"):
        return item.__index__()
    if isinstance(item, (list, tuple, range, str, bytes)):
        return _listed(item)
    name = f"numpy.{kind.__name__}" if kind.__module__ == "numpy" else kind.__name__
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got "
        f"{'numpy.bool' if isinstance(item, np.bool_) else name})"
    )


def _normal_tensor(tensor: Any) -> Any:
    """A tensor without dims is an int or a bool."""
    array = tensor._array
    if array.ndim or array.dtype.kind not in "biu":
        return tensor
    return bool(array) if _is_mask(tensor) else int(array)


def slicing(x: Any, key: Any, keep: bool) -> tuple[Any, list[Any]]:
    """The view that a key's ints, slices, None and Ellipsis take, and the tensors that are left to index it with.

    `keep`: a lone slice is a view even if it takes everything.
    """
    entries = [_normal(item) for item in _as_tuple(key)]
    consumed = 0
    for item in entries:
        if isinstance(item, TensorCore):
            consumed += item._array.ndim if _is_mask(item) else 1
        elif item is not None and item is not Ellipsis and item is not True and item is not False:
            consumed += 1
    ndim = x._array.ndim
    lone = not isinstance(key, (tuple, list))
    if consumed > ndim:
        if lone and type(entries[0]) is int and not isinstance(key, (TensorCore, np.ndarray)):
            if entries[0]:
                raise IndexError(f"index {entries[0]} is out of bounds for dimension 0 with size 0")
            raise IndexError(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a "
                "0-dim tensor to a number"
            )
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
            dim += ndim - consumed
            consumed = ndim  # a second one stands for nothing
        elif item is None:
            x = unsqueeze(x, dim)
            dim += 1
        else:
            if type(item) is bool:
                x = unsqueeze(x, dim)
                item = wrap(np.zeros(1 if item else 0, np.int64))
            indices += [None] * (dim - _axes_of(indices)) + [item]
            dim += item._array.ndim if _is_mask(item) else 1
    return x, indices


def _axes_of(indices: list[Any]) -> int:
    return sum([each._array.ndim if each is not None and _is_mask(each) else 1 for each in indices])


# --- tensors as indices


def check_indices(x: Any, indices: list[Any]) -> None:
    """Refuses index tensors of the wrong dtype and masks of the wrong shape."""
    shape, axis = x._array.shape, 0
    for each in indices:
        if each is None:
            axis += 1
            continue
        array = each._array
        if not _is_mask(each):
            if array.dtype not in (np.int64, np.int32):
                raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
            axis += 1
            continue
        if array.dtype == np.uint8:
            warnings.warn(
                "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.", stacklevel=4
            )
        for place, n in enumerate(array.shape):
            if axis + place >= len(shape) or shape[axis + place] != n:
                raise IndexError(
                    f"The shape of the mask {list(array.shape)} at index {place} does not match the shape of the indexed "
                    f"tensor {list(shape)} at index {axis + place}"
                )
        axis += array.ndim
    if axis > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)} (got {axis})")


def explain_index(x: Any, indices: list[Any]) -> None:
    """Raises what is wrong with indices that NumPy refused."""
    shape, axis, number, found = x._array.shape, 0, 0, []
    for each in indices:
        if each is None:
            axis += 1
            continue
        array = each._array
        if _is_mask(each):
            axis, number = axis + array.ndim, number + array.ndim
            found += [[int(np.count_nonzero(array))]] * array.ndim
            continue
        n = shape[axis]
        outside = (array < -n) | (array >= n)
        if outside.any():
            first = array[outside].reshape(-1)[0]
            raise IndexError(f"index {first} is out of bounds for dimension {number} with size {n}")
        found.append(list(array.shape))
        axis, number = axis + 1, number + 1
    shapes = ", ".join(map(str, found))
    raise IndexError(f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}") from None


def _take(x: Any, indices: list[Any]) -> Any:
    check_indices(x, indices)
    try:
        return apply(index.index, x, *indices)
    except IndexError:
        explain_index(x, indices)
        raise


# --- reading


@public
def _getitem(self: Any, key: Any) -> Any:
    view, indices = slicing(self, key, keep=True)
    if indices:
        return _take(view, indices)
    return apply(convert.alias, self) if view is self else view


def getitem(self: Any, key: Any) -> Any:
    """A part of the tensor: a view for ints, slices, None and Ellipsis; a copy for tensors, masks and lists."""
    if self.__class__ in PLAIN and not special.active:
        kind = type(key)
        if kind is int:
            array = self._array
            if array.ndim:
                n = array.shape[0]
                at = key + n if key < 0 else key
                if 0 <= at < n:
                    step = (rules.select, {"dim": 0, "index": at}, Spec(array.shape, array.dtype), 0)
                    return view_through(self, (step,), array[at, ...])
        elif kind in PLAIN:
            found = _take_rows(self, key)
            if found is not None:
                return found
        elif kind is tuple or kind is slice or key is None:
            found = _basic_steps(self._array, key if kind is tuple else (key,), kind is slice)
            if found is not None:
                return view_through(self, *found)
    return _getitem(self, key)


def _take_rows(self: Any, rows: Any) -> Any | None:
    """x[rows] for a tensor of int64, in its usual case; None for any other."""
    array, picks = self._array, rows._array
    if picks.dtype != np.int64 or not picks.ndim or not array.ndim:
        return None
    try:
        result = wrap(array.take(picks, 0))
    except IndexError:
        return None
    if self._view is not None:
        refresh_view(self)
    modes = local.modes
    if self._requires_grad and modes.grad_enabled:
        make = index.index.node_class or node_class(index.index)
        specs = (Spec(array.shape, array.dtype), (Spec(picks.shape, picks.dtype),))
        edge = self._edge or edge_of(self)
        result._edge = (make((edge,), next(modes.sequence), ((SavedInput(rows),),), (), specs), 0)
        result._requires_grad = True
    return result


def _basic_steps(array: Any, key: tuple[Any, ...], lone: bool) -> tuple[tuple[Any, ...], Any] | None:
    """The view steps of a key of plain ints, slices, None and one Ellipsis, and the raw view; None for any other key."""
    steps: list[Any] = []
    dim, left = 0, len(key)
    for item in key:
        left -= 1
        kind = type(item)
        if kind is int:
            if dim >= array.ndim:
                return None
            n = array.shape[dim]
            at = item + n if item < 0 else item
            if not 0 <= at < n:
                return None
            steps.append((rules.select, {"dim": dim, "index": at}, Spec(array.shape, array.dtype), 0))
            array = array[(*leading(dim), at, ...)]
        elif kind is slice:
            if dim >= array.ndim:
                return None
            start, end, step = item.start, item.stop, item.step
            start, end, step = start or 0, END if end is None else end, 1 if step is None else step
            if type(start) is not int or type(end) is not int or type(step) is not int or step <= 0:
                return None
            if lone or start or step != 1 or end < array.shape[dim]:
                statics = {"dim": dim, "start": start, "end": end, "step": step}
                steps.append((rules.slice, statics, Spec(array.shape, array.dtype), 0))
                array = slice_along(array, dim, start, end, step)
            dim += 1
        elif item is None:
            steps.append((rules.unsqueeze, {"dim": dim}, Spec(array.shape, array.dtype), 0))
            array = expand_dims(array, dim)
            dim += 1
        elif item is Ellipsis:
            for later in key[len(key) - left :]:
                if type(later) is not int and type(later) is not slice:
                    return None
            if left > array.ndim - dim:
                return None
            dim = array.ndim - left
        else:
            return None
    return (tuple(steps), array) if steps else None


# --- writing


def value_tensor(value: Any, like: Any) -> Any:
    """What is written, as a tensor; a number takes the dtype of what it is written to."""
    if isinstance(value, TensorCore):
        return value
    kind = DTYPE_OF[like._array.dtype]
    if not isinstance(value, (bool, int, float, complex)):
        name = type(value).__name__ if type(value).__module__ != "numpy" else f"numpy.{type(value).__name__}"
        raise TypeError(f"can't assign a {name} to a torch.{kind.scalar_name}Tensor")
    return wrap(np.asarray(as_element(value, kind), like._array.dtype))


def _write_view(view: Any, value: Any) -> None:
    shape = view._array.shape
    if value._array.shape == shape:
        copy_into(view, value)
    elif not value._array.ndim:
        fill_(view, value)
    else:
        narrow = reshape_to(value, _inner_shape(value._array.shape))
        copy_into(view, expand_to(narrow, shape) if narrow._array.shape != shape else narrow)


def _inner_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without its leading ones."""
    first = 0
    while first < len(shape) and shape[first] == 1:
        first += 1
    return shape[first:]


def put_indexed(target: Any, indices: list[Any], values: Any, accumulate: bool) -> Any:
    """target[indices] = values, or += with repetitions counted, in place."""
    key = numpy_key([None if each is None else each._array for each in indices])
    source = values._array

    def write(out: Any) -> None:
        try:
            if accumulate:
                np.add.at(out, key, source)
            else:
                out[key] = source
        except IndexError:
            explain_index(target, indices)
        except ValueError:
            explain_values(target, indices, values)

    return write_in_place(index.index_put, target, (values, *indices), {"accumulate": accumulate}, write, _STRETCHED)


_STRETCHED = (
    "Use of index_put_ on expanded tensors is deprecated. Please clone() the tensor before performing this operation. "
    "This also applies to advanced indexing e.g. tensor[indices] = tensor"
)


def explain_values(target: Any, indices: list[Any], values: Any) -> None:
    try:
        shape = target._array[numpy_key([None if each is None else each._array for each in indices])].shape
    except IndexError:
        explain_index(target, indices)
    raise RuntimeError(
        f"shape mismatch: value tensor of shape {list(values._array.shape)} cannot be broadcast to indexing result of "
        f"shape {list(shape)}"
    ) from None


def check_values(target: Any, values: Any) -> None:
    own, given = DTYPE_OF[target._array.dtype], DTYPE_OF[values._array.dtype]
    if own is not given:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {own.scalar_name} for the destination and "
            f"{given.scalar_name} for the source."
        )


@public
def _setitem(self: Any, key: Any, value: Any) -> None:
    value = value_tensor(value, self)
    if key is False:
        return
    if key is True:
        key = None
    view, indices = slicing(self, key, keep=False)
    if indices:
        check_values(view, value)
        check_indices(view, indices)
        if value._array.ndim and value._array.shape[0] == 1:
            value = reshape_to(value, _inner_shape(value._array.shape))
        put_indexed(view, indices, value, False)
    else:
        _write_view(view, value)


def setitem(self: Any, key: Any, value: Any) -> None:
    """Writes a part of the tensor; the value is stretched to fit."""
    if self.__class__ in PLAIN and not special.active and not guards and _writes_plainly(self, key, value):
        return
    _setitem(self, key, value)


def _writes_plainly(self: Any, key: Any, value: Any) -> bool:
    """Does a write that nothing records and that can't go wrong; False if it takes more than that."""
    view = self._view
    if (self._requires_grad or (view is not None and view.base._requires_grad)) and local.modes.grad_enabled:
        return False
    array = self._array
    storage = self._storage
    if type(storage) is InferenceStorage or type(array) is not np.ndarray or 0 in array.strides:
        return False
    kind = type(key)
    if kind is tuple:
        for item in key:
            if type(item) is not int and (type(item) is not slice or item.step is not None):
                return False
    elif kind is not int and (kind is not slice or key.step is not None):
        return False
    kind = type(value)
    if kind is float or kind is int:
        if array.dtype.type not in _FLOATS or not -1e38 < value < 1e38:
            return False
    elif kind in PLAIN:
        if (value._storage is not None and value._storage is storage) or array.dtype != value._array.dtype:
            return False
        if value._requires_grad or (value._view is not None and value._view.base._requires_grad):
            if local.modes.grad_enabled:
                return False
        value = value._array
    else:
        return False
    try:
        array[key] = value
    except (ValueError, IndexError, TypeError):
        return False
    bump(self)
    return True


# --- index_put


def _index_list(indices: Any, name: str) -> list[Any]:
    if not isinstance(indices, (tuple, list)):
        raise TypeError(f"{name}(): argument 'indices' (position 2) must be tuple of Tensors, not {type(indices).__name__}")
    return [each if each is None or isinstance(each, TensorCore) else _listed(each) for each in indices]


def _check_put(input: Any, indices: Any, values: Any, name: str) -> list[Any]:
    check_tensor(input, name)
    check_tensor(values, name, "values", 3)
    given = _index_list(indices, name)
    check_indices(input, given)
    check_values(input, values)
    return given


@public
def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """A copy with values written (or added) where index tensors point."""
    given = _check_put(input, indices, values, "index_put")
    try:
        return apply(index.index_put, input, values, *given, accumulate=bool(accumulate))
    except IndexError:
        explain_index(input, given)
    except ValueError:
        explain_values(input, given, values)


@public
def index_put_(self: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Writes (or adds) values where index tensors point."""
    given = _check_put(self, indices, values, "index_put_")
    return put_indexed(self, given, values, bool(accumulate))


class IndexingMethods(TensorCore):
    """Square brackets."""

    __slots__ = ()

    __getitem__, __setitem__ = getitem, setitem

    def __delitem__(self, key: Any) -> None:
        raise TypeError("Tensor does not support deleting items")

    index_put, index_put_ = index_put, index_put_
