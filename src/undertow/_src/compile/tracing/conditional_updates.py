"""A part of a step that takes effect only if a value says so: an optimizer's step under a `GradScaler`.

While the step is traced, Python runs the part as if it took effect. Then every buffer that it wrote to selects between
the new value and the old one. What it added to the step's state (an optimizer's first state) is added after calls in
which the part took effect. Hooks inside it run on those calls only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from operator import is_
from typing import TYPE_CHECKING, Any

import jax

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.snapshot import Snapshot
from undertow._src.tensor.core import TensorCore

if TYPE_CHECKING:
    from undertow._src.compile.tracing.trace_state import Trace

Place = tuple[int, Any]  # the id of a mapping, and a key in it


@contextmanager
def only_if(trace: Trace, taken: DeviceArray) -> Iterator[None]:
    """Make a block of a traced step depend on a boolean of the program."""
    if trace.choice is not None:
        raise CompileError(
            "undertow.compile: one GradScaler's step() runs inside that of another, which is not supported. Call them "
            "one after the other."
        )
    if trace.counts:  # the number of steps is known only when the program has run
        trace.count_inside()
    trace.memory.settle_memories()
    before, groups = Snapshot(trace.state), _groups(trace)
    values = [(buffer, buffer.value) for buffer in trace.memory.memories()]
    draws = len(trace.host_inputs)
    trace.choice = taken
    try:
        yield
    finally:
        trace.choice = None
    trace.memory.settle_memories()
    if len(trace.host_inputs) != draws:
        raise CompileError(
            "undertow.compile: an optimizer's step that a GradScaler may skip draws random numbers. Draw them "
            "before scaler.step()."
        )
    if any(not all(map(is_, now, then)) for now, then in zip(_groups(trace), groups, strict=True)):
        raise CompileError(
            "undertow.compile: an optimizer's step that a GradScaler may skip changes the options of a group. Change them "
            "after scaler.step(), or outside of the compiled step."
        )
    chosen = taken.value
    for holder, held in before.maps:
        _choose_entries(trace, holder, held, taken)
    _refuse_other_changes(before)
    for buffer, value in values:
        if buffer.value is not value:
            buffer.value = jax.numpy.where(chosen, buffer.value, value)
            buffer.writes += 1


def _groups(trace: Trace) -> list[list[Any]]:
    return [list(group.values()) for optimizer in trace.state.optimizers for group in optimizer.param_groups]


def _choose_entries(trace: Trace, holder: dict[Any, Any], held: dict[Any, Any], taken: DeviceArray) -> None:
    """Find the entries that the block put into a mapping: a new value of an earlier tensor, or an entry to be put there
    later.
    """
    for key in {**held, **holder}:
        before, now = held.get(key), holder.get(key)
        if before is now and (key in held) == (key in holder):
            continue
        if isinstance(before, TensorCore) and isinstance(now, TensorCore) and before._array.shape == now._array.shape:
            before._array.write(jax.numpy.where(taken.value, now._array.value, before._array.value))
            holder[key] = before
        else:
            trace.chosen[id(holder), key] = taken


def _refuse_other_changes(before: Snapshot) -> None:
    for items, kept in before.lists:
        if len(items) != len(kept) or not all(map(is_, items, kept)):
            raise CompileError(
                "undertow.compile: an optimizer's step that a GradScaler may skip changes a list. Change it after "
                "scaler.step(), or outside of the compiled step."
            )
    for tensor, grad in before.grads:
        if (None if tensor._meta is None else tensor._meta.grad) is not grad:
            raise CompileError(
                "undertow.compile: an optimizer's step that a GradScaler may skip replaces a gradient. Replace "
                "it after scaler.step()."
            )
