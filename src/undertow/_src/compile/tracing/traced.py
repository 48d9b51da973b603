"""A step runs once, with values that are not known yet: what it computes, what it depends on, and what it leaves where."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

import jax
import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import Buffer, NeedsValue, TraceAborted, Watch
from undertow._src.arrays.device.placement import jax_device
from undertow._src.arrays.jax import layout as jax_layout
from undertow._src.arrays.target import traced_for
from undertow._src.base.modes import local
from undertow._src.base.tree import leaves, map_leaves
from undertow._src.compile.callbacks.hook_facts import unchanged_by_stores
from undertow._src.compile.callbacks.hook_placement import HookPlacer
from undertow._src.compile.callbacks.host_calls import DeferredCallback, Placed
from undertow._src.compile.callbacks.registrations import Registrations
from undertow._src.compile.effects import purity
from undertow._src.compile.errors import OF_JAX, CompileError, RunsAsWritten, explained
from undertow._src.compile.guards.carried_state import look_of
from undertow._src.compile.guards.facts import FactGuard
from undertow._src.compile.guards.places import ABSENT, Place, Stores, changes_in, place_at
from undertow._src.compile.guards.reachability import Reached
from undertow._src.compile.guards.read_guard import ReadGuard
from undertow._src.compile.guards.rollback import Rollback, TensorMarks
from undertow._src.compile.guards.snapshot import Snapshot
from undertow._src.compile.guards.state_guards import StateGuards
from undertow._src.compile.plan import Plan, Retrace
from undertow._src.compile.splitting.statement_probes import ProbedCode
from undertow._src.compile.tracing.arguments import Arguments, Handed, refuse_overlaps
from undertow._src.compile.tracing.counters import Counters, from_places
from undertow._src.compile.tracing.decisions import Answer, Decisions, Hints, Unverified, part_for
from undertow._src.compile.tracing.options import Options
from undertow._src.compile.tracing.recording import recording
from undertow._src.compile.tracing.records import ChangedRecord, records_together
from undertow._src.compile.tracing.results import (
    cached_by,
    forget_cached,
    graph_is_left,
    nodes_behind,
    objects_in,
    refuse_hidden,
    scalars_in,
    tensors_in,
    values_in,
)
from undertow._src.compile.tracing.schedules import Schedules
from undertow._src.compile.tracing.sparse_parts import together
from undertow._src.compile.tracing.symbolic_scalars import (
    Known,
    ScalarBecameConstant,
    ScalarGuards,
    SymbolicScalar,
    baked,
    inputs,
)
from undertow._src.compile.tracing.trace import Draw, Trace
from undertow._src.tensor.core import TensorCore
from undertow._src.types.devices import cpu


class Call(NamedTuple):
    """A call of the function that is traced."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Traced:
    """A step that ran once: what it depends on, and what it left where."""

    result: Any  # what the traced step returned
    runs_once: bool  # whether it gives optimizers the states that they begin with: then it is another step
    leaves_numbers: bool  # whether options of optimizers are among what it leaves
    scalars: list[tuple[SymbolicScalar, DeviceArray]]  # numbers in graphs that it leaves, and memories that keep them

    def __init__(self, call: Call, plan: Plan) -> None:
        self.plan, self.splitter = plan, plan.splitter
        self.code = ProbedCode([]) if plan.splitter is None else plan.splitter.code
        self.last_numbers: list[float] | None = None
        self.next_numbers: DeviceArray | None = None
        self.lent: list[Buffer] = []  # memories that somebody else holds too, for the time of a call
        state = self._reached(call)
        call = self._find_inputs(call, state)
        trace, placer = Trace(self.device), HookPlacer(plan, self.registrations, state.seen)
        trace.placer, trace.state, trace.schedules = placer, state, self.schedules
        trace.before, placer.entry = self.registrations.reached(), self.entry
        placer.mirrors.expect(self.given.own())
        placer.gradients = {*map(id, self.given.gradients())}
        placer.states = {id(optimizer.state) for optimizer in state.optimizers}
        placer.groups = {id(group) for optimizer in state.optimizers for group in optimizer.param_groups}
        numbers, self.marks = self.options.values(), TensorMarks(state.tensors, self.arguments)
        placer.mirrors.marks = self.marks
        renewed = self.given.renewed
        roll_back = Rollback(self.entry, self.options, self.counters, renewed, self.schedules, placer.stores)
        trace.decisions = self.decisions = Decisions(plan.answers, plan.hints)
        self.failure: Exception | None = None  # of a trace that went on with guesses
        try:
            closed, outputs = self._trace(call, state, trace, placer, numbers)
            if self.failure is not None:
                self._verify(closed, trace, numbers)
            elif self.decisions.are_guessed:
                self._check_guesses(closed, outputs, trace, numbers)
            self.scalar_guards = ScalarGuards(self.known_numbers.asked, numbers + self.options.extra)
            roll_back()
            self.bumps = self.marks.bumps()
            self._keep(placer, trace)
            self._guard_hooks(placer, state)
            self.decisions.finish()
        except BaseException as raised:
            error = trace.stopped[0] if trace.stopped and isinstance(raised, Exception) else raised
            if raised is self.failure or isinstance(raised, Retrace):
                error = raised
            with ExitStack() as steps:  # the last one first, and each of them
                steps.callback(self.marks.restore)
                steps.callback(roll_back)
                steps.callback(trace.undo)
                steps.callback(forget_cached, state.caches, trace.is_made)
            self._raise_instead(error)
            if error is raised:
                raise
            raise error from None
        self.closed, self.outputs, self.trace = closed, outputs, trace

    def _guard_hooks(self, placer: HookPlacer, state: Reached) -> None:
        """Remembers the code of hooks in the program, and all that it names; what it reads of objects, `reads` has."""
        names = Reached(state.replaced, already=state)
        for _, effects in placer.traced:
            names.names_in(effects.functions)
            for namespace, name in effects.names:
                names.name(namespace, name)
        self.hook_code = StateGuards(Snapshot(names)) if names.functions else None
        if self.hook_code is not None:
            self.hook_code.ignore({place_at(holder, key) for holder, key, _ in self.exit if type(key) is str})
            self.hook_code.ignore(placer.changed_on_host())

    def _reached(self, call: Call) -> Reached:
        """Everything that the step depends on."""
        plan = self.plan
        self.counters = Counters(plan.counters.values() if plan.counts and not plan.plain_numbers else ())
        replaced = {*plan.replaced, *(plan.counters if self.counters.places else ())}
        splitter = plan.splitter
        state = (
            Reached(replaced)
            if splitter is None
            else Reached(replaced, splitter.names_left(), splitter.reading.arrays_read())
        )
        state.walk(plan.numbers, "of numbers among the arguments")
        state.walk(call.function, getattr(call.function, "__name__", "step"))
        for leaf in leaves((call.args, call.kwargs)):
            if not isinstance(leaf, TensorCore):
                state.walk(leaf, "an argument")
        for root, name in plan.roots:
            state.walk(root, name)
        if splitter is not None:
            splitter.reading.names_in_packages(state)
            for namespace, name in splitter.reading.whole.effects.names:
                state.name(namespace, name)
            for owner, attribute in splitter.places_in_packages():
                state.look_at_place(owner, attribute)
        return state

    def _find_inputs(self, call: Call, state: Reached) -> Call:
        """Note what the program depends on, and as it is now; the call with tensors of the trace's own."""
        plan = self.plan
        hosted = state.hosted_schedulers()
        self.given = Arguments(leaves((call.args, call.kwargs)), state, plan.replaced.values())
        self._refuse_places()
        self.known = state.seen
        args, kwargs = map_leaves(self.given.stand_in, (call.args, call.kwargs))
        self.arguments = self.given.tensors
        self.facts = FactGuard(state.mentioned, state.tensors)
        self.facts.compare(*self.given.pairs())
        self.options = Options(state.optimizers, not (plan.plain_numbers or plan.counts_inside), self.counters)
        self.entry = Snapshot(state)
        self.state_guards = StateGuards(self.entry)
        self.known_numbers = Known()
        self.schedules = Schedules(self.options, self.known_numbers, hosted, plan.plain_numbers)
        self.device = next((t.device for t in (*self.arguments, *state.tensors) if t.device is not cpu), cpu)
        if self.device.type == "meta":
            raise CompileError(
                "undertow.compile: a tensor that the step is given, or reaches, is on the meta device and has no values. "
                "Call the step as it is, without torch.compile."
            )
        self.jax_device = jax_device(self.device)
        self.registrations = Registrations(state, self.arguments)
        return Call(call.function, args, kwargs)

    def _raise_instead(self, error: BaseException) -> None:
        """Raise what a failed trace means: another try, or the error in the step's words. Returns if it is the error."""
        plan = self.plan
        if isinstance(error, NeedsValue):
            self._way_on(error)
        failed = isinstance(error, Exception) and not isinstance(error, (Retrace, ScalarBecameConstant, ChangedRecord))
        if self.counters.places and failed:
            plan.counts = False  # maybe that is why
            plan.counters.clear()
            raise Retrace from None
        if isinstance(error, (NeedsValue, *OF_JAX)):
            raise explained(error) from None
        if isinstance(error, CompileError):
            raise CompileError(str(error)) from None  # without the way through JAX
        error.__notes__ = [note for note in getattr(error, "__notes__", ()) if "JAX" not in note]

    def _way_on(self, error: NeedsValue) -> None:
        """Raise Retrace if another trace may go on where this one needed a value: on the host, or with a guess."""
        plan = self.plan
        line = error.line if error.line not in plan.decided else None
        # Code of a package seldom only shows a value: a guess takes one more trace, to move code takes several.
        guesses = line is not None and purity.is_installed(line[0])
        if not guesses and plan.splitter is not None and plan.splitter.move_what_needed(error):
            raise Retrace from None
        if line is not None:
            plan.decided.add(line)
            raise Retrace from None

    def _verify(self, closed: Any, trace: Trace, numbers: list[float]) -> None:
        """Find out what the guesses of a failed trace ought to be; if they are right, the failure is the step's own."""
        answers, hints = self._answers_of(closed.jaxpr, closed.consts, trace, numbers)
        right = answers == self.decisions.answers
        if not right or isinstance(self.failure, Unverified):
            self.plan.answers, self.plan.hints = answers, hints
            raise Retrace
        assert self.failure is not None
        raise self.failure

    def _check_guesses(self, closed: Any, outputs: list[Buffer], trace: Trace, numbers: list[float]) -> None:
        """Trace again if guesses are wrong, where a small part of the program tells: it costs less than all of it."""
        places = {id(buffer): place for place, buffer in enumerate(outputs)}
        asked = [closed.jaxpr.outvars[places[id(array.buffer)]] for array in self.decisions.asked]
        part = part_for(closed.jaxpr, asked)
        if part is not None:
            answers, hints = self._answers_of(part, closed.consts, trace, numbers)
            if answers != self.decisions.answers:
                self.plan.answers, self.plan.hints = answers, hints
                raise Retrace

    def _answers_of(self, jaxpr: Any, consts: Any, trace: Trace, numbers: list[float]) -> tuple[list[Answer], Hints]:
        """Return what the call that is traced answers to the decisions, given a program that computes the values."""
        inputs = [value if buffer.host is None else buffer.host for buffer, value, _ in trace.buffers.values()]
        values = [np.array(numbers, np.float64), *inputs[: len(jaxpr.invars) - 1]]
        self.decisions.evaluating = True

        def run(*values: Any) -> list[Any]:
            with traced_for(self.jax_device.platform):
                return jax_layout.evaluate(jaxpr, consts, *values)

        try:
            return self.decisions.verified(jax.block_until_ready(jax.jit(run)(*values)))
        finally:
            self.decisions.evaluating = False

    def _keep(self, placer: HookPlacer, trace: Trace) -> None:
        """Return what calls of the program need of its trace."""
        self.later: list[DeferredCallback] = placer.later
        self.decided_lines, self.selected_lines = self.plan.decided, self.plan.selected
        self.decides = bool(self.decisions.answers)
        self.begins, self.turns, self.mirrors = placer.begins, placer.turns, placer.mirrors
        self.host_calls, self.streams = placer.host_calls, [*trace.streams.values()]
        for call in self.host_calls:
            call.streams = self.streams
        self.has_inside, self.raised = placer.has_inside, placer.raised
        self.placed: list[Placed] = placer.placed
        shown = self.given.renewed.shown()
        reads = [read for read in placer.reads if id(read.value) not in shown and not self.entry.watches(read.owner)]
        self.reads = ReadGuard(reads + self.unchanged)
        self.checks, self.held = trace.arriving.checks, trace.arriving.held
        trace.arriving.finish()
        self.returned = placer.returned
        self.draws: list[Draw] = trace.draws

    def _trace(
        self, call: Call, state: Reached, trace: Trace, placer: HookPlacer, numbers: list[float]
    ) -> tuple[Any, list[Buffer]]:
        outputs: list[Buffer] = []
        tensors = [*self.arguments, *state.tensors]
        if Watch.compiling is not None:
            Watch.compiling.take(tensors)
        for tensor in tensors:
            if tensor._view is None:
                trace.adopt(tensor)
        known = [buffer for buffer, _, _ in trace.buffers.values()]
        specs = [jax.ShapeDtypeStruct(buffer.value.shape, buffer.value.dtype) for buffer in known]

        def body(options: Any, *values: Any) -> list[Any]:
            trace.of_jax = options._trace
            try:
                return step(options, *values)
            except Exception as error:
                if isinstance(error, (Retrace, ScalarBecameConstant, ChangedRecord)) or not self.decisions.are_guessed:
                    raise
                stopped: Any = trace.stopped[0] if trace.stopped else error
                if isinstance(stopped, NeedsValue):
                    self._way_on(stopped)
                self.failure = stopped  # maybe a step that does not come here
                return self.decisions.operands()

        def step(options: Any, *values: Any) -> list[Any]:
            for buffer, value in zip(known, values, strict=True):
                buffer.value = value
            for tensor in tensors:
                trace.adopt(tensor)
            self.given.tell(trace.arriving, trace.as_it_was)
            originals = {id(tensor): trace.as_it_was(array) for tensor, array in trace.originals}
            for tensor in state.tensors:
                trace.arriving.captured(tensor, tensor._array, originals.get(id(tensor)))
            as_inputs = inputs(numbers, options, self.known_numbers, len(self.counters.places))
            given = self._show(as_inputs, numbers, trace)
            placer.stand_ins = self.counters.shown() | self.given.renewed.stand_ins()
            args, kwargs = records_together(together(from_places((call.args, call.kwargs), self.plan.numbers)))
            self.handed = Handed((args, [*kwargs.values()]), self.plan.kinds)
            self.result = self._run(call.function, args, kwargs, placer, state)
            if trace.stopped:  # and the step's own code handled it
                raise trace.stopped[0]
            self.handed.refuse_changes(effect.target for _, effects in placer.hosted for effect in effects.effects)
            self.state_guards.graphs.refuse_changes()
            placer.finish()
            if self.splitter is not None:
                placer.refuse_other_turns(self.splitter.rest)
            self._take_back(as_inputs, given, numbers, trace)
            self._find_exit(state, placer, trace)
            outputs.extend([buffer for buffer, _, _ in trace.buffers.values() if buffer.writes])
            outputs.extend(trace.living())
            trace.numpy_memory.refuse_later_writes()
            refuse_overlaps(*trace.host_memories())
            self.given.refuse_overlaps(trace.buffers)
            return [buffer.value for buffer in outputs]

        with trace, self.registrations, self.code:
            closed = jax.make_jaxpr(body)(jax.ShapeDtypeStruct((len(numbers),), np.float64), *specs)
        if not self.plan.plain_numbers and baked(closed.jaxpr):
            raise ScalarBecameConstant
        trace.inputs = dict(zip(map(id, closed.jaxpr.invars), ["numbers", *known])) | trace.inputs
        return closed, outputs

    def _run(self, function: Callable[..., Any], args: Any, kwargs: Any, placer: HookPlacer, state: Reached) -> Any:
        records = local.modes.grad_enabled
        try:
            with recording(self.splitter, state):
                result = function(*args, **kwargs)
        except Exception as error:
            if self.splitter is not None and not isinstance(error, TraceAborted):
                placer.refuse_other_turns(
                    self.splitter.rest
                )  # which may be why: a list is empty that a hook was to fill
            raise
        if local.modes.grad_enabled is not records:
            raise CompileError(
                f"undertow.compile: the step leaves gradients switched {'off' if records else 'on'} for its caller, "
                "and a program can't. Use `with torch.no_grad():` inside, or switch outside of the step."
            )
        return placer.result_for(result)

    def _show(self, as_inputs: list[Any], numbers: list[float], trace: Trace) -> list[Any]:
        """Put the program's inputs where the step finds them; the numbers among them, as it finds them."""
        if self.plan.plain_numbers:  # all of them are held to their values
            numbers[:] = map(float, as_inputs)
        else:
            self.options.put(as_inputs)
        given = self.options.in_groups() + as_inputs[len(self.options.places) :]
        trace.counts = self.options.as_counts(as_inputs)
        self.given.renewed.show(self.given.stand_in)
        self.counters.show(as_inputs[len(as_inputs) - len(self.counters.places) :])
        return given

    def _take_back(self, as_inputs: list[Any], given: list[Any], numbers: list[float], trace: Trace) -> None:
        """Note what the step made of its numbers, and puts back what was there before."""
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

    def _find_exit(self, state: Reached, placer: HookPlacer, trace: Trace) -> None:
        """Find out what the step left where, and refuses what a program can't leave there."""
        self.exit = self._settle(placer.stores)
        self.unchanged = [*unchanged_by_stores(placer.stored, placer.stores, self._is_looked_at)]
        places = {place_at(holder, key) for holder, key, _ in self.exit if not isinstance(key, slice)}
        self.early = [place for place in placer.early if place_at(*place) in places]
        self.handed.refuse_to_leave([*self.left_behind(), *[entry[1] for entry in self.exit]], self.known)
        self.counters.check(self.exit, self.result, self.known)
        placer.refuse_shared(self.exit)
        self.state_guards.ignore(placer.changed_on_host() | self.entry.large_arrays_in(trace.host_memories()[1]))
        graphs = [tensor._edge for tensor in tensors_in(self.left_behind(), self.known) if graph_is_left(tensor)]
        self.scalars = [(each, DeviceArray(each.traced)) for each, _ in scalars_in(nodes_behind(graphs))]
        self.leaves_numbers = bool(self.scalars or values_in(self.left_behind(), self.known, SymbolicScalar))
        self.exit_if = self._left_only_if(trace.chosen)
        states = {id(optimizer.state) for optimizer in state.optimizers}
        self.runs_once = any(
            id(entry[0]) in states and place not in self.exit_if for place, entry in enumerate(self.exit)
        )
        refuse_hidden(self.left_behind(), self.known, trace.is_made)
        self._refuse_caches(state, trace)
        left = objects_in(self.left_behind(), self.known)
        self.own_objects = trace.own_among(left.values())
        placer.mirrors.leave({*left, *self.handed.ids()})
        self.given.note_changes()
        self._refuse_places()
        self.state_guards.watches_gradients = bool(
            trace.uses_gradients or state.optimizers or any(entry[1] == "grad" for entry in self.exit)
        )

    def _refuse_caches(self, state: Reached, trace: Trace) -> None:
        """Have a call run as it is written that fills caches: later calls find them full."""
        had_others = {name: not all(map(trace.is_made, cached_by(cache))) for cache, name in state.caches}
        for name in forget_cached(state.caches, trace.is_made):
            if had_others[name]:
                raise CompileError(
                    f"undertow.compile: `{name}` keeps what it gave (functools.lru_cache), and now a tensor of the "
                    "program beside others. Call it before the step, once with each of its arguments."
                )
            raise RunsAsWritten(f"`{name}` keeps what it gave (functools.lru_cache), and had kept no tensor before")

    def _settle(self, stores: Stores) -> list[tuple[Any, Any, Any]]:
        """Return what the step left where: (holder, key, value)."""
        left: list[tuple[Any, Any, Any]] = []
        noted = len(self.plan.replaced) + len(self.plan.counters)
        entered = {place_at(holder, None) for holder, _ in self.entry.maps}
        others: dict[Place, tuple[Any, dict[Any, Any]]] = {}
        for holder, held in stores:
            others.setdefault(place_at(holder, None), (holder, held))  # the first knew it unchanged
        changes = [each for place, pair in others.items() if place not in entered for each in changes_in(*pair)]
        for holder, key, before, now in (*self.entry.changes(), *changes):
            left.append((holder, key, now))
            if not isinstance(key, slice):
                if now is not before:  # else only its place among the entries is different
                    self._note_renewed(holder, key, before, now)
            elif len(before) == len(now) and not isinstance(holder, set):
                for number, (was, value) in enumerate(zip(before, now)):
                    if value is not was:
                        self._note_renewed(holder, number, was, value)
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
            raise Retrace
        return left

    def _is_looked_at(self, holder: Any, key: Any) -> bool:
        """Whether a place is guarded already, or an input."""
        inputs = self.given.renewed, self.counters
        return self.entry.covers(holder, key) or any(each.holds_place(holder, key) for each in inputs)

    def _left_only_if(self, chosen: dict[tuple[int, Any], DeviceArray]) -> dict[int, DeviceArray]:
        """By its place in `exit`: for what is left only after some calls, what says whether it is."""
        places = [place for place, entry in enumerate(self.exit) if isinstance(entry[0], dict)]
        keys = {place: (id(self.exit[place][0]), self.exit[place][1]) for place in places}
        return {place: chosen[key] for place, key in keys.items() if key in chosen}

    def _note_renewed(self, holder: Any, key: Any, before: Any, now: Any) -> None:
        """Tensors in the place of alike ones, or another number: what is there becomes an input, for the next trace."""
        here = place_at(holder, key)
        if self.given.renewed.holds_place(holder, key) or self.counters.holds_place(holder, key):
            return
        if type(before) in (int, float) and type(now) in (int, float):
            if self.plan.counts and not self.plan.plain_numbers:
                self.plan.counters[here] = (holder, key)
        elif here not in self.plan.watched and tensors_in(before):
            look = look_of(before, shapes=False, grads=False)
            if look is not None and look == look_of(now, shapes=False, grads=False):
                self.plan.replaced[here] = (holder, key)

    def changing_numbers(self) -> dict[Place, tuple[Any, Any]]:
        """Where the step finds numbers that have changed since, or that it changes itself."""
        found = {place_at(*place): place for place in self.counters.places}
        return found | self.state_guards.places.changed_numbers() | self.reads.changed_numbers()

    def _refuse_places(self) -> None:
        """Places that can't be arguments are watched."""
        if self.given.renewed.refused:
            for place in self.given.renewed.refused:
                self.plan.replaced.pop(place, None)
            self.plan.watched.update(self.given.renewed.refused)
            raise Retrace

    def left_behind(self) -> list[Any]:
        return [self.result, *[value for _, _, value in self.exit if value is not ABSENT]]
