"""What a step that is refused is told to do instead fits the cause."""

from __future__ import annotations

import os
import pathlib
import random
import subprocess
import threading
import time
from typing import Any

import numpy as np
import pytest

import undertow as torch
from undertow._src.compile import CompileError

lock, taken = threading.Lock(), iter(range(9))

CASES: list[tuple[Any, str]] = [
    (lambda x: x * (os.cpu_count() or 1), "read it before the step, into a variable"),
    (lambda x: (os.environ.setdefault("UNDERTOW_NOTHING", "1"), x)[1], "set it before the step"),
    (lambda x: time.sleep(0) or x, "wait outside"),  # type: ignore[func-returns-value]
    (lambda x: x * time.time(), "read the clock outside"),
    (lambda x: x * random.getrandbits(3), "torch.rand"),
    (lambda x: x[np.random.permutation(2)], "torch.rand"),
    (lambda x: x * os.urandom(1)[0], "torch.rand"),
    (lambda x: x * len(open(__file__).read()), "read it outside, and pass the result"),
    (lambda x: x * len(pathlib.Path(__file__).read_text()), "read it outside, and pass the result"),
    (lambda x: x * np.load("x.npy"), "read it outside, and pass the result"),
    (lambda x: torch.save(x, "x.pt") or x, "save what the step returns"),  # type: ignore[func-returns-value]
    (lambda x: x * len(subprocess.check_output(["true"])), "run it outside"),
    (lambda x: x * float(input()), "ask outside"),
    (lambda x: (lock.acquire(), x)[1], "other threads outside"),
    (lambda x: x * next(taken), "take the next item outside"),
    (lambda x: breakpoint() or x, "without torch.compile"),  # type: ignore[func-returns-value]
    (lambda x: torch.from_numpy(np.sin(x.numpy())), "torch's functions in place of NumPy's"),
    (lambda x: x * len(f"{x.sum().item():.2f}"), "keep it a tensor"),
    (lambda x: torch.bincount(x.long()), "minlength"),
    (lambda x: x.unique().mean(), r'compile\(step, fallback="eager"\)'),
]


@pytest.mark.parametrize("place", range(len(CASES)))
def test_the_cure_fits_the_cause(place: int) -> None:
    function, cure = CASES[place]

    def step(x: Any) -> Any:
        y = function(x)
        return y * 2

    with pytest.raises(CompileError, match=cure):
        torch.compile(step)(torch.ones(2))


def test_a_hook_that_sets_a_learning_rate_is_told_where_to() -> None:
    weight = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def slower(g: Any) -> None:
        optimizer.param_groups[0]["lr"] = 0.1 / (1 + g.norm().item())

    def step(x: Any, sets: bool) -> Any:
        optimizer.zero_grad()
        (weight * x).pow(2).sum().backward()
        if sets:
            slower(weight.grad)
        optimizer.step()

    handle = weight.register_hook(slower)
    with pytest.raises(CompileError, match=r"param_groups\[0\].*in the step itself, before optimizer.step\(\)"):
        torch.compile(step)(torch.ones(3), False)
    handle.remove()
    compiled = torch.compile(step)
    rates = [compiled(torch.ones(3), True) or optimizer.param_groups[0]["lr"] for _ in range(3)]
    assert len(set(rates)) == 3


def test_a_hook_and_a_step_with_one_list_are_told_to_have_two() -> None:
    weight, log = torch.ones(3, requires_grad=True), list[str]()
    weight.register_hook(lambda g: log.append("hook"))

    def step(x: Any) -> None:
        try:
            log.append("step")
            (weight * x).sum().backward()
        except ValueError:
            log.append("error")

    with pytest.raises(CompileError, match=r"an object of its own \(another list\)"):
        torch.compile(step)(torch.ones(3))
