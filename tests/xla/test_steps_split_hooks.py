"""Hooks that are split between the program and the host: their parts run in eager mode's order, or not at all.

`tests/xla/test_logging_hooks.py` has the hooks that people write; here are those that a rewriting of code may get wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, differences, run
from undertow import nn, optim
from undertow._src.compile import CompileError
from undertow.nn.modules import module as modules
from undertow.overrides import TorchFunctionMode

hang = Cases()  # functions that hang hooks on a model with three layers; they may return what happens between calls
FACTORS = (1.0, 0.1, 3.0, 1.0, 0.01)  # of the inputs, so that values change sides
handles: list[Any] = []


@pytest.fixture(autouse=True)
def only_here() -> Iterator[None]:
    yield
    _remove_handles()


def _remove_handles() -> None:
    while handles:
        handles.pop().remove()


def trained(name: str) -> Case:
    log: list[Any] = []
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    between = hang[name](model, log)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return Case(step, model, args=batch, log=log, between=between)


def batch(turn: int) -> tuple[Any]:
    numbers = np.random.RandomState(turn).randn(2, 4) * FACTORS[turn]
    return (torch.tensor(numbers.astype(np.float32)),)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("name", hang)
def test_agrees(name: str) -> None:
    eager = run(lambda: trained(name), False, 5)
    _remove_handles()
    assert not differences(eager, run(lambda: trained(name), True, 5))


# --- variables that are set on the way


@hang
def set_in_one_of_two_ways(model: Any, log: Any) -> None:
    def hook(module: Any, args: Any, out: Any) -> None:
        norm: Any = -1
        if len(log) % 2 and (norm := out.norm().item()) > 0:
            pass
        log.append(norm)

    model[0].register_forward_hook(hook)


@hang
def set_in_a_branch_of_what_is_gone_through(model: Any, log: Any) -> None:
    def hook(module: Any, args: Any, out: Any) -> None:
        norm: Any = -1
        for _ in range(2) if len(log) % 2 == 0 else [(norm := out.norm().item())]:
            pass
        log.append(norm)

    model[0].register_forward_hook(hook)


@hang
def set_after_it_was_used(model: Any, log: Any) -> None:
    def hook(module: Any, args: Any, out: Any) -> None:
        norm = 1.0
        if norm < (norm := out.norm().item()):
            log.append(("more", norm))
        else:
            log.append(("less", norm))

    model[0].register_forward_hook(hook)


@hang
def computed_with_what_may_not_be_set(model: Any, log: Any) -> None:
    def hook(module: Any, args: Any, out: Any) -> None:
        last = torch.zeros(2)
        if (len(log) % 2 and (last := out.detach()).sum() > 0) or (last * 2 + 1).sum() > 3:
            log.append("yes")
        log.append(last)

    model[0].register_forward_hook(hook)


@hang
def set_by_a_function_that_it_calls(model: Any, log: Any) -> None:
    def hook(module: Any, args: Any, out: Any) -> None:
        norm = out.norm()

        def double() -> int:
            nonlocal norm
            norm = norm * 2
            return 1

        log.append((double(), (norm + 1).item()))

    model[0].register_forward_hook(hook)


@hang
def gradients_switched_by_a_variable(model: Any, log: Any) -> None:
    def hook(module: Any, args: Any, out: Any) -> None:
        records = False
        if len(log) % 2:
            records = True
            with torch.set_grad_enabled(records):
                log.append((out * 2).requires_grad)
        else:
            with torch.set_grad_enabled(records):
                log.append((out * 3).requires_grad)

    model[0].register_forward_hook(hook)


@hang
def a_default_that_is_changed_for_a_while(model: Any, log: Any) -> None:
    def hook(module: Any, args: Any, out: Any) -> None:
        torch.set_default_dtype(torch.float64)
        log.append(torch.ones(2) * out.detach().sum().item())
        torch.set_default_dtype(torch.float32)
        log.append(torch.ones(2) * out.detach().sum().item())

    model[0].register_forward_hook(hook)


@hang
def all_variables(model: Any, log: Any) -> None:
    def hook(module: Any, args: Any, out: Any) -> None:
        norm = out.norm().item()
        log.append("{norm:.3f}".format(**locals()))
        log.append((sorted(locals()), norm))
        log.append(eval("norm + 1"))

    model[0].register_forward_hook(hook)


# --- generators and comprehensions


@hang
def generators_that_are_asked_for_some(model: Any, log: Any) -> None:
    def first(rows: Any) -> Any:
        return next(rows)

    def hook(module: Any, args: Any, out: Any) -> None:
        log.append(next(row.norm().item() for row in out))
        log.append(first(row.norm().item() for row in out))
        log.append(type(row.norm().item() for row in out).__name__)
        norms = (row.norm().item() for row in out)
        log.append([next(norms), list(norms), list(norms)])

    model[0].register_forward_hook(hook)


@hang
def generators_that_are_gone_through(model: Any, log: Any) -> None:
    def hook(module: Any, args: Any, out: Any) -> None:
        log.append(any(row.norm() > 0.5 for row in out))
        log.append(max(((row.norm().item(), place) for place, row in enumerate(out)), key=lambda each: each[0]))
        log.extend(row.norm().item() for row in out)
        log.append("".join(f"{row.norm():.1e}" for row in out))

    model[0].register_forward_hook(hook)


@hang
def generators_that_are_kept(model: Any, log: Any) -> Any:
    kept: list[Any] = []
    model[0].register_forward_hook(lambda module, args, out: kept.append(row.norm().item() for row in out))
    return lambda turn: log.append((len(kept), type(kept[-1]).__name__, list(kept[-1])))


@hang
def names_that_comprehensions_share(model: Any, log: Any) -> None:
    def hook(module: Any, args: Any, out: Any) -> None:
        log.append([out.norm().item() for out in out])
        log.append([(lambda row: row + 1)(row.norm().item()) for row in out])
        log.append([each() for each in [lambda: row.norm().item() for row in out]])

    model[0].register_forward_hook(hook)


@hang
def tensors_made_in_a_loop(model: Any, log: Any) -> Any:
    fired, kept = [0], list[Any]()

    def hook(module: Any, args: Any, out: Any) -> None:
        fired[0] += 1
        for _ in range(fired[0] % 3):
            kept.append(out.detach() * 2)
            log.append((out * 2).norm().item())
        times = fired[0] % 3
        while times > 0:
            kept.append((out.detach() * 3).numpy())
            times -= 1

    def between(turn: int) -> None:
        kept[-1][0] = turn
        log.append([each.tolist() for each in kept])

    model[0].register_forward_hook(hook)
    return between


# --- one function in several hooks, or with several modules


@hang
def on_all_modules(model: Any, log: Any) -> None:
    def hook(module: Any, args: Any, out: Any) -> None:
        log.append((type(module).__name__, out.norm().item()))

    handles.append(modules.register_module_forward_hook(hook))


@hang
def backward_on_all_modules(model: Any, log: Any) -> None:
    handles.append(modules.register_module_full_backward_hook(lambda m, into, out: log.append(out[0].norm().item())))


@hang
def given_various_things(model: Any, log: Any) -> None:
    def note(name: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            log.append((name, value.norm().item()))
        elif isinstance(value, tuple):
            for each in value:
                note(name + "+", each)
        else:
            log.append((name, value))

    model[0].register_forward_hook(lambda module, args, out: note("output", out))
    model[1].register_forward_hook(lambda module, args, out: note("inputs", args))
    model[2].register_forward_hook(lambda module, args, out: note("rows", out.shape[0]))
    model[2].register_full_backward_hook(lambda module, into, out: note("gradients", (into, out)))


# --- numbers that change, with which work is not possible


@hang
def a_logarithm_of_what_turns_negative(model: Any, log: Any) -> Any:
    state = SimpleNamespace(number=1.5)
    model[0].register_forward_hook(
        lambda module, args, out: log.append((out * math.log(state.number)).sum().item() if state.number > 0 else "no")
    )

    def between(turn: int) -> None:
        state.number = (2.0, 3.0, -1.0, 0.0, 5.0)[turn]

    return between


@pytest.mark.parametrize("compiled", [False, True])
def test_a_step_whose_logarithm_fails(compiled: bool) -> None:
    """What comes before it happens, as in eager mode."""
    model, log, state = nn.Linear(4, 2), list[Any](), SimpleNamespace(number=1.5)

    def step(x: Any) -> Any:
        log.append(state.number)
        return model(x).sum() * math.log(state.number)

    run: Any = torch.compile(step) if compiled else step
    numbers = (1.5, 2.5, 3.5, -1.0, 0.0, 4.5)
    for state.number in numbers:
        try:
            run(torch.ones(2, 4))
        except ValueError:
            log.append("fails")
    assert log == [1.5, 2.5, 3.5, -1.0, "fails", 0.0, "fails", 4.5]


# --- work that eager mode does not do, where that is noticed


def test_work_in_a_branch_that_hooks_on_saved_tensors_would_see() -> None:
    model, log, packed = nn.Linear(4, 5), [1], list[Any]()
    model.register_forward_hook(lambda module, args, out: log.append((out * out).sum().item() if len(log) > 1 else 0.0))

    def pack(tensor: Any) -> Any:
        packed.append(tuple(tensor.shape))
        return tensor

    def step() -> Any:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            return model(torch.ones(2, 4)).sum()

    step()
    once, log[1:] = len(packed), []
    torch.compile(step)()
    assert len(packed) == 2 * once


def test_a_mode_that_would_not_be_told() -> None:
    model, log, told = nn.Linear(4, 5), list[Any](), list[Any]()
    model.register_forward_hook(lambda module, args, out: log.append(out.norm().item()))

    class Noting(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            told.append(function)
            return function(*args, **(kwargs or {}))

    def step() -> Any:
        with Noting():
            return model(torch.ones(2, 4))

    with pytest.raises(CompileError, match="inside the mode Noting"):
        torch.compile(step)()
