"""Factories: tensors of constants, and tensors shaped like others."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from undertow._src.arrays.device.array import lying
from undertow._src.arrays.namespaces import namespace_of
from undertow._src.arrays.numpy.shape import copy as copy_array
from undertow._src.engine.arguments import as_element, as_int, as_ints, check_tensor, element_in_trace, must_be
from undertow._src.ops.public import overloaded, public
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.factory_arguments import (
    check_options,
    check_size,
    empty_array,
    has_no_values,
    into_out,
    made,
    number,
    parse_kind,
    parse_size,
    scalar_array,
    without_values,
)
from undertow._src.types.dtypes import DTYPE_OF, SCALAR_DTYPE
from undertow._src.types.dtypes import dtype as Dtype
from undertow._src.types.layouts import memory_format, preserve_format, sparse_coo
from undertow.storage import Array, unset
from undertow.storage import empty_strided as empty_strided_array

Fill = Callable[[tuple[int, ...], np.dtype[Any]], Array]


def _constant(name: str, fill: Fill, doc: str) -> Callable[..., Any]:
    """Return `zeros` or `ones`."""

    def factory(
        *args: Any, size: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
        pin_memory: Any = False, requires_grad: Any = False,
    ) -> Any:  # fmt: skip
        sizes = parse_size(args, size, name)
        kind = parse_kind(dtype, name)
        if layout is sparse_coo and name == "zeros":
            return _sparse_zeros(sizes, kind, requires_grad)
        check_options(name, device, layout, pin_memory)
        if out is not None:
            return into_out(out, fill(sizes, kind.numpy), name, dtype)
        array = without_values(sizes, kind.numpy) if has_no_values(device) else fill(sizes, kind.numpy)
        return made(array, name, requires_grad, device)

    factory.__name__ = factory.__qualname__ = name
    factory.__doc__ = doc
    return public(factory)


def _sparse_zeros(sizes: tuple[int, ...], kind: Any, requires_grad: Any) -> Any:
    """Return a sparse tensor without elements; its class is imported at the first use."""
    make = importlib.import_module("undertow.sparse.coo").sparse_coo_tensor
    return make(size=sizes, dtype=kind, requires_grad=bool(requires_grad))


zeros = _constant("zeros", np.zeros, "A tensor of zeros.")
ones = _constant("ones", np.ones, "A tensor of ones.")


@public
def empty(
    *args: Any, size: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = False, requires_grad: Any = False, memory_format: Any = None,
) -> Any:  # fmt: skip
    """Return an uninitialised tensor."""
    sizes = parse_size(args, size, "empty")
    kind = parse_kind(dtype, "empty")
    if layout is sparse_coo:
        return _sparse_zeros(sizes, kind, requires_grad)
    check_options("empty", device, layout, pin_memory)
    if has_no_values(device) and memory_format is None and out is None:
        return made(without_values(sizes, kind.numpy), "empty", requires_grad, device)
    array = unset(empty_array(sizes, kind.numpy, memory_format))
    return into_out(out, array, "empty", dtype) if out is not None else made(array, "empty", requires_grad, device)


@public
def empty_strided(
    size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: Any = False,
    pin_memory: Any = False,
) -> Any:  # fmt: skip
    """Return an uninitialised tensor with the given strides, counted in elements."""
    sizes, strides = as_ints(size, "empty_strided", "size"), as_ints(stride, "empty_strided", "stride", 2)
    check_options("empty_strided", device, layout, pin_memory)
    if len(sizes) != len(strides):
        raise RuntimeError(
            f"dimensionality of sizes ({len(sizes)}) must match dimensionality of strides ({len(strides)})"
        )
    if any(step < 0 for step in strides):
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(sizes)} and strides={list(strides)}")
    kind = parse_kind(dtype, "empty_strided")
    if has_no_values(device):
        array = empty_strided_array(check_size(sizes, "empty_strided"), strides, kind.numpy, without_values)
        return made(array, "", requires_grad, device)
    array = unset(empty_strided_array(check_size(sizes, "empty_strided"), strides, kind.numpy))
    return made(array, "", requires_grad, device)


@public
def empty_permuted(
    size: Any, physical_layout: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: Any = False, pin_memory: Any = False,
) -> Any:  # fmt: skip
    """Return an uninitialised tensor whose dims have the given order in memory."""
    sizes = check_size(as_ints(size, "empty_permuted", "size"), "empty_permuted")
    order = as_ints(physical_layout, "empty_permuted", "physical_layout", 2)
    check_options("empty_permuted", device, layout, pin_memory)
    if sorted(order) != list(range(len(sizes))):
        raise RuntimeError(f"empty_permuted: {list(order)} is no order of {len(sizes)} dims")
    back = sorted(range(len(order)), key=order.__getitem__)
    array = np.empty([sizes[dim] for dim in order], parse_kind(dtype, "empty_permuted").numpy).transpose(back)
    return made(unset(array), "empty_permuted", requires_grad, device)


@public
def full(
    size: Any, fill_value: Any, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = False, requires_grad: Any = False,
) -> Any:  # fmt: skip
    """Return a tensor of one value; the dtype is the value's unless given."""
    sizes = check_size(as_ints(size, "full", "size"), "full")
    value = number(fill_value, "full", "fill_value", 2)
    kind = parse_kind(dtype, "full", SCALAR_DTYPE[type(value)] if out is None else DTYPE_OF[out._array.dtype])
    check_options("full", device, layout, pin_memory)
    if has_no_values(device) and out is None:
        return made(without_values(sizes, kind.numpy), "full", requires_grad, device)
    array = _filled(np.empty(sizes, kind.numpy), value, kind)
    return into_out(out, array, "full", dtype) if out is not None else made(array, "full", requires_grad, device)


