"""Functions that a step defines: they set variables of the step, and hold its tensors. Each call has its own."""

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
def a_sum_that_is_returned() -> Case:
    def step(x: Any) -> Any:
        total = 0.0

        def add(value: Any) -> None:
            nonlocal total
            total += value.item()

        add(x.sum())
        add(x.mean())
        return x, total

    return Case(step, args=given)


@case
def a_sum_that_is_logged() -> Case:
    log: list[float] = []

    def step(x: Any) -> Any:
        total = 0.0

        def add(value: Any) -> None:
            nonlocal total
            total += value.item()
            log.append(total)

        add(x.sum())
        add(x.mean())
        return x

    return Case(step, args=given, log=log)


@case
def a_count_that_the_step_computes_with() -> Case:
    log: list[Any] = []

    def step(x: Any) -> Any:
        count = 0

        def note(value: Any) -> None:
            nonlocal count
            count += 1
            log.append((count, value.item()))

        note(x.sum())
        note(x.mean())
        return x * count

    return Case(step, args=given, log=log)


@case
def the_largest() -> Case:
    log: list[Any] = []

    def step(x: Any) -> Any:
        best = None

        def see(value: Any) -> None:
            nonlocal best
            if best is None or value.item() > best:
                best = value.item()

        see(x.sum())
        see(x.mean())
        log.append(best)
        return x

    return Case(step, args=given, log=log)


@case
def a_sum_of_a_hook() -> Case:
    layer, log = nn.Linear(2, 1), list[float]()

    def step(x: Any) -> Any:
        total = 0.0

        def hook(module: Any, args: Any, out: Any) -> None:
            nonlocal total
            total += out.sum().item()

        handle = layer.register_forward_hook(hook)
        layer(x)
        layer(x * 2)
        handle.remove()
        log.append(total)
        return x, total

    return Case(step, args=given, log=log)


@case
def functions_in_a_list() -> Case:
    log: list[Any] = []

    def step(x: Any) -> Any:
        y = x * 2
        sums = [lambda: x.sum().item(), lambda: y.sum().item()]
        log.append([each() for each in sums])
        return y

    return Case(step, args=given, log=log)


@case
def functions_in_a_dict_and_an_object() -> Case:
    class Holder:
        pass

    log: list[Any] = []

    def step(x: Any) -> Any:
        holder: Any = Holder()
        holder.largest = lambda: x.max().item()
        losses = {"sum": lambda: x.sum(), "mean": lambda: x.mean()}
        log.append({name: each().item() for name, each in losses.items()})
        log.append(holder.largest())
        return x

    return Case(step, args=given, log=log)


@case
def tensors_that_are_keys() -> Case:
    log: list[Any] = []

    def step(x: Any) -> Any:
        weights = {x * 2: 1.0, x * 3: 2.0}
        log.append([key.sum().item() * weight for key, weight in weights.items()])
        return x

    return Case(step, args=given, log=log)


@pytest.mark.parametrize("name", case)
def test_of_each_call(name: str) -> None:
    agree(case[name], steps=4)


def test_keys_of_a_returned_dict_are_of_each_call() -> None:
    step = torch.compile(lambda x: {x * 2: 1, (x * 3, "a"): 2})
    results = [[*step(torch.tensor([float(turn)]))] for turn in range(4)]
    assert [(one.item(), other[0].item()) for one, other in results] == [(2 * turn, 3 * turn) for turn in range(4)]
