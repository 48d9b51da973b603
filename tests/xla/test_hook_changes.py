"""Hooks of every kind that come and go between calls, by handle or by editing the map that holds them.

Each kind goes through sequences of changes with calls between them. What hooks noted, and the gradients, must be what they
are without compiling. A guard that misses a change shows as a hook that is silent, or that still fires.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, agree, differences, seen
from undertow import nn, optim
from undertow._src.compile import CompileError
from undertow.autograd.graph import register_multi_grad_hook, saved_tensors_hooks
from undertow.nn.modules import module as modules
from undertow.optim import optimizer as optimizers


class World:
    """A model, its optimizer and a step, and what hooks of one kind noted. Each hook is another one: `n` tells which."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.layer = nn.Linear(2, 1, bias=False)
        self.weight = self.layer.weight
        self.node = self.weight.expand_as(self.weight).grad_fn.next_functions[0][0]
        self.optimizer = optim.SGD([self.weight], lr=0.1)
        self.outside = (self.weight * 2).detach().requires_grad_()
        self.computed = self.outside * 3  # has a graph that is older than the step
        self.log: list[Any] = []
        self.count = 0

    def step(self, x: Any) -> Any:
        self.optimizer.zero_grad()
        loss = self.layer(x).pow(2).sum() + (self.computed.sum() * 0.5)
        loss.backward(retain_graph=True)
        self.optimizer.step()
        return len(self.layer.state_dict())

    def hook(self, scale: Callable[..., Any] | None = None) -> Callable[..., Any]:
        """A new hook: one that notes it was called, or one that changes what it is given and so is part of the program."""
        self.count += 1
        number, log = self.count, self.log
        if scale is None or number % 2:
            return lambda *args: log.append(number)
        return lambda *args: scale(number, *args)


Scale = Callable[..., Any] | None
Kind = tuple[Callable[[World, Any], Any], Callable[[World], tuple[Any, str] | None], Scale]


def of_leaf(n: int, grad: Any) -> Any:
    return grad * n


def of_node(n: int, grads: Any, *_: Any) -> Any:
    return tuple(grad * n for grad in grads)


def of_post(n: int, leaf: Any) -> None:
    leaf.grad.mul_(n)


def of_output(n: int, module: Any, args: Any, output: Any) -> Any:
    return output * n


def of_input(n: int, module: Any, args: Any) -> Any:
    return (args[0] * n,)


def of_gradients(n: int, module: Any, grads: Any, *_: Any) -> Any:
    return tuple(None if grad is None else grad * n for grad in grads)


def of_state(n: int, module: Any, state: Any, *_: Any) -> None:
    state[f"hook {n}"] = torch.zeros(1)


def nowhere(world: World) -> None:
    """For kinds whose maps are out of reach."""


