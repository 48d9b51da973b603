"""Hooks that decide by values and only compute: each way is traced, and the program chooses among the results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import differences, seen
from undertow import nn

Hook = Callable[[Any], Any]
hooks: dict[str, Hook] = {}
CALLS = 4


def hook(function: Hook) -> Hook:
    hooks[function.__name__] = function
    return function


@hook
def clips(g: Any) -> Any:
    if g.norm() > 1:
        return g / g.norm()
    return None


@hook
def clips_by_a_number(g: Any) -> Any:
    norm = g.norm().item()
    return g * (2 - norm) if norm > 1 else g


@hook
def has_three_ways(g: Any) -> Any:
    if g.max() > 1:
        return g.clamp(max=1)
    if g.min() < -1:
        return g.clamp(min=-1)
    return g * 2


@hook
def drops_what_is_not_finite(g: Any) -> Any:
    return g if torch.isfinite(g).all() else torch.zeros_like(g)


@hook
def loops(g: Any) -> Any:
    while g.norm() > 1:
        g = g / 2
    return g


@hook
def has_a_layout_of_its_own(g: Any) -> Any:
    return g.t().contiguous().t() if g.norm() > 1 else g


@hook
def checks(g: Any) -> Any:
    if g.norm() > 1e6:
        raise ValueError("the gradient explodes")
    return g * 2


def run(hook: Hook, compiled: bool) -> tuple[Any, str]:
    """Return what each call leaves, and where the hook runs."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model[0].weight.register_hook(hook)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    called = torch.compile(step) if compiled else step
    left = []
    for turn in range(CALLS):
        loss = called(torch.full((2, 3), 4.0**turn / 8))
        grads = [each.grad for each in model.parameters()]
        left.append([seen(loss), [each.stride() for each in grads], seen(grads), seen([*model.parameters()])])
    return left, str(torch.compiler.explain(called)) if compiled else ""


@pytest.mark.parametrize("name", hooks)
def test_agrees(name: str) -> None:
    eager, _ = run(hooks[name], False)
    compiled, _ = run(hooks[name], True)
    assert not differences(eager, compiled)


@pytest.mark.parametrize("name", ["clips", "clips_by_a_number", "has_three_ways", "drops_what_is_not_finite"])
def test_the_program_does_not_wait_for_the_host(name: str) -> None:
    _, explained = run(hooks[name], True)
    assert f"{name} (" in explained
    assert "on the host" not in explained


def test_a_gradient_that_a_hook_returns_lies_as_its_leaf() -> None:
    def strides(compiled: bool) -> list[Any]:
        weight = torch.ones(4, 3, requires_grad=True)
        seen_by_hooks = []

        def hook(g: Any) -> Any:
            if g.norm() > 1:
                seen_by_hooks.append("large")
                return g.t().contiguous().t()
            return None

        weight.register_hook(hook)

        def step(x: Any) -> Any:
            weight.grad = None
            (weight * x).sum().backward()

        called = torch.compile(step) if compiled else step
        found: list[Any] = []
        for size in (0.1, 5.0, 0.1, 5.0):
            called(torch.full((4, 3), size))
            assert weight.grad is not None
            found.append((weight.grad.stride(), weight.grad.tolist()))
        return [found, seen_by_hooks]

    assert strides(True) == strides(False)