def _filled(array: Array, value: Any, kind: Dtype) -> Array:
    element = element_in_trace(value, kind.numpy)
    if element is not None:
        filled = namespace_of([element]).broadcast_to(element, array.shape).copy()
        filled.lie_like([array])
        return filled
    if SCALAR_DTYPE[type(value)] is kind and abs(value) < 1e30 and kind.itemsize > 2:
        array.fill(value)
        return array
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise OverflowError("int too big to convert")
    array[...] = scalar_array(as_element(value, kind), kind)
    return array


@public
def scalar_tensor(
    s: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False,
    requires_grad: Any = False,
) -> Any:  # fmt: skip
    """Return a 0-dim tensor of the default dtype."""
    value = number(s, "scalar_tensor", "s", 1)
    kind = parse_kind(dtype, "scalar_tensor")
    check_options("scalar_tensor", device, layout, pin_memory)
    return made(scalar_array(as_element(value, kind), kind), "scalar_tensor", requires_grad, device)


@overloaded
def eye(
    n: int, m: int | None = None, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = False, requires_grad: Any = False,
) -> Any:  # fmt: skip
    """Return a matrix with ones on its diagonal."""
    rows = as_int(n, "eye", "n", 1)
    columns = rows if m is None else as_int(m, "eye", "m", 2)
    for letter, count in (("n", rows), ("m", columns)):
        if count < 0:
            raise RuntimeError(f"{letter} must be greater or equal to 0, got {count}")
    kind = parse_kind(dtype, "eye")
    check_options("eye", device, layout, pin_memory)
    if has_no_values(device) and out is None:
        return made(without_values((rows, columns), kind.numpy), "eye", requires_grad, device)
    array = np.eye(rows, columns, dtype=kind.numpy)
    return into_out(out, array, "eye", dtype) if out is not None else made(array, "eye", requires_grad, device)


# --- like another tensor


def like(
    input: Any, name: str, dtype: Any, layout: Any, device: Any, pin_memory: Any, order: Any
) -> tuple[Array, Dtype]:
    """Return an uninitialised array with the shape, memory order and dtype of a tensor."""
    check_tensor(input, name)
    check_options(name, device, layout, pin_memory)
    source = lying(input._array)
    kind = parse_kind(dtype, name, DTYPE_OF[source.dtype])
    if order is None or order is preserve_format:
        if source.flags.c_contiguous:
            if has_no_values(device or input.device):
                return without_values(source.shape, kind.numpy), kind
            return np.empty(source.shape, kind.numpy), kind
        if 0 in source.strides:
            source = copy_array(source)
        return np.empty_like(source, kind.numpy, order="K"), kind
    if not isinstance(order, memory_format):
        raise must_be("torch.memory_format", order, name, "memory_format")
    return empty_array(source.shape, kind.numpy, order), kind


