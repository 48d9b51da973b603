"""The state that optimizers get in their first step, made before that step is compiled.

A program for the first step would serve one call only: in later calls optimizers have state, and parameters gradients. So
on the CPU the first call runs eagerly. On other devices that takes long and needs more memory. There, the state and the
gradients (zeros) are made before the first step, and the step is traced again: one program serves all calls. If the step
could notice that they were there before its first call, or if the program does not run, they are removed again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeGuard

import undertow.optim
from undertow._src.arrays.namespaces import namespace_on
from undertow._src.compile.effects.objects import entries_of, held_by
from undertow._src.compile.guards.places import contents_of, held_at
from undertow._src.compile.lowering.lowered import Lowered
from undertow._src.compile.tracing.capture import Capture
from undertow._src.tensor.core import wrap
from undertow._src.types.devices import cpu
from undertow.optim._per_parameter import PerParameter

_LOOKS_AT_STATE = frozenset("state state_dict __dict__ __getstate__ vars deepcopy save pickle dumps".split())


@dataclass(eq=False)
class FirstState:
    """What a step's first call makes: states of optimizers by parameter, and gradients."""

    states: list[tuple[PerParameter, dict[str, Any], Any]]  # an optimizer, one of its groups, and a parameter
    gradients: list[tuple[Any, Any]]  # the place of a gradient, and the gradient in the trace
    made: list[tuple[Any, Any]] = field(default_factory=list)  # the tensors that were put in place, and their values

    def begin(self) -> None:
        """Make the zeros that the step's first call makes."""
        for optimizer, group, param in self.states:
            optimizer._begin(group, param, optimizer.state[param])
            self.made += [(each, _value(each)) for each in optimizer.state[param].values()]
        for meta, traced in self.gradients:
            zeros = namespace_on(traced.device).zeros(traced._array.shape, traced._array.dtype)
            zeros.lie_with(traced._array.strides)
            meta.grad = wrap(zeros)
            self.made.append((meta.grad, _value(meta.grad)))

    def take_back(self) -> None:
        """Remove what `begin` made, unless a step has written to it."""
        if any(_value(tensor) is not value for tensor, value in self.made):
            return
        ours = {id(tensor) for tensor, _ in self.made}
        for optimizer, _, param in self.states:
            optimizer.state.pop(param, None)
        for meta, _ in self.gradients:
            if id(meta.grad) in ours:
                meta.grad = None
        self.made.clear()


def next_first_state(first: FirstState | None, captured: Capture, lowered: Lowered) -> FirstState | None:
    """Return the state to make before the step is traced again; None if this program can be used.

    If a program would accumulate on gradients that were put in place, only the states of optimizers are made.
    """
    if first is None:
        return _first_state(captured)
    fits = not captured.left.runs_once and not (first.gradients and lowered.uses_gradients)
    return None if fits or not first.states else FirstState(first.states if first.gradients else [], [])


def _first_state(captured: Capture) -> FirstState | None:
    """Return the state that a step makes in its first call; None if it makes more than that, or code may see it."""
    left, trace = captured.left, captured.trace
    if not left.runs_once or captured.inputs.device is cpu or trace.has_sparse_gradients:
        return None
    names = _names_in(captured)
    own = [each for each in captured.inputs.state.optimizers if _is_own(each)]
    if names & _LOOKS_AT_STATE or len(own) < len(captured.inputs.state.optimizers):
        return None
    if any(_is_reached_otherwise(optimizer.state, optimizer, captured) for optimizer in own):
        return None
    optimizers = {id(optimizer.state): optimizer for optimizer in own}
    states = []
    for place, (holder, param, _) in enumerate(left.entries):
        if (optimizer := optimizers.get(id(holder))) is not None:
            groups = [group for group in optimizer.param_groups if any(param is each for each in group["params"])]
            if not groups or place in left.only_if or not optimizer._begins_with_zeros(groups[0]):
                return None
            states.append((optimizer, groups[0], param))
    hosts_grad = captured.callbacks.host_calls and "grad" in names  # code on the host may look at a gradient
    return FirstState(states, [] if hosts_grad else _first_gradients(captured))


def _is_reached_otherwise(state: Any, optimizer: Any, captured: Capture) -> bool:
    """Return whether code finds an optimizer's state elsewhere than in the optimizer."""
    reached = captured.inputs.state, captured.trace.before
    maps = [holder for each in reached for holder, _ in each.maps if holder is not vars(optimizer)]
    held = [value for holder in maps for value in entries_of(holder).values()]
    held += [value for each in reached for holder, _ in each.lists for value in held_by(holder)]
    held += [contents_of(cell) for each in reached for cell, _ in each.cells]
    held += [held_at(*place) for each in reached for place in each.globals]
    return any(value is state for value in held)


def _names_in(captured: Capture) -> set[str]:
    """Return the names in the code of the step and its hooks."""
    names = captured.inputs.state.names_in_code() | captured.trace.before.names_in_code()
    return names if captured.splitter is None else names | captured.splitter.reading.all_names()


def _first_gradients(captured: Capture) -> list[tuple[Any, Any]]:
    """Return places where the step leaves a first gradient, with the gradient; none if code saw that it was missing."""
    entries, trace = captured.left.entries, captured.trace
    left = {id(holder): (place, value) for place, (holder, key, value) in enumerate(entries) if key == "grad"}
    seen = {*map(id, trace.gradient_use.missing)}
    gradients = []
    for tensor in captured.inputs.state.tensors:
        place, value = left.get(id(tensor._meta), (0, None))
        if value is None or tensor._meta.grad is not None or place in captured.left.only_if:
            continue
        if id(tensor) in seen:
            return []
        gradients.append((tensor._meta, value))
    return gradients


def _is_own(optimizer: Any) -> TypeGuard[PerParameter]:
    """Return whether an optimizer's class is undertow's own."""
    return isinstance(optimizer, PerParameter) and type(optimizer) in vars(undertow.optim).values()


def _value(tensor: Any) -> Any:
    """Return a tensor's current value: an array on a device by its JAX value, any other array itself."""
    array = tensor._array
    return array.buffer.value if hasattr(array, "buffer") else array
