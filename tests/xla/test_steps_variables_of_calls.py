"""Variables that statements on the host set belong to one call of a function: the next call begins with its arguments."""

from __future__ import annotations

from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, agree
from undertow import nn

case = Cases()


def given(turn: int) -> tuple[Any, ...]:
    return (torch.ones(3) * (turn + 1),)


@case
def a_default_of_the_step() -> Case:
    layer, log, state = nn.Linear(3, 3), list[Any](), {"calls": 0}

    def step(x: Any, note: Any = "none") -> Any:
        out = layer(x)
        state["calls"] += 1
        if state["calls"] % 3 == 1:
            note = out.sum().item()
        log.append(note)
        return out

    return Case(step, args=given, log=log)


@case
def a_default_of_a_helper() -> Case:
    layer, log = nn.Linear(3, 3), list[Any]()

    def helper(x: Any, is_noted: bool, note: Any = None) -> Any:
        out = layer(x)
        if is_noted:
            note = out.sum().item()
        log.append(note)
        return out

    return Case(lambda x: helper(x, True) + helper(x, False) + helper(x, False, 5.0), args=given, log=log)


@case
def an_argument_of_a_forward() -> Case:
    class Noting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.calls, self.log = nn.Linear(3, 3), 0, list[Any]()

        def forward(self, x: Any, note: Any = None) -> Any:
            out = self.layer(x)
            self.calls += 1
            if self.calls % 2:
                note = out.mean().item()
            self.log.append((self.calls, note))
            return out

    layer = Noting()
    return Case(lambda x: layer(x) + layer(x * 2) + layer(x, note="last"), args=given, log=layer.log)


@case
def a_function_that_calls_itself() -> Case:
    layer, log = nn.Linear(3, 3), list[Any]()

    def deeper(x: Any, depth: int) -> Any:
        out = layer(x)
        mean = out.mean().item()
        if depth:
            out = deeper(out, depth - 1) + deeper(out * 2, depth - 1)
        log.append((depth, mean))
        return out

    return Case(lambda x: deeper(x, 2), args=given, log=log)


@case
def two_generators_in_turn() -> Case:
    layer, log = nn.Linear(3, 3), list[Any]()

    def outputs(x: Any, which: int, note: Any = "none") -> Any:
        for turn in range(2):
            out = layer(x * turn)
            if turn == which:
                note = out.sum().item()
            log.append((which, turn, note))
            yield out

    return Case(lambda x: sum(a + b for a, b in zip(outputs(x, 0), outputs(x, 1))), args=given, log=log)


@pytest.mark.parametrize("name", case)
def test_each_call_has_its_own(name: str) -> None:
    agree(case[name], steps=4, programs=1)