# How a hook is registered; where the map that holds it is: (owner, attribute); what a hook of this kind may change.
KINDS: dict[str, Kind] = {
    "tensor": (lambda w, h: w.weight.register_hook(h), lambda w: (w.weight, "_backward_hooks"), of_leaf),
    "post-accumulate": (
        lambda w, h: w.weight.register_post_accumulate_grad_hook(h),
        lambda w: (w.weight, "_post_accumulate_grad_hooks"),
        of_post,
    ),
    "node pre": (lambda w, h: w.node.register_prehook(h), nowhere, of_node),
    "node": (lambda w, h: w.node.register_hook(h), nowhere, None),
    "older graph": (lambda w, h: w.computed.register_hook(h), nowhere, of_leaf),
    "older graph, node": (lambda w, h: w.computed.grad_fn.register_prehook(h), nowhere, of_node),
    "older graph, leaf": (lambda w, h: w.outside.register_hook(h), lambda w: (w.outside, "_backward_hooks"), of_leaf),
    "multi-grad": (lambda w, h: register_multi_grad_hook([w.weight, w.outside], h), nowhere, None),
    "multi-grad, any": (lambda w, h: register_multi_grad_hook([w.weight], h, mode="any"), nowhere, None),
    "forward": (lambda w, h: w.layer.register_forward_hook(h), lambda w: (w.layer, "_forward_hooks"), of_output),
    "forward pre": (lambda w, h: w.layer.register_forward_pre_hook(h), lambda w: (w.layer, "_forward_pre_hooks"), of_input),
    "backward": (lambda w, h: w.layer.register_full_backward_hook(h), nowhere, None),
    "backward pre": (
        lambda w, h: w.layer.register_full_backward_pre_hook(h), lambda w: (w.layer, "_backward_pre_hooks"), of_gradients
    ),
    "all modules, forward": (
        lambda w, h: modules.register_module_forward_hook(h), lambda w: (modules, "_global_forward_hooks"), of_output
    ),
    "all modules, forward pre": (
        lambda w, h: modules.register_module_forward_pre_hook(h), lambda w: (modules, "_global_forward_pre_hooks"), of_input
    ),
    "all modules, backward": (lambda w, h: modules.register_module_full_backward_hook(h), nowhere, None),
    "all modules, backward pre": (
        lambda w, h: modules.register_module_full_backward_pre_hook(h),
        lambda w: (modules, "_global_backward_pre_hooks"),
        of_gradients,
    ),
    "state dict": (
        lambda w, h: w.layer.register_state_dict_post_hook(h), lambda w: (w.layer, "_state_dict_hooks"), None
    ),
    "state dict, edits it": (lambda w, h: w.layer._register_state_dict_hook(h), nowhere, of_state),
    "state dict pre": (
        lambda w, h: w.layer.register_state_dict_pre_hook(h), lambda w: (w.layer, "_state_dict_pre_hooks"), None
    ),
    "optimizer pre": (
        lambda w, h: w.optimizer.register_step_pre_hook(h), lambda w: (w.optimizer, "_optimizer_step_pre_hooks"), None
    ),
    "optimizer post": (
        lambda w, h: w.optimizer.register_step_post_hook(h), lambda w: (w.optimizer, "_optimizer_step_post_hooks"), None
    ),
    "all optimizers, pre": (lambda w, h: optimizers.register_optimizer_step_pre_hook(h), nowhere, None),
    "all optimizers, post": (lambda w, h: optimizers.register_optimizer_step_post_hook(h), nowhere, None),
}  # fmt: skip


def played(kind: str, changes: str, compiled: bool) -> list[Any]:
    """All that was seen after each change and the call behind it."""
    add, where, scale = KINDS[kind]
    world = World()
    step = torch.compile(world.step) if compiled else world.step
    found: list[Any] = []
    handles: list[Any] = []

    def call() -> None:
        world.log.append("call")
        result = step(torch.ones(1, 2, requires_grad=True))
        found.append(seen([result, list(world.log), world.weight, world.outside]))

    try:
        for change in changes.split():
            if change == "call":
                call()
            elif change == "add":
                handles.append(add(world, world.hook(scale)))
            elif change in ("remove", "remove_first"):
                handles.pop(0 if change == "remove_first" else -1).remove()
            else:
                owner, name = where(world)  # type: ignore[misc]
                EDITS[change](owner, name, world.hook(scale))
    finally:
        for handle in handles:
            handle.remove()
        if owner_of_all(where(world)):
            getattr(*where(world)).clear()  # type: ignore[misc]
    return found


def owner_of_all(where: tuple[Any, str] | None) -> bool:
    return where is not None and where[0] is modules


def put(owner: Any, name: str, hook: Any) -> None:
    getattr(owner, name)[10**9] = hook


def replace(owner: Any, name: str, hook: Any) -> None:
    if owner is not modules and name != "_post_accumulate_grad_hooks":
        setattr(owner, name, OrderedDict())


def drop(owner: Any, name: str, hook: Any) -> None:
    if name == "_backward_hooks":
        owner._backward_hooks = None
    else:
        getattr(owner, name).clear()


def by_registrar(owner: Any, name: str, hook: Any) -> None:
    """Where `None` was set there is no map to put it into."""
    if name == "_backward_hooks":
        owner.register_hook(hook)
    else:
        put(owner, name, hook)


EDITS: dict[str, Callable[[Any, str, Any], Any]] = {
    "put": put,
    "delete": lambda owner, name, hook: getattr(owner, name).__delitem__(10**9),
    "clear": lambda owner, name, hook: getattr(owner, name).clear(),
    "replace": replace,
    "drop": drop,
    "register": by_registrar,
    "update": lambda owner, name, hook: getattr(owner, name).update({10**9: hook, 10**9 + 1: hook}),
}

# Changes one after the other. A call is compiled, unless there is a program for the hooks that there are.
BY_HANDLE = {
    "never had one": "call add call remove add add call remove_first call",
    "had one before": "add remove call add call remove call",
}
BY_HAND = {
    "in the map": "add remove call put call put call delete update call clear call",
    "another map": "add replace call put call clear put call",
    "no map": "add remove drop call register call clear call",
}


