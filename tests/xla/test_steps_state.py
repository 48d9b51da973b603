"""Python state that steps and hooks share: a trace leaves it alone, and hooks on the host find it as at their turn."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, agree, differences, seen
from undertow import nn, optim
from undertow._src.compile import CompileError

case = Cases()


@pytest.mark.parametrize("name", case)
def test_state_is_that_of_eager_mode(name: str) -> None:
    agree(case[name], steps=5)


def one(turn: int) -> tuple[Any, ...]:
    return (torch.full((3,), 0.5 + 0.25 * turn),)


class Settings:
    count = 0


class Slotted:
    __slots__ = ("count",)


def _counting(kind: str) -> tuple[Callable[[], Any], Callable[[], None]]:
    """A counter kept in some kind of place: what it is now, and a function that counts."""
    containers: dict[str, Any] = {
        "dict": {"n": 0}, "list": [0], "counter": collections.Counter(n=0), "array": np.zeros(1, np.int64),
        "defaultdict": collections.defaultdict(int, n=0), "deque": collections.deque([0]),
    }  # fmt: skip
    entries: Any = containers.get(kind)
    key: Any = 0 if kind in ("list", "array", "deque") else "n"
    nonlocal_count = 0
    held = types.SimpleNamespace(count=0, inner={"n": 0}, text="", pair=(0, "a"), flag=False, share=1.0)
    slotted: Any = Slotted()
    slotted.count = 0
    kinds: Any = type("Kinds", (Settings,), {"count": 0})

    def count_entry() -> None:
        entries[key] += 1

    def count_nonlocal() -> None:
        nonlocal nonlocal_count
        nonlocal_count += 1

    def count_attribute() -> None:
        held.count += 1

    def count_slot() -> None:
        slotted.count += 1

    def count_class() -> None:
        kinds.count += 1

    def count_inner() -> None:
        held.inner["n"] = held.inner["n"] + 1

    def lengthen() -> None:
        held.text += "a"

    def renew_pair() -> None:
        held.pair = (held.pair[0] + 1, "b")

    def halve() -> None:
        held.share *= 0.5

    others: dict[str, tuple[Callable[[], Any], Callable[[], None]]] = {
        "nonlocal": (lambda: nonlocal_count, count_nonlocal),
        "attribute": (lambda: held.count, count_attribute),
        "slot": (lambda: slotted.count, count_slot),
        "class": (lambda: kinds.count, count_class),
        "inner": (lambda: held.inner["n"], count_inner),
        "text": (lambda: len(held.text), lengthen),
        "pair": (lambda: held.pair[0], renew_pair),
        "float": (lambda: held.share, halve),
    }
    return others[kind] if kind in others else (lambda: int(entries[key]), count_entry)


KINDS = ("dict", "list", "counter", "defaultdict", "deque", "array", "nonlocal", "attribute", "slot", "class", "inner",
         "text", "pair", "float")  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_hook_sees_a_counter_that_the_step_computes_with(kind: str) -> None:
    def build() -> Case:
        weight, log = nn.Parameter(torch.ones(3)), list[Any]()
        now, count = _counting(kind)
        weight.register_hook(lambda gradient: log.append(now()))

        def step(x: Any) -> Any:
            (weight * x).sum().backward()
            count()
            (weight * x * now()).sum().backward()
            count()
            return now()

        return Case(step, weight, args=one, log=log, look=now)

    agree(build, steps=4)


@case
def a_hook_counts_and_another_one_stores_into_the_same_dict() -> Case:
    first, second, state = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3)), {"n": 0, "k": 0}

    def count(gradient: Any) -> None:
        state["n"] += 1

    def store(gradient: Any) -> None:
        state["k"] = 5

    first.register_hook(count)
    second.register_hook(store)

    def step(x: Any) -> Any:
        ((first + second) * x * state["n"]).sum().backward()
        return x * state["n"]

    return Case(step, first, second, args=one, look=lambda: dict(state))


@case
def the_name_of_a_phase_and_a_list_that_grows() -> Case:
    weight, held, log = nn.Parameter(torch.ones(3)), types.SimpleNamespace(phase="none", parts=[]), list[Any]()
    weight.register_hook(lambda gradient: log.append((held.phase, len(held.parts), gradient.sum().item())))

    def step(x: Any) -> Any:
        held.phase = "first"
        held.parts.append(x.shape[0])
        (weight * x).sum().backward()
        held.phase = "second"
        held.parts.append(len(held.parts))
        (weight * x * len(held.parts)).sum().backward()
        held.phase = "none"
        return held.parts[-1]

    return Case(step, weight, args=one, log=log, look=lambda: [held.phase, list(held.parts)])


@case
def optimizer_state_that_the_first_step_makes() -> Case:
    weight, log = nn.Parameter(torch.ones(3)), list[Any]()
    optimizer = optim.SGD([weight], lr=0.1, momentum=0.5)
    optimizer.register_step_pre_hook(lambda o, args, kwargs: log.append([len(each) for each in o.state.values()]))
    optimizer.register_step_post_hook(lambda o, args, kwargs: log.append([sorted(each) for each in o.state.values()]))

    def step(x: Any) -> None:
        optimizer.zero_grad()
        (weight * x).pow(2).sum().backward()
        optimizer.step()

    return Case(step, weight, optimizer, args=one, log=log)


@case
def entries_that_move_to_the_end() -> Case:
    table: dict[str, Any] = {"a": 1, "b": 2, "c": 3}

    def step(x: Any) -> Any:
        first = next(iter(table))
        table[first] = table.pop(first)
        return x * table[first]

    return Case(step, args=one, look=lambda: list(table.items()))


@case
def a_list_of_tensors_that_the_step_fills() -> Case:
    weight, cache, log = nn.Parameter(torch.ones(3)), list[Any](), list[Any]()
    weight.register_hook(lambda gradient: log.append((len(cache), cache[-1].sum().item())))

    def step(x: Any) -> Any:
        cache.append(x * 2)
        (weight * x).sum().backward()
        if len(cache) > 2:
            cache.pop(0)
        return len(cache)

    return Case(step, weight, args=one, log=log, look=lambda: list(cache))


@case
def a_hook_on_the_host_draws_between_draws_of_the_step() -> Case:
    weight, log = nn.Parameter(torch.ones(3)), list[Any]()
    weight.register_hook(lambda gradient: log.append(torch.rand(1).item()))

    def step(x: Any) -> Any:
        (weight * x * torch.rand(3)).sum().backward()
        return torch.rand(2)

    return Case(step, weight, args=one, log=log)


def test_draws_that_come_too_late_are_refused() -> None:
    weight, log = nn.Parameter(torch.ones(3)), list[Any]()
    source: dict[str, Any] = {"torch": torch, "log": log}
    exec("def draw(gradient):\n    log.append(torch.rand(1))", source)  # which can't be read
    weight.register_hook(source["draw"])

    @torch.compile
    def step(x: Any) -> Any:
        (weight * x).sum().backward()
        return torch.rand(2)

    with pytest.raises(
        CompileError, match=r"the hook draw .*draws random numbers, but the numbers that the step draws after"
    ):
        step(torch.ones(3))


def test_a_hook_without_source_finds_all_that_the_step_has_changed() -> None:
    def build() -> Case:
        weight, cache, log = nn.Parameter(torch.ones(3)), list[Any](), list[Any]()
        source: dict[str, Any] = {"cache": cache, "log": log}
        exec("def look(gradient):\n    log.append((len(cache), cache[-1].sum().item()))", source)
        weight.register_hook(source["look"])

        def step(x: Any) -> Any:
            cache.append(x * 2)
            (weight * x).sum().backward()
            return cache.pop()

        return Case(step, weight, args=one, log=log)

    agree(build, steps=4)


def _raising(build: Callable[[], tuple[Any, Callable[[], Any]]], compiled: bool, calls: int = 4) -> list[Any]:
    torch.manual_seed(0)
    step, look = build()
    with_indices = "indices" in step.__code__.co_varnames
    step = torch.compile(step) if compiled else step
    found: list[Any] = []
    for turn in range(calls):
        try:
            found.append(seen(step(*one(turn), *([torch.tensor([turn + 2])] if with_indices else ()))))
        except (ValueError, IndexError, KeyError, AssertionError) as error:
            found.append([type(error).__name__, str(error).partition("\n")[0]])  # pytest adds to what an assert says
        found.append([seen(look()), torch.get_rng_state().sum().item()])
    return found


def _raises_in_the_step() -> tuple[Any, Callable[[], Any]]:
    model, state, log = nn.Linear(3, 2), {"n": 0}, list[Any]()
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    model.weight.register_hook(lambda gradient: log.append(state["n"]))

    def step(x: Any) -> Any:
        state["n"] += 1
        log.append("begun")
        optimizer.zero_grad()
        (model(x) * torch.rand(2)).sum().backward()
        if state["n"] % 2 == 0:
            raise ValueError(f"at {state['n']}")
        optimizer.step()
        return state["n"]

    return step, lambda: [model, optimizer, dict(state), list(log)]


def _raises_in_a_traced_hook() -> tuple[Any, Callable[[], Any]]:
    model, state = nn.Linear(3, 2), {"n": 0}

    def check(gradient: Any) -> Any:
        if state["n"] > 2:
            raise KeyError("too often")
        return gradient * 2

    model.weight.register_hook(check)

    def step(x: Any) -> Any:
        state["n"] += 1
        model(x).sum().backward()
        return state["n"]

    return step, lambda: [model, dict(state)]


def _raises_for_an_index() -> tuple[Any, Callable[[], Any]]:
    table, log = nn.Embedding(4, 3), list[Any]()
    optimizer = optim.SGD(table.parameters(), lr=0.1)
    table.weight.register_hook(lambda gradient: log.append(gradient.sum().item()))

    def step(x: Any, indices: Any) -> Any:
        optimizer.zero_grad()
        (table(torch.tensor([1, 2])).sum() * x).sum().backward()
        optimizer.step()
        return table(indices).detach()

    return step, lambda: [table, optimizer, list(log)]


def _raises_in_a_hook_on_the_host() -> tuple[Any, Callable[[], Any]]:
    model, log = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.BatchNorm1d(3), nn.Linear(3, 2)), list[Any]()
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    model[3].weight.register_hook(lambda gradient: log.append(gradient.sum().item()))

    def check(parameter: Any) -> None:
        log.append(("checked", parameter.grad.norm().item() > 0))
        if len(log) > 4:
            raise ValueError(f"after {len(log)}")

    model[0].weight.register_post_accumulate_grad_hook(check)

    def step(x: Any) -> Any:
        log.append("begun") if len(log) == 2 else None
        optimizer.zero_grad()
        loss = model(x + torch.arange(12.0).view(4, 3)).pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, lambda: [model, optimizer, list(log)]


def _raises_while_the_program_waits() -> tuple[Any, Callable[[], Any]]:
    first, second, log = nn.Linear(3, 3), nn.Linear(3, 2), list[Any]()

    def halve(gradient: Any) -> Any:
        log.append(gradient.sum().item())
        return gradient / 2 if gradient.sum() > -1e9 else gradient

    def check(gradient: Any) -> Any:
        log.append("checked")
        if len(log) == 4:
            raise KeyError("here")
        return gradient * 2 if gradient.sum() > -1e9 else gradient

    second.weight.register_hook(halve)
    first.weight.register_hook(check)

    def step(x: Any) -> Any:
        second(first(x)).pow(2).sum().backward()
        return x.sum()

    return step, lambda: [first, second, list(log)]


def _raises_in_a_statement() -> tuple[Any, Callable[[], Any]]:
    model, losses = nn.Linear(3, 2), list[float]()
    optimizer = optim.Adam(model.parameters(), lr=3.0)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(2).sum()
        losses.append(loss.item())
        loss.backward()
        assert loss < 5, "it is large"
        optimizer.step()
        return loss.detach()

    return step, lambda: [model, optimizer, list(losses)]


def _handles_what_a_hook_raises() -> tuple[Any, Callable[[], Any]]:
    model, log = nn.Linear(3, 2), list[Any]()

    def stop(module: Any, args: Any, output: Any) -> None:
        log.append(output.sum().item())
        if len(log) == 2:
            raise ValueError("stop")

    model.register_forward_hook(stop)

    def step(x: Any) -> Any:
        try:
            loss = model(x).sum()
        except ValueError:
            loss = model.weight.sum()
        finally:
            log.append("done")
        loss.backward()
        return loss.detach()

    return step, lambda: [model, list(log)]


def _raises_after_writes_on_the_host() -> tuple[Any, Callable[[], Any]]:
    first, second, log, calls = nn.Linear(3, 3), nn.Linear(3, 2), list[Any](), dict[str, int]()

    def write(gradient: Any) -> None:
        log[-2:] = ["written"]
        gradient.add_(0.25)

    def check(gradient: Any) -> None:
        calls["n"] = calls.get("n", 0) + 1
        if calls["n"] == 3:
            raise KeyError("here")

    first.weight.register_hook(check)

    def step(x: Any) -> Any:
        log.append("begun")
        hidden = second(first(x))
        hidden.register_hook(write)
        torch.autograd.backward([hidden.pow(2).mean(), hidden.mean()])
        return x.sum()

    return step, lambda: [first, second, list(log), calls]


def _raises_after_a_gradient_was_given() -> tuple[Any, Callable[[], Any]]:
    model, calls = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 2)), {"hook": 0, "leaf": 0}

    def divide(gradient: Any) -> Any:
        calls["hook"] += 1
        return gradient / calls["hook"]

    def check(parameter: Any) -> None:
        calls["leaf"] = calls.get("leaf", 0) + 1
        if calls["leaf"] == 6:
            raise ValueError("here")

    model[2].weight.register_hook(divide)
    model[0].weight.register_post_accumulate_grad_hook(check)

    def step(x: Any) -> Any:
        model.zero_grad()
        model(x).pow(2).mean().backward()
        model(x).sum().backward()
        return x.sum()

    return step, lambda: [model, calls]


def _calls_a_hook_after_the_error() -> tuple[Any, Callable[[], Any]]:
    model, log, calls = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1)), list[Any](), list[int]()

    def stop(module: Any, args: Any) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise KeyError("stop")

    model.register_forward_hook(lambda module, args, output: log.append(output is None), always_call=True)
    model[1].register_forward_pre_hook(stop)

    def step(x: Any) -> Any:
        loss = model(x).sum()
        loss.backward()
        return loss.detach()

    return step, lambda: [model, list(log), list(calls)]


RAISING = [
    _raises_in_the_step, _raises_in_a_traced_hook, _raises_for_an_index, _raises_in_a_hook_on_the_host,
    _raises_while_the_program_waits, _raises_in_a_statement, _handles_what_a_hook_raises,
    _raises_after_writes_on_the_host, _raises_after_a_gradient_was_given, _calls_a_hook_after_the_error,
]  # fmt: skip


@pytest.mark.parametrize("build", RAISING)
def test_what_happens_before_an_error_happens(build: Any) -> None:
    found = differences(_raising(build, False), _raising(build, True))
    assert not found, "eager and compiled: " + "\n".join(found[:12])


def test_a_step_that_is_refused_has_changed_nothing() -> None:
    model, log = nn.Linear(3, 2), list[Any]()
    state: dict[str, Any] = {"n": 0, "entries": [1]}
    model.weight.register_hook(lambda gradient: state["entries"].append(2))

    @torch.compile
    def step(x: Any) -> Any:
        state["n"] += 1
        state["entries"].insert(0, state["n"])
        log.append(state["n"])
        loss = (model(x) * torch.rand(2)).sum()
        loss.backward()
        return model(x.unique())

    look = lambda: repr([seen(model), state, log, torch.get_rng_state().sum().item()])
    before = look()
    with pytest.raises(CompileError):
        step(torch.ones(3))
    assert look() == before
