"""Hooks on the host do not run at their turn in the step's Python code: where that could be seen the compile stops."""

from __future__ import annotations

import types
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn, optim
from undertow._src.compile import CompileError

x = torch.ones(3)


def refused(step: Any, *words: str) -> None:
    with pytest.raises(CompileError, match=r"the hook .*test_steps_turns.py:.*can't be compiled") as error:
        torch.compile(step)()
    assert all(word in str(error.value) for word in words), str(error.value)


def watched(hook: Any) -> Any:
    weight = torch.ones(3, requires_grad=True)
    weight.register_hook(hook)
    return weight


def test_a_list_that_the_step_and_a_hook_fill() -> None:
    log: list[str] = []
    weight = watched(lambda gradient: log.append("hook"))

    @torch.compile
    def step() -> None:
        log.append("before")
        (weight * x).sum().backward()
        log.append("after")

    for _ in range(3):
        step()
    assert log == ["before", "hook", "after"] * 3


def test_a_list_that_a_hook_fills_and_the_step_reads() -> None:
    def build() -> Case:
        outs: list[Any] = []
        layers = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
        layers[0].register_forward_hook(lambda module, args, out: outs.append(out))

        def step(turn: Any) -> Any:
            outs.clear()
            layers.zero_grad()
            loss = layers(x * turn).sum() + outs[0].pow(2).sum()
            loss.backward()
            return loss

        return Case(step, layers, args=lambda turn: (torch.tensor(turn),))

    agree(build, programs=2)


def test_a_list_of_values_that_a_hook_fills_and_the_step_reads() -> None:
    norms: list[Any] = []
    weight = watched(lambda gradient: norms.append(gradient.norm().item()))

    @torch.compile
    def step(scale: float) -> Any:
        (weight * x * scale).sum().backward()
        return norms[-1]  # and not an IndexError: the list is empty while the step is traced

    results = [step(scale) for scale in (1.0, 2.0, 3.0)]
    assert results == norms == pytest.approx([3**0.5, 2 * 3**0.5, 3 * 3**0.5])


def test_a_list_of_values_that_a_hook_fills_and_the_step_computes_with() -> None:
    norms: list[Any] = []
    weight = watched(lambda gradient: norms.append(gradient.norm().item()))

    def step() -> Any:
        (weight * x).sum().backward()
        return weight * norms[-1] + torch.ones(3)

    results = [torch.compile(step)() for _ in range(2)]
    assert all(torch.equal(result, torch.ones(3) * norm + 1) for result, norm in zip(results, norms)), results


def test_a_list_that_the_step_empties() -> None:
    norms: list[Any] = []
    weight = watched(lambda gradient: norms.append(gradient.norm()))

    @torch.compile
    def step() -> None:
        norms.clear()
        (weight * x).sum().backward()

    for _ in range(3):
        step()
        assert len(norms) == 1


def test_a_counter_that_the_step_reads() -> None:
    held = types.SimpleNamespace(calls=0)

    def count(gradient: Any) -> None:
        held.calls += 1

    weight = watched(count)

    def step() -> Any:
        loss = (weight * x).sum()
        loss.backward()
        return loss * held.calls

    refused(step, "held.calls")


def test_an_option_that_a_hook_changes_and_logs() -> None:
    weight, log = torch.ones(3, requires_grad=True), []
    optimizer = optim.SGD([weight], lr=0.1)

    def slower(optimizer: Any, args: Any, kwargs: Any) -> None:
        optimizer.param_groups[0]["lr"] *= 0.5
        log.append("slower")

    optimizer.register_step_pre_hook(slower)

    def step() -> None:
        (weight * x).sum().backward()
        optimizer.step()

    refused(step, "param_groups[0]")
    assert optimizer.param_groups[0]["lr"] == 0.1 and log == []


@pytest.mark.parametrize("change", [lambda lr: lr * 0.5, lambda lr: 0.01])
def test_an_option_that_a_hook_changes(change: Any) -> None:
    def build() -> Case:
        model = nn.Linear(3, 2)
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def other(optimizer: Any, args: Any, kwargs: Any) -> None:
            for group in optimizer.param_groups:
                group["lr"] = change(group["lr"])

        optimizer.register_step_pre_hook(other)

        def step() -> None:
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()

        return Case(step, model, optimizer, look=lambda: optimizer.param_groups[0]["lr"])

    agree(build, steps=4)


class Trainer:
    def __init__(self) -> None:
        self.weight = torch.ones(3, requires_grad=True)
        self.norms: list[float] = []
        self.calls = 0
        self.weight.register_hook(self.on_gradient)

    def on_gradient(self, gradient: Any) -> None:
        self.norms.append(gradient.norm().item())
        self.calls += 1

    def step(self) -> None:
        self.weight.grad = None
        (self.weight * x).sum().backward()


def test_what_hooks_note_in_the_steps_own_object_needs_no_other_program() -> None:
    trainer = Trainer()
    step = torch.compile(trainer.step)
    for _ in range(5):
        step()
    assert len(trainer.norms) == trainer.calls == 5
    assert len(torch.compile.explain(step).data[0]["recompiles"]) <= 1


