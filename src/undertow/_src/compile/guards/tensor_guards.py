"""Guards on the tensors and NumPy arrays that a step reaches, besides the values that are inputs of its program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.guard import Guard, counted
from undertow._src.compile.guards.places import Place, place_at
from undertow._src.compile.guards.snapshot import equal_arrays

_REQUIRES_GRAD = attrgetter("_requires_grad")


class RequiresGradGuard(Guard):
    """Guard which tensors require a gradient."""

    def __init__(self, tensors: list[Any]) -> None:
        self._learning = [tensor for tensor in tensors if tensor._requires_grad]
        self._frozen = [tensor for tensor in tensors if not tensor._requires_grad]

    @property
    def watches(self) -> str:
        """Say how many tensors there are."""
        return f"requires_grad of {counted(len(self._learning) + len(self._frozen), 'tensor')}"

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether each requires a gradient if it did."""
        return not any(map(_REQUIRES_GRAD, self._frozen)) and all(map(_REQUIRES_GRAD, self._learning))

    def reason(self) -> str:
        """Name a tensor that does not."""
        changed = [tensor for tensor in self._learning if not tensor._requires_grad]
        changed += [tensor for tensor in self._frozen if tensor._requires_grad]
        return f"requires_grad of a tensor of shape {list(changed[0]._array.shape)} changed"


class Layout(NamedTuple):
    """How an array lies in memory."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None  # None: of no elements


def layout_of(array: Any) -> Layout:
    """Return how a tensor's array lies in memory."""
    return Layout(tuple(array.shape), array.dtype, array.strides if array.size else None)


class LayoutGuard(Guard):
    """Guard how tensors lie in memory, which `.data = other`, `resize_` and `set_` change."""

    def __init__(self, tensors: list[Any]) -> None:
        self._layouts: list[tuple[Any, Any, Layout]] = [(tensor, None, layout_of(tensor._array)) for tensor in tensors]

    def trust(self, adopted: Iterable[tuple[Any, Any]]) -> None:
        """Note which arrays tensors have after a call of the program: as long as one is there, nothing is asked of it."""
        held = {id(tensor): array for tensor, array in adopted}
        self._layouts = [(tensor, held.get(id(tensor)), layout) for tensor, _, layout in self._layouts]

    @property
    def watches(self) -> str:
        """Say how many tensors there are."""
        return f"shapes, dtypes and strides of {counted(len(self._layouts), 'tensor')}"

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether each lies in memory as it did."""
        for tensor, held, layout in self._layouts:
            array = tensor._array
            if array is not held and layout_of(array) != layout:
                return False
        return True

    def reason(self) -> str:
        """Name a tensor that does not, and what is different."""
        pairs = [(layout, layout_of(tensor._array)) for tensor, _, layout in self._layouts]
        before, now = next((before, now) for before, now in pairs if before != now)
        what = next(name for name, was, is_now in zip(Layout._fields, before, now) if was != is_now)
        return (
            f"a tensor of shape {list(before.shape)} has another {what}, which was {getattr(before, what)} and is "
            f"{getattr(now, what)}"
        )


class GradientGuard(Guard):
    """Guard which tensors have a gradient, and of which dtype: the gradient is another tensor in each step."""

    def __init__(self, tensors: list[Any]) -> None:
        # Optimizers use the gradient of a leaf that is frozen, too.
        self._looks = [(tensor, _look_of(tensor._meta and tensor._meta.grad)) for tensor in tensors]

    @property
    def watches(self) -> str:
        """Say how many tensors there are."""
        return f"whether {counted(len(self._looks), 'tensor')} have a gradient, and its dtype"

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether each has a gradient if it had one, of the same dtype."""
        for tensor, look in self._looks:
            meta = tensor._meta
            grad = None if meta is None else meta.grad
            if grad is None:
                if look is not None:
                    return False
            elif not (look and grad._is_strided and grad._requires_grad is look[1] and grad._array.dtype is look[0]):
                if _look_of(grad) != look:  # dtypes may be equal and not the same
                    return False
        return True

    def reason(self) -> str:
        """Name a tensor that has not."""
        for tensor, look in self._looks:
            now = None if tensor._meta is None else tensor._meta.grad
            if _look_of(now) != look:
                had = "had no gradient" if look is None else "had a gradient"
                has = "has none" if now is None else "has one" if look is None else "has another"
                shape = list(tensor._array.shape)
                return f"a parameter of shape {shape} {had} when the step was compiled, and now {has}"
        return "gradients changed"


class ArrayGuard(Guard):
    """Guard the numbers in NumPy arrays."""

    def __init__(
        self, arrays: list[tuple[Any, np.ndarray[Any, Any]]], names: Sequence[tuple[Any, str]], ignored: set[Place]
    ) -> None:
        self._arrays, self._names, self._ignored = arrays, [name for _, name in names], ignored
        self.prepare()

    @property
    def watches(self) -> str:
        """Say how many arrays there are."""
        return f"the numbers in {counted(len(self._counting), 'NumPy array')}"

    def prepare(self) -> None:
        """Choose the arrays to compare, now that it is known which do not count."""
        self._counting = [
            (array, contents, name)
            for (array, contents), name in zip(self._arrays, self._names)
            if place_at(array, None) not in self._ignored
        ]

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether each array holds what it held."""
        for array, contents, _ in self._counting:
            if not equal_arrays(array, contents):
                return False
        return True

    def reason(self) -> str:
        """Name an array that does not."""
        changed = next(name for array, contents, name in self._counting if not equal_arrays(array, contents))
        return f"the NumPy array {changed} changed"


def _look_of(grad: Any) -> Any:
    """Return what a program depends on in a gradient."""
    if grad is None:
        return None
    if not grad._is_strided:
        raise CompileError(
            f"undertow.compile: a tensor of the step's own has a sparse gradient, of shape {list(grad.shape)}. Programs "
            "keep gradients dense: clear it (zero_grad()) before the call, or make it so (grad.to_dense())."
        )
    return grad._array.dtype, grad._requires_grad
