"""Code that looks at the type of a number, at memory through NumPy, or into containers of optimizers and modules."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn, optim
from undertow.compiler import CompileError

TABLE = {int: 2.0, float: 3.0}


def alike(one: Any, other: Any) -> bool:
    return type(one) == type(other)  # noqa: E721


@pytest.mark.parametrize(
    "look",
    [
        lambda n: TABLE.get(type(n), 5.0),
        lambda n: len(str(type(n))),
        lambda n: len(f"{type(n)} {type(n).__name__}"),
        lambda n: len({type(n), int}),
        lambda n: collections.Counter(map(type, [n, 1, 2.0]))[int],
        lambda n: len(type(n).__mro__),
        lambda n: 2.0 if alike(n, 1) else 1.0,
        lambda n: 2.0 if issubclass(type(n), int) else 1.0,
        lambda n: 2.0 if type(n) in [int] else 1.0,
    ],
)
def test_the_type_of_a_number_that_changes(look: Callable[[Any], float]) -> None:
    def build() -> Case:
        model, state = nn.Linear(2, 3), {"n": 0}

        def step(x: Any) -> Any:
            state["n"] += 1
            return (model(x) * state["n"] * look(state["n"])).sum().detach(), type(state["n"])

        return Case(step, args=lambda turn: (torch.randn(3, 2),), look=lambda: dict(state))

    agree(build)


@pytest.mark.parametrize("look", [lambda n: TABLE[type(n)], lambda n: 2.0 if type(n) is float else 1.0])
def test_the_type_of_a_learning_rate(look: Callable[[Any], float]) -> None:
    def build() -> Case:
        model = nn.Linear(2, 3)
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any) -> Any:
            rate = optimizer.param_groups[0]["lr"]
            factor = 2.0 if type(rate) is float else 1.0
            return (model(x) * rate * look(rate) * factor).sum().detach()

        def between(turn: int) -> None:
            optimizer.param_groups[0]["lr"] *= 0.5

        return Case(step, args=lambda turn: (torch.randn(3, 2),), between=between)

    agree(build)


MEMORY: dict[str, Callable[[Any, Any], Any]] = {
    "read": lambda tensor, array: (tensor.add_(1), float(array.sum()))[1],
    "view": lambda tensor, array: (tensor.add_(1), float(array[1:].sum()))[1],
    "written": lambda tensor, array: (array.fill(2.0), tensor.sum().detach())[1],
    "made": lambda tensor, array: (array.fill(2.0), torch.from_numpy(array).sum())[1],
}


@pytest.mark.parametrize("use", MEMORY)
def test_a_step_that_uses_memory_through_an_array_and_writes_to_it_is_refused(use: str) -> None:
    tensor = torch.zeros(3)
    step = torch.compile(functools.partial(_used, MEMORY[use], tensor, tensor.numpy()))
    with pytest.raises(CompileError, match="NumPy array over the memory of a tensor"):
        step(torch.ones(3))


def _used(use: Callable[[Any, Any], Any], tensor: Any, array: Any, x: Any) -> Any:
    return x * use(tensor, array)


def test_an_array_over_memory_that_nothing_writes_to_may_be_read() -> None:
    def build() -> Case:
        tensor = torch.ones(3)
        array, other = tensor.numpy(), np.ones(3)
        return Case(lambda x: (x + tensor) * float(array.sum() + other.sum()), args=lambda turn: (torch.randn(3),))

    agree(build)


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "clears": lambda model, optimizer: optimizer.state.clear(),
    "clears if there is much": lambda model, optimizer: len(optimizer.state) > 1 and optimizer.state.clear(),
    "clears one": lambda model, optimizer: optimizer.state[model[0].weight].clear(),
    "takes one out": lambda model, optimizer: optimizer.state.pop(model[0].bias, None),
    "takes a layer out": lambda model, optimizer: len(model) > 1 and model._modules.popitem(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_step_changes_what_an_optimizer_or_a_module_keeps(change: str) -> None:
    def build() -> Case:
        model = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
        optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        changed = CHANGES[change]

        def step(x: Any) -> None:
            model(x).pow(2).mean().backward()
            changed(model, optimizer)
            optimizer.step()
            optimizer.zero_grad()

        return Case(step, model, optimizer, args=lambda turn: (torch.randn(3, 2),))

    agree(build, steps=4)


def test_a_hook_that_clears_what_an_optimizer_keeps_is_refused() -> None:
    model = nn.Linear(2, 3)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: optimizer.state.clear())

    @torch.compile
    def step(x: Any) -> None:
        model(x).sum().backward()
        optimizer.step()

    with pytest.raises(CompileError, match=r"state`.*, on which the program depends"):
        for _ in range(3):
            step(torch.ones(1, 2))


def kind_of(value: Any) -> Any:
    return type(value)


ALIAS = type


@pytest.mark.parametrize("asks", [kind_of, lambda n: ALIAS(n)])
def test_a_hook_looks_up_the_type_of_a_number_in_a_helper(asks: Any) -> None:
    def build() -> Case:
        model = nn.Linear(2, 3)
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        factors = {float: 2.0}

        def step(x: Any) -> None:
            optimizer.zero_grad()
            y = model(x)
            y.register_hook(lambda g: g * factors.get(asks(optimizer.param_groups[0]["lr"]), 7.0))
            y.sum().backward()
            optimizer.step()

        return Case(step, model, optimizer, args=lambda turn: (torch.randn(3, 2),))

    agree(build, steps=4)