@pytest.mark.filterwarnings("ignore:.*was compiled .* times")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("changes", BY_HANDLE)
def test_hooks_that_come_and_go(kind: str, changes: str) -> None:
    assert not differences(played(kind, BY_HANDLE[changes], False), played(kind, BY_HANDLE[changes], True))


@pytest.mark.parametrize(
    "kind", ["tensor", "post-accumulate", "forward", "backward pre", "all modules, forward", "optimizer pre"]
)
@pytest.mark.parametrize("changes", BY_HAND)
def test_maps_that_are_edited(kind: str, changes: str) -> None:
    assert not differences(played(kind, BY_HAND[changes], False), played(kind, BY_HAND[changes], True))


def test_saved_tensors_hooks_around_calls() -> None:
    def pair(n: int, log: list[Any]) -> tuple[Any, Any]:
        """New hooks for each call: those of an earlier one may have lain at the same address."""

        def pack(tensor: Any) -> Any:
            log.append(("pack", n))
            return tensor * n

        return pack, lambda packed: packed + n

    def played(compiled: bool) -> list[Any]:
        world = World()
        step = torch.compile(world.step) if compiled else world.step
        for numbers in ([], [1], [], [2], [2, 3], [3], [1], []):
            with ExitStack() as stack:
                for n in numbers:
                    stack.enter_context(saved_tensors_hooks(*pair(n, world.log)))
                world.log.append("call")
                step(torch.ones(1, 2))
        return seen([world.log, world.weight])

    assert not differences(played(False), played(True))


# --- hooks that a step registers or removes itself


def leaving(change: Callable[[Any, Any, Any], Any]) -> Callable[[Any], Any]:
    """Return a step that changes hooks, of its weight, its argument or all modules, and leaves them so."""
    weight, log = torch.ones(3, requires_grad=True), list[Any]()
    handle = weight.register_hook(lambda g: g * 2)

    def step(x: Any) -> None:
        change(weight, handle, x)
        (weight * x).sum().backward()
        log.append(1)

    return step


CHANGES: dict[str, Any] = {
    "tensor": lambda weight, handle, x: weight.register_hook(lambda g: g * 3),
    "post": lambda weight, handle, x: weight.register_post_accumulate_grad_hook(lambda p: None),
    "removed": lambda weight, handle, x: handle.remove(),
    "argument": lambda weight, handle, x: x.register_hook(lambda g: g * 3),
    "all modules": lambda weight, handle, x: modules.register_module_forward_hook(lambda *args: None),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_step_that_leaves_other_hooks_on_tensors_is_refused(name: str) -> None:
    step, x = leaving(CHANGES[name]), torch.ones(3, requires_grad=True)
    with pytest.raises(CompileError, match=r"the step leaves other hooks on .*remove\(\)"):
        torch.compile(step)(x)
    assert not x._backward_hooks and not modules._global_forward_hooks


def test_hooks_that_a_step_removes_again_are_part_of_it() -> None:
    def played(compiled: bool) -> list[Any]:
        weight, log = torch.ones(3, requires_grad=True), list[Any]()

        def step(x: Any) -> None:
            handles = [each.register_hook(lambda g: log.append(g.sum().item())) for each in (weight, x)]
            (weight * x).sum().backward()
            for handle in handles:
                handle.remove()

        function = torch.compile(step) if compiled else step
        for turn in range(3):
            function(torch.full((3,), turn + 1.0, requires_grad=True))
        return seen([log, weight])

    assert not differences(played(False), played(True))


@pytest.mark.parametrize(
    "hook",
    [
        lambda g: g * (2.0 if 1 in FOUND else 1.0),
        lambda g: g * (2.0 if len(FOUND) else 1.0),
        lambda g: g * (2.0 if FOUND else 1.0),
        lambda g: g * (2.0 if FOUND and FOUND[0] == 1 else 1.0),
    ],
)
def test_lists_that_hooks_read_change_between_calls(hook: Any) -> None:
    def build() -> Case:
        FOUND.clear()
        layer = nn.Linear(2, 1)
        layer.weight.register_hook(hook)

        def step() -> Any:
            layer.zero_grad()
            layer(torch.ones(2)).sum().backward()
            return layer.weight.grad.sum()

        def between(turn: int) -> None:
            FOUND[:] = [[], [1], [1], [2], []][turn]

        return Case(step, layer, between=between)

    agree(build, steps=5)


FOUND: list[int] = []
