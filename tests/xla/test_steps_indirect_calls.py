"""Code that a step calls without naming it: methods through `super()`, handlers of loggers, what threads run."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, agree
from undertow import nn
from undertow._src.compile import CompileError

case = Cases()


def given(turn: int) -> tuple[Any, ...]:
    return (torch.ones(2) * (turn + 1),)


class Notes:
    def __init__(self) -> None:
        self.values: list[Any] = []

    def note(self, name: str, value: Any) -> None:
        self.values.append((name, value.item()))


@case
def a_method_through_super() -> Case:
    class Twice(Notes):
        def note(self, name: str, value: Any) -> None:
            super().note(name, value)
            super().note(f"twice {name}", value * 2)

    notes = Twice()

    def step(x: Any) -> Any:
        notes.note("sum", x.sum())
        return x * 2

    return Case(step, args=given, log=notes.values)


@case
def a_class_method_through_super() -> Case:
    class Base:
        values: list[float] = []

        @classmethod
        def note(cls, value: Any) -> None:
            cls.values.append(value.item())

    class Noting(Base):
        values: list[float] = []

        @classmethod
        def note(cls, value: Any) -> None:
            super().note(value)

    def step(x: Any) -> Any:
        Noting.note(x.sum())
        return x * 2

    return Case(step, args=given, log=Noting.values)


@case
def a_forward_through_super() -> Case:
    class Base(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 1)
            self.means: list[float] = []

        def note(self, out: Any) -> None:
            self.means.append(out.mean().item())

        def forward(self, x: Any) -> Any:
            return self.layer(x)

    class Noting(Base):
        def forward(self, x: Any) -> Any:
            out = super().forward(x)
            super().note(out)
            return out

    layer = Noting()
    return Case(lambda x: layer(x).sum(), layer, args=given, log=layer.means)


class Keeping(logging.Handler):
    def __init__(self, act: Callable[[str], Any]) -> None:
        super().__init__()
        self.act = act

    def emit(self, record: logging.LogRecord) -> None:
        self.act(record.getMessage())


def logger_with(handler: logging.Handler) -> logging.Logger:
    logger = logging.Logger("undertow.tests")
    logger.addHandler(handler)
    return logger


@case
def a_handler_that_keeps_messages() -> Case:
    messages: list[str] = []
    logger = logger_with(Keeping(messages.append))

    def step(x: Any) -> Any:
        logger.info("sum %.1f", x.sum().item())
        return x * 2

    return Case(step, args=given, log=messages)


@case
def a_thread_that_appends() -> Case:
    log: list[int] = []

    def step(x: Any) -> Any:
        thread = threading.Thread(target=log.append, args=(1,))
        thread.start()
        thread.join()
        return x * 2

    return Case(step, args=given, log=log)


@pytest.mark.parametrize("name", case)
def test_it_is_called_in_each_call(name: str) -> None:
    agree(case[name], steps=4, programs=1)


def test_a_handler_that_changes_what_the_step_reads() -> None:
    state = {"count": 0}

    def count(message: str) -> None:
        state["count"] += 1

    logger = logger_with(Keeping(count))

    @torch.compile
    def step(x: Any) -> Any:
        logger.info("a call")
        return x * state["count"]

    with pytest.raises(CompileError, match=r"Logger\.info"):
        step(torch.ones(2))
    assert state["count"] == 0


class Holding:
    """What a model is reached through."""

    model: Any = None


def through_a_weak_reference(model: Any) -> Any:
    return weakref.ref(model)


def through_a_proxy(model: Any) -> Any:
    proxy = weakref.proxy(model)
    return lambda: proxy


def through_a_weak_dict(model: Any) -> Any:
    table = weakref.WeakValueDictionary(model=model)
    return lambda: table["model"]


def through_a_made_name(model: Any) -> Any:
    held, parts = Holding(), ["mod", "el"]
    held.model = model
    return lambda: getattr(held, "".join(parts))


@pytest.mark.parametrize(
    "through", [through_a_weak_reference, through_a_proxy, through_a_weak_dict, through_a_made_name]
)
def test_a_model_that_the_code_does_not_name_is_trained_in_the_program(through: Callable[[Any], Any]) -> None:
    def build() -> Case:
        model, log = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2)), list[Any]()
        optimizer, reached = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5), through(model)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            y = reached()(x)
            loss = y.pow(2).mean()
            loss.backward()
            optimizer.step()
            log.append(loss.item())
            return loss.detach()

        return Case(step, model, optimizer, args=given, log=log)

    agree(build)


def test_a_thread_that_changes_what_the_step_reads() -> None:
    seen: list[int] = []

    @torch.compile
    def step(x: Any) -> Any:
        thread = threading.Thread(target=lambda: seen.append(1))
        thread.start()
        thread.join()
        return x * len(seen)

    with pytest.raises(CompileError, match="threads outside of the step"):
        step(torch.ones(2))
    assert not seen
