"""A step that sets a place to what it held when the step was traced: each call has to do so, whatever it finds there."""

from __future__ import annotations

import types
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn


class Config:
    n: Any = 0


def in_attribute(config: Any, entries: Any, numbers: Any) -> None:
    config.n = 3


def in_namespace(config: Any, entries: Any, numbers: Any) -> None:
    vars(config)["n"] = 3


def in_entry(config: Any, entries: Any, numbers: Any) -> None:
    entries["n"] = 0.25


def in_list(config: Any, entries: Any, numbers: Any) -> None:
    numbers[0] = 3


def by_counting(config: Any, entries: Any, numbers: Any) -> None:
    entries["n"] = 0
    for _ in range(3):
        entries["n"] += 1


@pytest.mark.parametrize("sets", [in_attribute, in_namespace, in_entry, in_list, by_counting])
def test_a_number_that_the_user_changes_between_calls(sets: Any) -> None:
    def build() -> Case:
        model, config, entries, numbers = nn.Linear(2, 3), types.SimpleNamespace(n=0), {"n": 1.0}, [0, 0]

        def step(x: Any) -> None:
            sets(config, entries, numbers)
            model(x).pow(2).mean().backward()

        def between(turn: int) -> None:
            if turn > 2:
                config.n, entries["n"], numbers[0] = config.n + 5, entries["n"] + 1, numbers[0] + 5

        def look() -> Any:
            return vars(config), entries, numbers

        return Case(step, model, args=lambda turn: (torch.randn(3, 2),), between=between, look=look)

    agree(build, steps=6)


def test_a_variable_and_a_class() -> None:
    def build() -> Case:
        model, n = nn.Linear(2, 3), 0

        class Own(Config):
            n = 0

        def step(x: Any) -> None:
            nonlocal n
            n = Own.n = 3
            model(x).pow(2).mean().backward()

        def between(turn: int) -> None:
            nonlocal n
            if turn > 2:
                n, Own.n = n + 5, Own.n + 5

        return Case(step, model, args=lambda turn: (torch.randn(3, 2),), between=between, look=lambda: (n, Own.n))

    agree(build, steps=6)


def test_a_state_that_the_step_resets_to_the_same_tensor() -> None:
    def build() -> Case:
        model, start, resets = nn.Linear(2, 2), torch.zeros(3, 2), [False]
        state = {"h": start}

        def step(x: Any) -> Any:
            y = model(x + state["h"])
            state["h"] = start if resets[0] else y.detach()
            return y.sum().detach()

        def between(turn: int) -> None:
            resets[0] = turn in (2, 3, 4)
            if turn == 4:
                state["h"] = state["h"] + 1

        return Case(step, model, args=lambda turn: (torch.randn(3, 2),), between=between, look=lambda: state["h"])

    agree(build, steps=7)
