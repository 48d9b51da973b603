"""From a traced step to a program: which memories are its inputs and outputs, and in which order.

The program's inputs are the arguments' arrays, the memories of tensors that the step reads, the numbers of optimizers, and
random draws. Its outputs are every memory that the step wrote to and every new memory that outlives it.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from itertools import islice
from typing import Any

import jax
import numpy as np

from undertow._core import Meta, TensorCore
from undertow.devices import cpu
from undertow.tree import leaves, map_leaves
from undertow.xla.arguments import Arguments, refuse_overlaps
from undertow.xla.counters import Counters
from undertow.xla.errors import CompileError, explained
from undertow.xla.firing import Again, Firing, Later, Placed, Plan
from undertow.xla.lending import Gradients, PackedGradients
from undertow.xla.numbers import Figure, Known, Questions, baked, inputs
from undertow.xla.options import Options
from undertow.xla.packing import StatePack, side_by_side, small_ones
from undertow.xla.reach import ABSENT, State, contents_of, place_at, put
from undertow.xla.registrations import Registrations
from undertow.xla.renewed import look_of
from undertow.xla.results import refuse_hidden, tensors_in, values_in
from undertow.xla.schedules import Schedules
from undertow.xla.sharing import Sharing
from undertow.xla.state import Snapshot
from undertow.xla.trace import Draw, Trace
from undertow.xla.way_back import WayBack
from undertow.xp import jax_layout
from undertow.xp.device import Cell, CellAway, DeviceArray, NeedsValue, jax_device
from undertow.xp.target import traced_for


class Baked(Exception):
    """A number that should be an input got into the program as a constant."""


class Assembled:
    """A program, and where its inputs come from and its outputs go."""

    result: Any  # what the traced step returned
    leaves_numbers: bool  # whether options of optimizers are among what it leaves

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        plan: Plan,
        plain_numbers: bool = False,
    ) -> None:
        started = time.perf_counter()
        self.plain_numbers = plain_numbers
        self.plan = plan
        self.counters = Counters(() if plain_numbers else plan.counters.values())
        state = State({*plan.replaced, *(plan.counters if self.counters.places else ())})
        state.walk(function, getattr(function, "__name__", "step"))
        for leaf in leaves((args, kwargs)):
            if not isinstance(leaf, TensorCore):
                state.walk(leaf, "an argument")
        for root, name in plan.roots:
            state.walk(root, name)
        hosted = state.hosted_schedulers()
        self.given = Arguments(leaves((args, kwargs)), state, plan.replaced.values())
        self._refuse_places()
        self.known = state.seen
        args, kwargs = map_leaves(self.given.stand_in, (args, kwargs))
        self.arguments = self.given.tensors
        self.options = Options(state.optimizers, not (plain_numbers or plan.counts_inside), self.counters)
        self.entry = Snapshot(state)
        self.known_numbers = Known()
        self.schedules = Schedules(self.options, self.known_numbers, hosted, plain_numbers)
        self.last_numbers: list[float] | None = None
        self.next_numbers: DeviceArray | None = None
        self.lent: list[Cell] = []  # memories that somebody else holds too, for the time of a call
        numbers = self.options.values()
        self.device = next((t.device for t in (*self.arguments, *state.tensors) if t.device is not cpu), cpu)
        self.jax_device = jax_device(self.device)
        self.registrations = Registrations(state, self.arguments)
        self.body = plan.body
        trace, firing = Trace(self.device, state.generators), Firing(plan, self.registrations, state.seen)
        trace.firing, trace.state, trace.schedules = firing, state, self.schedules
        firing.groups = {id(group) for optimizer in state.optimizers for group in optimizer.param_groups}
        versions = [(tensor, tensor._get_storage()) for tensor in state.tensors]
        counts = [storage.version for _, storage in versions]
        edges = [(tensor, tensor._edge, tensor._requires_grad) for tensor in (*state.tensors, *self.arguments)]
        try:
            closed, outputs = self._trace(function, args, kwargs, state, trace, firing, numbers)
        except BaseException as error:
            self.schedules.rewind()
            self.options.put(numbers)
            trace.undo()
            self.entry.restore()
            for holder, held in reversed(firing.stores):  # the first knew it unchanged
                holder.clear()
                holder.update(held)
            for (_, storage), count in zip(versions, counts, strict=True):
                storage.version = count
            for tensor, edge, flag in edges:
                tensor._edge, tensor._requires_grad = edge, flag
            if isinstance(error, NeedsValue) and plan.body is not None and plan.body.move_what_asked(error):
                raise Again from None
            if self.counters.places and isinstance(error, Exception) and not isinstance(error, (Again, Baked)):
                plan.counts = False  # maybe that is why
                plan.counters.clear()
                raise Again from None
            if isinstance(error, (NeedsValue, jax.errors.ConcretizationTypeError)):
                raise explained(error) from None
            if isinstance(error, CompileError):
                raise CompileError(str(error)) from None  # without the way through JAX
            error.__notes__ = [note for note in getattr(error, "__notes__", ()) if "JAX" not in note]
            raise
        self.options.put(numbers)
        self.entry.restore_gradients()  # the first call reads them, too
        self.questions = Questions(self.known_numbers.asked, numbers + self.options.extra)
        self.schedules.rewind()
        self.bumps = [
            (storage, storage.version - count)
            for (_, storage), count in zip(versions, counts, strict=True)
            if storage.version != count
        ]
        self.later: list[Later] = firing.later
        self.witnessed = firing.witnessed
        self.has_inside, self.raised = firing.has_inside, firing.raised
        self.placed: list[Placed] = firing.placed
        shown = self.given.renewed.shown()
        self.reads = [read for read in firing.reads if id(read.value) not in shown]
        self.checks, self.held = trace.arriving.checks, trace.arriving.held
        trace.arriving.finish()
        self.returned = firing.returned
        self.draws: list[Draw] = trace.draws
        self.first_draws: list[Any] | None = trace.first_draws
        self._assemble(closed, outputs, trace)
        self.trace_seconds = time.perf_counter() - started
        self.compile_seconds: float | None = None

    def _trace(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        state: State,
        trace: Trace,
        firing: Firing,
        numbers: list[float],
    ) -> tuple[Any, list[Cell]]:
        outputs: list[Cell] = []
        tensors = [*self.arguments, *state.tensors]
        for tensor in tensors:
            if tensor._view is None:
                trace.adopt(tensor)
        known = [cell for cell, _, _ in trace.cells.values()]
        specs = [jax.ShapeDtypeStruct(cell.value.shape, cell.value.dtype) for cell in known]

        def body(options: Any, *values: Any) -> list[Any]:
            for cell, value in zip(known, values, strict=True):
                cell.value = value
            for tensor in tensors:
                trace.adopt(tensor)
            self.given.tell(trace.arriving)
            originals = {id(tensor): array for tensor, array in trace.originals}
            for tensor in state.tensors:
                trace.arriving.captured(tensor, tensor._array, originals.get(id(tensor)))
            as_inputs = inputs(numbers, options, self.known_numbers, len(self.counters.places))
            if self.plain_numbers:  # all of them are held to their values
                numbers[:] = map(float, as_inputs)
            else:
                self.options.put(as_inputs)
            given = self.options.in_groups() + as_inputs[len(self.options.places) :]
            trace.counts = self.options.as_counts(as_inputs)
            self.given.renewed.show(self.given.stand_in)
            self.counters.show(as_inputs[len(as_inputs) - len(self.counters.places) :])
            self.result = function(*args, **kwargs)
            firing.finish()
            if self.body is not None:
                firing.refuse_other_turns(self.body.rest)
            self.schedules.take_back()
            trace.settle_memories()
            self.options.note_changes(given, trace.counts)
            self.options.put(numbers)
            if self.options.counted and not self.counters.places:
                # The next call most likely has these: then nothing has to be sent there.
                after = self.options.after(as_inputs, trace.counts)
                self.next_numbers = DeviceArray(jax.numpy.stack([number.traced for number in after]))
            self.given.renewed.take_back()
            self.counters.take_back()
            self.exit = self._settle(firing.stores)
            self.counters.check(self.exit, self.result, self.known)
            firing.refuse_shared({place_at(entry[0], entry[1] if type(entry[1]) is str else None) for entry in self.exit})
            self.entry.ignore(firing.changed_on_host())
            self.leaves_numbers = bool(values_in(self.left_behind(), self.known, Figure))
            self.exit_if = self._put_back(trace.chosen)
            refuse_hidden(self.left_behind(), self.known, trace.is_made)
            self.given.note_changes()
            self._refuse_places()
            self.entry.watches_gradients = bool(
                trace.uses_gradients or state.optimizers or any(entry[1] == "grad" for entry in self.exit)
            )
            gc.collect()
            outputs.extend([cell for cell, _, _ in trace.cells.values() if cell.writes])
            outputs.extend(trace.living())
            refuse_overlaps(*trace.host_memories())
            self.given.refuse_overlaps(trace.cells)
            return [cell.value for cell in outputs]

        with trace, self.registrations, firing.plan.body or nullcontext():
            closed = jax.make_jaxpr(body)(jax.ShapeDtypeStruct((len(numbers),), np.float64), *specs)
        if not self.plain_numbers and baked(closed.jaxpr):
            raise Baked
        trace.inputs = dict(zip(map(id, closed.jaxpr.invars), ["numbers", *known])) | trace.inputs
        return closed, outputs

    def _settle(self, stores: list[tuple[dict[Any, Any], dict[Any, Any]]]) -> list[tuple[Any, ...]]:
        """What the step left where: (holder, key, value)."""
        left: list[tuple[Any, ...]] = []
        noted = len(self.plan.replaced) + len(self.plan.counters)
        maps: dict[int, tuple[Any, dict[Any, Any]]] = {}
        for holder, held in (*self.entry.maps, *stores):
            maps.setdefault(id(holder), (holder, held))  # the first knew it unchanged
        for holder, held in maps.values():
            for key, now in list(holder.items()):
                if now is not held.get(key, ABSENT):
                    left.append((holder, key, now))
                    self._note_renewed(holder, key, held.get(key), now)
            left += [(holder, key) for key in held if key not in holder]
        for into, kept in self.entry.lists:
            if len(into) != len(kept) or any(a is not b for a, b in zip(into, kept)):
                left.append((into, slice(None), list(into)))
                if len(into) == len(kept) and not isinstance(into, set):
                    for number, (before, now) in enumerate(zip(kept, list(into))):
                        if now is not before:
                            self._note_renewed(into, number, before, now)
        for array, contents in self.entry.arrays:
            if array.tobytes() != contents.tobytes():
                left.append((array, ..., array.copy()))
        for cell, before in self.entry.cells:
            now = contents_of(cell)
            if now is not before and now is not ABSENT:
                left.append((cell, None, now))
                self._note_renewed(cell, None, before, now)
        for names, name, before in self.entry.globals:
            now = names.get(name, ABSENT)
            if now is ABSENT and before is not ABSENT:
                left.append((names, name))
            elif now is not before:
                left.append((names, name, now))
                self._note_renewed(names, name, before, now)
        for tensor, before in self.entry.grads:
            meta = tensor._meta
            now = None if meta is None else meta.grad
            if now is not before:
                left.append((meta, "grad", now))
        left += [
            (tensor, "_requires_grad", not flag)
            for tensor, flag in self.entry.flags
            if tensor._requires_grad is not flag and tensor._edge is None
        ]
        if len(self.plan.replaced) + len(self.plan.counters) > noted:
            raise Again
        return left

    def _put_back(self, chosen: dict[tuple[int, Any], DeviceArray]) -> dict[int, DeviceArray]:
        """Takes away what is left only after some calls; by its place in `exit`, what says whether it is."""
        held = {id(holder): (holder, before) for holder, before in self.entry.maps}
        for place, key in chosen:
            holder, before = held[place]
            holder.pop(key, None)
            if key in before:
                holder[key] = before[key]
        places = [place for place, entry in enumerate(self.exit) if isinstance(entry[0], dict)]
        keys = {place: (id(self.exit[place][0]), self.exit[place][1]) for place in places}
        return {place: chosen[key] for place, key in keys.items() if key in chosen}

    def _note_renewed(self, holder: Any, key: Any, before: Any, now: Any) -> None:
        """Tensors in the place of alike ones, or another number: what is there becomes an input, for the next trace."""
        here = place_at(holder, key)
        if self.given.renewed.holds_place(holder, key) or self.counters.holds_place(holder, key):
            put(holder, key, before)  # for the first call to read
        elif type(before) in (int, float) and type(now) in (int, float):
            if self.plan.counts and not self.plain_numbers:
                self.plan.counters[here] = (holder, key)
        elif here not in self.plan.watched and tensors_in(before):
            look = look_of(before, shapes=False, grads=False)
            if look is not None and look == look_of(now, shapes=False, grads=False):
                self.plan.replaced[here] = (holder, key)

    def _refuse_places(self) -> None:
        """Places that can't be arguments are watched."""
        if self.given.renewed.refused:
            for place in self.given.renewed.refused:
                self.plan.replaced.pop(place, None)
            self.plan.watched.update(self.given.renewed.refused)
            raise Again

    def _is_tied(self, tensor: Any, held: DeviceArray, owners: dict[int, tuple[Any, DeviceArray]]) -> bool:
        """Whether a tensor of the step's own has its memory in common with another one."""
        owner = owners.get(id(held.cell))
        return tensor._view is None and owner is not None and owner[0] is not tensor and id(tensor) not in self.given.own()

    def left_behind(self) -> list[Any]:
        return [self.result, *[entry[2] for entry in self.exit if len(entry) > 2]]

    def _gradients_alone(self, outputs: list[Cell]) -> tuple[list[tuple[Meta, Any]], list[tuple[Meta, Any]]]:
        """The gradients that the step leaves in memories of their own, of which nothing else that it leaves is part.

        Those that get an array of their own, and small ones that share one.
        """
        if self.later or self.has_inside or self.way_back is not None:  # a hook may raise; a way back keeps the values
            return [], []
        left = [each for part in self.left_behind() for each in tensors_in(part, self.known)]
        shown = Counter(id(each._array.cell) for each in left if _on_device(each))
        made = {id(cell) for cell in outputs}
        gradients = [
            (entry[0], entry[2])
            for entry in self.exit
            if type(entry[0]) is Meta
            and _on_device(entry[2])
            and shown[id(entry[2]._array.cell)] == 1
            and id(entry[2]._array.cell) in made
            and entry[2]._array._parent is None
            and entry[2]._edge is None
            and entry[2]._meta is None
        ]
        small = [] if self.device is cpu else small_ones([left._array for _, left in gradients])
        return [each for place, each in enumerate(gradients) if place not in small], [gradients[place] for place in small]

    def _assemble(self, closed: Any, outputs: list[Cell], trace: Trace) -> None:
        """The traced program as a jitted function of its inputs."""
        arguments = self.given.own()
        owners: dict[int, tuple[Any, DeviceArray]] = {}
        argument_cells: dict[int, int] = {}
        for tensor, held in trace.adopted:
            if tensor._view is None:
                if id(tensor) in arguments:
                    place = argument_cells.setdefault(id(held.cell), arguments[id(tensor)])
                    if place != arguments[id(tensor)]:
                        self.given.shared.append((place, arguments[id(tensor)]))
                else:
                    owners.setdefault(id(held.cell), (tensor, held))
        self.given.shared += [(argument_cells[key], owners[key][0]) for key in argument_cells.keys() & owners.keys()]
        mentioned = {id(var) for equation in closed.jaxpr.eqns for var in equation.invars}
        mentioned |= {id(var) for var in closed.jaxpr.outvars}
        used = [(var, trace.inputs[id(var)], None) for var in closed.jaxpr.invars if id(var) in mentioned]
        used += [(var, trace.inputs.get(id(const)), const) for var, const in zip(closed.jaxpr.constvars, closed.consts)]
        written = {id(cell) for cell in outputs}
        kinds: dict[str, list[Any]] = {
            kind: [] for kind in ("donated", "packed", "state", "argument", "draw", "numbers", "constant")
        }
        for var, source, const in used:
            if source is None:
                kinds["constant"].append((var, const))
            elif source == "numbers":
                kinds["numbers"].append((var, None))
            elif isinstance(source, tuple):
                kinds["draw"].append((var, source))
            elif id(source) in argument_cells:
                kinds["argument"].append((var, argument_cells[id(source)]))
            else:
                tensor, held = owners[id(source)]
                donated = id(source) in written and not (self.later or self.has_inside)  # a hook may raise
                kinds["donated" if donated else "state"].append((var, (tensor, held, source)))
        known = {id(cell) for cell, _, _ in trace.cells.values()}
        self.way_back = WayBack.of(self, trace, [cell for cell in outputs if id(cell) not in known])
        kinds["donated"], kinds["packed"] = self._small_states(kinds["donated"])
        gradients, small_gradients = self._gradients_alone(outputs)
        # JAX lends donated memories to the first outputs of their shape; were those not their own, XLA would copy them.
        own = [where[2] for _, where in kinds["donated"]]
        packed = [where[2] for _, where in kinds["packed"]]
        left_cells = [[left._array.cell for _, left in leaves] for leaves in (gradients, small_gradients)]
        turn_of = {
            id(cell): (group, place)
            for group, cells in enumerate([own, [], packed, *left_cells])
            for place, cell in enumerate(cells)
        }
        turns = sorted(
            range(len(outputs)),
            key=lambda place: turn_of.get(id(outputs[place]), (1 if id(outputs[place]) in known else 5, 0)),
        )
        outputs = [outputs[place] for place in turns]
        self.donated = [where for _, where in kinds["donated"]]
        self.packed = [where for _, where in kinds["packed"]]
        self.pack = StatePack.of(self.packed) if packed else None
        self.state_inputs = [where for _, where in kinds["state"]]
        read = {id(cell) for _, _, cell in (*self.donated, *self.packed, *self.state_inputs)}
        self.only_written = [
            (*owners[id(cell)], cell)
            for cell in outputs
            if id(cell) in owners and id(cell) not in read and id(cell) not in argument_cells
        ]
        self.argument_inputs = [where for _, where in kinds["argument"]]
        self.draw_inputs = [where for _, where in kinds["draw"]]
        self.uses_numbers = bool(kinds["numbers"])
        order = [var for kind in kinds for var, _ in kinds[kind]]
        jaxpr = closed.jaxpr.replace(constvars=[], invars=order, outvars=[closed.jaxpr.outvars[place] for place in turns])
        constants = [const for _, const in kinds["constant"]]
        self.size = len(jaxpr.eqns)

        sources = {id(var): source for var, source, _ in used}
        passed = [  # an input that is also the value of another memory: it may be donated one day, so that gets a copy
            place for place, (var, cell) in enumerate(zip(jaxpr.outvars, outputs)) if sources.get(id(var), cell) is not cell
        ]

        # Where the outputs go.
        self.outputs = outputs
        for cell in outputs:
            if cell.device is None:
                cell.live_on(self.device)
        self.argument_outputs = [
            (place, argument_cells[id(cell)]) for place, cell in enumerate(outputs) if id(cell) in argument_cells
        ]
        self.n_known = sum(id(cell) in known for cell in outputs) - len(packed)  # they come first
        self.adopted = {id(tensor): tensor for tensor, _ in trace.adopted}
        self.known_cells = known
        self.argument_cells = argument_cells
        left = tensors_in(self.left_behind(), self.known)
        self.passed_on = sorted({  # arguments that are returned or kept, or of which views are
            argument_cells[id(leaf._array.cell)]
            for leaf in left
            if _on_device(leaf) and id(leaf._array.cell) in argument_cells
        })
        memories = (*self.donated, *self.packed, *self.state_inputs, *self.only_written)
        self.sharing = Sharing(
            [each for each in memories if id(each[2]) in written],
            [each for each in self.state_inputs if id(each[2]) not in written],
            [(tensor, owners[id(held.cell)][0]) for tensor, held in trace.adopted if self._is_tied(tensor, held, owners)],
            self.given.separate(),
            [argument for _, argument in self.argument_outputs if argument < self.given.count],
        )
        places = [*self.argument_inputs, *self.passed_on, *[place for _, place in self.argument_outputs]]
        if self.way_back or self.given.changes:
            places = [*arguments.values()]
        self.uses_gradients = self.given.has_gradients and any(place >= self.given.n_given for place in places)
        self.given.renewed.finish(lambda tensor: arguments.get(id(tensor)) in places)
        self.lenders: list[Gradients | PackedGradients] = []
        if gradients:
            self.lenders.append(Gradients(gradients, self.device, self.jax_device))
        if small_gradients:
            self.lenders.append(PackedGradients(small_gradients, self.device, self.jax_device))
        sizes = self.n_known, len(packed), len(gradients), len(small_gradients)
        self.written = outputs[: self.n_known]
        self.made = outputs[sum(sizes) :]
        handed = {id(meta) for meta, _ in (*gradients, *small_gradients)}
        others = [place for place, entry in enumerate(self.exit) if id(entry[0]) not in handed]
        self.exit_if = {new: self.exit_if[place] for new, place in enumerate(others) if place in self.exit_if}
        self.exit = [self.exit[place] for place in others]

        n_own = len(own)
        n_donated = n_own + (self.pack is not None) + sum(lender.n_arrays for lender in self.lenders)

        def run(*values: Any) -> list[Any]:
            parts = [] if self.pack is None else self.pack.cut(values[n_own])
            with traced_for(self.jax_device.platform):
                results = list(jax_layout.evaluate(jaxpr, [], *values[:n_own], *parts, *values[n_donated:], *constants))
            for place in passed:
                results[place] = jax.numpy.array(results[place], copy=True)
            return _bundled(results, *sizes)

        given_away = [*range(n_donated)]
        self.gives_numbers = self.uses_numbers and self.next_numbers is not None and not (self.later or self.has_inside)
        if self.gives_numbers:  # the last input: the numbers of the next call take its place
            given_away.append(n_donated + len(order) - n_own - len(packed) - len(constants) - 1)
        # Where the inputs are is said: else JAX compiles once for arrays that may be anywhere, and again for those put there.
        there = jax.sharding.SingleDeviceSharding(self.jax_device)
        self.jitted = jax.jit(run, donate_argnums=given_away, keep_unused=True, in_shardings=there)
        self.exit_after_trace = True
        trace.finish()

    def _small_states(self, donated: list[Any]) -> tuple[list[Any], list[Any]]:
        """Inputs that are written over: those with an array of their own, and those that share one."""
        if self.device is cpu or self.way_back is not None:
            return donated, []
        states = [
            each for each in donated if isinstance(each[1][2], CellAway) and not each[1][0]._requires_grad
        ]
        packed = [states[place] for place in small_ones([held for _, (_, held, _) in states])]
        chosen = set(map(id, packed))
        return [each for each in donated if id(each) not in chosen], packed


def _bundled(results: list[Any], known: int, packed: int, gradients: int, small_gradients: int) -> list[Any]:
    """What a program returns: small memories side by side in one array."""
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
