"""Hooks on the host find tensors in lists, dicts and objects: what the step writes to them before their turn, they see.

Such a tensor may have been there when the step was compiled, come there between calls, or be put there by a hook.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn, optim
from undertow._src.compile import CompileError

TENSORS: dict[str, Callable[[Any, Any], Any]] = {
    "a gradient": lambda p, scale: p.grad, "an alias of a gradient": lambda p, scale: p.grad.detach(),
    "an array over a gradient": lambda p, scale: torch.from_numpy(p.grad.numpy()), "a leaf": lambda p, scale: p,
    "a tensor of the step": lambda p, scale: scale, "a view": lambda p, scale: scale.view(1),
    "a list": lambda p, scale: [p.grad], "an object": lambda p, scale: SimpleNamespace(grad=p.grad),
    "a NumPy array": lambda p, scale: p.grad.numpy(),
}  # fmt: skip


def value_of(found: Any) -> float:
    if isinstance(found, list):
        found = found[0]
    if isinstance(found, SimpleNamespace):
        found = found.grad
    if isinstance(found, torch.Tensor) and found.grad is not None:
        found = found.grad
    return float(found.sum())


WAYS = [
    *[(what, "between", True) for what in TENSORS],
    *[(what, comes, True) for what in ("a gradient", "a tensor of the step") for comes in ("before", "in a hook")],
    ("a gradient", "before", False),
    ("an alias of a gradient", "between", False),
    ("a NumPy array", "before", False),
]


@pytest.mark.parametrize(("what", "comes", "adds"), WAYS)
def test_what_hooks_find_is_what_it_is_at_their_turn(what: str, comes: str, adds: bool) -> None:
    def build() -> Case:
        model, scale = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2)), torch.tensor(0.5)
        optimizer = optim.SGD(model.parameters(), 0.1)
        leaf, log, kept = model[2].weight, list[float](), list[Any]()
        leaf.grad = torch.ones(2, 3)

        def keeps() -> None:
            kept.append(TENSORS[what](leaf, scale))

        def reads(g: Any) -> Any:
            found = sum([value_of(each) for each in kept[-2:]])
            log.append(found)
            return g + found if adds else None

        model[0].register_forward_hook(lambda module, args, out: kept.append(out.detach()))
        model[0].weight.register_hook(reads)
        if comes == "before":
            keeps()
        if comes == "in a hook":  # whose turn comes after the one that reads
            model[0].bias.register_hook(lambda g: keeps())

        def step(x: Any) -> None:
            optimizer.zero_grad(set_to_none=False)
            with torch.no_grad():
                scale.mul_(0.9)
            model(x).pow(2).mean().backward()
            optimizer.step()

        def between(turn: int) -> None:
            if turn == 1 and comes == "between":
                keeps()

        batch = torch.randn(4, 3, 2)
        look = lambda: [[*log], scale.item(), [value_of(each) for each in kept]]
        return Case(step, model, args=lambda turn: (batch[turn],), between=between, look=look)

    agree(build, steps=4)


def test_gradients_that_each_step_makes_anew_are_no_reason_to_compile_again() -> None:
    def build() -> Case:
        model, kept, log = nn.Linear(3, 2), list[Any](), list[float]()

        def notes(p: Any) -> None:
            log.append(sum([each.sum().item() for each in kept[-2:]]))
            kept.append(p.grad)

        model.weight.register_post_accumulate_grad_hook(notes)

        def step(x: Any) -> None:
            model.zero_grad()
            model(x).pow(2).mean().backward()

        args = lambda turn: (torch.full((2, 3), 0.1 + turn),)
        return Case(step, model, args=args, look=lambda: [[*log], [*kept]])

    agree(build, steps=6, programs=3)


@pytest.mark.parametrize("comes", ["before", "between", "later"])
@pytest.mark.parametrize("used", ["a tensor", "a parameter", "an array"])
def test_what_hooks_write_to_what_they_find(comes: str, used: str) -> None:
    """The program goes on with it, also where it only reads it."""

    def build() -> Case:
        model, scale = nn.Linear(2, 2), torch.tensor([0.5])
        log, held = list[float](), list[Any]()
        found = {"a tensor": scale, "a parameter": model.bias, "an array": scale.numpy()}[used]
        if comes == "before":
            held.append(found)

        def writes(g: Any) -> None:
            log.append(g.sum().item())
            held.append(1)
            held.pop()
            with torch.no_grad():
                for each in held:
                    if isinstance(each, torch.Tensor):
                        each.mul_(0.5)
                    else:
                        each *= 0.5

        model.weight.register_hook(writes)

        def step(x: Any) -> Any:
            model.zero_grad()
            model(x).pow(2).mean().backward()
            with torch.no_grad():
                return model.weight * scale + model.bias

        def between(turn: int) -> None:
            if turn == (0 if comes == "between" else 2) and comes != "before":
                held.append(found)

        batch = torch.randn(4, 3, 2)
        look = lambda: [[*log], scale.clone()]
        return Case(step, model, args=lambda turn: (batch[turn],), between=between, look=look)

    if used == "an array":
        with pytest.raises(CompileError, match="writes to a NumPy array over the memory of a tensor"):
            agree(build, steps=4)
    else:
        agree(build, steps=4)


HISTORY: Any = ()


@pytest.mark.parametrize("what", ["a tuple", "tuples", "a number", "an array"])
def test_tensors_in_globals_that_only_a_hook_reads(what: str) -> None:
    """No guard is on those, because the hook reads them at every call."""

    def build() -> Case:
        global HISTORY
        model, scale, log = nn.Linear(2, 2), torch.tensor([0.5]), list[Any]()
        HISTORY = {"a number": 1.0, "an array": np.ones(1)}.get(what, ())

        def reads(g: Any) -> None:
            last = (HISTORY[-1] if HISTORY else 0.0) if isinstance(HISTORY, tuple) else HISTORY
            last = last[0] if isinstance(last, tuple) else last
            log.append(last if isinstance(last, float) else float(last.sum()))

        model.weight.register_hook(reads)

        def step(x: Any) -> None:
            model.zero_grad()
            with torch.no_grad():
                scale.mul_(0.9)
            model(x).pow(2).mean().backward()

        def between(turn: int) -> None:
            global HISTORY
            if turn == 1:
                values = {
                    "a number": scale,
                    "an array": scale.numpy(),
                    "tuples": (1, (scale, 2)),
                    "a tuple": (1, scale),
                }
                HISTORY = values[what]

        return Case(step, model, args=lambda turn: (torch.ones(3, 2),), between=between, look=lambda: [*log])

    if what == "an array":  # a trace would find what was there before the step's write
        with pytest.raises(CompileError, match="uses a NumPy array over the memory of a tensor to which it writes"):
            agree(build, steps=4)
    else:
        agree(build, steps=4)
