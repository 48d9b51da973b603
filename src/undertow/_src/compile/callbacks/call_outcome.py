"""What became of a call on the host, for the rest of the call of its program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from undertow._src.base.modes import set_grad_enabled
from undertow._src.compile.callbacks.hook_view import HookView, ShownCall, gradient_of, tensors_in
from undertow._src.compile.callbacks.tensor_mirrors import ExternalMirror
from undertow._src.tensor.core import wrap


class CallOutcome:
    """What a call on the host gave, raised and wrote: a replay does that again without the call."""

    done = False  # whether the call was made
    answer: Any = None
    error: BaseException | None = None  # what it raised
    states_after: Sequence[tuple[Any, Any]] = ()  # of random streams, if the step makes no draws after it
    _answered_with: Sequence[
        Any
    ] = ()  # the values of tensors in its answer, which become gradients that go on changing
    _written: Sequence[Any] = ()  # what the tensors that it was given held afterwards, those into which it wrote
    _written_outside: Sequence[tuple[Any, Any, Any]] = ()  # the same of tensors from outside, and of their gradients

    def note_writes(self, view: HookView, shown: ShownCall, given: list[Any], before: Sequence[Any]) -> None:
        """Note what the hook wrote.

        What it left alone is not noted: a replay computes it anew, rounded otherwise, and to write it would be a write.
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
        """Note the values of tensors in an answer; those of tensors from outside a replay finds where they are."""
        outside = [shown.tensors[state.mirror]._array for state in view.own()]
        self._answered_with = [
            None if any(np.may_share_memory(each._array, array) for array in outside) else np.array(each._array)
            for each in tensors_in(answer)
        ]

    def repeat_writes(self, args: Any) -> None:
        """Write what the hook wrote when it was called, into the tensors of a step that runs once more."""
        pairs = [*zip(tensors_in(args), self._written)]
        for tensor, value, gradient in self._written_outside:
            pairs += [(tensor, value), (gradient_of(tensor), gradient)]
        for tensor, value in pairs:
            if tensor is not None and value is not None:
                _write_if_other(tensor, value)

    def repeat_answer(self) -> Any:
        """Return what the hook gave when it was called, with the values that it had then."""
        for tensor, value in zip(tensors_in(self.answer), self._answered_with):
            if value is not None:
                _write_if_other(tensor.detach(), value)
        return self.answer


def _write_if_other(tensor: Any, value: Any) -> None:
    if not equal_values(np.asarray(tensor._array), value):
        with set_grad_enabled(False):
            tensor.copy_(wrap(value))


def equal_values(array: Any, other: Any) -> bool:
    """Return whether arrays hold the same values, NaN among them."""
    return np.array_equal(array, other, equal_nan=array.dtype.kind in "fcV")  # "V": those of ml_dtypes