def test_a_hook_that_takes_itself_out_and_is_met_again() -> None:
    log: list[int] = []

    def once(gradient: Any) -> None:
        log.append(1)
        handle.remove()

    weight = torch.ones(3, requires_grad=True)
    handle = weight.register_hook(once)

    def step() -> None:
        (weight * x).sum().backward()
        (weight * x).sum().backward()

    refused(step, "removes it, and it fires again")


def test_a_hook_on_arguments_and_keywords_that_also_logs() -> None:
    model, log = nn.Linear(3, 2), []  # type: Any, Any
    doubled: Any = lambda module, args, kwargs: log.append(1) or ((args[0] * 2,), kwargs)
    model.register_forward_pre_hook(doubled, with_kwargs=True)
    step = torch.compile(lambda: model(x))
    with torch.no_grad():
        results = [step() for _ in range(3)]
        model._forward_pre_hooks.clear()
        assert all(torch.allclose(result, model(x * 2)) for result in results) and log == [1, 1, 1]


class Recorded:
    """Setting an attribute runs code, in three ways."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    @property
    def value(self) -> Any:
        return None

    @value.setter
    def value(self, value: Any) -> None:
        self.log.append("property")


class Descriptor:
    def __set__(self, owner: Any, value: Any) -> None:
        owner.log.append("descriptor")


class WithDescriptor(Recorded):
    value = Descriptor()


class WithSetattr:
    def __init__(self) -> None:
        object.__setattr__(self, "log", [])

    def __setattr__(self, name: str, value: Any) -> None:
        self.log.append("setattr")  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [Recorded, WithDescriptor, WithSetattr])
def test_attributes_that_are_set_by_code(kind: Any) -> None:
    held = kind()

    def hook(gradient: Any) -> None:
        held.value = 3

    weight = watched(hook)
    step = torch.compile(lambda: (weight * x).sum().backward())
    for _ in range(3):
        step()
    assert len(held.log) == 3


def test_a_hook_without_a_module_name() -> None:
    names: dict[str, Any] = {"log": []}
    exec("def hook(gradient):\n    log.append(1)\n    return gradient * 2", names)
    weight = watched(names["hook"])
    step = torch.compile(lambda: (weight * x).sum().backward())
    for _ in range(3):
        step()
    assert len(names["log"]) == 3 and weight.grad.tolist() == [6.0] * 3


def test_what_is_noted_in_one_branch_makes_no_other_compile_again() -> None:
    seen: list[int] = []

    @torch.compile
    def step(x: Any, train: bool) -> Any:
        if not train:
            seen.append(len(x))
            return x
        return x * 2

    for turn in range(6):
        step(x, turn % 2 == 0)
    assert seen == [3, 3, 3] and len(torch.compile.explain(step).data[0]["programs"]) == 2


def test_an_object_that_hooks_inside_and_after_the_program_see() -> None:
    """Calls inside the program are made before all those after it, whatever their order in the trace."""

    def build() -> Case:
        layer, state, log, gradients = nn.Linear(2, 2), {"n": 0, "last": None}, [], {}

        def keep(gradient: Any) -> None:
            gradients["last"] = gradient.detach()

        def decide(gradient: Any) -> Any:
            return gradient if gradient.sum() < 0.2 else gradient.clone()

        def note(gradient: Any) -> None:
            log.append(round(gradient.sum().item(), 2))
            if state["n"] % 2 == 0:
                log.append(gradient.norm().item())

        for hook in (keep, decide, note):
            layer.weight.register_hook(hook)

        def step(x: Any) -> Any:
            y = layer(x)
            means: list[Any] = []
            y.register_hook(lambda gradient: means.append(gradient.detach().mean()))
            state["last"] = means
            loss = y.pow(2).mean()
            loss.backward()
            return loss.detach()

        return Case(step, layer, args=lambda turn: (torch.ones(3, 2),), log=[state, log, gradients])

    agree(build)


def test_a_tensor_that_hooks_inside_and_after_the_program_see() -> None:
    """The statement in between sees the new value first in the trace, and last in a call."""

    def build() -> Case:
        layer, state, noted, log = nn.Linear(2, 2), {"h": None}, [], []
        kept: list[Any] = []

        def decide(gradient: Any) -> Any:
            kept.append(state["h"])
            log.append(kept[-1].sum().item())
            log.append(kept[0].sum().item())
            return gradient if gradient.sum() < 0.2 else gradient.clone()

        layer.weight.register_hook(decide)

        def step(x: Any) -> Any:
            h = x * 1
            state["h"] = h
            layer(x).sum().backward()
            h.mul_(2)
            noted.append(str(h.tolist()))
            layer(x * 2).sum().backward()
            return h.sum().detach()

        return Case(step, layer, args=lambda turn: (torch.ones(3, 2) + turn,), log=[log, noted, kept])

    agree(build)
