"""Python around a step: what its code reads is read at every call, and what it changes is changed at every call."""

from __future__ import annotations

import functools
import types
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, agree
from undertow import nn, optim
from undertow._src.compile import CompileError, compiled

case = Cases()


@pytest.mark.parametrize("name", case)
def test_agrees(name: str) -> None:
    agree(case[name])


def one(turn: int) -> tuple[Any, ...]:
    return (torch.full((3,), 1.0 + turn),)


def reading(step: Any, between: Any) -> Case:
    """A step that depends on something that changes between calls."""
    return Case(step, args=one, between=between, look=lambda: None)


def writing(step: Any, look: Any) -> Case:
    """A step that changes something which is looked at after each call."""
    return Case(step, args=one, look=look)


SCALE = 1.0
CALLS = 0
LOG: list[int] = []
settings = types.ModuleType("settings")


class Config:
    scale = 1.0
    calls = 0


class Slotted:
    __slots__ = ("scale", "calls")

    def __init__(self) -> None:
        self.scale, self.calls = 1.0, 0


def change_global(turn: int) -> None:
    global SCALE
    SCALE += 1


class Scaled(nn.Module):
    def forward(self, x: Any) -> Any:
        global CALLS
        CALLS += 1
        return x * SCALE


@case
def a_global_read_by_forward() -> Case:
    global SCALE
    SCALE = 1.0
    model = Scaled()
    return reading(lambda x: model(x), change_global)


@case
def a_global_counted_by_forward() -> Case:
    global CALLS
    CALLS = 0
    model = Scaled()
    return writing(lambda x: model(x), lambda: CALLS)


class Stepper:
    def scaled(self, x: Any) -> Any:
        return x * SCALE

    def __call__(self, x: Any) -> Any:
        return self.scaled(x)


@case
def a_global_read_by_a_method() -> Case:
    global SCALE
    SCALE = 1.0
    return reading(Stepper(), change_global)


@case
def a_class_attribute() -> Case:
    Config.scale, Config.calls = 1.0, 0

    def step(x: Any) -> Any:
        Config.calls += 1
        return x * Config.scale

    return Case(step, args=one, between=lambda turn: setattr(Config, "scale", 2.0 + turn), look=lambda: Config.calls)


@case
def an_attribute_of_a_python_module() -> Case:
    settings.scale = 1.0  # type: ignore[attr-defined]
    return reading(lambda x: x * settings.scale, lambda turn: setattr(settings, "scale", 2.0 + turn))


@case
def slots() -> Case:
    held = Slotted()

    def step(x: Any) -> Any:
        held.calls += 1
        return x * held.scale

    return Case(step, args=one, between=lambda turn: setattr(held, "scale", 2.0 + turn), look=lambda: held.calls)


@case
def a_set() -> Case:
    names: set[Any] = set()

    def step(x: Any) -> Any:
        names.add(len(names))
        return x * (2 if "on" in names else 1)

    return Case(step, args=one, between=lambda turn: names.add("on"), look=lambda: sorted(map(str, names)))


@case
def a_deque_of_tensors() -> Case:
    last: deque[Any] = deque(maxlen=2)

    def step(x: Any) -> Any:
        last.append(x.sum())
        return sum(last)

    return writing(step, lambda: list(last))


@case
def an_array_as_memory() -> Case:
    array = np.ones(3, np.float32)

    def between(turn: int) -> None:
        array[0] += 1

    return reading(lambda x: x * torch.from_numpy(array), between)


@case
def a_large_numpy_array_that_is_computed_with() -> Case:
    array = np.ones((10000, 3), np.float32)

    def last(of: Any) -> Any:
        return torch.tensor(of[-1])

    def change(turn: int) -> None:
        array[-1, turn] = 5

    return reading(lambda x: x * array.mean() + last(array), change)


@case
def a_large_array_as_memory() -> Case:
    array = np.ones((10000, 3), np.float32)

    def between(turn: int) -> None:
        array[7] += 1

    return reading(lambda x: x * torch.from_numpy(array[5:])[2], between)


@case
def a_large_array_as_an_argument() -> Case:
    array = np.ones((10000, 3), np.float32)

    def between(turn: int) -> None:
        array[7] += 1

    return Case(lambda x: torch.as_tensor(x)[7] * 2, args=lambda turn: (array,), between=between, look=lambda: None)


