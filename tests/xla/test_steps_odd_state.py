"""State in places that few programs use: class attributes, default arguments, containers with attributes, what a hook is
given. A compiled step leaves there what eager code leaves, and after an error nothing of its trace."""

from __future__ import annotations

import functools
from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, agree
from undertow import nn
from undertow._src.base import tracer
from undertow._src.compile import CompileError, CompileWarning
from undertow._src.compile.callbacks.containers import contents_of

case = Cases()
Pair = namedtuple("Pair", "a b")


class Tagged(tuple):
    pass


class TaggedPair(Pair):
    pass


def hooked(hook: Any, look: Any) -> Case:
    """A step whose only hook is on a leaf."""
    weight = nn.Parameter(torch.ones(2))
    weight.register_hook(hook)

    def step(x: Any) -> None:
        weight.grad = None
        (weight * x).sum().backward()

    return Case(step, weight, args=lambda turn: (torch.ones(2) * (turn + 1),), look=look)


@case
def attributes_of_a_class() -> Case:
    class State:
        last: Any = None
        count = 0
        table: dict[str, Any] = {}

    def hook(gradient: Any) -> None:
        State.last = gradient * 2
        State.table["last"] = gradient

    return hooked(hook, lambda: [State.last, State.table])


@case
def attributes_of_a_class_by_a_method_of_it() -> Case:
    class State:
        last: Any = None
        count = 0

        @classmethod
        def hook(cls, gradient: Any) -> Any:
            cls.count += 1
            cls.last = gradient * 2
            return gradient * 3

    return hooked(State.hook, lambda: [State.last, State.count])


@case
def attributes_of_a_metaclass() -> Case:
    class Meta(type):
        last: Any = None

    class State(metaclass=Meta):
        pass

    def hook(gradient: Any) -> None:
        Meta.last = gradient * 2

    return hooked(hook, lambda: [State.last])


@case
def slots() -> Case:
    class State:
        __slots__ = ("count", "last")

    state: Any = State()
    state.count = 0

    def hook(gradient: Any) -> None:
        state.count += 1
        state.last = gradient * 2

    return hooked(hook, lambda: [state.count, state.last])


@case
def a_default_argument() -> Case:
    log: list[int] = []

    def hook(gradient: Any, memory: dict[str, int] = {}) -> Any:  # noqa: B006
        memory["count"] = memory.get("count", 0) + 1
        log.append(memory["count"])
        return gradient * 2

    return hooked(hook, lambda: [*log, *hook.__defaults__])  # type: ignore[misc]


@case
def inside_a_default_argument_of_a_partial() -> Case:
    log: list[int] = []

    def hook(factor: int, gradient: Any, memory: list[dict[str, int]] = [{}]) -> Any:  # noqa: B006
        memory[0]["count"] = memory[0].get("count", 0) + factor
        log.append(memory[0]["count"])
        return gradient * factor

    return hooked(functools.partial(hook, 3), lambda: list(log))


@case
def a_tuple_with_attributes_is_returned() -> Case:
    def step(x: Any) -> Any:
        made: Any = Tagged((x * 2,))
        made.more = x * 3
        pair: Any = TaggedPair(x, x * 4)
        pair.more = [x * 5]
        return made, pair

    return Case(lambda x: [[*made, made.more] for made in step(x)], args=lambda turn: (torch.ones(2) * turn,))


@case
def a_frozen_leaf_without_a_gradient() -> Case:
    weight, frozen = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2), requires_grad=False)
    frozen.grad = torch.ones(2)
    plain = torch.ones(2)

    def step(x: Any) -> None:
        weight.grad = frozen.grad = plain.grad = x.grad = None
        (weight * frozen * plain * x).sum().backward()

    return Case(step, weight, frozen, plain, args=lambda turn: (torch.ones(2) * turn,))


@case
def state_of_an_optimizer_that_is_no_dict() -> Case:
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def step(x: Any) -> None:
        optimizer.zero_grad()
        (weight * x).sum().backward()
        optimizer.step()
        optimizer.state["last"] = x * 2

    return Case(step, weight, args=lambda turn: (torch.ones(2) * turn,), look=lambda: optimizer.state["last"])


@pytest.mark.parametrize("name", case)
def test_as_eager_code_leaves_it(name: str, recwarn: pytest.WarningsRecorder) -> None:
    agree(case[name], steps=4)
    assert not recwarn.list  # a step that ran eagerly warns


def test_the_tuples_are_what_they_are() -> None:
    @torch.compile
    def step(x: Any) -> Any:
        made: Any = TaggedPair(x, x * 4)
        made.more = x * 3
        return made

    step(torch.ones(2))
    made = step(torch.ones(2))
    assert type(made) is TaggedPair and made.b.tolist() == [4, 4] and vars(made)["more"].tolist() == [3, 3]


# --- what a hook is given


class Cache:
    def __init__(self) -> None:
        self.last: Any = None
        self.items: list[Any] = []

    def update(self, x: Any) -> None:
        self.last = x
        self.items.append(x)


class Reader(nn.Module):
    """A module that reads what its pre-hook may have changed."""

    def forward(self, x: Any, cache: Any, items: Any, table: Any) -> Any:
        return x * 2, 0 if cache.last is None else cache.last, len(cache.items), [*items], sorted(table)


