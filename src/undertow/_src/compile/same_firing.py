"""`assert_same_firing`: check that a step acts the same eagerly and compiled, hook by hook.

The step runs several times eagerly, while every hook that fires is recorded with its arguments. Then it runs as often
compiled, from the same state, with a second hook beside each hook that records the same. After that everything is put back.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from undertow._src.base import hooks, tracer
from undertow._src.base.tree import leaves, map_leaves
from undertow._src.compile.callbacks.call_contexts import uncompiled
from undertow._src.compile.callbacks.hook_facts import is_own
from undertow._src.compile.callbacks.hook_placement import HookPlacer
from undertow._src.compile.callbacks.host_calls import Placed
from undertow._src.compile.compiled import Compiled
from undertow._src.compile.guards.places import PLAIN
from undertow._src.compile.guards.reachability import GLOBAL_HOOKS, Reached
from undertow._src.compile.guards.snapshot import Snapshot
from undertow._src.compile.guards.walking import Walk
from undertow._src.compile.tracing.sparse_parts import parts_of_sparse
from undertow._src.random.generators import alive
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.methods.layout import host_memory
from undertow.nn.modules.module import Module
from undertow.optim.optimizer import Optimizer

Fired = tuple[str, list[Any]]  # a hook, and its arguments


def assert_same_firing(
    step: Callable[..., Any], *args: Any, steps: int = 3, rtol: float = 1e-4, atol: float = 1e-5, **kwargs: Any
) -> None:
    """Run a step eagerly and compiled from the same state, and raise if anything observable differs.

    Observable are: results, parameters, buffers, gradients, optimizer state, random state, the order and the arguments of
    hooks, and what they left in lists, dicts and variables. State and random numbers are restored at the end.
    """
    function = step.function if isinstance(step, Compiled) else step
    world = World(function, args, kwargs)
    try:
        eager = world.run(function, steps, _noting_eagerly)
        world.restore()
        program = Compiled(function)
        program.compiles_first_step = True
        compiled = world.run(program, steps, _noting_in_programs)
    finally:
        world.restore()
    for number, (one, other) in enumerate(zip(eager, compiled, strict=True)):
        found = _firing_difference(one["fired"], other["fired"], rtol, atol)
        found += [each for part in ("result", "left") for each in differences(one[part], other[part], part, rtol, atol)]
        if found:
            shown = "\n  ".join(found[:10])
            raise AssertionError(f"step {number + 1} of {steps} differs between eager and compiled:\n  {shown}")


class World:
    """The state that a step, its arguments and its hooks can reach, as it was."""

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args, self.kwargs = args, kwargs
        walk, from_hooks = Walk(), Walk()
        for root in (function, args, kwargs):
            walk.follow(root, "step")
        for hook in _hooks_in(walk.found):
            from_hooks.follow(hook, "hook")
        self.state, self.of_hooks = state, of_hooks = walk.found, from_hooks.found
        self.snapshots = [Snapshot(of_hooks), Snapshot(state)]
        tensors = {id(tensor): tensor for tensor in (*state.tensors, *of_hooks.tensors)}.values()
        grads = [tensor._meta.grad for tensor in tensors if tensor._meta is not None and tensor._meta.grad is not None]
        self.tensors = list(tensors)
        self.values = [(each, host_memory(each).copy(), each._requires_grad) for each in (*tensors, *grads)]
        optimizers = {id(each): each for each in (*state.optimizers, *of_hooks.optimizers)}.values()
        self.groups = [(group, dict(group)) for optimizer in optimizers for group in optimizer.param_groups]
        self.random = [(generator, generator.get_state()) for generator in alive]

    def restore(self) -> None:
        for snapshot in self.snapshots:
            snapshot.restore()
        for tensor, value, flag in self.values:
            host_memory(tensor)[...] = value
            tensor._requires_grad, tensor._edge = flag, tensor._edge if tensor._edge and not flag else None
        for group, held in self.groups:
            group.update(held)
        for generator, state in self.random:
            generator.set_state(state)

    def run(self, function: Callable[..., Any], steps: int, noting: Any) -> list[dict[str, Any]]:
        """Return the result, the state left and the fired hooks of each step."""
        seen = []
        for _ in range(steps):
            fired: list[Fired] = []
            with noting(fired):
                result = function(*self.args, **self.kwargs)
            seen.append({"result": described(result), "left": self._left(), "fired": fired})
        return seen

    def _left(self) -> dict[str, Any]:
        return {
            "tensors": [
                {"value": described(each), "gradient": described(None if each._meta is None else each._meta.grad)}
                for each in self.tensors
            ],
            "options": [{key: value for key, value in group.items() if key != "params"} for group, _ in self.groups],
            "random": [generator.get_state().numpy().copy() for generator, _ in self.random],
            "what hooks collect": [described(list(into)) for into, _ in self.of_hooks.lists],
            "what hooks store": [described(list(into.values())) for into, _ in self.of_hooks.maps],
            "variables of hooks": [described(cell.cell_contents) for cell, _ in self.of_hooks.cells],
        }


def _hooks_in(state: Reached) -> Iterator[Any]:
    """Return every hook on something that the step reaches."""
    for module in state.modules:
        for key, value in vars(module).items():
            if "hooks" in key and isinstance(value, dict):
                yield from value.values()
    for tensor in state.tensors:
        if tensor._meta is not None:
            yield from (*(tensor._meta.hooks or {}).values(), *(tensor._meta.post_hooks or {}).values())
    for optimizer in state.optimizers:
        for key, value in vars(optimizer).items():
            if "hooks" in key and isinstance(value, dict):
                yield from value.values()
    for holder in GLOBAL_HOOKS:
        yield from holder.values()


# --- noting what fires


@contextmanager
def _noting_eagerly(fired: list[Fired]) -> Iterator[None]:
    before, tracer.hooks = tracer.hooks, _Witness(fired)
    try:
        with uncompiled():
            yield
    finally:
        tracer.hooks = before


class _Witness:
    """Note hooks that fire eagerly."""

    def __init__(self, fired: list[Fired]) -> None:
        self._fired = fired

    def call_hook(self, hook: Any, args: tuple[Any, ...]) -> Any:
        """Record a hook's arguments, and call it."""
        if not is_own(hook):
            _note(self._fired, hook, *args)
        return hooks.fire(hook, *args, decided=True)


