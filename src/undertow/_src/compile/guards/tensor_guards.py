"""Guards on the tensors and NumPy arrays that a step reaches; their values are inputs of the program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.guard import Check, Guard
from undertow._src.compile.guards.memory_words import TYPE, Words, offset_of
from undertow._src.compile.guards.places import Place, place_at
from undertow._src.compile.guards.snapshot import equal_arrays
from undertow._src.tensor.core import Meta, TensorCore

_REQUIRES_GRAD = attrgetter("_requires_grad")


class RequiresGradGuard(Guard):
    """Guard which tensors require a gradient."""

    def __init__(self, tensors: list[Any]) -> None:
        self._learning = [tensor for tensor in tensors if tensor._requires_grad]
        self._frozen = [tensor for tensor in tensors if not tensor._requires_grad]

    @property
    def watches(self) -> str:
        """Return the line for `explain`."""
        return "which tensors require a gradient"

    @property
    def number(self) -> int:
        """Return their number."""
        return len(self._learning) + len(self._frozen)

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether each `requires_grad` is unchanged."""
        return not any(map(_REQUIRES_GRAD, self._frozen)) and all(map(_REQUIRES_GRAD, self._learning))

    def watch(self, words: Words) -> Check | None:
        """Watch the flags."""
        offset = offset_of(TensorCore, "_requires_grad")
        for tensors, flag in ((self._learning, True), (self._frozen, False)):
            for tensor in tensors:
                words.slot(tensor, offset, flag)
        return None

    def reason(self) -> str:
        """Return a tensor that changed, in words."""
        changed = [tensor for tensor in self._learning if not tensor._requires_grad]
        changed += [tensor for tensor in self._frozen if tensor._requires_grad]
        return f"requires_grad of a tensor of shape {list(changed[0]._array.shape)} changed"


class Layout(NamedTuple):
    """How an array lies in memory."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None  # None: no elements


def layout_of(array: Any) -> Layout:
    """Return how a tensor's array lies in memory."""
    return Layout(tuple(array.shape), array.dtype, array.strides if array.size else None)


class LayoutGuard(Guard):
    """Guard how tensors lie in memory, which `.data = other`, `resize_` and `set_` change."""

    def __init__(self, tensors: list[Any]) -> None:
        self._layouts: list[tuple[Any, Any, Layout]] = [(tensor, None, layout_of(tensor._array)) for tensor in tensors]

    def trust(self, adopted: Iterable[tuple[Any, Any]]) -> None:
        """Record the tensors' arrays after a call of the program: an array that is still in place needs no check."""
        held = {id(tensor): array for tensor, array in adopted}
        self._layouts = [(tensor, held.get(id(tensor)), layout) for tensor, _, layout in self._layouts]

    @property
    def watches(self) -> str:
        """Return the line for `explain`."""
        return "shapes, dtypes and strides of tensors"

    @property
    def number(self) -> int:
        """Return their number."""
        return len(self._layouts)

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether each layout is unchanged."""
        return _lie_as_before(self._layouts)

    def watch(self, words: Words) -> Check | None:
        """Watch which arrays tensors have, and those that are not the program's."""
        offset = offset_of(TensorCore, "_array")
        others = []
        for tensor, held, layout in self._layouts:
            array = tensor._array
            if array is held:
                words.slot(tensor, offset, held)
            elif type(array) is np.ndarray and array.dtype is layout.dtype and layout_of(array) == layout:
                words.slot(tensor, offset, array)
                words.array_at(array, layout, level=0)
            else:
                others.append((tensor, held, layout))
        return (lambda arguments: _lie_as_before(others)) if others else None

    def reason(self) -> str:
        """Return a tensor that changed, and the difference, in words."""
        pairs = [(layout, layout_of(tensor._array)) for tensor, _, layout in self._layouts]
        before, now = next((before, now) for before, now in pairs if before != now)
        what = next(name for name, was, is_now in zip(Layout._fields, before, now) if was != is_now)
        return (
            f"the {what} of a tensor of shape {list(before.shape)} changed from {getattr(before, what)} to "
            f"{getattr(now, what)}"
        )


def _lie_as_before(layouts: list[tuple[Any, Any, Layout]]) -> bool:
    for tensor, held, layout in layouts:
        array = tensor._array
        if array is not held and layout_of(array) != layout:
            return False
    return True


