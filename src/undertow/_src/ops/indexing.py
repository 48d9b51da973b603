"""`x[key]` and `x[key] = value`: ints, slices, None, Ellipsis, bools, tensors, lists, arrays, and tuples of them all.

Ints, slices, None and Ellipsis are views, taken one after the other as PyTorch takes them; what is left (tensors, masks,
lists) indexes the view so far, all at once, and copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.namespaces import namespace_of
from undertow._src.arrays.numpy.index import numpy_key
from undertow._src.arrays.numpy.shape import expand_dims, leading, slice_along
from undertow._src.arrays.quiet import quietly
from undertow._src.base import tracer
from undertow._src.base.modes import local, slow_path
from undertow._src.engine.apply import PLAIN, apply
from undertow._src.engine.arguments import as_element, check_tensor, element_in_trace, type_name
from undertow._src.engine.node import edge_of
from undertow._src.engine.outputs import bump
from undertow._src.engine.record import pack_saved
from undertow._src.engine.rule_node import node_class
from undertow._src.engine.saved import SavedInput
from undertow._src.engine.views import refresh_view, refuse_overlap_of
from undertow._src.engine.writes import guards
from undertow._src.ops.broadcasting import expand_to
from undertow._src.ops.index_parsing import (
    beside,
    check_indices,
    check_when_known,
    explain_index,
    is_mask,
    listed,
    slicing,
)
from undertow._src.ops.masks import is_unknown
from undertow._src.ops.public import public
from undertow._src.ops.shape import reshape_to
from undertow._src.ops.slicing import END
from undertow._src.ops.views import view_through
from undertow._src.ops.writing import copy_into, fill_, write_in_place
from undertow._src.rules import convert, index
from undertow._src.rules import shape as rules
from undertow._src.rules.rule import Spec
from undertow._src.tensor.core import InferenceStorage, TensorCore, wrap
from undertow._src.types.dtypes import DTYPE_OF
from undertow._src.types.sizes import wrapped_dim

if TYPE_CHECKING:
    from undertow._tensor import Tensor

_FLOATS = np.float32, np.float64


def _take(x: Tensor, indices: list[Any]) -> Tensor:
    check_indices(x, indices)
    if tracer.current is not None:
        check_when_known(x, indices)
        if any(each is not None and is_mask(each) and is_unknown(each._array) for each in indices):
            return tracer.current.select(x, indices)
    try:
        return apply(index.index, x, *beside(x, indices))
    except IndexError:
        explain_index(x, indices)
        raise


# --- reading


@public
def _getitem(self: Tensor, key: object) -> Tensor:
    view, indices = slicing(self, key, keep=True)
    if indices:
        return _take(view, indices)
    return apply(convert.alias, self) if view is self else view


def getitem(self: Tensor, key: Any) -> Tensor:
    """Return a part of the tensor: a view for ints, slices, None and Ellipsis; a copy for tensors, masks and lists."""
    if self.__class__ in PLAIN and not slow_path.count and type(self._array) is np.ndarray:
        kind = type(key)
        if kind is int:
            array = self._array
            if array.ndim:
                n = array.shape[0]
                at = wrapped_dim(key, n) if key < 0 else key
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


def _take_rows(self: Tensor, rows: Tensor) -> Any | None:
    """x[rows] for a tensor of int64, in its usual case; None for any other."""
    array, picks = self._array, rows._array
    if picks.dtype != np.int64 or not picks.ndim or not array.ndim:
        return None
    try:
        result = wrap(array.take(picks, 0))
    except (IndexError, MemoryError):
        return None
    modes = local.modes
    if modes.grad_enabled and self._view is not None:
        refresh_view(self)
    if self._requires_grad and modes.grad_enabled:
        make = index.index.node_class or node_class(index.index)
        specs = (Spec(array.shape, array.dtype), (Spec(picks.shape, picks.dtype),))
        edge = self._edge or edge_of(self)
        node = make((edge,), next(modes.sequence), ((SavedInput(rows),),), (), specs)
        if modes.saved_hooks:
            pack_saved(node)
        result._edge = (node, 0)
        result._requires_grad = True
    return result


def _basic_steps(array: Any, key: tuple[Any, ...], lone: bool) -> tuple[tuple[Any, ...], Any] | None:
    """Return the view steps, and the raw view, of a key of ints, slices, None and one Ellipsis; None for other keys."""
    steps: list[Any] = []
    dim, left = 0, len(key)
    for item in key:
        left -= 1
        kind = type(item)
        if kind is int:
            if dim >= array.ndim:
                return None
            n = array.shape[dim]
            at = wrapped_dim(item, n) if item < 0 else item
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


def value_tensor(value: object, like: Tensor) -> Any:
    """Return the value to write as a tensor; a number takes the target's dtype."""
    if isinstance(value, TensorCore):
        return value
    kind = DTYPE_OF[like._array.dtype]
    element = element_in_trace(value, like._array.dtype)
    if element is not None:
        return wrap(element)
    if not isinstance(value, (bool, int, float, complex)):
        raise TypeError(f"can't assign a {type_name(value)} to a torch.{kind.scalar_name}Tensor")
    if kind.is_floating_point and kind.itemsize == 2 and not isinstance(value, complex):
        return wrap(
            quietly(np.asarray, value, like._array.dtype)
        )  # numbers out of range become infinite, as in arithmetic
    return wrap(np.asarray(as_element(value, kind), like._array.dtype))


def _write_view(view: Tensor, value: Tensor) -> None:
    shape = view._array.shape
    if value._array.shape == shape:
        copy_into(view, value)
    elif not value._array.ndim:
        fill_(view, value)
    else:
        narrow = reshape_to(value, _inner_shape(value._array.shape))
        copy_into(view, expand_to(narrow, shape) if narrow._array.shape != shape else narrow)


