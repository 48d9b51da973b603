"""A hook calls a function that it finds somewhere, and another function is put there between two calls of the step."""

from __future__ import annotations

import functools
import math
import operator
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import undertow as torch
from undertow import nn


class InAttribute:
    """Calls what an attribute holds."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def put(self, function: Any) -> None:
        self.function = function

    def __call__(self, gradient: Any) -> Any:
        return self.function(gradient, 2.0)


class InVariable(InAttribute):
    """Gives it a name first."""

    def __call__(self, gradient: Any) -> Any:
        called = self.function
        return called(gradient, 2.0)


class InSlot:
    """Has slots instead of a dict."""

    __slots__ = ("function",)
    __init__, put, __call__ = InAttribute.__init__, InAttribute.put, InAttribute.__call__


class InDict:
    """Has a table of functions."""

    def __init__(self, function: Any) -> None:
        self.table = {"name": function}

    def put(self, function: Any) -> None:
        self.table["name"] = function

    def __call__(self, gradient: Any) -> Any:
        return self.table["name"](gradient, 2.0)


class InList(InDict):
    """Has a list of functions."""

    def __init__(self, function: Any) -> None:
        self.functions = [function]

    def put(self, function: Any) -> None:
        self.functions[0] = function

    def __call__(self, gradient: Any) -> Any:
        return self.functions[0](gradient, 2.0)


class InTuple(InAttribute):
    """Has a tuple, which is replaced."""

    def __init__(self, function: Any) -> None:
        self.put(function)

    def put(self, function: Any) -> None:
        self.pair = function, 2.0

    def __call__(self, gradient: Any) -> Any:
        return self.pair[0](gradient, self.pair[1])


def in_closure(function: Any) -> Any:
    def hook(gradient: Any) -> Any:
        return function(gradient, 2.0)

    def put(other: Any) -> None:
        nonlocal function
        function = other

    hook.put = put  # type: ignore[attr-defined]
    return hook


def gradients(make: Callable[[Any], Any], functions: list[Any], compiled: bool) -> list[float]:
    weight = nn.Parameter(torch.ones(2))
    hook = make(functions[0])
    weight.register_hook(hook)

    def step() -> None:
        weight.grad = None
        (weight * 3).sum().backward()

    called = torch.compile(step) if compiled else step
    found = []
    for function in functions:
        hook.put(function)
        called()
        assert weight.grad is not None
        found.append(weight.grad[0].item())
    return found


PLACES = [InAttribute, InVariable, InSlot, InDict, InList, InTuple, in_closure]
FUNCTIONS: dict[str, tuple[Any, Any]] = {
    "undertow's": (torch.mul, torch.add),
    "methods": (torch.Tensor.mul, torch.Tensor.add),
    "built in": (operator.mul, operator.add),
    "partial": (functools.partial(torch.add, alpha=2), functools.partial(torch.add, alpha=3)),
    "the user's": (lambda gradient, number: gradient * number, lambda gradient, number: gradient + number),
}


@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_another_function_is_called(place: Any, kind: str) -> None:
    one, other = FUNCTIONS[kind]
    functions = [one, one, one, other, other, one]
    assert gradients(place, functions, True) == gradients(place, functions, False)


class Through(InAttribute):
    """Computes with what a function, a class or a module gives."""

    def __call__(self, gradient: Any) -> Any:
        if isinstance(self.function, types.ModuleType):
            return gradient * self.function.sqrt(4.0)
        return self.function()(gradient) if isinstance(self.function, type) else gradient * float(self.function(4.0))


@pytest.mark.parametrize(
    ("one", "other"),
    [(math.sqrt, math.exp), (np.sqrt, np.exp), (nn.Tanh, nn.Sigmoid), (math, nn.Tanh)],
    ids=["math", "NumPy", "classes", "modules"],
)
def test_something_else_is_found(one: Any, other: Any) -> None:
    functions = [one, one, one, other, other, one]
    found, expected = gradients(Through, functions, True), gradients(Through, functions, False)
    assert found == pytest.approx(expected)


SCALE: Any = 1.0


@pytest.mark.parametrize("other", [torch.tensor([1.0, 3.0]), None, "abc", [1.0, 2.0]], ids=str)
def test_a_number_becomes_something_else(other: Any) -> None:
    global SCALE

    def step(x: Any) -> Any:
        return (x * len(SCALE) if isinstance(SCALE, (str, list)) else x if SCALE is None else x * SCALE).sum()

    called = torch.compile(step)
    try:
        for value in (1.0, 2.0, 3.0, other, 4.0):
            SCALE = value
            assert called(torch.ones(2)).item() == step(torch.ones(2)).item()
    finally:
        SCALE = 1.0
