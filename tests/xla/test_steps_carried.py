"""What goes from call to call in places that each step fills anew: hidden states, kept losses, the last few batches."""

from __future__ import annotations

import gc
import types
from collections import deque
from dataclasses import dataclass
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, agree
from undertow import nn, optim
from undertow._src.compile import CompileError

case = Cases()


@pytest.mark.parametrize("name", case)
def test_is_compiled_twice_at_most(name: str) -> None:
    agree(case[name], steps=4, programs=2)


def one(turn: int) -> tuple[Any, ...]:
    return (torch.full((2, 3), 0.1 + 0.1 * turn),)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(3, 2)
        self.state: Any = None

    def forward(self, x: Any) -> Any:
        state = None if self.state is None else (self.state[0].detach(), self.state[1].detach())
        self.state = self.cell(x, state)
        return self.state[0]


@case
def a_state_with_its_graph_cut_by_the_next_call() -> Case:
    model = Recurrent()
    optimizer = optim.SGD(model.parameters(), 0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return Case(step, model, args=one, look=lambda: [part.detach() for part in model.state])


@case
def a_state_in_a_class() -> Case:
    class Memory:
        state: Any = None

    cell = nn.LSTMCell(3, 2)
    optimizer = optim.SGD(cell.parameters(), 0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        state = cell(x, Memory.state)
        Memory.state = tuple(part.detach() for part in state)
        loss = state[0].pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return Case(step, cell, args=one, look=lambda: list(Memory.state))


@dataclass
class Carried:
    hidden: Any
    steps: str = "some"


@case
def an_object_in_a_dict() -> Case:
    weight, held = nn.Parameter(torch.ones(3)), {"state": Carried(torch.zeros(2, 3))}

    def step(x: Any) -> Any:
        hidden = torch.tanh(held["state"].hidden * weight + x)
        held["state"] = Carried(hidden.detach())
        return hidden.detach()

    return Case(step, weight, args=one, look=lambda: held["state"].hidden)


@case
def entries_of_a_list() -> Case:
    weight, states = nn.Parameter(torch.ones(3)), [torch.zeros(2, 3), torch.ones(2, 3)]

    def step(x: Any) -> Any:
        for place, state in enumerate(states):
            states[place] = x = (state * 0.5 + x * weight).detach()
        return x

    return Case(step, weight, args=one, look=lambda: list(states))


@case
def the_last_batches() -> Case:
    weight, last = nn.Parameter(torch.ones(3)), deque([torch.zeros(3), torch.zeros(3)], maxlen=2)

    def step(x: Any) -> Any:
        last.append(x[0])  # a view of what the call was given
        return (torch.stack(list(last)) * weight).sum().detach()

    return Case(step, weight, args=one, look=lambda: [list(last), last[0] is last[1]])


@case
def a_loss_with_its_graph_that_somebody_goes_back_through() -> Case:
    weight, held = nn.Parameter(torch.ones(3)), types.SimpleNamespace(loss=None, parts=())

    def step(x: Any) -> None:
        held.parts = (weight * x, x)
        held.loss = held.parts[0].pow(2).sum()

    def look() -> Any:
        held.loss.backward()
        return [held.loss.detach(), weight.grad]

    return Case(step, weight, args=one, look=look)


@case
def features_whose_gradient_is_kept() -> Case:
    weight, held = nn.Parameter(torch.ones(3)), types.SimpleNamespace(features=None)

    def step(x: Any) -> None:
        held.features = weight * x
        held.features.retain_grad()
        held.features.pow(2).sum().backward()

    return Case(step, weight, args=one, look=lambda: [held.features.detach(), held.features.grad])


@case
def a_new_leaf_for_each_call() -> Case:
    held = types.SimpleNamespace(delta=torch.zeros(2, 3, requires_grad=True))

    def step(x: Any) -> Any:
        (held.delta * x + x * x).pow(2).sum().backward()
        held.delta = (held.delta + held.delta.grad).detach().requires_grad_()

    return Case(step, args=one, look=lambda: held.delta)


@case
def tensors_that_were_one_at_first() -> Case:
    first = torch.ones(3)
    held = types.SimpleNamespace(fixed=first, moving=first)

    def step(x: Any) -> Any:
        held.moving = held.moving + held.fixed * x[0]
        return held.moving

    return Case(step, args=one, look=lambda: [held.fixed, held.moving])


def test_tensors_that_share_their_memory_for_a_while() -> None:
    def build() -> Case:
        held = types.SimpleNamespace(hidden=torch.zeros(3), other=torch.ones(3))

        def step(x: Any) -> Any:
            held.hidden = held.hidden + x[0]
            return held.hidden * 2 + held.other

        def between(turn: int) -> None:
            held.other = held.hidden[:] if turn % 2 else held.other

        return Case(step, args=one, between=between, look=lambda: [held.hidden, held.other])

    agree(build, steps=4)


def test_a_batch_of_another_size_needs_one_more_program() -> None:
    held = types.SimpleNamespace(features=None)

    @torch.compile
    def step(x: Any) -> Any:
        held.features = x * 2
        return held.features.sum()

    for size in (3, 3, 2, 3, 2, 3, 3):
        assert step(torch.ones(size)).item() == 2 * size
    assert len(torch.compile.explain(step).data[0]["programs"]) == 3  # the first found no features


def test_going_back_into_an_earlier_call_says_what_to_do() -> None:
    weight, held = nn.Parameter(torch.ones(3)), types.SimpleNamespace(state=torch.zeros(3))

    @torch.compile
    def step(x: Any) -> None:
        held.state = torch.tanh(held.state * weight + x)
        held.state.sum().backward(retain_graph=True)

    step(torch.ones(3))
    with pytest.raises(CompileError, match=r"reaches the graph of an earlier call.*detach\(\)"):
        step(torch.ones(3))


def total(x: Any) -> Any:
    return x.sum()


def add(x: Any, y: Any) -> None:
    x.add_(y)


def parts_of_a_device() -> tuple[list[float], str]:
    data = torch.arange(12.0, device="xla").reshape(4, 3)
    compiled = torch.compile(total)
    totals = [compiled(data[n : n + 2]).item() for n in range(3)]
    with pytest.raises(CompileError) as refused:
        torch.compile(add)(data[0:2], data[1:3])
    return totals, str(refused.value)


def test_parts_of_a_memory_on_a_device_may_be_arguments() -> None:
    totals, refused = parts_of_a_device()
    assert totals == [15.0, 33.0, 51.0] and "shares memory" in refused
    gc.collect()  # while tensors live on a device, ops look where they are


def test_the_size_of_a_state_that_is_thrown_away_counts_if_it_was_asked_for() -> None:
    def build() -> Case:
        held: Any = types.SimpleNamespace(hidden=torch.zeros(3, 2))

        def step(x: Any) -> Any:
            if held.hidden.shape[0] != x.shape[0]:
                held.hidden = torch.zeros(x.shape[0], 2)
            held.hidden = held.hidden + x
            return held.hidden.sum()

        sizes = (3, 2, 2, 3)
        return Case(step, args=lambda turn: (torch.full((sizes[turn], 2), 1.0 + turn),), look=lambda: held.hidden)

    agree(build, steps=4)
