"""Functions of the user that the standard library calls: if they do more than compute, a program would miss it."""

from __future__ import annotations

import collections
import contextlib
import copy
import functools
import json
import string
import types
from typing import Any

import numpy as np
import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn
from undertow.compiler import CompileError


@functools.total_ordering
class Number:
    def __init__(self, value: float = 2.0) -> None:
        self.value = value

    def said(self, value: Any) -> Any:
        return value

    def of(self, scale: float) -> float:
        return float(self.said(self.value * scale))

    twice = functools.partialmethod(of, 2.0)

    @functools.singledispatchmethod
    def plus(self, other: Any) -> float:
        raise TypeError

    @plus.register
    def _(self, other: float) -> float:
        return float(self.said(self.value + other))

    def __lt__(self, other: Any) -> bool:
        return bool(self.said(self.value < other.value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and bool(self.said(self.value == other.value))

    def __hash__(self) -> int:
        return int(self.said(1))

    def __index__(self) -> int:
        return int(self.said(1))

    def __copy__(self) -> Any:
        return Number(self.said(self.value))

    def close(self) -> None:
        self.said("closed")


class Loud(Number):
    def said(self, value: Any) -> Any:
        print(end="")
        return value


class Encoder(json.JSONEncoder):
    def default(self, o: Any) -> Any:
        return o.said(1)


class Format(string.Formatter):
    def get_value(self, key: Any, args: Any, kwargs: Any) -> Any:
        return kwargs[key].said("text")


def closed(number: Number) -> float:
    with contextlib.closing(number):
        return 1.0


@pytest.mark.parametrize("kind", [Number, Loud])
@pytest.mark.parametrize(
    "use",
    [
        lambda number: number.twice(),
        lambda number: number.plus(1.0),
        lambda number: 2.0 if number >= Number(1.0) else 1.0,
        lambda number: {number: 2.0}[number],
        lambda number: [1.0, 2.0][number],
        lambda number: copy.copy(number).value,
        lambda number: len(json.dumps([number], cls=Encoder)),
        lambda number: len(Format().format("{a}", a=number)),
        closed,
    ],
)
def test_what_the_standard_library_calls(use: Any, kind: Any) -> None:
    def build() -> Case:
        model, number = nn.Linear(2, 3), kind()

        def step(x: Any) -> Any:
            return (model(x) * use(number)).sum().detach()

        return Case(step, args=lambda turn: (torch.randn(3, 2),))

    if kind is Number:
        agree(build)
        return
    with pytest.raises(
        CompileError, match=r"the step calls `.*` \(.*\) through code that undertow can't follow, and it"
    ):
        agree(build)


WRAPPERS: dict[str, Any] = {
    "a user dict": lambda held: collections.UserDict(held),
    "a chain": lambda held: collections.ChainMap(held, {"b": 1.0}),
    "a proxy": lambda held: types.MappingProxyType(held),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_step_reads_through_a_wrapper_what_it_has_stored(name: str) -> None:
    def build() -> Case:
        model, held = nn.Linear(2, 3), {"a": 1.0}
        wrapper = WRAPPERS[name](held)
        inner = wrapper.data if name == "a user dict" else held

        def step(x: Any) -> Any:
            y = model(x)
            inner["a"] = y.sum().item()
            return (y * wrapper["a"] * len(wrapper)).sum().detach()

        return Case(step, args=lambda turn: (torch.randn(3, 2),), look=lambda: dict(wrapper))

    agree(build)


def test_a_step_reads_an_array_through_a_view_of_it() -> None:
    def build() -> Case:
        model, whole = nn.Linear(2, 3), np.zeros(3)
        part, buffer = whole[1:], bytearray(4)
        shown = memoryview(buffer)

        def step(x: Any) -> Any:
            y = model(x)
            part[0] += 1
            return (y * whole[1]).sum().detach()

        def with_buffer(x: Any) -> Any:
            y = model(x)
            shown[0] = shown[0] + 1
            return (y * buffer[0]).sum().detach()

        return Case(
            with_buffer if of_buffer else step, args=lambda turn: (torch.randn(3, 2),), look=lambda: (whole, [*buffer])
        )

    of_buffer = False
    agree(build)
    of_buffer = True
    with pytest.raises(CompileError, match="stores into `shown`"):
        agree(build)
