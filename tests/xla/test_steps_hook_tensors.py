"""Tensors that only hooks reach, wherever they find them: what a hook writes is written, and values are asked for anew."""

from __future__ import annotations

import collections
import contextvars
import functools
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn
from undertow.compiler import CompileError


class Slotted:
    __slots__ = ("t",)

    def __init__(self, t: Any) -> None:
        self.t = t


class Keeper:
    def __init__(self, t: Any) -> None:
        self._t = t

    @property
    def t(self) -> Any:
        return self._t

    def __getitem__(self, key: Any) -> Any:
        return self._t

    def update(self) -> None:
        self._t.data.mul_(0.9)


def scaled(t: Any, factor: float = 0.9) -> None:
    t.data.mul_(factor)


def all_scaled(tensors: Any) -> None:
    for t in tensors:
        t.data.mul_(0.9)


def slotted(t: Any) -> Callable[[Any], Any]:
    holder = Slotted(t)
    return lambda g: scaled(holder.t)


def in_class(t: Any) -> Callable[[Any], Any]:
    class Holder:
        kept = t

    return lambda g: scaled(Holder.kept)


def in_variable(t: Any) -> Callable[[Any], Any]:
    variable: Any = contextvars.ContextVar("variable")
    variable.set(t)
    return lambda g: scaled(variable.get())


def by_reference(t: Any) -> Callable[[Any], Any]:
    kept, reference = [t], weakref.ref(t)
    return lambda g: scaled(reference()) if kept else None


# What makes a hook on a gradient of a tensor.
WRITES: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "data": lambda t: lambda g: t.data.mul_(0.9),
    "detach": lambda t: lambda g: scaled(t.detach()),
    "itself": lambda t: lambda g: t.mul_(0.9),
    "parameter": lambda t: lambda g: scaled(nn.Parameter(t)),
    "list": lambda t: (lambda kept: lambda g: all_scaled(kept))([t]),
    "entry": lambda t: (lambda kept: lambda g: scaled(kept["a"]))({"a": t}),
    "values": lambda t: (lambda kept: lambda g: all_scaled(kept.values()))({"a": t}),
    "deque": lambda t: (lambda kept: lambda g: all_scaled(kept))(collections.deque([t])),
    "set": lambda t: (lambda kept: lambda g: all_scaled(kept))({t}),
    "object in a list": lambda t: (lambda kept: lambda g: scaled(kept[0].t))([SimpleNamespace(t=t)]),
    "deeper": lambda t: (lambda kept: lambda g: scaled(kept["x"][0]["y"]))({"x": [{"y": t}]}),
    "attribute by name": lambda t: (lambda kept: lambda g: scaled(getattr(kept, "t")))(SimpleNamespace(t=t)),  # noqa: B009
    "property": lambda t: (lambda kept: lambda g: scaled(kept.t))(Keeper(t)),
    "item of an object": lambda t: (lambda kept: lambda g: scaled(kept[0]))(Keeper(t)),
    "method": lambda t: (lambda kept: lambda g: kept.update())(Keeper(t)),
    "partial": lambda t: (lambda kept: lambda g: kept(0.9))(functools.partial(scaled, t)),
    "slot": slotted, "class": in_class, "context variable": in_variable, "weak reference": by_reference,
    "foreach": lambda t: (lambda kept: lambda g: torch._foreach_mul_([each.data for each in kept], 0.9))([t]),
    "average": lambda t: lambda g: t.data.mul_(0.9).add_(g.detach().mean(), alpha=0.1),
    "part": lambda t: lambda g: t.data.__setitem__(0, g.sum()),
}  # fmt: skip
READS: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "item": lambda t: lambda g: g * t.sum().item(),
    "float": lambda t: lambda g: g * float(t[0]),
    "numpy": lambda t: lambda g: g * float(t.numpy()[0]),
    "array": lambda t: lambda g: g * float(np.asarray(t)[0]),
    "tolist": lambda t: lambda g: g * sum(t.tolist()),
    "condition": lambda t: lambda g: g * 2 if t.sum() > 3 else g,
    "entry": lambda t: (lambda kept: lambda g: g * kept["a"][0].item())({"a": t}),
    "object": lambda t: (lambda kept: lambda g: g * kept.t[0].item())(Keeper(t)),
}


