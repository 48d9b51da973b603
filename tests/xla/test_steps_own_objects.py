"""Objects that the step makes and its hooks fill: what a hook on the host puts there, the trace does not see."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn
from undertow.compiler import CompileError


class Collector:
    """What a user collects features in, as a context manager."""

    def __init__(self, model: Any) -> None:
        self.model, self.handles = model, list[Any]()
        self.n, self.out, self.last = 0, None, 0.0
        self.seen: Any = collections.OrderedDict()
        self.table: dict[Any, Any] = {}
        self.values, self.recent, self.nested = list[Any](), collections.deque[Any](maxlen=3), {"a": list[Any]()}
        self.names = set[Any]()

    def __enter__(self) -> Any:
        for place in (1, 2):
            self.handles.append(self.model[place].register_forward_hook(functools.partial(self.see, place)))
        return self

    def __exit__(self, *error: Any) -> None:
        for handle in self.handles:
            handle.remove()
        self.handles.clear()

    def see(self, place: int, module: Any, inputs: Any, output: Any) -> None:
        raise NotImplementedError

    def summary(self) -> Any:
        return len(self.table) + len(self.values) + self.n


class Values(Collector):
    def see(self, place: int, module: Any, inputs: Any, output: Any) -> None:
        self.values.append(output.norm().item())


class Numbers(Collector):
    def see(self, place: int, module: Any, inputs: Any, output: Any) -> None:
        self.table[place] = output.norm().item()


class Names(Collector):
    def see(self, place: int, module: Any, inputs: Any, output: Any) -> None:
        self.names.add(round(output.norm().item(), 3))


class Recent(Collector):
    def see(self, place: int, module: Any, inputs: Any, output: Any) -> None:
        self.recent.append(output.norm().item())


class Nested(Collector):
    def see(self, place: int, module: Any, inputs: Any, output: Any) -> None:
        self.nested["a"].append(output.norm().item())


class Counter(Collector):
    def see(self, place: int, module: Any, inputs: Any, output: Any) -> None:
        self.n += 1
        print(end="")


class Last(Collector):
    def see(self, place: int, module: Any, inputs: Any, output: Any) -> None:
        self.last = output.norm().item()


class Ordered(Collector):
    def see(self, place: int, module: Any, inputs: Any, output: Any) -> None:
        self.seen[place] = output
        self.seen.move_to_end(place, last=False)


class Popped(Collector):
    def see(self, place: int, module: Any, inputs: Any, output: Any) -> None:
        self.table[place] = output
        self.table[0] = None
        self.table.pop(0)


def use(kind: type[Collector], read: Callable[[Any], Any]) -> Case:
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))

    def step(x: Any) -> Any:
        model.zero_grad()
        with kind(model) as features:
            y = model(x)
        loss = (y * (1 + read(features))).pow(2).mean()
        loss.backward()
        return loss.detach()

    return Case(step, model, args=lambda turn: (torch.randn(3, 2),))


@pytest.mark.parametrize(
    ("kind", "read"),
    [
        (Values, lambda features: sum(features.values)),
        (Values, lambda features: features.summary()),
        (Values, lambda features: len(vars(features)["values"])),
        (Values, lambda features: len(getattr(features, "values"))),  # noqa: B009
        (Numbers, lambda features: sum(features.table.values())),
        (Names, lambda features: len(features.names)),
        (Recent, lambda features: len(features.recent)),
        (Nested, lambda features: len(features.nested["a"])),
        (Counter, lambda features: features.n),
        (Last, lambda features: features.last),
    ],
)
def test_a_step_that_reads_what_a_hook_on_the_host_puts_there_is_refused(kind: Any, read: Any) -> None:
    with pytest.raises(CompileError, match="which the step itself has made and reads"):
        agree(lambda: use(kind, read))


@pytest.mark.parametrize(
    ("kind", "read"),
    [
        (Ordered, lambda features: sum(each.mean() for each in features.seen.values())),
        (Popped, lambda features: sum(each.mean() for each in features.table.values())),
    ],
)
def test_hooks_that_only_keep_tensors_are_traced(kind: Any, read: Any) -> None:
    agree(lambda: use(kind, read))


def made(store: Any) -> Any:
    def hook(module: Any, inputs: Any, output: Any) -> None:
        store.append(output.norm().item())

    return hook


def added(store: Any, module: Any, inputs: Any, output: Any) -> None:
    store.append(output.norm().item())


def of_closure(store: Any) -> Any:
    return lambda module, inputs, output: store.append(output.norm().item())


def of_default(store: Any) -> Any:
    def hook(module: Any, inputs: Any, output: Any, store: Any = store) -> None:
        store.append(output.norm().item())

    return hook


def of_partial(store: Any) -> Any:
    return functools.partial(added, store)


@pytest.mark.parametrize("hook_of", [made, of_closure, of_default, of_partial])
@pytest.mark.parametrize("shape", ["list", "pair", "dict"])
def test_a_list_of_the_step_that_a_hook_fills_is_not_read_in_the_trace(hook_of: Any, shape: str) -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh())

    def step(x: Any) -> Any:
        seen: list[Any] = []
        held: Any = {"list": seen, "pair": (1, seen), "dict": {"seen": seen}}[shape]
        handle = model[0].register_forward_hook(hook_of(seen))
        y = model(x)
        handle.remove()
        found = held if shape == "list" else held[1] if shape == "pair" else held["seen"]
        return (y * (1 + sum(found))).sum().detach()

    with pytest.raises(CompileError):
        agree(lambda: Case(step, model, args=lambda turn: (torch.randn(3, 2),)))


def test_statements_on_the_host_read_what_hooks_put_there() -> None:
    def build() -> Case:
        model, log = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2)), list[Any]()

        def step(x: Any) -> Any:
            with Values(model) as features:
                y = model(x)
            log.append([round(each, 3) for each in features.values])
            return y.sum().detach()

        return Case(step, model, args=lambda turn: (torch.randn(3, 2),), log=log)

    agree(build)