@contextmanager
def _noting_in_programs(fired: list[Fired]) -> Iterator[None]:
    HookPlacer.witness = partial(_note, fired)
    try:
        yield
    finally:
        HookPlacer.witness = None


def _note(fired: list[Fired], hook: Any, *args: Any) -> None:
    placed = Placed(hook, "", "")
    fired.append((f"{placed.name} ({placed.where})", [described(each) for each in leaves(args)]))


# --- comparing


def described(value: Any) -> Any:
    """Return plain data for tensors and objects."""
    if isinstance(value, TensorCore):
        return np.array(host_memory(value)) if value._is_strided else described(parts_of_sparse(value))
    if isinstance(value, (tuple, list, dict)):
        return (
            map_leaves(described, value)
            if not isinstance(value, dict)
            else [described(each) for each in value.values()]
        )
    if isinstance(value, (Module, Optimizer)) or not isinstance(value, (*PLAIN, np.ndarray)):
        return type(value).__name__
    return copy.copy(value)


def differences(one: Any, other: Any, where: str, rtol: float, atol: float) -> list[str]:
    """Return where two descriptions differ, in words."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [each for key in one for each in differences(one[key], other[key], f"{where}: {key}", rtol, atol)]
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)) and len(one) == len(other):
        pairs = enumerate(zip(one, other))
        return [each for place, (a, b) in pairs for each in differences(a, b, f"{where}[{place}]", rtol, atol)]
    if isinstance(one, (float, np.ndarray)) and isinstance(other, (float, np.ndarray)):
        if np.shape(one) == np.shape(other) and _close(np.asarray(one), np.asarray(other), rtol, atol):
            return []
    elif type(one) is type(other) and one == other:
        return []
    return [f"{where}: {_short(one)} eagerly, {_short(other)} compiled"]


def _close(one: Any, other: Any, rtol: float, atol: float) -> bool:
    if one.dtype != other.dtype:
        return False
    if one.dtype.kind in "biuSU":
        return bool((one == other).all())
    wide = np.result_type(one.dtype, np.float32) if one.dtype.kind != "V" else np.float32
    return np.allclose(one.astype(wide), other.astype(wide), rtol=rtol, atol=atol, equal_nan=True)


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 90 else text[:87] + "..."


def _firing_difference(eager: list[Fired], compiled: list[Fired], rtol: float, atol: float) -> list[str]:
    for place, ((name, given), (other, also)) in enumerate(zip(eager, compiled)):
        if name != other:
            return [f"hook {place + 1} to fire: {name} eagerly, {other} compiled"]
        found = differences(given, also, f"hook {place + 1} to fire, {name}, was given", rtol, atol)
        if found:
            return found
    if len(eager) != len(compiled):
        extra = (eager if len(eager) > len(compiled) else compiled)[min(len(eager), len(compiled))][0]
        return [f"{len(eager)} hooks fired eagerly, {len(compiled)} compiled; the first one too many is {extra}"]
    return []