@case
def memory_of_an_array_that_is_written_to() -> Case:
    array = np.ones(3, np.float32)
    tensor = torch.from_numpy(array)

    def step(x: Any) -> Any:
        tensor.add_(x)
        return x * 2

    return writing(step, lambda: array.copy())


@case
def an_array_as_numbers() -> Case:
    array = np.ones(3)

    def step(x: Any) -> Any:
        array[1] += 1
        return x * float(array[0])

    def between(turn: int) -> None:
        array[0] += 1

    return Case(step, args=one, between=between, look=lambda: array.copy())


@case
def keys_of_a_dict() -> Case:
    held = {"a": 2.0}

    def between(turn: int) -> None:
        held.clear()
        held["b" if turn % 2 == 0 else "a"] = 2.0

    return reading(lambda x: x * held.get("a", 3.0), between)


def innermost(x: Any) -> Any:
    return x * SCALE


def many_calls(depth: int) -> Any:
    function = innermost
    for _ in range(depth):
        function = functools.partial(lambda inner, x: inner(x), function)
    return function


@case
def a_global_behind_many_calls() -> Case:
    global SCALE
    SCALE = 1.0
    function = many_calls(12)
    return reading(lambda x: function(x), change_global)


@case
def a_value_behind_many_objects() -> Case:
    inner = holder = types.SimpleNamespace(scale=1.0)
    for _ in range(9):
        holder = types.SimpleNamespace(inner=holder)

    def step(x: Any) -> Any:
        found = holder
        while hasattr(found, "inner"):
            found = found.inner
        return x * found.scale

    return reading(step, lambda turn: setattr(inner, "scale", 2.0 + turn))


def trained(model: Any, optimizer: Any, x: Any) -> Any:
    optimizer.zero_grad()
    loss = model(x).pow(2).sum()
    loss.backward()
    optimizer.step()
    return loss


def slower(optimizer: Any) -> Any:
    def between(turn: int) -> None:
        optimizer.param_groups[0]["lr"] *= 0.5

    return between


@case
def a_partial_step() -> Case:
    model = nn.Linear(3, 2)
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    return Case(functools.partial(trained, model, optimizer), model, args=one, between=slower(optimizer))


@case
def a_compiled_step_inside() -> Case:
    model = nn.Linear(3, 2)
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    inner = torch.compile(functools.partial(trained, model, optimizer))
    return Case(lambda x: inner(x) * 2, model, optimizer, args=one, between=slower(optimizer))


@case
def a_global_that_the_step_makes() -> Case:
    globals().pop("MADE", None)

    def step(x: Any) -> None:
        global MADE
        MADE = x * 2  # type: ignore[name-defined]

    return writing(step, lambda: globals()["MADE"])


@case
def a_variable_without_a_value() -> Case:
    def step(x: Any) -> Any:
        return unset if SCALE == -1.0 else x * 2

    if SCALE == -1.0:
        unset = None
    return writing(step, lambda: None)


