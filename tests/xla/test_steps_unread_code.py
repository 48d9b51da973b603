"""Code that undertow can't read (in C, or without source) changes objects that the step reads afterwards."""

from __future__ import annotations

import bisect
import collections
import functools
import heapq
import io
import json
import operator
import re
import types
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn
from undertow.compiler import CompileError

T = TypeVar("T")


class Box(Generic[T]):
    def __init__(self) -> None:
        self.values: Any = []

    def append(self, value: Any) -> None:
        self.values.append(value)

    def __iter__(self) -> Any:
        return iter(self.values)


class Book:
    def __init__(self) -> None:
        self.table, self.recent = dict[str, Any](), collections.deque[float](maxlen=2)

    def append(self, value: Any) -> None:
        self.table["last"] = value
        self.recent.append(value)

    def __iter__(self) -> Any:
        return iter([*self.table.values(), *self.recent])


FLOATS, LIST = Box[float], list[float]


@pytest.mark.parametrize(
    ("make", "put"),
    [
        *[(make, type(make()).append) for make in (LIST, Box, FLOATS, lambda: Box[float](), Book)],
        (lambda: list[float](), lambda values, value: bisect.insort(values, value)),
        (list, lambda values, value: bisect.insort(values, value, key=abs)),
        (list, heapq.heappush),
        (list[float], lambda values, value: operator.iadd(values, [value])),
        (lambda: [0.0], lambda values, value: operator.setitem(values, 0, value)),
    ],
)
def test_a_step_reads_what_it_has_put_into_its_own_objects(make: Callable[[], Any], put: Any) -> None:
    def build() -> Case:
        model = nn.Linear(2, 3)

        def step(x: Any) -> Any:
            values = make()
            y = model(x)
            put(values, y.sum().item())
            return (y * (1 + sum(values))).sum().detach()

        return Case(step, model, args=lambda turn: (torch.randn(3, 2),))

    agree(build, steps=2)


SOURCELESS = """
class Meter:
    def __init__(self):
        self.values, self.last = [], 0.0
    def update(self, value):
        self.values.append(value.norm().item())
        self.last = value.mean().item()
    def mean(self):
        return sum(self.values) / max(len(self.values), 1)

def put(values, value):
    values.append(value.norm().item())

def made():
    values, n = [], 0
    def update(value):
        nonlocal n
        values.append(value.norm().item())
        n += 1
    def mean():
        return sum(values) + n
    return update, mean

VALUES, TOTAL = [], 0.0

def note(value):
    global TOTAL
    VALUES.append(value.norm().item())
    TOTAL += value.norm().item()

def noted():
    return sum(VALUES) + TOTAL
"""


def sourceless() -> types.SimpleNamespace:
    space: dict[str, Any] = {}
    exec(SOURCELESS, space)
    return types.SimpleNamespace(**{name: space[name] for name in ("Meter", "put", "made", "note", "noted")})


def older(of: Any, model: Any) -> Any:
    meter = of.Meter()
    return meter.update, meter.mean


def an_older_list(of: Any, model: Any) -> Any:
    meter = of.Meter()
    values = meter.values
    return meter.update, lambda: sum(values)


def given(of: Any, model: Any) -> Any:
    values: list[Any] = []
    return lambda y: of.put(values, y), lambda: sum(values)


def kept_in_a_model(of: Any, model: Any) -> Any:
    def update(y: Any) -> None:
        model.meter = of.Meter()
        model.meter.update(y)

    return update, lambda: model.meter.mean()


def of_closures(of: Any, model: Any) -> Any:
    return of.made()


def of_globals(of: Any, model: Any) -> Any:
    return of.note, of.noted


@pytest.mark.filterwarnings("ignore:the step calls")
@pytest.mark.parametrize("kind", [older, an_older_list, given, kept_in_a_model, of_closures, of_globals])
def test_a_step_reads_what_code_without_source_has_stored(kind: Any) -> None:
    def build() -> Case:
        model = nn.Linear(2, 3)
        update, mean = kind(sourceless(), model)

        def step(x: Any) -> Any:
            y = model(x)
            update(y)
            return (y * (1 + mean())).sum().detach()

        return Case(step, args=lambda turn: (torch.randn(3, 2),))

    agree(build)


@pytest.mark.filterwarnings("ignore:the step calls")
def test_a_step_reads_what_code_without_source_has_put_into_a_list_of_the_step() -> None:
    def build() -> Case:
        model, put = nn.Linear(2, 3), sourceless().put

        def step(x: Any) -> Any:
            held: dict[str, Any] = {"values": []}
            values = held["values"]
            y = model(x)
            put(held["values"], y)
            return (y * (1 + sum(values))).sum().detach()

        return Case(step, args=lambda turn: (torch.randn(3, 2),))

    agree(build)


def test_functions_of_harmless_modules_that_write_or_call_back() -> None:
    def build() -> Case:
        model, file, log = nn.Linear(2, 3), io.StringIO(), list[Any]()

        def noted(found: Any) -> str:
            print(found.group(), file=file)
            return "y"

        def step(x: Any) -> Any:
            json.dump({"a": 1}, file)
            log.append(re.sub("x", noted, "axb"))
            return model(x).sum().detach()

        return Case(step, log=log, args=lambda turn: (torch.randn(3, 2),), look=file.getvalue)

    agree(build)


def test_a_numpy_array_of_the_step_is_filled() -> None:
    def build() -> Case:
        model = nn.Linear(2, 3)

        def step(x: Any) -> Any:
            values = np.zeros(2)
            y = model(x)
            np.copyto(values, y.sum().item())
            return (y * (1 + values.sum())).sum().detach()

        return Case(step, args=lambda turn: (torch.randn(3, 2),))

    agree(build)


def test_a_cached_function_that_does_more_is_called_with_numbers_that_change() -> None:
    def build() -> Case:
        log, calls = list[Any](), [0]

        @functools.lru_cache(None)
        def doubled(n: int) -> int:
            log.append(n)
            return n * 2

        def step(x: Any) -> Any:
            calls[0] += 1
            return x * doubled(calls[0] % 2)

        return Case(step, args=lambda turn: (torch.randn(3, 2),), log=log)

    with pytest.raises(CompileError, match="the step calls `doubled`"):
        agree(build)


def running_mean() -> Any:
    total, n = 0.0, 0
    while True:
        value = yield total / max(n, 1)
        total, n = total + value, n + 1


def test_a_generator_is_advanced_on_the_host_or_not_at_all() -> None:
    def build(used: bool) -> Case:
        model, log, mean = nn.Linear(2, 3), list[Any](), running_mean()
        next(mean)

        def step(x: Any) -> Any:
            y = model(x)
            average = mean.send(y.mean().item())
            if average > 0.5:
                log.append("large")
            log.append(average)
            return y.sum().detach()

        def using(x: Any) -> Any:
            y = model(x)
            return (y * mean.send(y.mean().item())).sum().detach()

        return Case(using if used else step, args=lambda turn: (torch.randn(3, 2),), log=log)

    agree(lambda: build(False))
    with pytest.raises(CompileError, match=r"calls `mean\.send`.*keep the running value in an attribute"):
        agree(lambda: build(True))
