"""A program writes its results over values that nobody needs; what somebody still holds is never written over."""

from __future__ import annotations

import copy
import gc
import logging
from typing import Any

import jax
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


def state(model: Any, optimizer: Any) -> Any:
    """Adam's first moment for the weight, once it has one."""
    return optimizer.state[weight(model)]["exp_avg"]


KEEP = {
    "nothing": lambda model, optimizer: [],
    "the gradient itself": lambda model, optimizer: [weight(model).grad],
    "a clone of the gradient": lambda model, optimizer: [weight(model).grad.clone()],
    "a view of the gradient": lambda model, optimizer: [weight(model).grad[0]],
    "a detached gradient": lambda model, optimizer: [weight(model).grad.detach()],
    "a clone of the parameter": lambda model, optimizer: [weight(model).detach().clone()],
    "a cast of the parameter": lambda model, optimizer: [weight(model).detach().to(undertow.float32, copy=True)],
    "a clone of optimizer state": lambda model, optimizer: [optimizer.state[weight(model)]["exp_avg"].clone()],
    "a view of optimizer state": lambda model, optimizer: [state(model, optimizer)[0]],
    "optimizer state, and writes to it": lambda model, optimizer: [state(model, optimizer).mul_(0.5).detach()],
    "optimizer state on the host": lambda model, optimizer: [
        undertow.tensor(state(model, optimizer).cpu().numpy() * 2)
    ],
    "a gradient on the host": lambda model, optimizer: [weight(model).grad.cpu()],
    "a copy of the optimizer's state": lambda model, optimizer: [
        copy.deepcopy(optimizer.state_dict())["state"][0]["exp_avg_sq"]
    ],
    "the gradient as numbers": lambda model, optimizer: [undertow.tensor(weight(model).grad.tolist())],
}


@pytest.mark.parametrize("device", ["cpu", "xla"])
@pytest.mark.parametrize("kept", KEEP)
def test_what_somebody_holds_keeps_its_value(kept: str, device: str) -> None:
    eager, compiled = (trained(device, KEEP[kept], way) for way in (False, True))
    gc.collect()  # compiled steps: while tensors live on a device, ops look where they are
    for expected, found in zip(eager, compiled, strict=True):
        assert undertow.allclose(undertow.tensor(expected), undertow.tensor(found), rtol=1e-4, atol=1e-6)


def written_to(device: str) -> list[tuple[list[float], list[float]]]:
    """Arguments of a step, and gradients that it added to, after later calls; and what they ought to be."""
    weight = undertow.ones(3, device=device, requires_grad=True)

    def step(x: Any) -> None:
        x.add_(1)
        (weight * x).sum().backward()

    compiled, made = undertow.compile(step), undertow.compile(lambda x: x * 2)
    held: list[tuple[Any, list[float]]] = []
    weight.grad = made(undertow.zeros(3, device=device))
    for turn in range(3):
        x = made(undertow.full((3,), float(turn), device=device))
        compiled(x)
        held += [(x, [2.0 * turn + 1] * 3), (weight.grad, [2.0 * turn + 1] * 3)]
        weight.grad = undertow.zeros(3, device=device)
    return [(tensor.tolist(), expected) for tensor, expected in held]


@pytest.mark.parametrize("device", ["cpu", "xla"])
def test_what_a_call_writes_to_is_left_alone_by_the_next(device: str) -> None:
    values = written_to(device)
    gc.collect()
    assert [found for found, _ in values] == [expected for _, expected in values]


def kept_on_the_host(device: str) -> list[Any]:
    """Tensors that a hook and a statement keep which run after the program: where they are, and their values."""
    weight = undertow.ones(3, device=device, requires_grad=True)
    kept: list[Any] = []
    weight.register_hook(lambda gradient: kept.append(gradient * 2))
    weight.register_post_accumulate_grad_hook(lambda leaf: kept.append(leaf.grad.sum() + leaf.detach()))

    @undertow.compile
    def step(x: Any) -> None:
        weight.grad = None
        (weight * x).sum().backward()
        kept.append((x + 1).detach())

    for turn in range(2):
        step(undertow.full((3,), float(turn), device=device))
    return [(each.device.type, each.tolist()) for each in kept]


