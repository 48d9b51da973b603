"""From a traced step to a program: which memories are its inputs and outputs, and in which order.

The program's inputs are the arguments' arrays, the memories of tensors that the step reads, the numbers of optimizers, and
random draws. Its outputs are every memory that the step wrote to and every new memory that outlives it.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import Any

import jax
import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import Buffer, BufferOffCpu
from undertow._src.arrays.jax import layout as jax_layout
from undertow._src.arrays.target import options_for, traced_for
from undertow._src.compile.guards.alias_guards import AliasGuard, GradientAliasGuard
from undertow._src.compile.lowering.compiled_backward import WayBack
from undertow._src.compile.lowering.donation import Gradients, PackedGradients
from undertow._src.compile.lowering.packing import StatePack, side_by_side, small_ones
from undertow._src.compile.plan import Plan
from undertow._src.compile.tracing.results import tensors_in
from undertow._src.compile.tracing.trace import Trace
from undertow._src.compile.tracing.traced import Call, Traced
from undertow._src.tensor.core import Meta, TensorCore
from undertow._src.types.devices import cpu

KINDS = ("donated", "packed", "state", "argument", "draw", "numbers", "constant")  # of inputs, in their order


@dataclass(eq=False)
class Input:
    """A variable of the traced program, and where a call finds its value."""

    kind: str
    var: Any
    source: Any  # the memory, or what else the trace took it from
    where: Any


class Assembled(Traced):
    """A program, and where its inputs come from and its outputs go."""

    def __init__(self, call: Call, plan: Plan) -> None:
        started = time.perf_counter()
        super().__init__(call, plan)
        try:
            self._assemble(self.closed, self.outputs, self.trace)
        except BaseException:
            self.trace.undo()
            self.marks.restore()
            raise
        self.trace.finish()
        self.marks.restore_versions()
        del self.closed, self.trace, self.marks
        del self.plan, self.splitter  # which know the arguments that it was traced with; the way back has what it needs
        self.trace_seconds = time.perf_counter() - started
        self.compile_seconds: float | None = None

    @property
    def may_come_to_nothing(self) -> bool:
        """Whether a call may find out at its end that it has not happened: a hook raises, or a decision was another one."""
        return bool(self.later or self.has_inside or self.decides)

    def _assemble(self, closed: Any, outputs: list[Buffer], trace: Trace) -> None:
        """Return the traced program as a jitted function of its inputs."""
        known = {id(buffer) for buffer, _, _ in trace.buffers.values()}
        self.known_buffers = known
        self.adopted = {id(tensor): tensor for tensor, _ in trace.adopted}
        self.owners = {id(held.buffer): tensor for tensor, held in trace.adopted if tensor._view is None}
        self.way_back = WayBack.of(self, trace, [buffer for buffer in outputs if id(buffer) not in known])
        owners = self._owners(trace)
        inputs = self._inputs(closed, trace, owners, {id(buffer) for buffer in outputs})
        gradients, small_gradients = self._gradients_alone(outputs)

        # JAX lends donated memories to the first outputs of their shape; were those not their own, XLA would copy them.
        packed = [buffer for _, _, buffer in self.packed]
        groups = [
            [buffer for _, _, buffer in self.donated],
            [buffer for buffer in outputs if id(buffer) in known - set(map(id, packed))],
            packed,
            [left._array.buffer for _, left in gradients],
            [left._array.buffer for _, left in small_gradients],
            outputs,
        ]
        turns = _turns(outputs, groups)
        self.outputs = outputs = [outputs[place] for place in turns]
        outvars = [closed.jaxpr.outvars[place] for place in turns]
        self.n_known = sum(id(buffer) in known for buffer in outputs) - len(packed)  # they come first
        sizes = self.n_known, len(packed), len(gradients), len(small_gradients)
        self.written = [  # arguments are others in each call: see `argument_outputs`
            (place, buffer)
            for place, buffer in enumerate(outputs[: self.n_known])
            if id(buffer) not in self.argument_buffers
        ]
        self.made = outputs[sum(sizes) :]
        self._find_places(trace, owners)
        self._hand_over(gradients, small_gradients)
        places = {
            id(buffer): place for place, buffer in enumerate(outputs)
        }  # nothing is bundled where there are decisions
        self.decided_at = [places[id(array.buffer)] for array in self.decisions.asked]

        jaxpr = closed.jaxpr.replace(constvars=[], invars=[each.var for each in inputs], outvars=outvars)
        self.size = len(jaxpr.eqns)
        constants = [each.where for each in inputs if each.kind == "constant"]
        sources = {id(each.var): each.source for each in inputs}
        passed = [  # an input that is also the value of another memory: it may be donated one day, so that gets a copy
            place
            for place, (var, buffer) in enumerate(zip(outvars, outputs))
            if sources.get(id(var), buffer) is not buffer
        ]
        n_own = len(self.donated)
        n_donated = n_own + (self.pack is not None) + sum(donor.n_arrays for donor in self.donors)

        def run(*values: Any) -> list[Any]:
            parts = [] if self.pack is None else self.pack.cut(values[n_own])
            with traced_for(self.jax_device.platform):
                results = list(jax_layout.evaluate(jaxpr, [], *values[:n_own], *parts, *values[n_donated:], *constants))
            for place in passed:
                results[place] = jax.numpy.array(results[place], copy=True)
            return _bundled(results, *sizes)

        given_away = [*range(n_donated)]
        self.gives_numbers = self.uses_numbers and self.next_numbers is not None and not self.may_come_to_nothing
        if self.gives_numbers:  # the last input: the numbers of the next call take its place
            given_away.append(n_donated + len(inputs) - n_own - len(packed) - len(constants) - 1)
        # Said where they are: else JAX compiles once for arrays that may be anywhere, and again for those put there.
        there = jax.sharding.SingleDeviceSharding(self.jax_device)
        self.jitted = jax.jit(
            run, donate_argnums=given_away, keep_unused=True, in_shardings=there,
            compiler_options=options_for(self.jax_device.platform),
        )  # fmt: skip

    def _owners(self, trace: Trace) -> dict[int, tuple[Any, DeviceArray]]:
        """Which tensor of the step's own stands on a buffer, by that buffer's id; note which memories are arguments'."""
        arguments = self.given.own()
        owners: dict[int, tuple[Any, DeviceArray]] = {}
        self.argument_buffers: dict[int, int] = {}  # the first argument on a memory
        self.argument_places = [
            (id(held.buffer), arguments[id(tensor)]) for tensor, held in trace.adopted if id(tensor) in arguments
        ]
        for tensor, held in trace.adopted:
            if tensor._view is None:
                if id(tensor) in arguments:
                    place = self.argument_buffers.setdefault(id(held.buffer), arguments[id(tensor)])
                    if place != arguments[id(tensor)]:
                        self.given.shared.append((place, arguments[id(tensor)]))
                else:
                    owners.setdefault(id(held.buffer), (tensor, held))
        both = self.argument_buffers.keys() & owners.keys()
        self.given.shared += [(self.argument_buffers[key], owners[key][0]) for key in both]
        return owners

    def _inputs(
        self, closed: Any, trace: Trace, owners: dict[int, tuple[Any, DeviceArray]], written: set[int]
    ) -> list[Input]:
        """Return the inputs that the program uses, in the order of their kinds, and where a call finds them."""
        mentioned = {id(var) for equation in closed.jaxpr.eqns for var in equation.invars}
        mentioned |= {id(var) for var in closed.jaxpr.outvars}
        used = [(var, trace.inputs[id(var)], None) for var in closed.jaxpr.invars if id(var) in mentioned]
        used += [(var, trace.inputs.get(id(const)), const) for var, const in zip(closed.jaxpr.constvars, closed.consts)]
        inputs: list[Input] = []
        for var, source, const in used:
            if source is None:
                inputs.append(Input("constant", var, source, const))
            elif source == "numbers":
                inputs.append(Input("numbers", var, source, None))
            elif isinstance(source, tuple):
                inputs.append(Input("draw", var, source, source))
            elif id(source) in self.argument_buffers:
                inputs.append(Input("argument", var, source, self.argument_buffers[id(source)]))
            else:
                donated = id(source) in written and not self.may_come_to_nothing
                inputs.append(Input("donated" if donated else "state", var, source, (*owners[id(source)], source)))
        self._pack_small_states([each for each in inputs if each.kind == "donated"])
        inputs.sort(key=lambda each: KINDS.index(each.kind))
        of_kind = {kind: [each.where for each in inputs if each.kind == kind] for kind in KINDS}
        self.donated, self.packed, self.state_inputs = of_kind["donated"], of_kind["packed"], of_kind["state"]
        self.argument_inputs, self.draw_inputs = of_kind["argument"], of_kind["draw"]
        self.uses_numbers = bool(of_kind["numbers"])
        self.pack = StatePack.of(self.packed) if self.packed else None
        return inputs

    def _pack_small_states(self, donated: list[Input]) -> None:
        """On a device small memories that are written over, and that no gradient is asked for, share an array."""
        if self.device is not cpu and self.way_back is None:
            states = [
                each for each in donated if isinstance(each.source, BufferOffCpu) and not each.where[0]._requires_grad
            ]
            for place in small_ones([each.where[1] for each in states]):
                states[place].kind = "packed"

    def _find_places(self, trace: Trace, owners: dict[int, tuple[Any, DeviceArray]]) -> None:
        """Where the outputs go, and which memories the program takes for separate ones."""
        pairs = zip(trace.adopted, trace.originals)
        here = {id(held.buffer) for (_, held), (_, array) in pairs if type(array) is np.ndarray}  # tensors on the CPU
        for buffer in self.outputs:
            if buffer.device is None:
                buffer.live_on(cpu if id(buffer) in here else self.device)
        inputs = (*self.donated, *self.packed, *self.state_inputs)
        read = {id(buffer) for _, _, buffer in inputs}
        self.only_written = [
            (*owners[id(buffer)], buffer)
            for buffer in self.outputs
            if id(buffer) in owners and id(buffer) not in read and id(buffer) not in self.argument_buffers
        ]
        self.argument_outputs = [
            (place, self.argument_buffers[id(buffer)])
            for place, buffer in enumerate(self.outputs)
            if id(buffer) in self.argument_buffers
        ]
        left = {id(leaf._array.buffer) for leaf in tensors_in(self.left_behind(), self.known) if _on_device(leaf)}
        # Arguments that are returned or kept, or of which views are, and those that share their memory.
        self.passed_on = sorted({place for key, place in self.argument_places if key in left})
        written = {id(buffer) for buffer in self.outputs}
        gradients = self.given.gradients()
        standing = Counter([id(held.buffer) for _, held in trace.adopted] + [id(each) for each in gradients])
        self.alias_guard = AliasGuard(
            [each for each in (*inputs, *self.only_written) if id(each[2]) in written],
            [each for each in self.state_inputs if id(each[2]) not in written],
            [
                (tensor, owners[id(held.buffer)][0])
                for tensor, held in trace.adopted
                if self._is_tied(tensor, held, owners)
            ],
            self.given.separate(),
            [argument for _, argument in self.argument_outputs if argument < self.given.count],
        )
        is_alone = [
            each is None or (each._view is None and standing[id(each)] == standing[id(each._array.buffer)] == 1)
            for each in gradients
        ]
        self.gradient_alias_guard = GradientAliasGuard(
            self.alias_guard, self.given, [None if alone else each for each, alone in zip(gradients, is_alone)]
        )
        arguments = self.given.own()
        places = [*self.argument_inputs, *self.passed_on, *[place for _, place in self.argument_outputs]]
        if self.way_back or self.given.changes:
            places = [*arguments.values()]
        self.uses_gradients = self.given.has_gradients and any(place >= self.given.n_given for place in places)
        self.given.renewed.finish(lambda tensor: arguments.get(id(tensor)) in places)

    def _hand_over(self, gradients: list[tuple[Meta, Any]], small_gradients: list[tuple[Meta, Any]]) -> None:
        """Have the old gradients donate their memory to the new ones."""
        self.donors: list[Gradients | PackedGradients] = []
        if gradients:
            self.donors.append(Gradients(gradients, self.device, self.jax_device))
        if small_gradients:
            self.donors.append(PackedGradients(small_gradients, self.device, self.jax_device))
        handed = {id(meta) for meta, _ in (*gradients, *small_gradients)}
        others = [place for place, entry in enumerate(self.exit) if id(entry[0]) not in handed]
        self.exit_if = {new: self.exit_if[place] for new, place in enumerate(others) if place in self.exit_if}
        self.exit = [self.exit[place] for place in others]

    def _gradients_alone(self, outputs: list[Buffer]) -> tuple[list[tuple[Meta, Any]], list[tuple[Meta, Any]]]:
        """Return the gradients that the step leaves in memories of their own, of which nothing else that it leaves is part.

        Those that get an array of their own, and small ones that share one.
        """
        if self.may_come_to_nothing or self.way_back is not None:  # which keeps the values
            return [], []
        left = [each for part in self.left_behind() for each in tensors_in(part, self.known)]
        shown = Counter(id(each._array.buffer) for each in left if _on_device(each))
        made = {id(buffer) for buffer in outputs}
        read = {id(self.given.tensors[place]) for place in self.argument_inputs}
        kept = {id(tensor._meta) for tensor, before in self.entry.grads if id(before) in read}  # not to be written over
        gradients = [
            (entry[0], entry[2])
            for entry in self.exit
            if type(entry[0]) is Meta
            and id(entry[0]) not in kept
            and _on_device(entry[2])
            and shown[id(entry[2]._array.buffer)] == 1
            and id(entry[2]._array.buffer) in made
            and entry[2]._array._parent is None
            and entry[2]._edge is None
            and entry[2]._meta is None
        ]
        small = [] if self.device is cpu else small_ones([left._array for _, left in gradients])
        return [each for place, each in enumerate(gradients) if place not in small], [
            gradients[place] for place in small
        ]

    def _is_tied(self, tensor: Any, held: DeviceArray, owners: dict[int, tuple[Any, DeviceArray]]) -> bool:
        """Whether a tensor of the step's own has its memory in common with another one."""
        owner = owners.get(id(held.buffer))
        return (
            tensor._view is None and owner is not None and owner[0] is not tensor and id(tensor) not in self.given.own()
        )


def _turns(outputs: list[Buffer], groups: list[list[Buffer]]) -> list[int]:
    """Return the order of outputs: those of the first group, then those of the next that have not come yet."""
    turns: dict[int, int] = {}
    for buffer in (buffer for group in groups for buffer in group):
        turns.setdefault(id(buffer), len(turns))
    return sorted(range(len(outputs)), key=lambda place: turns[id(outputs[place])])


def _bundled(results: list[Any], known: int, packed: int, gradients: int, small_gradients: int) -> list[Any]:
    """Return what a program returns: small memories side by side in one array."""
    rest = iter(results)
    bundled = [*islice(rest, known)]
    if packed:
        bundled.append(side_by_side(islice(rest, packed)))
    bundled += islice(rest, gradients)
    if small_gradients:
        bundled.append(side_by_side(islice(rest, small_gradients)))
    return [*bundled, *rest]


def _on_device(value: Any) -> bool:
    return isinstance(value, TensorCore) and type(value._array) is DeviceArray
