"""Functions of the user that the standard library calls: if they do more than compute, a program would miss it."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextlib
import copy
import functools
import json
import statistics
import string
import sys
import threading
import types
import weakref
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

    if kind is Number or use is closed:  # which is followed
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


class Told:
    """Its methods print if it is loud; only Python, C code or the standard library calls them."""

    def __init__(self, loud: bool) -> None:
        self.loud = loud

    def tell(self, value: Any) -> Any:
        if self.loud:
            print("told")
        return value

    def __deepcopy__(self, memo: Any) -> Any:
        return self.tell(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.tell((Told, (self.loud,)))

    def __lt__(self, other: Any) -> bool:
        return bool(self.tell(False))

    def __str__(self) -> str:
        return str(self.tell("told"))

    def __getitem__(self, key: Any) -> Any:
        return self.tell("text")

    def key(self, value: Any) -> Any:
        return self.tell(value)

    def __enter__(self) -> None:
        self.tell(None)

    def __exit__(self, *error: Any) -> None:
        self.tell(None)


class Freed(Told):
    """One that prints when it is freed."""

    def __del__(self) -> None:
        self.tell(None)


class Entered(contextlib.ContextDecorator, Told):
    """One that may decorate a function."""


def freed(told: Told) -> float:
    other = Freed(told.loud)
    del other
    return 2.0


def forgotten(told: Told) -> float:
    value = Told(False)
    kept = weakref.ref(value, told.key)
    del value
    return 2.0 if kept() is None else 1.0


@pytest.mark.parametrize(
    "use",
    [
        lambda told: copy.deepcopy([told]) and 2.0,
        lambda told: copy.copy(told) and 2.0,
        lambda told: len("%s" % told),  # noqa: UP031
        lambda told: len(string.Template("$a").substitute(told)),
        lambda told: float(np.vectorize(told.key, otypes=[float])(np.ones(2)).sum()),
        lambda told: Entered(told.loud)(lambda: 2.0)(),
        lambda told: statistics.mean(map(told.key, [1.0, 2.0])),
        freed,
        forgotten,
    ],
)
def test_what_python_calls_by_itself(use: Any, capsys: pytest.CaptureFixture[str]) -> None:
    model, printed = nn.Linear(2, 3), []
    for loud in (False, True):
        told = Told(loud)
        step = torch.compile(lambda x: (model(x) * use(told)).sum().detach())
        try:
            for _ in range(3):
                step(torch.ones(3, 2))
                printed.append(capsys.readouterr().out)
        except CompileError as error:
            assert loud
            assert "that undertow can't follow, and it prints" in str(error) or "the step prints" in str(error)
            return
    assert printed[:3] == ["", "", ""]
    use(Told(True))
    assert printed[3:] == [capsys.readouterr().out] * 3  # statements of the methods have moved to the host


def test_what_functions_look_up_that_the_standard_library_calls() -> None:
    """Its globals and attributes may change between calls, and what it counts is counted."""
    STATE.update(factor=1.0, n=0)

    def build() -> Case:
        model, counted = nn.Linear(2, 3), Counted()
        STATE.update(factor=1.0, n=0)

        def step(x: Any) -> Any:
            with contextlib.closing(counted):
                y = model(x) * float(json.dumps(counted, default=looked_up)) * counted.twice()
            return (y * STATE["n"]).sum().detach()

        def between(turn: int) -> None:
            STATE["factor"] += 1
            counted.gain += 1

        return Case(step, args=lambda turn: (torch.randn(3, 2),), between=between, look=lambda: dict(STATE))

    agree(build, steps=4)


STATE: dict[str, float] = {}


def looked_up(value: Any) -> float:
    return STATE["factor"]


class Counted:
    gain = 1.0

    def scaled(self, by: float) -> float:
        return self.gain * by

    twice = functools.partialmethod(scaled, 2.0)

    def close(self) -> None:
        STATE["n"] += 1


@functools.cache
def announced(n: int) -> float:
    print("cached")
    return float(n)


class Table:
    @functools.cached_property
    def row(self) -> float:
        print("table")
        return 2.0


def test_what_a_cached_function_does_happens_once(capsys: pytest.CaptureFixture[str]) -> None:
    model, table = nn.Linear(2, 3), Table()
    announced.cache_clear()
    step = torch.compile(lambda x: (model(x) * announced(2) * table.row).sum().detach())
    for _ in range(3):
        step(torch.ones(1, 2))
    assert sorted(capsys.readouterr().out.split()) == ["cached", "table"]


def test_threads_and_coroutines_are_no_part_of_a_program() -> None:
    model = nn.Linear(2, 3)

    async def later() -> float:
        print(end="")
        return 2.0

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        steps = [lambda x: model(x) * pool.submit(print, end="").result(), lambda x: model(x) * asyncio.run(later())]
        for step in steps:
            with pytest.raises(CompileError, match="That would happen when the step is compiled"):
                torch.compile(step)(torch.ones(1, 2))


class Runner(threading.Thread):
    def run(self) -> None:
        STATE["n"] += 1


def test_a_step_starts_a_thread_of_a_class_of_the_user_in_each_call() -> None:
    def build() -> Case:
        model = nn.Linear(2, 3)
        STATE.update(n=0)

        def step(x: Any) -> Any:
            runner = Runner()
            runner.start()
            runner.join()
            return model(x).sum().detach()

        return Case(step, args=lambda turn: (torch.randn(3, 2),), look=lambda: dict(STATE))

    agree(build, steps=4)


class OnLines(json.JSONEncoder):
    def default(self, value: Any) -> Any:
        return sum([
            len(str(number))
            + (print(end="") is None)
            for number in (1, 2)
        ])  # fmt: skip


def encodes(x: Any) -> Any:
    return x * len(json.dumps([Number()], cls=OnLines))


def test_effects_on_lines_of_a_comprehension_are_seen() -> None:
    with pytest.raises(CompileError, match=r"OnLines\.default"):
        torch.compile(encodes)(torch.ones(2))


def test_effects_are_seen_under_a_trace_function() -> None:
    """As a debugger sets it."""
    before = sys.gettrace()
    sys.settrace(watching := lambda *event: None)
    try:
        with pytest.raises(CompileError, match=r"OnLines\.default"):
            torch.compile(encodes)(torch.ones(2))
        assert sys.gettrace() is watching
    finally:
        sys.settrace(before)