def _like_factory(name: str, value: int | None, doc: str) -> Callable[..., Any]:
    """Return `zeros_like`, `ones_like` or `empty_like`."""

    def factory(
        input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False,
        requires_grad: Any = False, memory_format: Any = None,
    ) -> Any:  # fmt: skip
        array, _ = like(input, name, dtype, layout, device, pin_memory, memory_format)
        where = device or input.device
        if value is None:
            unset(array)
        elif not has_no_values(where):
            array.fill(value)
        return made(array, name, requires_grad, where)

    factory.__name__ = factory.__qualname__ = name
    factory.__doc__ = doc
    return public(factory)


zeros_like = _like_factory("zeros_like", 0, "Zeros in the shape and dtype of a tensor.")
ones_like = _like_factory("ones_like", 1, "Ones in the shape and dtype of a tensor.")
empty_like = _like_factory("empty_like", None, "An uninitialised tensor in the shape and dtype of another.")


@public
def full_like(
    input: Any, fill_value: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False,
    requires_grad: Any = False, memory_format: Any = None,
) -> Any:  # fmt: skip
    """Return a tensor filled with one value, in the shape and dtype of a given one."""
    check_tensor(input, "full_like")
    value = number(fill_value, "full_like", "fill_value", 2)
    array, kind = like(input, "full_like", dtype, layout, device, pin_memory, memory_format)
    where = device or input.device
    return made(array if has_no_values(where) else _filled(array, value, kind), "full_like", requires_grad, where)


def _new_method(name: str, fill: Fill, doc: str) -> Callable[..., Any]:
    """Return `x.new_zeros` or a relative: the dtype of x, a given shape."""

    def method(
        self: Any, *args: Any, size: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
        pin_memory: Any = False, requires_grad: Any = False,
    ) -> Any:  # fmt: skip
        sizes = parse_size(args, size, name)
        kind = parse_kind(dtype, name, DTYPE_OF[self._array.dtype])
        check_options(name, device, layout, pin_memory)
        where = device or self.device
        array = without_values(sizes, kind.numpy) if has_no_values(where) else fill(sizes, kind.numpy)
        return made(array, name, requires_grad, where)

    method.__name__, method.__qualname__, method.__doc__ = name, f"CreationMethods.{name}", doc
    return public(method)


class CreationMethods(TensorCore):
    """Methods that make new tensors of this tensor's dtype."""

    __slots__ = ()

    new_zeros = _new_method("new_zeros", np.zeros, "Zeros in the dtype of this tensor.")
    new_ones = _new_method("new_ones", np.ones, "Ones in the dtype of this tensor.")
    new_empty = _new_method(
        "new_empty",
        lambda sizes, kind: unset(np.empty(sizes, kind)),
        "An uninitialised tensor in the dtype of this one.",
    )

    @public
    def new_full(
        self, size: Any, fill_value: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
        pin_memory: Any = False, requires_grad: Any = False,
    ) -> Any:  # fmt: skip
        """Return a tensor filled with one value, in the dtype of this tensor."""
        sizes = check_size(as_ints(size, "new_full", "size"), "new_full")
        value = number(fill_value, "new_full", "fill_value", 2)
        kind = parse_kind(dtype, "new_full", DTYPE_OF[self._array.dtype])
        check_options("new_full", device, layout, pin_memory)
        where = device or self.device
        if has_no_values(where):
            return made(without_values(sizes, kind.numpy), "new_full", requires_grad, where)
        return made(_filled(np.empty(sizes, kind.numpy), value, kind), "new_full", requires_grad, where)

    @public
    def new_empty_strided(self, size: Any, stride: Any, dtype: Any = None, **options: Any) -> Any:
        """Return an uninitialised tensor in the dtype of this one, with the given strides."""
        return empty_strided(size, stride, dtype=dtype or DTYPE_OF[self._array.dtype], **options)


__all__ = [
    "CreationMethods", "empty", "empty_like", "empty_permuted", "empty_strided", "eye", "full",
    "full_like", "like", "ones", "ones_like", "scalar_tensor", "zeros", "zeros_like",
]  # fmt: skip
