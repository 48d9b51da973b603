"""A program writes its results over values that nobody needs; what somebody still holds is never written over."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import undertow
from undertow import nn

STEPS = 4


def trained(device: str, keep: Any, compiled: bool) -> list[Any]:
    """What a user holds after some steps, and where the parameters and gradients are."""
    undertow.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).to(device)
    optimizer = undertow.optim.Adam(model.parameters(), lr=0.1)
    x = undertow.randn(5, 4).to(device)

    def step() -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    step = undertow.compile(step) if compiled else step
    held: list[Any] = []
    for _ in range(STEPS):
        held.append(step().detach())
        held += keep(model, optimizer)
    held += [value for p in model.parameters() for value in (p.detach(), p.grad) if value is not None]
    return [value.tolist() for value in held]


def weight(model: Any) -> Any:
    return model[0].weight


KEEP = {
    "nothing": lambda model, optimizer: [],
    "the gradient itself": lambda model, optimizer: [weight(model).grad],
    "a clone of the gradient": lambda model, optimizer: [weight(model).grad.clone()],
    "a view of the gradient": lambda model, optimizer: [weight(model).grad[0]],
    "a detached gradient": lambda model, optimizer: [weight(model).grad.detach()],
    "a clone of the parameter": lambda model, optimizer: [weight(model).detach().clone()],
    "a cast of the parameter": lambda model, optimizer: [weight(model).detach().to(undertow.float32, copy=True)],
    "a clone of optimizer state": lambda model, optimizer: [optimizer.state[weight(model)]["exp_avg"].clone()],
    "the gradient as numbers": lambda model, optimizer: [undertow.tensor(weight(model).grad.tolist())],
}


@pytest.mark.parametrize("device", ["cpu", "xla"])
@pytest.mark.parametrize("kept", KEEP)
def test_what_somebody_holds_keeps_its_value(kept: str, device: str) -> None:
    eager, compiled = (trained(device, KEEP[kept], way) for way in (False, True))
    gc.collect()  # compiled steps: while tensors live on a device, ops look where they are
    for expected, found in zip(eager, compiled, strict=True):
        assert undertow.allclose(undertow.tensor(expected), undertow.tensor(found), rtol=1e-4, atol=1e-6)


def test_gradients_that_are_taken_away_between_steps() -> None:
    def take_away(model: Any, optimizer: Any) -> list[Any]:
        taken = [weight(model).grad]
        model.zero_grad()
        return taken

    def swap(model: Any, optimizer: Any) -> list[Any]:
        weight(model).grad = weight(model).grad * 0
        return []

    for change in (take_away, swap):
        for expected, found in zip(trained("cpu", change, False), trained("cpu", change, True), strict=True):
            assert undertow.allclose(undertow.tensor(expected), undertow.tensor(found), rtol=1e-4, atol=1e-6)


def test_a_gradient_that_only_its_leaf_holds_stays_the_same_memory() -> None:
    w = nn.Parameter(undertow.ones(64, 64))

    @undertow.compile
    def step() -> Any:
        w.grad = None
        loss = (w * w).sum()
        loss.backward()
        return loss

    for _ in range(3):
        step()
    before = w.grad._array.cell.value.unsafe_buffer_pointer()
    step()
    assert w.grad._array.cell.value.unsafe_buffer_pointer() == before
    assert w.grad.tolist()[0][0] == 2.0


def test_one_gradient_for_two_leaves() -> None:
    a, b = (nn.Parameter(undertow.ones(3)) for _ in range(2))

    @undertow.compile
    def step() -> Any:
        a.grad = b.grad = None
        loss = (a + b).sum()
        loss.backward()
        return loss

    for _ in range(3):
        step()
        a.grad.mul_(5)
        assert b.grad.tolist() == [1.0, 1.0, 1.0]


def test_a_returned_gradient_is_the_leafs_own() -> None:
    w = nn.Parameter(undertow.ones(3))

    @undertow.compile
    def step() -> Any:
        w.grad = None
        (w * w).sum().backward()
        return w.grad

    first = step()
    assert step() is w.grad and first is not w.grad
    assert first.tolist() == [2.0, 2.0, 2.0]
