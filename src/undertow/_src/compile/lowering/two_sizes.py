"""A step whose arguments have sizes that vary: traced at two sizes, and made one capture by `masking`."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Sequence
from typing import Any

import jax
import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import TraceAborted
from undertow._src.base.tree import leaves
from undertow._src.compile.errors import CompileError, line_of
from undertow._src.compile.guards.places import Numbers
from undertow._src.compile.lowering.masking import masked
from undertow._src.compile.lowering.traced_sizes import Layout, Length, Sizes, TooShort
from undertow._src.compile.plan import Plan
from undertow._src.compile.tracing.capture import Capture, capture
from undertow._src.compile.tracing.left_state import LeftState
from undertow._src.compile.tracing.lengths import Lengths
from undertow._src.compile.tracing.results import graph_is_left, tensors_in
from undertow._src.compile.tracing.step_inputs import Call
from undertow._src.compile.tracing.symbolic_scalars import Uncountable

_PLAIN = (int, float, bool, str, type(None))


class Cuts:
    """Cut the results of a program to the true sizes of a call."""

    def __init__(self, true: Numbers, larger: tuple[int, ...]) -> None:
        self._true, self._larger = true, larger
        # By the id of a buffer: the layouts of its dimensions, and the arrays of the trace over it.
        self.results: dict[int, tuple[list[Layout], list[DeviceArray]]] = {}

    def cut(self, results: list[Any], buffers: list[Any]) -> list[Any]:
        """Return a program's last results, which go to some buffers, without padding."""
        return [
            value if id(buffer) not in self.results else self._without_padding(value, *self.results[id(buffer)])
            for value, buffer in zip(results, buffers, strict=True)
        ]

    def _without_padding(self, value: Any, layouts: list[Layout], arrays: list[DeviceArray]) -> Any:
        on_cpu = next(iter(value.devices())).platform == "cpu"
        whole = np.asarray(value) if on_cpu else value
        factors = [factor for layout in layouts for factor in layout]
        padded, true = [[_size(factor, sizes) for factor in factors] for sizes in (self._larger, self._true)]
        shape = [int(np.prod([_size(factor, self._true) for factor in layout])) for layout in layouts]
        part = whole.reshape(padded)[tuple(map(slice, true))].reshape(shape)
        for array in arrays:
            array.shape = tuple(shape)
        return jax.device_put(np.ascontiguousarray(part), value.sharding) if on_cpu else part


def _size(factor: int | Length, sizes: Any) -> int:
    return factor if isinstance(factor, int) else sizes[factor.symbol] + factor.offset


def capture_padded(call: Call, plan: Plan, lengths: Lengths) -> Capture:
    """Run a step at two sizes of its padded arguments, and return a capture for all true sizes."""
    if plan.exact_types:
        raise CompileError(
            "undertow.compile: code that the step reaches compares types of numbers (`type(n) is int`), and sizes that "
            "vary (`dynamic`) are stand-ins for ints. Use isinstance(), or compile without `dynamic`."
        )
    small = _captured(call, plan, lengths, True)
    small.undo()
    large = _captured(call, plan, lengths, False)
    try:
        lengths.verify()
        return _together(small, large, lengths)
    except BaseException:
        large.undo()
        raise


def _captured(call: Call, plan: Plan, lengths: Lengths, smaller: bool) -> Capture:
    """Trace a step at one of two sizes; refuse it if it raises there, because it may not raise at its true size."""
    try:
        return capture(lengths.begin(call, smaller), plan)
    except Uncountable as error:
        raise _refusal("keeps a size that varies in a key or a function", "Keep it as a value") from error
    except Exception as error:
        sizes = ", ".join(map(str, lengths.present))
        if isinstance(error, (TraceAborted, Warning)) or [*lengths.true] == [*lengths.present]:
            raise
        raise CompileError(
            f"undertow.compile: the step raised {error!r} at {line_of(error)} when it was traced with {sizes} in place of "
            "the true size, to learn what depends on it (`dynamic`). Name all arguments that have the size, with the same "
            "buckets. If the step can't take sizes up to the next power of two, name buckets that it can take: "
            "dynamic={'x': {1: (16, 50)}, 'y': {1: (16, 50)}}."
        ) from error


