"""Public functions that pick and place the elements where a mask is true, and that find where those are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray, values_known
from undertow._src.arrays.numpy.scatter import one_hot as hot_places
from undertow._src.base import tracer
from undertow._src.base.modes import local
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import broadcast_two, check_tensor, scalar_name
from undertow._src.engine.outputs import into
from undertow._src.engine.writes import apply_in_place
from undertow._src.ops.public import public
from undertow._src.ops.writing import check_mask
from undertow._src.rules import index as rules
from undertow._src.tensor.core import TensorCore, wrap

if TYPE_CHECKING:
    from undertow._tensor import Tensor


def is_unknown(array: object) -> bool:
    """Whether a mask's values are known only to the traced program, which may use a different index instead.

    Hooks on saved tensors would see that index.
    """
    if tracer.current is None or local.modes.saved_hooks:
        return False
    return type(array) is DeviceArray and not array.is_known()


@public
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the elements where a mask is true, as a vector."""
    check_tensor(input, "masked_select")
    check_tensor(mask, "masked_select", "mask", 2)
    if mask._array.dtype.kind != "b":
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = broadcast_two(mask._array.shape, input._array.shape)
    if is_unknown(mask._array) and shape:
        found = tracer.running().select(input.expand(shape), [mask.expand(shape)])
        return found if out is None else into(out, lambda: found, (input, mask), "masked_select")
    if out is None:
        return apply(rules.masked_select, input, mask)
    return into(out, lambda: apply(rules.masked_select, input, mask), (input, mask), "masked_select")


def _check_masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> None:
    check_tensor(input, "masked_scatter")
    check_tensor(mask, "masked_scatter", "mask", 2)
    check_tensor(source, "masked_scatter", "source", 3)
    check_mask(mask, "masked_scatter_", short=False)
    if source._array.dtype != input._array.dtype:
        raise RuntimeError(
            f"masked_scatter: expected self and source to have same dtypes but got{scalar_name(input)} and "
            f"{scalar_name(source)}"
        )
    shape = broadcast_two(input._array.shape, mask._array.shape)
    if not values_known(mask._array):
        return
    places = np.count_nonzero(mask._array) * (np.prod(shape, dtype=int) // max(1, mask._array.size))
    if places > source._array.size:
        raise RuntimeError("Number of elements of source < number of ones in mask")


@public
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Return a copy with source's elements, in order, where a mask is true."""
    _check_masked_scatter(input, mask, source)
    return apply(rules.masked_scatter, input, source, mask)


@public
def masked_scatter_(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Write source's elements, in order, where a mask is true."""
    _check_masked_scatter(self, mask, source)
    return apply_in_place(rules.masked_scatter, self, source, mask)


@public
def nonzero(input: Any, *, out: Any = None, as_tuple: bool = False) -> Any:
    """Return the positions of the elements that are not zero, a row for each; or a vector for each dim."""
    check_tensor(input, "nonzero")
    array = input._array
    if is_unknown(array) and array.ndim:
        found = tracer.running().nonzero(array != 0)
        if as_tuple:
            return tuple([found[:, axis] for axis in range(array.ndim)])
        return found if out is None else into(out, lambda: found, (), "nonzero")
    if as_tuple:
        found = (array if array.ndim else array.reshape(1)).nonzero()
        return tuple([wrap(places.copy()) for places in found])
    found = wrap(np.argwhere(array).astype(np.int64, copy=False))
    return found if out is None else into(out, lambda: found, (), "nonzero")


@public
def argwhere(input: Tensor) -> Tensor:
    """Return the positions of the elements that are not zero, a row for each."""
    return nonzero(input)


@public
def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """Vectors of zeros with a one at each class."""
    check_tensor(input, "one_hot")
    array = input._array
    if array.dtype != np.int64:
        raise RuntimeError(
            f"one_hot is only applicable to index tensor of type LongTensor. This one is a {scalar_name(input)}Tensor."
        )
    if not array.size:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return wrap(np.zeros((*array.shape, num_classes), np.int64))
    if values_known(array) and array.min() < 0:
        raise RuntimeError("Class values must be non-negative.")
    if num_classes == -1:
        num_classes = int(array.max()) + 1
    elif num_classes < 1:
        raise RuntimeError("num_classes should be positive")
    elif values_known(array) and array.max() >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    if type(array) is np.ndarray:
        return wrap(hot_places(array, num_classes))
    return wrap((array[..., None] == np.arange(num_classes)).astype(np.int64))


class MaskMethods(TensorCore):
    """Masks as methods of a tensor."""

    __slots__ = ()

    masked_select, masked_scatter, masked_scatter_ = masked_select, masked_scatter, masked_scatter_
    nonzero, argwhere = nonzero, argwhere
