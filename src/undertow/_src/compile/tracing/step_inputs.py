"""What a step reads, as it is before the step is traced."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any, NamedTuple

from undertow._src.arrays.device.placement import jax_device
from undertow._src.base.tree import leaves, map_leaves
from undertow._src.compile.callbacks.registrations import Registrations
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.carried_state import Renewed
from undertow._src.compile.guards.reachability import GENERATORS, Reached
from undertow._src.compile.guards.snapshot import Snapshot
from undertow._src.compile.guards.state_guards import StateGuards
from undertow._src.compile.guards.tensor_metadata_guard import FactGuard
from undertow._src.compile.guards.walking import Walk
from undertow._src.compile.plan import Plan, Retrace
from undertow._src.compile.tracing.arguments import Arguments
from undertow._src.compile.tracing.counters import Counters
from undertow._src.compile.tracing.lr_schedulers import Schedules
from undertow._src.compile.tracing.optimizer_options import Options
from undertow._src.compile.tracing.python_draws import Generators
from undertow._src.compile.tracing.symbolic_scalars import Known
from undertow._src.tensor.core import TensorCore
from undertow._src.types.devices import cpu
from undertow._src.types.devices import device as Device


class Call(NamedTuple):
    """A call of the function that is traced."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True, eq=False)
class StepInputs:
    """What a step reads: tensors, numbers, Python's state."""

    state: Reached
    given: Arguments
    options: Options
    counters: Counters
    scalars: Known  # the trace's facts about the numbers
    schedules: Schedules
    entry: Snapshot  # the Python state before the trace
    guards: StateGuards
    facts: FactGuard
    registrations: Registrations
    device: Device

    @property
    def known(self) -> Container[int]:
        """Return the ids of all objects that the step reaches."""
        return self.state.seen

    @property
    def jax_device(self) -> Any:
        """Return JAX's device."""
        return jax_device(self.device)


def find_inputs(call: Call, plan: Plan) -> tuple[StepInputs, Call]:
    """Return what a step reads, and the call with stand-ins for its arguments."""
    lengths = [] if plan.lengths is None else plan.lengths.places
    counted = plan.counters.values() if plan.counts and not plan.plain_numbers else ()
    counters = Counters([*lengths, *[place for place in counted if not lengths or place[0] is not lengths[0][0]]])
    walk = _walk(call, plan, counters)
    read = {key for key, choices in plan.schedulers_read.items() if choices == plan.choices}
    state, hosted = walk.found, walk.hosted_schedulers(read)
    given = Arguments(leaves((call.args, call.kwargs)), state, plan.replaced.values())
    refuse_places(given.renewed, plan)
    args, kwargs = map_leaves(given.stand_in, (call.args, call.kwargs))
    facts = FactGuard(state.names_in_code(), state.tensors)
    facts.compare(*given.pairs())
    options = Options(state.optimizers, not (plan.plain_numbers or plan.counts_inside), counters)
    entry, scalars = Snapshot(state), Known()
    guards = StateGuards(entry)
    generators = Generators([each for each in state.generators if isinstance(each, GENERATORS)])
    schedules = Schedules(options, scalars, hosted, plan.plain_numbers, generators)
    device = next((each.device for each in (*given.tensors, *state.tensors) if each.device is not cpu), cpu)
    if device.type == "meta":
        raise CompileError(
            "undertow.compile: a tensor that the step is given, or reaches, is on the meta device and has no values. "
            "Call the step without torch.compile."
        )
    registrations = Registrations(state, given.tensors)
    inputs = StepInputs(
        state, given, options, counters, scalars, schedules, entry, guards, facts, registrations, device
    )  # fmt: skip
    return inputs, Call(call.function, args, kwargs)


def _walk(call: Call, plan: Plan, counters: Counters) -> Walk:
    """Find everything that the step depends on."""
    replaced = {*plan.replaced, *(plan.counters if counters.places else ())}
    splitter = plan.splitter
    walk = Walk(replaced) if splitter is None else Walk(replaced, splitter.names_left(), splitter.reading.arrays_read())
    walk.follow(plan.numbers, "of numbers among the arguments")
    walk.follow(call.function, getattr(call.function, "__name__", "step"))
    for leaf in leaves((call.args, call.kwargs)):
        walk.follow(type(leaf) if isinstance(leaf, TensorCore) else leaf, "an argument")
    for root, name in plan.roots:
        walk.follow(root, name)
    if splitter is not None:
        splitter.reading.names_in_packages(walk)
        for namespace, name in splitter.reading.whole.effects.names:
            walk.name(namespace, name)
        for owner, attribute in splitter.places_in_packages():
            walk.look_at_place(owner, attribute)
        for read in splitter.rest.reads:
            if read.in_c:
                walk.look_at_read(read)
    return walk


def refuse_places(renewed: Renewed, plan: Plan) -> None:
    """Raise Retrace to guard places that can't be inputs."""
    if renewed.refused:
        for place in renewed.refused:
            plan.replaced.pop(place, None)
        plan.watched.update(renewed.refused)
        raise Retrace