def _together(small: Capture, large: Capture, lengths: Lengths) -> Capture:
    sources, of_small = large.trace.memory.inputs, small.trace.memory.inputs
    if _plain_values(small.left) != _plain_values(large.left):
        raise CompileError(
            "undertow.compile: the step returns or stores a number or a string that depends on a size that varies "
            "(`dynamic`) in a way that is not known. Compute it from x.shape, or compile without `dynamic`."
        )
    if _placed(small) != _placed(large):
        raise _refusal("calls other hooks or statements on the host for another size", "Decide by x.shape")
    for one, other in zip(small.jaxpr.consts, large.jaxpr.consts):
        if (id(one) in of_small) != (id(other) in sources):
            raise CompileError("undertow.compile: the step reads other tensors for another size of its arguments.")
    sizes = Sizes(lengths.smaller, lengths.larger)
    first = len(large.inputs.options.values()) - len(large.inputs.counters.places)
    places = [first + place for place in range(len(lengths.true))]
    closed, layouts = masked((small.jaxpr, large.jaxpr), sizes, places, lambda const: sources.get(id(const)))
    if any(size < least for size, least in zip(lengths.true, sizes.least)):
        raise TooShort(sizes.least)
    renewed = dict(zip(map(id, closed.jaxpr.invars), [sources[id(var)] for var in large.jaxpr.jaxpr.invars]))
    large.trace.memory.inputs = sources | renewed
    cuts = _cuts(large, layouts, lengths)
    return dataclasses.replace(large, jaxpr=closed, cuts=cuts)


def _cuts(large: Capture, layouts: list[list[Layout]], lengths: Lengths) -> Cuts:
    """Return how results are cut; refuse results other than new tensors without a graph."""
    cuts = Cuts(lengths.true, lengths.larger)
    known = {id(buffer) for buffer, _, _ in large.trace.memory.buffers.values()}
    left = [tensor for tensor in tensors_in(large.left.parts(), large.left.known) if type(tensor._array) is DeviceArray]
    for buffer, dims in zip(large.outputs, layouts, strict=True):
        if not any(isinstance(factor, Length) for layout in dims for factor in layout):
            continue
        over = [tensor for tensor in left if tensor._array.buffer is buffer]
        if id(buffer) in known:
            raise _refusal("writes to a tensor whose size varies")
        if not over or large.callbacks.mirrors.stand_on(buffer):
            raise _refusal(
                "shows a tensor whose size varies to a hook or a statement on the host",
                "Compute in it what is to be seen (a norm, a mean)",
            )
        if any(tensor._array._parent is not None for tensor in over) or buffer.strides is not None:
            raise _refusal(
                "returns or keeps a view of a tensor whose size varies", "Return x.contiguous() or x.clone()"
            )
        if any(graph_is_left(tensor) for tensor in over):
            raise _refusal("returns or keeps a tensor whose size varies with its graph", "Return x.detach()")
        cuts.results[id(buffer)] = dims, [tensor._array for tensor in over]
    return cuts


def refuse_passed_on(passed_on: Sequence[int], written: Sequence[int], padded: Container[int]) -> None:
    """Refuse padded arguments that are returned, kept or written to: the caller would find the padding."""
    if any(place in padded for place in written):
        raise _refusal("writes to an argument whose size varies", "Write to a clone()")
    if any(place in padded for place in passed_on):
        raise _refusal("returns or keeps an argument whose size varies, or a view of it", "Return x.clone()")


def _refusal(what: str, cure: str = "Make a new tensor instead") -> CompileError:
    return CompileError(
        f"undertow.compile: the step {what} (`dynamic`). {cure}, or compile without `dynamic`, which makes a program for "
        "each size."
    )


def _placed(captured: Capture) -> list[tuple[str, ...]]:
    """Return where each hook and statement runs."""
    return [(each.name, each.where, each.runs) for each in captured.callbacks.placed]


def _plain_values(left: LeftState) -> list[Any]:
    """Return the numbers and strings that a step leaves."""
    parts = [left.result, *[part for _, key, value in left.entries for part in (key, value)]]
    return [(type(leaf), leaf) for leaf in leaves(parts) if type(leaf) in _PLAIN]
