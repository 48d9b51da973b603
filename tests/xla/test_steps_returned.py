"""A `return` that runs on the host: it finds lists, dicts and objects as the statements before it have left them."""

from __future__ import annotations

from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, agree
from undertow import nn

case = Cases()


def given(turn: int) -> tuple[Any, ...]:
    return (torch.ones(2) * (turn + 1),)


@case
def another_name_for_a_list() -> Case:
    losses: list[float] = []

    def step(x: Any) -> Any:
        seen = losses
        seen.append(x.sum().item())
        return x * 2, len(seen)

    return Case(step, args=given, log=losses)


@case
def a_list_that_is_a_default() -> Case:
    def step(x: Any, losses: list[float] = []) -> Any:  # noqa: B006
        losses.append(x.sum().item())
        return x * 2, len(losses), losses[0]

    return Case(step, args=given)


@case
def a_list_with_a_constructor_of_its_own() -> Case:
    class Losses(list[float]):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    losses = Losses("losses")

    def step(x: Any) -> Any:
        seen = losses
        seen.append(x.sum().item())
        return x * 2, len(seen), seen.name

    return Case(step, args=given)


@case
def a_tuple_of_a_list_and_a_result() -> Case:
    layer = nn.Linear(2, 1)
    losses: list[float] = []

    def step(x: Any) -> Any:
        both = losses, layer(x)
        both[0].append(both[1].sum().item())
        return len(both[0]), both[1].shape

    return Case(step, args=given, log=losses)


@case
def a_list_that_the_step_makes() -> Case:
    layer = nn.Linear(2, 1)

    def step(x: Any) -> Any:
        found = [layer(x)]
        found.append(found[0].sum().item())
        return x * 2, len(found)

    return Case(step, args=given)


@case
def a_dict_that_the_step_makes_and_keeps() -> Case:
    layer = nn.Linear(2, 1)
    kept: list[Any] = []

    def step(x: Any) -> Any:
        found = {"out": layer(x).detach()}
        kept.append(found)
        found["sum"] = found["out"].sum().item()
        return x * 2, len(found)

    return Case(step, args=given, log=kept)


@pytest.mark.parametrize("name", case)
def test_returned(name: str) -> None:
    agree(case[name], steps=4, programs=1)
