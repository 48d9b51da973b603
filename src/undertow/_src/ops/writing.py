"""Writing over a tensor: fill, zero, copy, masks; and the one way in which such writes are done and recorded."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.placement import placed
from undertow._src.base.modes import local, slow_path
from undertow._src.base.sites import warn, warn_once
from undertow._src.engine.apply import apply, place_operands
from undertow._src.engine.arguments import (
    as_element,
    broadcast_two,
    check_tensor,
    element_in_trace,
    invalid_combination,
    must_be,
    spread_ints,
)
from undertow._src.engine.outputs import bump, overlaps, record_without_derivative, refuse_inference, refuse_overlap
from undertow._src.engine.record import KeptInputs, edges_of, make_node
from undertow._src.engine.rule_node import MATCH_INPUT
from undertow._src.engine.views import refuse_overlap_of
from undertow._src.engine.writes import check_writable, guards, rebase
from undertow._src.ops.public import overloaded, public
from undertow._src.ops.slicing import as_strided
from undertow._src.rules import arrange as rules
from undertow._src.rules.rule import Rule
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.dtypes import DTYPE_OF
from undertow.storage import contiguous_strides, flat_memory, is_storage, unset

if TYPE_CHECKING:
    from undertow._src.types.aliases import Number, _size
    from undertow._src.types.layouts import memory_format
    from undertow._tensor import Tensor

_NUMBERS = (bool, int, float, complex)

# --- the write itself


def write_in_place(
    rule: Rule, target: Tensor, others: tuple[Any, ...], statics: dict[str, Any], writer: Callable[[Any], None],
    stretched: str = "refuse",
) -> Tensor:  # fmt: skip
    """Run an in-place op whose raw write is cheaper than computing the whole result: `writer` writes into the array.

    `stretched` is how a write to an expanded tensor is handled: refuse, allow, or a warning's text.
    """
    inputs = (target, *others)
    if slow_path.dispatcher is not None and slow_path.dispatcher.takes(inputs):
        return slow_path.dispatcher.write(
            rule, target, others, statics, lambda: write_in_place(rule, target, others, statics, writer, stretched)
        )
    place_operands(inputs)
    edges = edges_of(rule, inputs)
    check_writable(target, edges is not None)
    array = target._array
    if stretched == "refuse":
        refuse_overlap(array)
    elif stretched != "allow" and overlaps(array):
        warn(stretched)
    kept = None
    if edges is not None:
        kept = KeptInputs(inputs, [given._array if isinstance(given, TensorCore) else given for given in inputs])
        kept.freeze(rule, edges)
    for guard in guards:
        guard.before_write(target)
    writer(array)
    bump(target)
    if edges is not None:
        rebase(target, make_node(rule, edges, inputs, kept, (target,), statics, MATCH_INPUT))
    return target


# --- fill, zero, copy


@overloaded
def fill_(self: Tensor, value: Number | complex | Tensor) -> Tensor:
    """Write one value everywhere."""
    element = element_in_trace(value, self._array.dtype)
    if element is not None:
        value = wrap(element)
    if isinstance(value, TensorCore):
        if value._array.ndim:
            raise RuntimeError(
                f"fill_ only supports 0-dimension value tensor but got tensor with {value._array.ndim} dimensions."
            )
        source = value._array
        return write_in_place(rules.fill_tensor, self, (value,), {}, lambda out: copy_raw(out, source))
    if not isinstance(value, (*_NUMBERS, np.generic)):
        raise invalid_combination("fill_", (value,))
    element = as_element(value, DTYPE_OF[self._array.dtype])
    return write_in_place(rules.fill, self, (), {"value": value}, lambda out: out.fill(element), "allow")


@overloaded
def fill(input: Tensor, value: Number | complex | Tensor) -> Tensor:
    """Return a tensor of the same shape and dtype that holds one value everywhere."""
    if isinstance(value, TensorCore):
        if value._array.ndim:
            raise RuntimeError(
                f"fill_ only supports 0-dimension value tensor but got tensor with {value._array.ndim} dimensions."
            )
        return apply(rules.filled_tensor, input, value)
    return apply(rules.filled, input, value=as_element(value, DTYPE_OF[input._array.dtype]))


@public
def zero_(self: Tensor) -> Tensor:
    """Write zeros everywhere."""
    return write_in_place(rules.zero, self, (), {}, lambda out: out.fill(0), "allow")


def copy_raw(out: np.ndarray, source: np.ndarray) -> None:
    """Copy raw values, cast as a tensor's are."""
    if source.dtype.kind == "c" and out.dtype.kind not in "cb":
        warn_once("Casting complex values to real discards the imaginary part")
        source = source.real
    if out.dtype.kind in "iu" and source.dtype.kind in "fV":
        with np.errstate(invalid="ignore"):
            np.copyto(out, source, casting="unsafe")
    else:
        np.copyto(out, source, casting="unsafe")


