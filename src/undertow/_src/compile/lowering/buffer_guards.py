"""The guards on a program's buffers: which are distinct and which are shared is the same in each call."""

from __future__ import annotations

from collections import Counter
from typing import Any

from undertow._src.compile.guards.alias_guards import AliasGuard, GradientAliasGuard, KeptGradientGuard, Memory
from undertow._src.compile.guards.guard import Guard
from undertow._src.compile.guards.host_read_guard import HostReadGuard, Used
from undertow._src.compile.lowering.lowered import InputBuffers, Origins, OutputBuffers
from undertow._src.compile.tracing.capture import Capture
from undertow._src.compile.tracing.results import tensors_in


def buffer_guards(
    capture: Capture, origins: Origins, inputs: InputBuffers, outputs: OutputBuffers, uses_gradients: bool
) -> list[Guard]:
    """Return the guards on the buffers of a program."""
    written = {id(buffer) for buffer in outputs.buffers}
    states, adopted, own = origins.states, capture.trace.memory.adopted, capture.inputs.given.own()
    memories = AliasGuard(
        [
            each
            for each in (*inputs.donated, *inputs.packed, *inputs.states, *inputs.only_written)
            if id(each[2]) in written
        ],
        [each for each in inputs.states if id(each[2]) not in written],
        [
            (tensor, states[id(held.buffer)][0])
            for tensor, held in adopted
            if tensor._view is None
            and id(tensor) not in own
            and states.get(id(held.buffer), (tensor,))[0] is not tensor
        ],
        capture.inputs.given.separate(),
        [argument for _, argument in outputs.arguments if argument < capture.inputs.given.count],
    )
    gradients = capture.inputs.given.gradients()
    standing = Counter([id(held.buffer) for _, held in adopted] + [id(each) for each in gradients])
    is_alone = [
        each is None or (each._view is None and standing[id(each)] == standing[id(each._array.buffer)] == 1)
        for each in gradients
    ]
    tied = [None if alone else each for each, alone in zip(gradients, is_alone)]
    capture.inputs.guards.layouts.trust(adopted)
    kept = _kept_gradients(capture, inputs)
    host_reads = _host_reads(capture, origins, inputs, outputs, memories)
    return [
        memories,
        *([] if host_reads is None else [host_reads]),
        *([GradientAliasGuard(memories, capture.inputs.given, tied)] if uses_gradients else ()),
        *([KeptGradientGuard(kept)] if kept else ()),
    ]


def _host_reads(
    capture: Capture, origins: Origins, inputs: InputBuffers, outputs: OutputBuffers, memories: AliasGuard
) -> HostReadGuard | None:
    """Return the guard on tensors that callbacks find. Trace again if they may write to those that the program uses."""
    finds, places = capture.finds, {place: key for key, place in origins.arguments.items()}
    written = [argument for _, argument in outputs.arguments]
    read = [argument for argument in inputs.arguments if argument not in written]
    used = {id(buffer) for _, _, buffer in (*memories.written, *memories.read)}
    finds.show_used(used | {places[place] for place in (*written, *read)})
    if not finds.reads.places:
        return None
    shown, given = finds.reads.shown, capture.inputs.given

    def unshown(own: list[Memory], arguments: list[int]) -> Used:
        others = [place for place in arguments if places[place] not in shown]
        return Used([memory for memory in own if id(memory[2]) not in shown], given, others)

    return HostReadGuard(finds.reads, unshown(memories.written, written), unshown(memories.read, read))


def _kept_gradients(capture: Capture, inputs: InputBuffers) -> list[tuple[Any, Any]]:
    """Return leaves whose gradients are also kept elsewhere and are used: by the program, a callback or a result."""
    memories = (*inputs.donated, *inputs.packed, *inputs.states, *inputs.only_written)
    buffers = {id(buffer) for _, _, buffer in memories}
    used = {id(tensor) for tensor, held in capture.trace.memory.adopted if id(held.buffer) in buffers}
    used |= {id(mirror.tensor()) for mirror in capture.callbacks.mirrors.tensors}
    used |= {id(tensor) for tensor in tensors_in(capture.left.parts(), capture.left.known)}
    used &= capture.inputs.state.seen
    return [(leaf, gradient) for leaf, gradient in capture.inputs.entry.grads if id(gradient) in used]