def test_what_is_kept_on_the_host_lies_where_it_was_computed() -> None:
    here, there = kept_on_the_host("cpu"), kept_on_the_host("xla")
    gc.collect()
    assert [("xla", value) for _, value in here] == there


def counted_beside(device: str) -> list[Any]:
    """A tensor on the CPU that a step of a device writes to."""
    weight, count = undertow.ones(3, device=device), undertow.zeros(2)

    @undertow.compile
    def step() -> None:
        weight.mul_(2)
        count.add_(1)

    for _ in range(3):
        step()
        count.add_(undertow.ones(2))
    return [weight.device.type, weight.tolist(), count.device.type, count.tolist()]


def test_what_is_on_the_cpu_stays_there() -> None:
    found = counted_beside("xla")
    gc.collect()
    assert found == ["xla", [8.0] * 3, "cpu", [6.0] * 2]


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
    before = w.grad._array.buffer.value.unsafe_buffer_pointer()
    step()
    assert w.grad._array.buffer.value.unsafe_buffer_pointer() == before
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


def turns(compiled: bool) -> list[Any]:
    """Steps with batches of two sizes in turn, with another state put in place and a weight's hook added on the way."""
    undertow.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).to("xla")
    optimizer = undertow.optim.Adam(model.parameters(), lr=0.1)
    batches = [undertow.randn(rows, 4).to("xla") for rows in (5, 2)]

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    step = undertow.compile(step) if compiled else step
    seen, kept = [], []
    for turn in range(8):
        seen.append(step(batches[turn % 2]).item())
        kept.append(model[2].bias.grad)
        if turn == 3:
            held = copy.deepcopy(optimizer.state_dict())
        if turn == 5:
            optimizer.load_state_dict(held)
            model[0].bias.register_hook(lambda grad: grad * 0.5)
    return [seen, *[value.tolist() for value in (*kept, *model.parameters(), *[p.grad for p in model.parameters()])]]


def test_programs_that_take_turns_share_the_states() -> None:
    eager, compiled = turns(False), turns(True)
    gc.collect()
    for expected, found in zip(eager, compiled, strict=True):
        assert undertow.allclose(undertow.tensor(expected), undertow.tensor(found), rtol=1e-4, atol=1e-6)


def check_packs() -> None:
    undertow.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).to("xla")
    optimizer = undertow.optim.Adam(model.parameters())
    x = undertow.randn(5, 4).to("xla")

    @undertow.compile
    def step() -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(3):
        step()
    states = [value for each in optimizer.state.values() for name, value in each.items() if name != "step"]
    for together in (states, [p.grad for p in model.parameters()]):
        assert len({id(tensor._array.buffer.part.pack) for tensor in together}) == 1
    before = states[0].clone()
    step()  # what was looked at is in the pack all the same
    assert len({id(tensor._array.buffer.part.pack) for tensor in states}) == 1
    assert not undertow.equal(states[0], before)


def test_small_states_and_gradients_share_an_array_on_a_device() -> None:
    check_packs()
    gc.collect()


def test_xla_compiles_a_program_once(capfd: pytest.CaptureFixture[str]) -> None:
    model = nn.Linear(4, 3)
    optimizer = undertow.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @undertow.compile
    def step(x: Any) -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    with jax.log_compiles():
        for _ in range(
            4
        ):  # from the second one on, parameters are where the program left them, and soon the options too
            step(undertow.ones(2, 4))
        model.weight.sum().item()
        step(undertow.ones(2, 4))
    assert len([program for alike in step.programs.values() for program in alike]) == 2
    assert capfd.readouterr().err.count("XLA compilation of jit(run)") == 2


def test_only_the_step_itself_is_compiled() -> None:
    """Moving parameters and making buffers for gradients needs no programs, which would be one for each shape."""
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
    optimizer = undertow.optim.SGD(model.parameters(), lr=0.1)
    x = undertow.randn(4, 5)

    @undertow.compile
    def step() -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("jax._src.dispatch")
    logger.addHandler(handler)
    try:
        with jax.log_compiles():
            for _ in range(3):
                step()
    finally:
        logger.removeHandler(handler)
    compiled = [message for message in messages if "Finished XLA compilation" in message]
    assert compiled and all("jit(run)" in message for message in compiled), compiled