@public
def copy_(self: Any, other: Any, non_blocking: bool = False) -> Tensor:
    """Copy a source's values into the tensor, broadcast and cast."""
    if not isinstance(other, TensorCore):
        if not isinstance(other, _NUMBERS):
            raise must_be("Tensor", other, "copy_", "other", 1)
        other = wrap(np.asarray(other))
    return copy_into(self, other)


def copy_into(target: Tensor, source: Tensor) -> Tensor:
    """`copy_`, once its arguments are known to be tensors."""
    if source._requires_grad and not DTYPE_OF[target._array.dtype].is_inexact:
        source = source.detach()  # integers have no gradient
    if slow_path.count and source.device != target.device:
        source = source.to(target.device)
    values = source._array
    shape = target._array.shape
    shared = source._storage is not None and source._storage is target._storage
    if shared or values.shape != shape:
        check_writable(target, edges_of(rules.copy, (target, source)) is not None)  # PyTorch checks this first
        if shared:
            refuse_overlap_of(target, source)
        wide = broadcast_two(shape, values.shape)
        if wide != shape:
            raise RuntimeError(f"output with shape {list(shape)} doesn't match the broadcast shape {list(wide)}")
    stretched = "allow" if source is target else "refuse"
    return write_in_place(rules.copy, target, (source,), {}, lambda out: copy_raw(out, values), stretched=stretched)


# --- masks


def check_mask(mask: Tensor, name: str, short: bool = True) -> None:
    """Refuse a mask of numbers; `short`: which of its dtype's names the error has."""
    if mask._array.dtype.kind != "b":
        kind = DTYPE_OF[mask._array.dtype]
        shown = kind.c_name if short else kind.scalar_name
        raise RuntimeError(f"{name} only supports boolean masks, but got mask with dtype {shown}")


def _check_masked_fill(input: Tensor, mask: Tensor, value: object, name: str) -> Any:
    if not isinstance(mask, TensorCore) or not isinstance(value, (TensorCore, *_NUMBERS, np.generic)):
        raise invalid_combination(name, (mask, value))
    check_mask(mask, "masked_fill_")
    if isinstance(value, TensorCore):
        if value._array.ndim:
            raise RuntimeError(
                "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value._array.ndim} dimension(s)."
            )
        return value
    return as_element(value, DTYPE_OF[input._array.dtype])


@overloaded
def masked_fill(input: Tensor, mask: Tensor, value: Number | complex | Tensor) -> Tensor:
    """Return a copy with a value where a mask is true."""
    check_tensor(input, "masked_fill")
    value = _check_masked_fill(input, mask, value, "masked_fill")
    broadcast_two(mask._array.shape, input._array.shape)
    if isinstance(value, TensorCore):
        return apply(rules.masked_fill_tensor, input, value, mask)
    return apply(rules.masked_fill, input, mask, value=value)


_STRETCHED_MASK = (
    "Use of masked_fill_ on expanded tensors is deprecated. Write to a clone() of the tensor. tensor[mask] = number is "
    "the same operation."
)


@overloaded
def masked_fill_(self: Tensor, mask: Tensor, value: Number | complex | Tensor) -> Tensor:
    """Write a value where a mask is true."""
    value = _check_masked_fill(self, mask, value, "masked_fill_")
    shape = self._array.shape
    wide = broadcast_two(shape, mask._array.shape)
    if wide != shape:
        raise RuntimeError(f"output with shape {list(shape)} doesn't match the broadcast shape {list(wide)}")
    where = mask._array
    if isinstance(value, TensorCore):
        source = value._array
        return write_in_place(
            rules.masked_fill_tensor, self, (value, mask), {},
            lambda out: np.copyto(out, source, where=where, casting="unsafe"), _STRETCHED_MASK,
        )  # fmt: skip
    return write_in_place(
        rules.masked_fill, self, (mask,), {"value": value},
        lambda out: np.copyto(out, out.dtype.type(value), where=where, casting="unsafe"), _STRETCHED_MASK,
    )  # fmt: skip


