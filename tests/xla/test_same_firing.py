"""`testing.assert_same_firing`: silent where eager and compiled agree, and says where they do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import undertow as torch
from undertow import nn, optim
from undertow.testing import assert_same_firing


def training() -> tuple[Any, Any, list[Any]]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2))
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    log: list[Any] = []
    model[0].weight.register_hook(lambda g: g.clamp(-0.1, 0.1))
    model[0].bias.register_hook(lambda g: log.append(g.norm().item()))
    model[2].register_forward_hook(lambda m, i, o: o * 2)
    model[2].register_full_backward_hook(lambda m, gi, go: log.append(go[0].sum().item()))
    optimizer.register_step_post_hook(lambda o, args, kwargs: log.append("stepped"))

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return step, model, log


def test_agreement_is_silent_and_leaves_no_trace() -> None:
    step, model, log = training()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.get_rng_state()
    assert_same_firing(step, torch.ones(5, 3))
    assert log == []
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(torch.get_rng_state(), random)


def test_a_step_that_is_compiled_already() -> None:
    """Inside the function, or a part of it: eagerly it runs as it was written."""
    weight, log = torch.ones(3, requires_grad=True), []
    weight.register_hook(lambda g: log.append(g.sum().item()))
    compiled = torch.compile(lambda x: (weight * x).sum().backward())
    compiled(torch.ones(3))
    assert_same_firing(lambda: compiled(torch.ones(3)), steps=2)
    assert_same_firing(compiled, torch.ones(3), steps=1)
    assert log == [3.0]


def another_number() -> Callable[[], float]:
    """A function that gives another number at every call, and has no source by which that could be known."""
    space: dict[str, Any] = {"numbers": iter(np.arange(1.0, 100.0))}
    exec("def another():\n    return float(next(numbers))", space)
    return space["another"]


unread = pytest.mark.filterwarnings("ignore:the step calls `another`")


@unread
def test_a_difference_is_named() -> None:
    weight = torch.ones(3, requires_grad=True)
    another = another_number()

    def step(x: Any) -> Any:
        return (weight * x).sum() * another()

    with pytest.raises(AssertionError, match=r"step 1 of 2 differs .*\n.*result"):
        assert_same_firing(step, torch.ones(3), steps=2)


@unread
def test_a_hook_that_differs_is_named() -> None:
    weight = torch.ones(3, requires_grad=True)
    another = another_number()

    def step(x: Any) -> None:
        (weight * x * another()).sum().backward()

    def look(g: Any) -> Any:
        return g * 2

    weight.register_hook(look)
    with pytest.raises(AssertionError, match=r"hook 1 to fire, .*look \(.*test_same_firing.py:\d+\), was given"):
        assert_same_firing(step, torch.ones(3), steps=2)