def trained(hook: Any, kept: Any) -> Case:
    model = nn.Linear(3, 2)
    model.weight.register_hook(hook)

    def step(x: Any) -> Any:
        model.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        return loss

    def change(turn: int) -> None:
        if turn == 1:
            kept.add_(1)

    args = lambda turn: (torch.full((2, 3), 0.5 + turn),)
    return Case(step, model, args=args, between=change, look=lambda: [kept, model.weight.grad])


@pytest.mark.parametrize("prints", [False, True], ids=["in the program", "on the host"])
@pytest.mark.parametrize("name", [*WRITES, *(f"read {name}" for name in READS)])
def test_a_tensor_that_only_a_hook_reaches(name: str, prints: bool, capsys: pytest.CaptureFixture[str]) -> None:
    def build() -> Case:
        kept = torch.ones(3)
        hook = READS[name.removeprefix("read ")](kept) if name.startswith("read ") else WRITES[name](kept)

        def noisy(g: Any) -> Any:
            print("noisy")
            return hook(g)

        def quiet(g: Any) -> None:
            hook(g)

        def noisy_and_quiet(g: Any) -> None:
            print("noisy")
            hook(g)

        if name.startswith("read "):
            return trained(noisy if prints else hook, kept)
        return trained(noisy_and_quiet if prints else quiet, kept)

    agree(build, steps=4)


def test_a_gradient_that_is_a_view_shows_its_base_as_eager_mode_does() -> None:
    """Under create_graph the base is in the graph, too: a hook on the host must not take it for a leaf."""

    def build() -> Case:
        model, log = nn.Linear(2, 3), list[Any]()

        def hook(g: Any) -> None:
            base = g._base
            log.append((g.is_leaf, g.requires_grad, base is not None and (base.is_leaf, base.requires_grad)))

        model.weight.register_hook(hook)

        def step(x: Any) -> Any:
            loss = model(x).pow(2).sum()
            (gradient,) = torch.autograd.grad(loss, [model.weight], create_graph=True)
            gradient.pow(2).sum().backward()

        return Case(step, model, args=lambda turn: (torch.full((2, 2), 0.5),), log=log)

    agree(build)


def test_a_hook_on_the_host_that_writes_into_a_view_in_the_graph_is_refused() -> None:
    model, state = nn.Linear(2, 3), {"n": 0, "factor": 0.5}

    def write(g: Any) -> None:
        g.mul_(state["factor"])

    def count(g: Any) -> None:
        state["n"] += 1

    model.weight.register_hook(write)
    model.bias.register_hook(count)

    def step(x: Any) -> Any:
        loss = model(x).pow(2).sum()
        (gradient,) = torch.autograd.grad(loss, [model.weight], create_graph=True)
        (loss + gradient.pow(2).sum()).backward()

    with pytest.raises(CompileError, match="wrote into a tensor"):
        torch.compile(step)(torch.ones(2, 2))


@pytest.mark.parametrize("what", ["argument", "computed", "entry of a list"])
def test_a_tensor_that_the_step_leaves_for_a_hook_is_no_reason_to_compile_again(what: str) -> None:
    """The hook is part of the program; what it reads is there in each call before its turn."""

    def build() -> Case:
        model, state = nn.Linear(2, 3), dict[str, Any](last=None, all=[])

        def hook(g: Any) -> Any:
            last: Any = state["all"][-1] if what == "entry of a list" else state["last"]
            return g + last.mean()

        def step(x: Any) -> Any:
            y = model(x)
            state["last"] = x if what == "argument" else y.detach()
            state["all"][:] = [y.detach()]
            y.register_hook(hook)
            y.pow(2).sum().backward()

        return Case(step, model, args=lambda turn: (torch.full((2, 2), 0.5 + turn),))

    agree(build, steps=5, programs=2)
