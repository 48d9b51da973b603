"""Hooks that store what is there already: with something else there, put by the user between calls, they change it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn
from undertow.compiler import CompileError

Hook = Callable[[Any], None]


class Notes:
    """What hooks note down."""

    shared: Any = 0

    def __init__(self) -> None:
        self.n: Any = 0
        self.entries: dict[Any, Any] = {"n": 0, "other": 1}


class Slotted:
    """The same in slots."""

    __slots__ = ("n",)

    def __init__(self) -> None:
        self.n: Any = 0


ZERO, NAME = 0, "n"
STORES: dict[str, Callable[[Notes, Slotted], Hook]] = {
    "an attribute": lambda notes, slotted: lambda g: setattr(notes, "n", ZERO),
    "a slot": lambda notes, slotted: lambda g: setattr(slotted, "n", ZERO),
    "an attribute of a class": lambda notes, slotted: lambda g: setattr(Notes, "shared", ZERO),
    "the dict of an object": lambda notes, slotted: lambda g: vars(notes).update(n=ZERO),
    "an entry": lambda notes, slotted: lambda g: notes.entries.update(n=ZERO),
    "an entry by item": lambda notes, slotted: lambda g: notes.entries.__setitem__("n", ZERO),
    "an entry by a name": lambda notes, slotted: lambda g: notes.entries.__setitem__(NAME, ZERO),
    "an entry that is taken out": lambda notes, slotted: lambda g: notes.entries.pop("new", None) and None,
}


@pytest.mark.parametrize("what", STORES)
@pytest.mark.parametrize("several", [False, True], ids=["on a leaf", "on several leaves"])
def test_a_store_of_what_is_there_is_made_when_something_else_is(what: str, several: bool) -> None:
    def build() -> Case:
        notes, slotted, model = Notes(), Slotted(), nn.Linear(3, 2)
        Notes.shared = 0
        hook = STORES[what](notes, slotted)
        if several:
            torch.autograd.graph.register_multi_grad_hook([*model.parameters()], hook)
        else:
            model.weight.register_hook(hook)

        def step(x: Any) -> Any:
            model.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            return loss

        def between(turn: int) -> None:
            if turn in (1, 2):
                notes.n = slotted.n = Notes.shared = notes.entries["n"] = notes.entries["new"] = 5 + turn

        def look() -> Any:
            return notes.n, slotted.n, Notes.shared, dict(notes.entries)

        return Case(step, model, args=lambda turn: (torch.full((2, 3), 0.5 + turn),), between=between, look=look)

    agree(build, steps=5, programs=4)


def test_a_store_that_a_condition_leaves_out_stays_out() -> None:
    def build() -> Case:
        notes, model = Notes(), nn.Linear(3, 2)

        def hook(g: Any) -> None:
            if notes.entries["other"] > 1:
                notes.n = 0

        model.weight.register_hook(hook)

        def step(x: Any) -> Any:
            model.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            return loss

        def between(turn: int) -> None:
            notes.n = turn
            notes.entries["other"] = 2 if turn == 2 else 1

        return Case(step, model, args=lambda turn: (torch.ones(2, 3),), between=between, look=lambda: notes.n)

    agree(build, steps=5)


@pytest.mark.parametrize("start", [0, 2.5])
@pytest.mark.parametrize("times", [1, 2])
def test_a_variable_that_the_step_makes_begins_anew_on_the_host(start: Any, times: int) -> None:
    """A store that can't be followed has the hook that counts run on the host."""

    def build() -> Case:
        notes, model = Notes(), nn.Linear(3, 2)

        def stores(module: Any, inputs: Any) -> None:
            vars(notes)["n"] = 3

        def counting() -> Hook:
            calls = start

            def hook(g: Any) -> Any:
                nonlocal calls
                calls += 1
                return g / calls

            return hook

        model.register_forward_pre_hook(stores)

        def step(x: Any) -> Any:
            model.zero_grad()
            y = model(x)
            hook = counting()
            for _ in range(times):
                y.register_hook(hook)
            loss = y.pow(2).mean()
            loss.backward()
            return loss

        return Case(step, model, args=lambda turn: (torch.full((2, 3), 0.5 + turn),), look=lambda: notes.n)

    agree(build, steps=5)


def _through_vars(notes: Notes) -> None:
    vars(notes)["n"] = 3


def _through_dict(notes: Notes) -> None:
    notes.__dict__["n"] = 3


def _by_a_computed_name(notes: Notes) -> None:
    vars(notes)["".join(["n"])] = 3


def _updating(notes: Notes) -> None:
    vars(notes)["n"] += 3


@pytest.mark.parametrize("store", [_through_vars, _through_dict])
def test_stores_through_the_dict_of_an_object(store: Callable[[Notes], None]) -> None:
    """The step reads the attribute after a hook has set it that way."""

    def seen(compiled: bool) -> list[Any]:
        notes, model, found = Notes(), nn.Linear(3, 2), list[Any]()
        model.register_forward_hook(lambda module, inputs, output: store(notes))

        def step(x: Any) -> None:
            model(x).sum().backward()
            notes.entries["seen"] = notes.n

        called = torch.compile(step) if compiled else step
        for turn in range(4):
            notes.n = -turn
            called(torch.full((2, 3), 0.5 + turn))
            found.append((notes.n, notes.entries["seen"]))
        return found

    assert seen(True) == seen(False)


@pytest.mark.parametrize(("store", "said"), [(_updating, r"`notes\.n`"), (_by_a_computed_name, r"`notes\.__dict__`")])
def test_stores_through_the_dict_that_are_refused(store: Callable[[Notes], None], said: str) -> None:
    notes, model = Notes(), nn.Linear(3, 2)
    model.register_forward_hook(lambda module, inputs, output: store(notes))

    def step(x: Any) -> None:
        model(x)
        notes.entries["seen"] = notes.n

    with pytest.raises(CompileError, match=said):
        torch.compile(step)(torch.ones(2, 3))
    assert notes.n == 0 and "seen" not in notes.entries


def test_a_list_that_a_hook_in_the_program_shortens_is_guarded() -> None:
    """The hook is made by the step and writes to its gradient, so it is part of the program, with its stores."""

    def noted(compiled: bool) -> list[Any]:
        torch.manual_seed(0)
        log: list[Any] = []
        model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
        model[0].register_forward_hook(lambda module, inputs, output: log.append("forward"))

        def step(x: Any) -> None:
            y = model(x)

            def hook(g: Any) -> None:
                log.append("backward")
                log[-2:] = [0]
                g.mul_(0.5)

            y.register_hook(hook)
            y.pow(2).mean().backward()

        call = torch.compile(step) if compiled else step
        lengths = []
        for _ in range(4):
            call(torch.ones(4, 2))
            lengths.append(list(log))
        return lengths

    assert noted(compiled=True) == noted(compiled=False)
