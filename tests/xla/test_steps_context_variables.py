"""Context variables that hooks read: set, with a default of their own, with one that is given, with none."""

from __future__ import annotations

import contextvars
import decimal
import threading
from collections.abc import Callable
from typing import Any

import pytest

import undertow as torch
from undertow import nn
from undertow._src.compile import CompileError

Read = Callable[[contextvars.ContextVar[Any]], Any]
READS: dict[str, Read] = {
    "as it is": lambda variable: variable.get(),
    "in a call": lambda variable: str(variable.get()),
    "with a default": lambda variable: variable.get("given"),
    "a dict": lambda variable: len(str(variable.get("given"))),
}


def _or_error(variable: contextvars.ContextVar[Any]) -> Any:
    try:
        return variable.get()
    except LookupError:
        return "neither"


def logged(make: Callable[[], contextvars.ContextVar[Any]], read: Read, compiled: bool) -> list[Any]:
    """Return what a hook logs of a variable that changes between calls."""
    torch.manual_seed(0)
    log: list[Any] = []
    variable, model = make(), nn.Linear(2, 3)

    def hook(gradient: Any) -> Any:
        log.append(read(variable))
        return gradient

    model.bias.register_hook(hook)

    def step(x: Any) -> None:
        model(x).pow(2).mean().backward()

    run = torch.compile(step) if compiled else step
    for turn in range(6):
        if turn == 4:
            variable.set("set")
        run(torch.ones(4, 2))
    return log


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_default_of_its_own(read: Read) -> None:
    def make() -> contextvars.ContextVar[Any]:
        return contextvars.ContextVar("mode", default="own")

    assert logged(make, read, True) == logged(make, read, False)


@pytest.mark.parametrize("read", [READS["with a default"], _or_error])
def test_no_default(read: Read) -> None:
    def make() -> contextvars.ContextVar[Any]:
        return contextvars.ContextVar("mode")

    assert logged(make, read, True) == logged(make, read, False)


def test_a_default_that_changes() -> None:
    """The object that is the default belongs to what the step depends on."""

    def results(compiled: bool) -> list[Any]:
        held = {"factor": 1.0}
        variable = contextvars.ContextVar("settings", default=held)

        def step(x: Any) -> Any:
            return x * variable.get()["factor"]

        run, found = torch.compile(step) if compiled else step, []
        for turn in range(4):
            held["factor"] = 1.0 + turn // 2
            found.append(run(torch.ones(2)).tolist())
        return found

    assert results(True) == results(False)


@pytest.mark.parametrize("size", [2, 300])
def test_hooks_inside_the_program_share_the_context_of_the_step(size: int) -> None:
    """XLA calls back in threads of its own, which have other variables."""
    variable = contextvars.ContextVar("turn", default=0)

    def results(compiled: bool) -> list[Any]:
        variable.set(1)
        weight = nn.Parameter(torch.ones(size, size) / size)

        def hook(gradient: Any) -> Any:
            variable.set(variable.get() + 1)
            return gradient * float(decimal.Decimal(2) / decimal.Decimal(3)) * variable.get()

        weight.register_hook(hook)

        def step(x: Any) -> Any:
            weight.grad = None
            (x @ weight @ weight.t() @ weight).sum().backward()
            return weight.grad[0, 0].item() / x.sum().item()

        run, found = torch.compile(step) if compiled else step, []
        with decimal.localcontext() as context:
            for turn in range(6):
                context.prec = 2 if turn > 3 else 28
                found += [run(torch.ones(size, size)), variable.get()]
        return found

    assert results(True) == pytest.approx(results(False), rel=1e-4)


def test_hooks_inside_the_program_have_no_values_of_the_thread() -> None:
    here, weight = threading.local(), nn.Parameter(torch.ones(2))
    here.scale = 2.0
    weight.register_hook(lambda gradient: gradient * float(decimal.Decimal(1)) * getattr(here, "scale", 5.0))

    @torch.compile
    def step(x: Any) -> Any:
        weight.grad = None
        (weight * x).sum().backward()
        return weight.grad.clone()

    with pytest.raises(CompileError, match="local, and runs inside the program"):
        step(torch.ones(2))
