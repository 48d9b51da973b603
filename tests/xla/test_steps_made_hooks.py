"""Hooks that the step makes hold its tensors: an argument, or what it computes. Each call has others."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn
from undertow.compiler import CompileError

Hook = Callable[[Any], Any]
Make = Callable[[Any, list[Any]], Hook]


def noting(log: list[Any], tensor: Any, g: Any) -> Any:
    log.append(tensor.sum().item())
    return g * 0.5


class Holder:
    def __init__(self, tensor: Any, log: list[Any]) -> None:
        self.tensor, self.log = tensor, log

    def __call__(self, g: Any) -> Any:
        return noting(self.log, self.tensor, g)


def closure(tensor: Any, log: list[Any]) -> Hook:
    return lambda g: noting(log, tensor, g)


def without_answer(tensor: Any, log: list[Any]) -> Hook:
    def hook(g: Any) -> None:
        log.append(tensor.sum().item())

    return hook


def nested_function(tensor: Any, log: list[Any]) -> Hook:
    def hook(g: Any) -> Any:
        def inner() -> Any:
            return noting(log, tensor, g)

        return inner()

    return hook


def default(tensor: Any, log: list[Any]) -> Hook:
    def hook(g: Any, tensor: Any = tensor) -> Any:
        return noting(log, tensor, g)

    return hook


def keyword_default(tensor: Any, log: list[Any]) -> Hook:
    def hook(g: Any, *, tensor: Any = tensor) -> Any:
        return noting(log, tensor, g)

    return hook


def tuple_as_default(tensor: Any, log: list[Any]) -> Hook:
    def hook(g: Any, pair: Any = (tensor, 1)) -> Any:
        return noting(log, pair[0], g)

    return hook


def partial_call(tensor: Any, log: list[Any]) -> Hook:
    return functools.partial(lambda tensor, g: noting(log, tensor, g), tensor)


def partial_of_partial(tensor: Any, log: list[Any]) -> Hook:
    return functools.partial(functools.partial(lambda name, tensor, g: noting(log, tensor, g), "name"), tensor)


def a_list(tensor: Any, log: list[Any]) -> Hook:
    held = [tensor]
    return lambda g: noting(log, held[0], g)


def a_dict(tensor: Any, log: list[Any]) -> Hook:
    held = {"tensor": tensor}
    return lambda g: noting(log, held["tensor"], g)


def a_tuple(tensor: Any, log: list[Any]) -> Hook:
    held = (tensor, 1)
    return lambda g: noting(log, held[0], g)


def a_list_in_a_tuple(tensor: Any, log: list[Any]) -> Hook:
    held = ([tensor], 1)
    return lambda g: noting(log, held[0][0], g)


def called_object(tensor: Any, log: list[Any]) -> Hook:
    return Holder(tensor, log)


def object_in_a_closure(tensor: Any, log: list[Any]) -> Hook:
    held = Holder(tensor, log)
    return lambda g: noting(log, held.tensor, g)


MAKES = [
    closure, without_answer, nested_function, default, keyword_default, tuple_as_default, partial_call, partial_of_partial,
    a_list, a_dict, a_tuple, a_list_in_a_tuple, called_object, object_in_a_closure,
]  # fmt: skip


def step_with(make: Make, which: str) -> Callable[[], Case]:
    def build() -> Case:
        model, log = nn.Linear(2, 3), list[Any]()

        def step(x: Any) -> Any:
            y = model(x)
            tensor = {"argument": x, "view of it": x[0], "computed": y.detach()}[which]
            y.register_hook(make(tensor, log))
            y.pow(2).mean().backward()

        return Case(step, model, args=lambda turn: (torch.full((2, 2), 0.5 + turn),), log=log)

    return build


@pytest.mark.parametrize("which", ["argument", "view of it", "computed"])
@pytest.mark.parametrize("make", MAKES, ids=lambda make: make.__name__)
def test_a_hook_finds_the_tensors_of_its_call(make: Make, which: str) -> None:
    agree(step_with(make, which), steps=4, programs=2)


def counts_in_a_list(state: dict[str, int], log: list[Any]) -> Hook:
    seen: list[Any] = []

    def hook(g: Any) -> None:
        seen.append(g.sum().item())
        log.append(len(seen))

    return hook


def counts_in_an_attribute(state: dict[str, int], log: list[Any]) -> Hook:
    class Counting:
        def __init__(self) -> None:
            self.n = 0

        def __call__(self, g: Any) -> None:
            self.n += 1
            log.append(self.n)

    return Counting()


class Counter:
    def __init__(self) -> None:
        self.n = 0

    def count(self, log: list[Any]) -> None:
        self.n += 1
        log.append(self.n)


def counts_in_an_object(state: dict[str, int], log: list[Any]) -> Hook:
    counter = Counter()
    return lambda g: counter.count(log)


def a_number_in_a_dict(state: dict[str, int], log: list[Any]) -> Hook:
    held = {"n": state["n"], "twice": state["n"] * 2}
    return lambda g: log.append((held["n"], type(held["twice"]).__name__))


def a_number_in_a_tuple(state: dict[str, int], log: list[Any]) -> Hook:
    held = (state["n"],)
    return lambda g: log.append((held[0], type(held[0]).__name__))


@pytest.mark.parametrize(
    "make",
    [counts_in_a_list, counts_in_an_object, a_number_in_a_dict, a_number_in_a_tuple],
    ids=lambda make: make.__name__,
)
def test_what_a_hook_changes_and_the_step_makes_begins_anew(make: Callable[..., Hook]) -> None:
    agree(hanging(make), steps=5)


def test_a_hook_that_counts_in_its_own_attribute_and_the_step_makes_is_refused() -> None:
    # The step calls code that undertow cannot follow, which might read the count.
    case = hanging(counts_in_an_attribute)()
    with pytest.raises(CompileError, match="which the step itself has made and reads"):
        torch.compile(case.step)(torch.ones(2, 2))


def hanging(make: Callable[..., Hook]) -> Callable[[], Case]:
    """A step that makes a hook on its output."""

    def build() -> Case:
        model, log, state = nn.Linear(2, 3), list[Any](), {"n": 0}

        def step(x: Any) -> Any:
            state["n"] += 1
            y = model(x)
            y.register_hook(make(state, log))
            y.pow(2).mean().backward()

        return Case(step, model, args=lambda turn: (torch.full((2, 2), 0.5 + turn),), log=log)

    return build


@pytest.mark.parametrize("which", ["argument", "computed"])
def test_a_default_of_another_function_is_refused(which: str) -> None:
    def make(tensor: Any, log: list[Any]) -> Hook:
        def inner(g: Any, tensor: Any = tensor) -> Any:
            return noting(log, tensor, g)

        return lambda g: inner(g)

    case = step_with(make, which)()
    with pytest.raises(CompileError, match="around a tensor"):
        torch.compile(case.step)(torch.ones(2, 2))


def test_a_hook_of_which_nothing_is_known_is_registered_in_the_program() -> None:
    """On the host the tensor is a copy, on which a hook would never fire."""

    def build() -> Case:
        model, log = nn.Linear(2, 3), list[Any]()

        def step(x: Any) -> Any:
            y = model(x)

            def hook(g: Any) -> Any:
                return noting(log, y.detach(), g)

            class Other:
                def __call__(self, g: Any) -> None:
                    log.append("other")

            y.register_hook(dict(hook=hook, other=Other())["hook"])  # noqa: C408 (a literal is read)
            y.pow(2).mean().backward()

        return Case(step, model, args=lambda turn: (torch.full((2, 2), 0.5 + turn),), log=log)

    agree(build, steps=4, programs=2)


def test_a_list_that_a_statement_in_the_program_changes_and_one_on_the_host() -> None:
    """What only a statement on the host changes is not guarded; one of the program's changes it too."""

    def build() -> Case:
        model, log, way = nn.Linear(2, 3), list[Any](), "program"

        def step(x: Any) -> Any:
            y = model(x)
            if way == "program":
                log.append(x.sum().item())
            elif way == "host":
                log.append(next(map(lambda each: each.sum().item(), [x])))  # noqa: C417 (a generator is read)
            else:

                class Unread:
                    held = x

                log.append(Unread.held.sum().item())
            y.pow(2).mean().backward()

        return Case(step, model, args=lambda turn: (torch.full((2, 2), 0.5 + turn),), log=log)

    agree(build, steps=4)


@pytest.mark.parametrize("what", ["register_hook(lambda g: g * 2)", "retain_grad()"])
def test_code_without_source_must_not_mark_tensors_on_the_host(what: str) -> None:
    marks = eval(f"lambda t: t.{what}")
    model, log = nn.Linear(2, 3), list[Any]()

    def step(x: Any) -> Any:
        y = model(x)
        log.append(y.detach().sum().item())
        marks(y)
        y.pow(2).mean().backward()

    with pytest.raises(CompileError, match="registers a hook on one"):
        torch.compile(step)(torch.ones(2, 2))