class Logged(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        LOG.append(len(LOG))
        return gradient * 2


@case
def a_list_in_the_backward_of_a_function() -> Case:
    LOG.clear()
    weight = torch.ones(3, requires_grad=True)

    def step(x: Any) -> Any:
        Logged.apply(weight * x).sum().backward()

    return writing(step, lambda: [list(LOG), weight])


class Draws:
    stream = torch.Generator()


@case
def a_generator_in_a_class() -> Case:
    Draws.stream.manual_seed(3)
    return writing(lambda x: x + torch.randn(3, generator=Draws.stream), lambda: None)


class Wrapping(optim.Optimizer):
    """An optimizer around another one, which shares its groups."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})
        self.inner = optim.Adam(self.param_groups, lr=0.1)
        self.param_groups = self.inner.param_groups
        self.factor = 1.0

    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad.mul_(self.factor * group.get("extra", 1))
        self.inner.step()


@case
def an_optimizer_of_the_users() -> Case:
    model = nn.Linear(3, 2)
    optimizer = Wrapping(model.parameters())

    def between(turn: int) -> None:
        optimizer.factor *= 2
        optimizer.param_groups[0]["lr"] *= 0.5
        optimizer.param_groups[0]["extra"] = 3 + turn

    return Case(functools.partial(trained, model, optimizer), model, optimizer.inner, args=one, between=between)


@case
def learning_rates_of_all_types() -> Case:
    model = nn.Linear(3, 2)
    optimizer = optim.Adam(model.parameters(), lr=0.1)

    def between(turn: int) -> None:
        optimizer.param_groups[0]["lr"] = [torch.tensor(0.2), torch.tensor(0.05), 1][turn]

    return Case(functools.partial(trained, model, optimizer), model, args=one, between=between)


def test_hooks_for_all_optimizers_are_seen_when_they_come_and_go() -> None:
    model, fired = nn.Linear(3, 2), []
    step = torch.compile(functools.partial(trained, model, optim.SGD(model.parameters(), lr=0.1)))
    step(*one(0))
    handle = optim.optimizer.register_optimizer_step_post_hook(lambda *given: fired.append(1))
    step(*one(1))
    handle.remove()
    step(*one(2))
    assert fired == [1]


def test_a_step_that_always_compiles_again_does_not_keep_all_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "MOST", 2)
    held = types.SimpleNamespace(scale=0)

    @torch.compile
    def step(x: Any) -> Any:
        return x * held.scale

    for held.scale in range(4):
        assert step(torch.ones(1)).item() == held.scale
    assert len(torch.compile.explain(step).data[0]["programs"]) == 2


def test_an_array_that_is_written_to_after_a_tensor_was_made_of_it() -> None:
    def step(x: Any, make: Any) -> Any:
        array = np.zeros(3, np.float32)
        for place in range(3):
            array[place] = place + 1
            x = x + make(array)
        return x

    assert torch.compile(step)(torch.zeros(3), torch.tensor).tolist() == [3.0, 4.0, 3.0]
    with pytest.raises(CompileError, match=r"then writes to the array.*torch.tensor\(array\)"):
        torch.compile(step)(torch.zeros(3), torch.from_numpy)

    def large(x: Any) -> Any:
        array = np.zeros(5_000_000, np.float32)
        x = x + torch.from_numpy(array).sum()
        array[-1] = 7.0
        return x

    with pytest.raises(CompileError, match="then writes to the array"):
        torch.compile(large)(torch.zeros(3))


def test_a_tensor_over_an_array_that_the_step_made_is_written_to() -> None:
    """Whoever holds the array would see that."""

    def of_parts(x: Any) -> Any:
        array = np.zeros((2, 3), np.float32)
        torch.from_numpy(array[1]).add_(x)
        return torch.tensor(array).sum()

    def of_two(x: Any) -> Any:
        array = np.zeros(3, np.float32)
        one, other = torch.from_numpy(array), torch.from_numpy(array)
        del array
        one.add_(x)
        return other.sum()

    def of_bytes(x: Any) -> Any:
        held = bytearray(12)
        torch.frombuffer(held, dtype=torch.float32).add_(x)
        return torch.frombuffer(held, dtype=torch.float32).sum()

    for step in (of_parts, of_two, of_bytes):
        with pytest.raises(CompileError, match=r"at .*test_steps_python.py:\d+ the step writes to a tensor over"):
            torch.compile(step)(torch.ones(3))

    def alone(x: Any) -> Any:
        tensor = torch.from_numpy(np.zeros((2, 3), np.float32))
        tensor[0].add_(x)
        return tensor.sum()

    step = torch.compile(alone)
    assert [step(torch.ones(3)).item() for _ in range(2)] == [3.0, 3.0]


def test_what_is_noted_on_tensors_and_what_a_hook_sees_of_optimizers() -> None:
    def build() -> Case:
        weight, mask, log = nn.Parameter(torch.ones(3)), torch.ones(3), list[Any]()
        optimizer = optim.Adam([weight], lr=0.1)
        optimizer.register_step_post_hook(lambda o, args, kwargs: log.append(len(o.state)))

        def step(x: Any) -> None:
            optimizer.zero_grad()
            (weight * x * getattr(mask, "scale", 1.0)).sum().backward()
            if getattr(weight, "share", None) is not None:
                weight.grad.mul_(weight.share)
            optimizer.step()

        def between(turn: int) -> None:
            weight.share = {1: 0.5, 2: -2.0}.get(turn)
            if turn == 3:
                mask.scale = -3.0

        return Case(step, weight, args=lambda turn: (torch.full((3,), 1.0 + turn),), between=between, log=log)

    agree(build, steps=4)


@dataclass
class Inner:
    weights: Any
    share: float = 1.0


@dataclass
class Batch:
    x: Any
    inner: Inner
    kind: str = "mean"
    notes: list[float] = field(default_factory=list)


def test_dataclasses_count_by_what_they_hold() -> None:
    def build() -> Case:
        weight = nn.Parameter(torch.ones(3))

        def step(batch: Batch) -> Any:
            assert isinstance(batch, Batch)
            weight.grad = None
            loss = getattr(weight * batch.x * batch.inner.weights * batch.inner.share, batch.kind)()
            loss.backward()
            return loss, batch.inner

        def args(turn: int) -> tuple[Any, ...]:
            return (
                Batch(torch.full((3,), 1.0 + turn), Inner(torch.rand(3), 0.5 * turn), "sum" if turn == 3 else "mean"),
            )

        return Case(step, weight, args=args)

    agree(build, steps=5, programs=4)


def test_one_that_the_step_changes_is_itself() -> None:
    def build() -> Case:
        weight, state = nn.Parameter(torch.ones(3)), Batch(torch.zeros(3), Inner(torch.ones(3)))

        def step(state: Batch, x: Any) -> Any:
            state.x = state.x + x
            state.inner.share *= 0.5
            loss = (weight * state.x).sum() * state.inner.share
            state.notes.append(loss.item())
            return loss

        return Case(step, weight, args=lambda turn: (state, *one(turn)), look=lambda: [state.x, state.notes])

    agree(build, steps=4, programs=2)


class PlainBatch:
    def __init__(self, x: Any, scale: float) -> None:
        self.x, self.scale, self.parts = x, scale, {"y": x + 1}
        self.me: Any = None

    def total(self) -> Any:
        return self.x.sum() * self.scale + self.parts["y"].sum()


def of_two(first: PlainBatch, second: PlainBatch) -> Any:
    return first.total() if first is second else first.total() - second.total()


KEPT: dict[Any, int] = {}


def kept_by_batch(first: PlainBatch, second: PlainBatch) -> Any:
    KEPT[first] = KEPT.get(second, 0) + 1
    return first.total()


def changed(first: PlainBatch, second: PlainBatch) -> Any:
    first.scale += 1
    return first.total()


@pytest.mark.parametrize("step", [of_two, lambda first, second: first, kept_by_batch, changed])
def test_objects_that_each_call_brings_anew(step: Any) -> None:
    compiled_step, found = torch.compile(step), list[Any]()
    for function in (step, compiled_step):
        KEPT.clear()
        for turn in range(4):
            first, second = (PlainBatch(torch.full((2,), turn + n), turn) for n in (1.0, 2.0))
            result = function(first, second)
            assert (result is first) is isinstance(result, PlainBatch) and (first in KEPT) is (step is kept_by_batch)
            found.append((first.scale, isinstance(result, PlainBatch) or result.item()))
    assert found[:4] == found[4:]
    assert (len(compiled_step.causes) < 2) is (step is of_two)


def test_objects_that_are_one_or_hold_themselves() -> None:
    step = torch.compile(of_two)
    for scale in (1.0, 2.0):
        one, two = PlainBatch(torch.ones(2), scale), PlainBatch(torch.ones(2), 3.0)
        assert step(one, two).item() == of_two(one, two).item()
        assert step(one, one).item() == of_two(one, one).item()
        one.me = one
        assert step(two, one).item() == of_two(two, one).item()


def test_an_array_among_the_arguments_is_named_as_the_cause() -> None:
    step = torch.compile(lambda a: torch.from_numpy(a) * 2)
    assert [step(np.full(2, turn, np.float32))[0].item() for turn in range(2)] == [0.0, 2.0]
    assert step.causes == ["a is another ndarray than before. Give the step a tensor instead, from_numpy of it"]