def _inner_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape without its leading ones."""
    first = 0
    while first < len(shape) and shape[first] == 1:
        first += 1
    return shape[first:]


def put_indexed(target: Tensor, indices: list[Any], values: Tensor, accumulate: bool) -> Tensor:
    """Write target[indices] = values, or += with repetitions accumulated, in place."""
    indices = beside(target, indices)
    key = numpy_key([None if each is None else each._array for each in indices])
    source = values._array

    def write(out: np.ndarray) -> None:
        try:
            if type(out) is DeviceArray:
                arrays = [None if each is None else each._array for each in indices]
                out[...] = namespace_of([out]).index_put(out, values._array, *arrays, accumulate=accumulate)
            elif accumulate:
                np.add.at(out, key, source)
            else:
                out[key] = source
        except IndexError:
            explain_index(target, indices)
        except ValueError:
            explain_values(target, indices, values)

    for read in (values, *indices):
        if read is not None:
            refuse_overlap_of(target, read, apart=True)
    return write_in_place(index.index_put, target, (values, *indices), {"accumulate": accumulate}, write, _STRETCHED)


_STRETCHED = (
    "Use of index_put_ on expanded tensors is deprecated. Write to a clone() of the tensor. tensor[indices] = values is "
    "the same operation."
)


def explain_values(target: Tensor, indices: list[Any], values: Any) -> None:
    try:
        shape = target._array[numpy_key([None if each is None else each._array for each in indices])].shape
    except IndexError:
        explain_index(target, indices)
    raise RuntimeError(
        f"shape mismatch: value tensor of shape {list(values._array.shape)} cannot be broadcast to indexing result of "
        f"shape {list(shape)}"
    ) from None


def _filling(target: Tensor, indices: list[Any], value: Any) -> Any:
    """Return a value of one element, written where a single mask is True, in the target's dtype; others unchanged."""
    given = [each for each in indices if each is not None]
    if len(given) != 1 or not is_mask(given[0]) or value._array.size != 1 or not value._is_strided:
        return value
    if given[0]._array.dtype == np.uint8:
        raise RuntimeError("masked_fill_ only supports boolean masks, but got mask with dtype unsigned char")
    own, kind = DTYPE_OF[target._array.dtype], DTYPE_OF[value._array.dtype]
    if value._array.ndim:
        value = reshape_to(value, ())
    if own is kind:
        return value
    if own.category <= kind.category and not is_unknown(value._array):
        as_element(value._array.item(), own)
    return apply(convert.to_copy, value, dtype=own.numpy)


def check_values(target: Tensor, values: Any) -> None:
    own, given = DTYPE_OF[target._array.dtype], DTYPE_OF[values._array.dtype]
    if own is not given:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {own.scalar_name} for the destination and "
            f"{given.scalar_name} for the source."
        )


@public
def _setitem(self: Tensor, key: object, value: Any) -> None:
    value = value_tensor(value, self)
    if key is False:
        return
    if key is True:
        key = None
    view, indices = slicing(self, key, keep=False)
    if indices:
        value = _filling(view, indices, value)
        check_indices(view, indices)
        check_values(view, value)
        if tracer.current is not None:
            check_when_known(view, indices)
        if value._array.ndim and value._array.shape[0] == 1:
            value = reshape_to(value, _inner_shape(value._array.shape))
        put_indexed(view, indices, value, False)
    else:
        _write_view(view, value)


def setitem(self: Any, key: Any, value: Any) -> None:
    """Write a part of the tensor; the value is broadcast."""
    if self.__class__ in PLAIN and not slow_path.count and not guards and _writes_plainly(self, key, value):
        return
    _setitem(self, key, value)


def _writes_plainly(self: Tensor, key: Any, value: Any) -> bool:
    """Do a write that is not recorded and can't fail; return False if it takes more than that."""
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


def _index_list(indices: object, name: str) -> list[Any]:
    if not isinstance(indices, (tuple, list)):
        raise TypeError(
            f"{name}(): argument 'indices' (position 2) must be tuple of Tensors, not {type(indices).__name__}"
        )
    return [each if each is None or isinstance(each, TensorCore) else listed(each) for each in indices]


def _check_put(input: Tensor, indices: object, values: Any, name: str, accumulate: bool) -> tuple[list[Any], Any]:
    check_tensor(input, name)
    check_tensor(values, name, "values", 3)
    given = _index_list(indices, name)
    if not accumulate:
        values = _filling(input, given, values)
    check_indices(input, given)
    if tracer.current is not None:
        check_when_known(input, given)
    check_values(input, values)
    found = [each._array.ndim for each in given if each is not None and not is_mask(each)] or [1]
    taken = sum(each._array.ndim if each is not None and is_mask(each) else 1 for each in given if each is not None)
    if values._array.ndim > max(found) + input._array.ndim - taken:
        explain_values(input, given, values)
    return given, values


@public
def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Return a copy with values written (or added) at the positions of index tensors."""
    given, values = _check_put(input, indices, values, "index_put", accumulate)
    try:
        return apply(index.index_put, input, values, *beside(input, given), accumulate=bool(accumulate))
    except IndexError:
        explain_index(input, given)
    except ValueError:
        explain_values(input, given, values)


@public
def index_put_(self: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """Write (or add) values at the positions of index tensors."""
    given, values = _check_put(self, indices, values, "index_put_", accumulate)
    return put_indexed(self, given, values, bool(accumulate))


class IndexingMethods(TensorCore):
    """Square brackets."""

    __slots__ = ()

    __getitem__, __setitem__ = getitem, setitem

    def __delitem__(self, key: Any) -> None:
        raise TypeError("Tensor does not support deleting items")

    index_put, index_put_ = index_put, index_put_