@public
def fill_diagonal_(self: Tensor, fill_value: Number | complex, wrap: bool = False) -> Tensor:
    """Write a value on the diagonal; `wrap` starts it again below a tall matrix's square part."""
    array = self._array
    if array.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if array.ndim > 2 and len(set(array.shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    strides = [stride // array.itemsize for stride in array.strides]
    step, count = sum(strides), min(array.shape)
    if array.ndim == 2 and type(array) is DeviceArray:  # whose strides are contiguous
        fill_(self.diagonal(), fill_value)
    else:
        fill_(as_strided(self, (count,), (step,)), fill_value)
    columns = array.shape[1]
    if wrap and array.ndim == 2 and array.shape[0] > columns + 1:
        below = -(-array.size // step) - columns
        start = self.storage_offset() + strides[0] * (columns + 1)
        fill_(as_strided(self, (below,), (step,), start), fill_value)
    return self


# --- different storages


@public
def resize_(self: Tensor, *sizes: object, memory_format: memory_format | None = None) -> Tensor:
    """Resize a tensor in place; existing elements stay, new ones are uninitialised."""
    if self.requires_grad and not local.modes.inference:
        raise RuntimeError("cannot resize variables that require grad")
    if slow_path.duals is not None and slow_path.duals.tangent_of(self) is not None:
        raise RuntimeError("cannot resize variables that has a forward grad. Resize a detach() of it.")
    refuse_inference(self)
    size = spread_ints(sizes, "resize_", "size")
    if any(n < 0 for n in size):
        raise RuntimeError("numel: integer multiplication overflow")
    resize_array(self, size)
    bump(self)
    return self


def resize_array(target: Tensor, size: tuple[int, ...]) -> None:
    """Allocate a buffer of a size, beginning with the old elements."""
    array = target._array
    flat = array.reshape(-1)
    count = math.prod(size)
    if count <= flat.size and array.flags.c_contiguous:
        target._array = flat[:count].reshape(size)
        return
    grown = np.zeros(count, array.dtype)
    kept = min(count, flat.size)
    grown[:kept] = flat[:kept]
    unset(grown[kept:])
    target._array = placed(grown.reshape(size), array.device) if type(array) is DeviceArray else grown.reshape(size)


@public
def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: memory_format | None = None) -> Tensor:
    """Resize a tensor to a second one's size."""
    check_tensor(the_template, "resize_as_", "the_template")
    return resize_(self, the_template._array.shape)


@public
def set_(
    self: Tensor, source: Tensor | None = None, storage_offset: int = 0, size: object = None,
    stride: int | _size | None = None,
) -> Tensor:  # fmt: skip
    """Make a tensor share a second one's storage."""
    if not (isinstance(source, TensorCore) and source._array.dtype != self._array.dtype):
        check_writable(self, self._requires_grad)
    if source is None:
        self._array = np.empty(0, self._array.dtype)
    elif isinstance(source, TensorCore):
        if source._array.dtype != self._array.dtype:
            raise RuntimeError("Could not set tensor of type another dtype to a tensor: the dtypes must be the same")
        self._array = source._array if size is None else as_strided(source, size, stride, storage_offset)._array
    elif is_storage(source):
        memory = flat_memory(source.untyped().root).view(self._array.dtype)
        whole = wrap(memory)
        sizes = (memory.size - storage_offset,) if size is None else tuple(size)
        steps = contiguous_strides(sizes) if stride is None else stride
        self._array = as_strided(whole, sizes, steps, storage_offset)._array
    else:
        raise invalid_combination("set_", (source,))
    bump(self)
    record_without_derivative(self, (self, source), "set_")
    return self


class WritingMethods(TensorCore):
    """Writes as methods of a tensor."""

    __slots__ = ()

    fill_, zero_, copy_, masked_fill, masked_fill_ = fill_, zero_, copy_, masked_fill, masked_fill_
    fill_diagonal_, resize_, resize_as_, set_ = fill_diagonal_, resize_, resize_as_, set_