log: list[Any] = []


def sets(module: Any, args: Any) -> None:
    args[1].last = args[0] * 3


def calls(module: Any, args: Any) -> None:
    args[1].update(args[0] * 3)


def reaches_inside(module: Any, args: Any) -> None:
    args[1].items.append(args[0] * 3)


def appends(module: Any, args: Any) -> None:
    args[2].append(args[0] * 3)
    log.append("appended")


def stores(module: Any, args: Any) -> None:
    args[3]["last"] = args[0]


def sets_and_notes(module: Any, args: Any) -> None:
    args[1].last = args[0]
    log.append("set")


@pytest.mark.parametrize("made", ["inside", "outside"])
@pytest.mark.parametrize("hook", [sets, calls, reaches_inside, appends, stores, sets_and_notes])
def test_a_hook_changes_what_it_is_given(hook: Any, made: str) -> None:
    def build() -> Case:
        log.clear()
        model = Reader()
        model.register_forward_pre_hook(hook)
        world = SimpleNamespace(cache=Cache(), items=[], table={})

        def inside(x: Any) -> Any:
            return model(x, Cache(), [], {})

        def outside(x: Any) -> Any:
            return model(x, world.cache, world.items, world.table)

        step = inside if made == "inside" else outside
        return Case(
            step, args=lambda turn: (torch.ones(1) * turn,), look=lambda: [*log, *world.items, len(world.table)]
        )

    try:
        agree(build, steps=3)
    except CompileError as error:
        assert hook is sets_and_notes or (hook is appends and made == "outside"), error
        assert "test_steps_odd_state.py" in str(error) and hook.__name__ in str(error)


def test_a_hook_adds_to_the_state_dict() -> None:
    def build() -> Case:
        layer = nn.Linear(2, 1)

        def hook(module: Any, state: Any, prefix: str, metadata: Any) -> None:
            state["more"] = torch.zeros(1)

        layer._register_state_dict_hook(hook)
        return Case(lambda: (sorted(layer.state_dict()), len(layer.state_dict())))

    agree(build)


# --- what a trace leaves when it ends early


@pytest.mark.parametrize("how", ["value", "interrupt"])
def test_nothing_of_a_trace_that_ends_early_stays(how: str) -> None:
    class State:
        last: Any = "before"

        def __init__(self) -> None:
            self.kept: Any = "before"

    state, table, items = State(), {"kept": "before"}, ["before"]
    weight: Any = nn.Parameter(torch.ones(2))

    def hook(gradient: Any) -> None:
        State.last = gradient * 2
        table["hook"] = gradient

    weight.register_hook(hook)

    def step(x: Any) -> Any:
        (weight * x).sum().backward()
        state.kept = table["kept"] = items[0] = x * 2
        if how == "interrupt":
            raise KeyboardInterrupt
        return torch.unique(x)

    before = [[part[1:] for part in contents_of(each)] for each in (state, table, items)]
    with pytest.raises(CompileError if how == "value" else KeyboardInterrupt):
        torch.compile(step)(torch.ones(2))
    assert [[part[1:] for part in contents_of(each)] for each in (state, table, items)] == before
    assert State.last == "before" and weight.grad is None
    (weight * 2).sum().backward()  # nothing of the program is in the way
    left: list[Any] = [weight.grad, State.last]
    assert [each.tolist() for each in left] == [[2, 2], [4, 4]]


def test_a_step_that_ends_the_program_has_done_what_comes_before() -> None:
    saved: list[Any] = []

    @torch.compile
    def step(x: Any, last: bool) -> Any:
        saved.append(x.sum().item())
        if last:
            saved.append("goodbye")
            raise SystemExit(3)
        return x * 2

    step(torch.ones(2), False)
    with pytest.raises(SystemExit, match="3"):
        step(torch.ones(2), True)
    assert saved == [2.0, 2.0, "goodbye"]


def test_an_error_of_the_trace_alone_is_told() -> None:
    @torch.compile
    def step(x: Any) -> Any:
        if tracer.current is not None:
            raise ValueError("only in a trace")
        return x * 2

    with pytest.warns(CompileWarning, match=r"'only in a trace'\) at .*test_steps_odd_state.py:\d+"):
        assert step(torch.ones(2)).tolist() == [2, 2]


def test_what_jax_raises_names_the_line() -> None:
    def step(x: Any) -> Any:
        return np.asarray(x._array.buffer.value)  # past all that undertow watches

    with pytest.raises(CompileError, match=r"test_steps_odd_state.py:\d+, .*only the running program knows"):
        torch.compile(step)(torch.ones(2))


def test_an_argument_of_a_class_without_a_hash() -> None:
    class Meta(type):
        def __eq__(cls, other: object) -> bool:
            return cls is other

    class Scale(metaclass=Meta):
        factor = 3

    with pytest.raises(CompileError, match="can't be hashed"):
        torch.compile(lambda x, scale: x * scale.factor)(torch.ones(2), Scale())


def test_an_argument_that_holds_itself() -> None:
    items: list[Any] = [torch.ones(2)]
    items.append(items)
    with pytest.raises(CompileError, match="contains itself"):
        torch.compile(lambda items: items[0] * 2)(items)
