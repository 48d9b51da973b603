"""Lowering: from a captured step to a jitted function of buffers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import islice
from typing import Any

import jax
import numpy as np
from jax.extend.core import subjaxprs

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import Buffer, BufferOffCpu
from undertow._src.arrays.jax import layout as jax_layout
from undertow._src.arrays.target import options_for, traced_for
from undertow._src.compile.guards.alias_guards import Memory
from undertow._src.compile.lowering.buffer_guards import buffer_guards
from undertow._src.compile.lowering.compiled_backward import WayBack
from undertow._src.compile.lowering.donation import (
    LeafGradients,
    donors,
    gradients_alone,
    on_device,
    overwritable,
)
from undertow._src.compile.lowering.lowered import KINDS, Input, InputBuffers, Lowered, Origins, OutputBuffers
from undertow._src.compile.lowering.packing import StatePack, side_by_side, small_ones
from undertow._src.compile.tracing.capture import Capture
from undertow._src.compile.tracing.left_state import LeftState
from undertow._src.compile.tracing.results import tensors_in
from undertow._src.types.devices import cpu


def lower(capture: Capture) -> Lowered:
    """Return the captured step as a jitted function of its inputs."""
    return _Lowering(capture).run()


class _Lowering:
    """A step that is being lowered."""

    def __init__(self, capture: Capture) -> None:
        self.capture, self.trace, self.given = capture, capture.trace, capture.inputs.given
        self.device, self.jax_device = capture.inputs.device, capture.inputs.jax_device
        known = {id(buffer) for buffer, _, _ in self.trace.memory.buffers.values()}
        self.way_back = WayBack.of(capture, [buffer for buffer in capture.outputs if id(buffer) not in known])
        self.origins = self._origins(known)

    def run(self) -> Lowered:
        """Choose inputs and outputs, and jit the program between them."""
        capture, known = self.capture, self.origins.known
        inputs = self._inputs()
        of_kind = {kind: [each.where for each in inputs if each.kind == kind] for kind in KINDS}
        donated, states, arguments = of_kind["donated"], of_kind["state"], of_kind["argument"]
        gradients, small_gradients = gradients_alone(capture, arguments, self.way_back is not None)

        # JAX gives donated buffers to the first outputs of their shape; if those were others, XLA would copy.
        packed = [buffer for _, _, buffer in of_kind["packed"]]
        groups = [
            [buffer for _, _, buffer in donated],
            [buffer for buffer in capture.outputs if id(buffer) in known - set(map(id, packed))],
            packed,
            [left._array.buffer for _, left in gradients],
            [left._array.buffer for _, left in small_gradients],
            capture.outputs,
        ]
        turns = _turns(capture.outputs, groups)
        buffers = [capture.outputs[place] for place in turns]
        n_known = sum(id(buffer) in known for buffer in buffers) - len(packed)
        sizes = n_known, len(packed), len(gradients), len(small_gradients)
        outputs = self._outputs(buffers, sizes)
        only_written = self._only_written(buffers, (*donated, *of_kind["packed"], *states))
        found = InputBuffers(
            donated, of_kind["packed"], StatePack.of(of_kind["packed"]) if packed else None,
            donors(capture, gradients, small_gradients), states, only_written, arguments,
            of_kind["draw"],
            uses_numbers=bool(of_kind["numbers"]),
            gives_numbers=bool(of_kind["numbers"] and capture.next_numbers is not None) and not capture.may_come_to_nothing,
        )  # fmt: skip
        passed_on = self._passed_on()
        uses_gradients = self._uses_gradients(found, outputs, passed_on)
        jaxpr = capture.jaxpr.jaxpr
        outvars = [jaxpr.outvars[place] for place in turns]
        return Lowered(
            self._jit(inputs, found, outputs, outvars, sizes), found, outputs, self.origins,
            self._left_without(gradients + small_gradients), passed_on, self.way_back, uses_gradients,
            buffer_guards(capture, self.origins, found, outputs, uses_gradients), len(jaxpr.eqns),
        )  # fmt: skip

    def _origins(self, known: set[int]) -> Origins:
        """Find the tensors that own the buffers, and the arguments that share one."""
        arguments, adopted = self.given.own(), self.trace.memory.adopted
        states: dict[int, tuple[Any, DeviceArray]] = {}
        of_arguments: dict[int, int] = {}
        for tensor, held in adopted:
            if tensor._view is None:
                if id(tensor) in arguments:
                    place = of_arguments.setdefault(id(held.buffer), arguments[id(tensor)])
                    if place != arguments[id(tensor)]:
                        self.given.shared.append((place, arguments[id(tensor)]))
                else:
                    states.setdefault(id(held.buffer), (tensor, held))
        self.given.shared += [(of_arguments[key], states[key][0]) for key in of_arguments.keys() & states.keys()]
        return Origins(
            known,
            {id(tensor): tensor for tensor, _ in adopted},
            {id(held.buffer): tensor for tensor, held in adopted if tensor._view is None},
            states,
            of_arguments,
            [(id(held.buffer), arguments[id(tensor)]) for tensor, held in adopted if id(tensor) in arguments],
        )

    def _inputs(self) -> list[Input]:
        """Return the inputs that the program uses, by kind, and where a call finds them."""
        closed, sources = self.capture.jaxpr, self.trace.memory.inputs
        overwritten = overwritable(self.capture)
        mentioned = {id(var) for equation in closed.jaxpr.eqns for var in equation.invars}
        mentioned |= {id(var) for var in closed.jaxpr.outvars}
        used = [(var, sources[id(var)], None) for var in closed.jaxpr.invars if id(var) in mentioned]
        used += [(var, sources.get(id(const)), const) for var, const in zip(closed.jaxpr.constvars, closed.consts)]
        inputs: list[Input] = []
        for var, source, const in used:
            if source is None:
                inputs.append(Input("constant", var, source, const))
            elif source == "numbers":
                inputs.append(Input("numbers", var, source, None))
            elif isinstance(source, tuple):
                inputs.append(Input("draw", var, source, source))
            elif id(source) in self.origins.arguments:
                inputs.append(Input("argument", var, source, self.origins.arguments[id(source)]))
            else:
                where = (*self.origins.states[id(source)], source)
                inputs.append(Input("donated" if id(source) in overwritten else "state", var, source, where))
        self._pack_small_states([each for each in inputs if each.kind == "donated"])
        inputs.sort(key=lambda each: KINDS.index(each.kind))
        return inputs

    def _pack_small_states(self, donated: list[Input]) -> None:
        """On a device, pack small buffers that are overwritten and need no gradient into one array."""
        if self.device is not cpu and self.way_back is None:
            states = [
                each for each in donated if isinstance(each.source, BufferOffCpu) and not each.where[0]._requires_grad
            ]
            for place in small_ones([each.where[1] for each in states]):
                states[place].kind = "packed"

    def _outputs(self, buffers: list[Buffer], sizes: tuple[int, int, int, int]) -> OutputBuffers:
        """Return where the outputs go."""
        pairs = zip(self.trace.memory.adopted, self.trace.memory.originals)
        here = {id(held.buffer) for (_, held), (_, array) in pairs if type(array) is np.ndarray}  # tensors on the CPU
        for buffer in buffers:
            if buffer.device is None:
                buffer.live_on(cpu if id(buffer) in here else self.device)
        n_known, arguments = sizes[0], self.origins.arguments
        places = {id(buffer): place for place, buffer in enumerate(buffers)}  # no packs with decisions
        return OutputBuffers(
            buffers,
            n_known,
            [(place, buffer) for place, buffer in enumerate(buffers[:n_known]) if id(buffer) not in arguments],
            [(place, arguments[id(buffer)]) for place, buffer in enumerate(buffers) if id(buffer) in arguments],
            buffers[sum(sizes) :],
            [places[id(array.buffer)] for array in self.capture.decisions.asked],
        )

    def _only_written(self, buffers: list[Buffer], read: tuple[Memory, ...]) -> list[Memory]:
        states, ids = self.origins.states, {id(buffer) for _, _, buffer in read}
        return [
            (*states[id(buffer)], buffer)
            for buffer in buffers
            if id(buffer) in states and id(buffer) not in ids and id(buffer) not in self.origins.arguments
        ]

    def _passed_on(self) -> list[int]:
        """Return the arguments that are returned or kept, themselves or as views, and those that share their buffers."""
        left = self.capture.left
        buffers = {id(leaf._array.buffer) for leaf in tensors_in(left.parts(), left.known) if on_device(leaf)}
        return sorted({place for key, place in self.origins.argument_places if key in buffers})

    def _uses_gradients(self, inputs: InputBuffers, outputs: OutputBuffers, passed_on: list[int]) -> bool:
        own = self.given.own()
        places = [*inputs.arguments, *passed_on, *[place for _, place in outputs.arguments]]
        if self.way_back or self.given.changes:
            places = [*own.values()]
        self.given.renewed.finish(lambda tensor: own.get(id(tensor)) in places)
        return self.given.has_gradients and any(place >= self.given.n_given for place in places)

    def _left_without(self, gradients: LeafGradients) -> LeftState:
        """Return what the step leaves, without the gradients that donors receive."""
        left, received = self.capture.left, {id(meta) for meta, _ in gradients}
        others = [place for place, entry in enumerate(left.entries) if id(entry[0]) not in received]
        only_if = {new: left.only_if[place] for new, place in enumerate(others) if place in left.only_if}
        return dataclasses.replace(left, entries=[left.entries[place] for place in others], only_if=only_if)

    def _jit(
        self, inputs: list[Input], found: InputBuffers, outputs: OutputBuffers, outvars: list[Any],
        sizes: tuple[int, int, int, int],
    ) -> Callable[..., list[Any]]:  # fmt: skip
        """Return the program as a jitted function of arrays."""
        jaxpr = self.capture.jaxpr.jaxpr
        jaxpr = jaxpr.replace(constvars=[], invars=[each.var for each in inputs], outvars=outvars)
        constants = [each.where for each in inputs if each.kind == "constant"]
        sources = {id(each.var): each.source for each in inputs}
        passed = [  # an input that is also another buffer's value gets copied: it may be donated later
            place
            for place, (var, buffer) in enumerate(zip(outvars, outputs.buffers))
            if sources.get(id(var), buffer) is not buffer
        ]
        pack, platform, n_own = found.pack, self.jax_device.platform, len(found.donated)
        n_donated = n_own + (pack is not None) + sum(donor.n_arrays for donor in found.donors)

        def run(*values: Any) -> list[Any]:
            parts = [] if pack is None else pack.cut(values[n_own])
            with traced_for(platform):
                results = list(jax_layout.evaluate(jaxpr, [], *values[:n_own], *parts, *values[n_donated:], *constants))
            for place in passed:
                results[place] = jax.numpy.array(results[place], copy=True)
            return _bundled(results, *sizes)

        given_away = [*range(n_donated)]
        if found.gives_numbers:  # the last input: the next call's numbers take its buffer
            given_away.append(n_donated + len(inputs) - n_own - len(found.packed) - len(constants) - 1)
        # The device is given: else JAX compiles once for uncommitted arrays, and again for committed ones.
        there = jax.sharding.SingleDeviceSharding(self.jax_device)
        options = options_for(platform, _has_loop(jaxpr))
        jitted = jax.jit(
            run, donate_argnums=given_away, keep_unused=True, in_shardings=there, compiler_options=options
        )  # fmt: skip
        return self.trace.collectives.compiled(jitted, options, outputs.buffers)


def _has_loop(jaxpr: Any) -> bool:
    """Return whether a program has a loop, such as that of a recurrent layer."""
    return any(equation.primitive.name in ("scan", "while") for equation in jaxpr.eqns) or any(
        map(_has_loop, subjaxprs(jaxpr))
    )


def _turns(outputs: list[Buffer], groups: list[list[Buffer]]) -> list[int]:
    """Return the order of outputs: those of the first group, then those that each next group adds."""
    turns: dict[int, int] = {}
    for buffer in (buffer for group in groups for buffer in group):
        turns.setdefault(id(buffer), len(turns))
    return sorted(range(len(outputs)), key=lambda place: turns[id(outputs[place])])


def _bundled(results: list[Any], known: int, packed: int, gradients: int, small_gradients: int) -> list[Any]:
    """Return a program's results, with small values side by side in one array."""
    rest = iter(results)
    bundled = [*islice(rest, known)]
    if packed:
        bundled.append(side_by_side(islice(rest, packed)))
    bundled += islice(rest, gradients)
    if small_gradients:
        bundled.append(side_by_side(islice(rest, small_gradients)))
    return [*bundled, *rest]