class GradientGuard(Guard):
    """Guard which tensors have a gradient, and its dtype. The gradient itself is a new tensor in each step."""

    def __init__(self, tensors: list[Any]) -> None:
        # Optimizers use the gradient of a leaf that is frozen, too.
        self._looks = [(tensor, _look_of(tensor._meta and tensor._meta.grad)) for tensor in tensors]

    @property
    def watches(self) -> str:
        """Return the line for `explain`."""
        return "which tensors have a gradient, and its dtype"

    @property
    def number(self) -> int:
        """Return their number."""
        return len(self._looks)

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether the same tensors have gradients, of the same dtypes."""
        return _have_gradients(self._looks)

    def watch(self, words: Words) -> Check | None:
        """Watch the gradients, which stay the same tensors while nothing else holds them."""
        others = [each for each in self._looks if not _watch_gradient(words, *each)]
        return (lambda arguments: _have_gradients(others)) if others else None

    def reason(self) -> str:
        """Return a tensor whose gradient changed, in words."""
        for tensor, look in self._looks:
            now = None if tensor._meta is None else tensor._meta.grad
            if _look_of(now) != look:
                had = "had no gradient" if look is None else "had a gradient"
                has = "has none" if now is None else "has one" if look is None else "has another"
                shape = list(tensor._array.shape)
                return f"a parameter of shape {shape} {had} when the step was compiled, and now {has}"
        return "gradients changed"


def _have_gradients(looks: list[tuple[Any, Any]]) -> bool:
    for tensor, look in looks:
        meta = tensor._meta
        grad = None if meta is None else meta.grad
        if grad is None:
            if look is not None:
                return False
        elif not (look and grad._is_strided and grad._requires_grad is look[1] and grad._array.dtype is look[0]):
            if _look_of(grad) != look:  # dtypes may be equal and not identical
                return False
    return True


def _watch_gradient(words: Words, tensor: Any, look: Any) -> bool:
    """Watch the gradient of one tensor. Return False if words do not show all of its changes."""
    meta = tensor._meta
    grad = None if meta is None else meta.grad
    if (grad is None) != (look is None):
        return False
    words.slot(tensor, offset_of(TensorCore, "_meta"), words.keep(meta))
    if meta is not None:
        words.slot(meta, offset_of(Meta, "grad"), grad)
    if grad is None:
        return True
    array, (dtype, flag) = grad._array, look
    if type(array) is not DeviceArray or array.dtype is not dtype:
        return False
    for offset, value in ((TYPE, type(grad)), (offset_of(TensorCore, "_requires_grad"), flag)):
        words.expect(id(grad) + offset, id(words.keep(value)), level=1)
    words.expect(id(grad) + offset_of(TensorCore, "_array"), id(array), level=1)
    for offset, value in ((TYPE, DeviceArray), (offset_of(DeviceArray, "dtype"), dtype)):
        words.expect(id(array) + offset, id(value), level=2)
    return True


class ArrayGuard(Guard):
    """Guard the numbers in NumPy arrays."""

    def __init__(
        self, arrays: list[tuple[Any, np.ndarray[Any, Any]]], names: Sequence[tuple[Any, str]], ignored: set[Place]
    ) -> None:
        self._arrays, self._names, self._ignored = arrays, [name for _, name in names], ignored
        self.prepare()

    @property
    def watches(self) -> str:
        """Return the line for `explain`."""
        return "NumPy arrays"

    @property
    def number(self) -> int:
        """Return their number."""
        return len(self._counting)

    def prepare(self) -> None:
        """Choose the arrays to compare, after it is known which are not guarded."""
        self._counting = [
            (array, contents, name)
            for (array, contents), name in zip(self._arrays, self._names)
            if place_at(array, None) not in self._ignored
        ]

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether the numbers of each array are unchanged."""
        for array, contents, _ in self._counting:
            if not equal_arrays(array, contents):
                return False
        return True

    def reason(self) -> str:
        """Return an array that changed, in words."""
        changed = next(name for array, contents, name in self._counting if not equal_arrays(array, contents))
        return f"the NumPy array {changed} changed"


def _look_of(grad: Any) -> Any:
    """Return the part of a gradient on which a program depends."""
    if grad is None:
        return None
    if not grad._is_strided:
        raise CompileError(
            f"undertow.compile: a tensor that the step uses has a sparse gradient, of shape {list(grad.shape)}, but "
            "gradients in programs are dense. Clear it before the call (zero_grad()), or make it dense (grad.to_dense())."
        )
    return grad._array.dtype, grad._requires_grad
