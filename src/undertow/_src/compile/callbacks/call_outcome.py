"""The outcome of a call on the host, for the rest of the program's call and for a replay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import numpy as np

from undertow._src.base.modes import set_grad_enabled
from undertow._src.compile.callbacks.hook_view import HookView, ShownCall, gradient_of, tensors_in
from undertow._src.compile.callbacks.kept_memory import WeakMemory, nothing_held
from undertow._src.compile.callbacks.tensor_mirrors import ExternalMirror
from undertow._src.tensor.core import wrap


class CallOutcome:
    """What a call on the host returned, raised and wrote: a replay repeats that without the call."""

    done = False  # whether the call was made
    answer: Any = None
    error: BaseException | None = None  # what it raised
    states_after: Sequence[tuple[Any, Any]] = ()  # states of random streams, if the step makes no draws after it
    _gradients: Sequence[tuple[Any, Any, WeakMemory]] = ()  # leaves; gradients that hooks hold, weakly
    _answered_with: Sequence[Any] = ()  # values of tensors in its result, which become gradients and change later
    _written: Sequence[Any] = ()  # values of argument tensors that it wrote to
    _written_outside: Sequence[tuple[Any, Any, Any]] = ()  # the same for tensors from outside, and their gradients

    def note_gradients(self, held: Sequence[tuple[Any, Any]], shown: Sequence[tuple[Any, Any]]) -> None:
        """Record the gradients of leaves that hooks hold, or that the hook gets and may keep."""
        arrays = [(leaf, mirror and mirror.present(), memory.array()) for leaf, (mirror, memory) in held]
        arrays += [(leaf, grad, grad._array) for leaf, grad in shown if grad is not None and grad._is_strided]
        self._gradients = [
            (leaf, _weakly(tensor), WeakMemory(array)) for leaf, tensor, array in arrays if array is not None
        ]

    def note_writes(self, view: HookView, shown: ShownCall, given: list[Any], before: Sequence[Any]) -> None:
        """Record what the hook wrote.

        What it did not change is not recorded: a replay computes that again, and writing it would count as a write.
        """
        written = [
            None if now is None or (was is not None and equal_values(now, was)) else now
            for now, was in zip(view.values_of(shown.tensors, given), before, strict=True)
        ]
        found = [state.mirror.find() for state in view.own() if isinstance(state.mirror, ExternalMirror)]
        n_given, n_found = len(written) - 2 * len(found), len(found)
        self._written = written[:n_given]
        self._written_outside = [*zip(found, written[n_given:], written[n_given + n_found :])]

    def note_answer(self, answer: Any, view: HookView, shown: ShownCall) -> None:
        """Record the values of tensors in a result; a replay finds those of tensors from outside in place."""
        outside = [shown.tensors[state.mirror]._array for state in view.own()]
        self._answered_with = [
            None
            if not each._is_strided or any(np.may_share_memory(each._array, array) for array in outside)
            else np.array(each._array)
            for each in tensors_in(answer)
        ]

    def repeat_writes(self, args: Any) -> None:
        """Repeat the hook's writes, into the tensors of the replayed step."""
        pairs = [*zip(tensors_in(args), self._written)]
        for tensor, value, gradient in self._written_outside:
            pairs += [(tensor, value), (gradient_of(tensor), gradient)]
        for tensor, value in pairs:
            if tensor is not None and value is not None:
                _write_if_other(tensor, value)

    def keep_gradients(self) -> None:
        """Give leaves of the replayed step the gradients that hooks hold, if these are their current ones."""
        for leaf, shown, memory in self._gradients:
            kept, now = shown(), gradient_of(leaf)
            if kept is None and (array := memory()) is not None:  # hooks hold an alias of it
                kept = wrap(array)
            if kept is None or now is None or now is kept or kept.shape != now.shape:
                continue
            if self.error is not None:
                _write_if_other(kept.detach(), np.asarray(now._array))
            elif not equal_values(np.asarray(kept._array), np.asarray(now._array)):
                continue  # the step has written to it since
            leaf._get_meta().grad = kept

    def repeat_answer(self) -> Any:
        """Return the hook's result, with its values at the time of the call."""
        for tensor, value in zip(tensors_in(self.answer), self._answered_with):
            if value is not None:
                _write_if_other(tensor.detach(), value)
        return self.answer


def _weakly(tensor: Any) -> Callable[[], Any]:
    return nothing_held if tensor is None else ref(tensor)


def _write_if_other(tensor: Any, value: Any) -> None:
    if not equal_values(np.asarray(tensor._array), value):
        with set_grad_enabled(False):
            tensor.copy_(wrap(value))


def equal_values(array: Any, other: Any) -> bool:
    """Return whether arrays hold the same values, NaN among them."""
    return np.array_equal(array, other, equal_nan=array.dtype.kind in "fcV")  # "V": those of ml_dtypes
