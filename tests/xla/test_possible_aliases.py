"""Results of hooks that share memory with what was kept, or written to, in some calls only, as values decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Cases, differences, seen
from undertow import nn
from undertow._src.compile import CompileError

CALLS = 4
LARGE = 0.3  # gradients are above in some calls, and below in others


class World:
    """What hooks and steps of this file use."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.out: dict[str, Any] = {}
        self.log: list[Any] = []
        self.weight = nn.Parameter(torch.ones(2, 3) / 4)
        self.other = torch.ones(2, 3)
        self.step: Callable[[Any], Any] = self.train

    def train(self, x: Any) -> Any:
        self.weight.grad = None
        loss = (x @ self.weight.t()).square().sum()
        loss.backward()
        return loss.detach()

    def halves(self, g: Any) -> Any:
        """Return new memory, or leave the gradient what it is."""
        return g * 0.5 if g.norm() > LARGE else None

    def halves_and_notes(self, g: Any) -> Any:
        if g.norm() > LARGE:
            self.log.append("large")
            return g * 0.5
        return None


case = Cases()
HALVING = ["halves", "halves_and_notes"]


@case
def appends(world: World, hook: Any) -> None:
    world.weight.register_hook(lambda g: world.kept.append(g.detach()))
    world.weight.register_hook(hook)


@case
def appends_an_array(world: World, hook: Any) -> None:
    world.weight.register_hook(lambda g: world.kept.append(g.detach().numpy()))
    world.weight.register_hook(hook)


@case
def stores(world: World, hook: Any) -> None:
    def store(g: Any) -> None:
        world.out["last"] = g.detach()

    world.weight.register_hook(store)
    world.weight.register_hook(hook)


@case
def stores_the_gradient_itself(world: World, hook: Any) -> None:
    def store(g: Any) -> None:
        world.out["last"] = g

    world.weight.register_hook(store)
    world.weight.register_hook(lambda g: hook(g.detach()) if hook(g) is not None else g.detach())


@case
def stores_and_writes(world: World, hook: Any) -> None:
    def store(g: Any) -> None:
        world.out["last"] = g

    world.weight.register_hook(store)
    world.weight.register_hook(hook)
    world.weight.register_hook(lambda g: g.mul_(2.0))


@case
def stores_twice(world: World, hook: Any) -> None:
    def store(g: Any) -> None:
        world.out["last"] = g.detach()

    def store_gradient(leaf: Any) -> None:
        world.out["grad"] = leaf.grad.detach()

    world.weight.register_hook(store)
    world.weight.register_hook(hook)
    world.weight.register_post_accumulate_grad_hook(store_gradient)


@case
def stores_the_gradient_of_a_view(world: World, hook: Any) -> None:
    def store(g: Any) -> None:
        world.out["last"] = g.detach()

    def step(x: Any) -> Any:
        world.weight.grad = None
        view = world.weight.view(6)
        view.register_hook(store)
        view.register_hook(hook)
        loss = (view * x.mean()).square().sum()
        loss.backward()
        return loss.detach()

    world.step = step


@case
def returns_a_tensor_from_outside(world: World, hook: Any) -> None:
    def replace(g: Any) -> Any:
        return hook(g) if g.norm() > LARGE else world.other.detach()

    world.weight.register_hook(replace)


@case
def is_given_a_tensor_from_outside(world: World, hook: Any) -> None:
    def step(x: Any) -> Any:
        world.weight.grad = None
        world.weight.backward(world.other.detach())
        return x.sum()

    world.weight.register_hook(hook)
    world.step = step


@case
def keeps_what_backward_is_given(world: World, hook: Any) -> None:
    def step(x: Any) -> Any:
        y = world.weight * x.mean()
        y.register_hook(hook)
        y.register_hook(lambda g: g.mul_(2.0))
        given = torch.ones_like(y) * x.mean()
        y.backward(given)
        world.out["given"] = given
        return given.sum()

    world.step = step


@case
def writes_to_what_a_layer_returns(world: World, hook: Any) -> None:
    first, second = nn.Linear(3, 2), nn.ReLU(inplace=True)
    second.register_forward_pre_hook(lambda module, given: hook(given[0]))

    def step(x: Any) -> Any:
        with torch.no_grad():
            hidden = first(x)
            return second(hidden).sum() + hidden.sum()

    world.step = step


def run(build: Any, hook: str, compiled: bool) -> list[Any]:
    """Return what each call leaves, and what is there once the user has written to it."""
    torch.manual_seed(0)
    world = World()
    build(world, getattr(world, hook))
    step = torch.compile(world.step) if compiled else world.step
    left = []
    for turn in range(CALLS):
        result = step(torch.full((4, 3), 0.05 * 3.0**turn))
        for change in (lambda g: None, lambda g: g.zero_(), lambda g: g.add_(1.0)):
            if world.weight.grad is not None:
                change(world.weight.grad)
            left.append(seen([result, world.weight.grad, world.kept, world.out, world.other, world.log]))
    return left


REFUSED = ("is_given_a_tensor_from_outside", "keeps_what_backward_is_given", "writes_to_what_a_layer_returns")


@pytest.mark.parametrize("hook", HALVING)
@pytest.mark.parametrize("name", [name for name in case if name not in REFUSED])
def test_agrees(name: str, hook: str) -> None:
    found = differences(run(case[name], hook, False), run(case[name], hook, True))
    assert not found, found


@pytest.mark.parametrize("hook", HALVING)
@pytest.mark.parametrize("name", REFUSED)
def test_agrees_or_is_refused(name: str, hook: str) -> None:
    eager = run(case[name], hook, False)
    try:
        compiled = run(case[name], hook, True)
    except CompileError as error:
        assert "Return a clone()" in str(error)
    else:
        assert not differences(eager, compiled)


def test_each_call_leaves_what_it_finds_beside_what_hooks_store() -> None:
    """A hook in the program stores into a dict in which a hook on the host replaces a tensor."""
    eager, compiled = (run(stores_twice, "halves_and_notes", each) for each in (False, True))
    assert not differences(eager, compiled)


@pytest.mark.parametrize("attribute", [False, True])
def test_one_hook_stores_and_decides(attribute: bool) -> None:
    def build(world: World, halves: Any) -> None:
        def hook(g: Any) -> Any:
            if attribute:
                world.other = g.detach()
            else:
                world.out["last"] = g.detach()
            return g * 0.5 if g.norm() > LARGE else None

        world.weight.register_hook(hook)

    assert not differences(run(build, "halves", False), run(build, "halves", True))


def test_a_hook_on_the_host_that_writes_before_one_that_returns() -> None:
    def build(world: World, halves: Any) -> None:
        def write(g: Any) -> None:
            world.out["row"] = g.detach()[0]
            if g.mean() > LARGE:
                g.mul_(0.5)

        world.weight.register_hook(write)
        world.weight.register_hook(halves)

    assert not differences(*(run(build, "halves_and_notes", compiled) for compiled in (False, True)))
