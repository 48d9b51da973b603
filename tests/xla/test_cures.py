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
    (lambda x: x * time.time(), "take the time outside"),
    (lambda x: x * random.random(), "torch.rand"),
    (lambda x: x * os.urandom(1)[0], "torch.rand"),
    (lambda x: x * len(open(__file__).read()), "read it outside, and give what comes of it"),
    (lambda x: x * len(pathlib.Path(__file__).read_text()), "read it outside, and give what comes of it"),
    (lambda x: x * np.load("x.npy"), "read it outside, and give what comes of it"),
    (lambda x: torch.save(x, "x.pt") or x, "save what the step returns"),  # type: ignore[func-returns-value]
    (lambda x: x * len(subprocess.check_output(["true"])), "run it outside"),
    (lambda x: x * float(input()), "ask outside"),
    (lambda x: (lock.acquire(), x)[1], "other threads outside"),
    (lambda x: x * next(taken), "take from it outside"),
    (lambda x: breakpoint() or x, "without torch.compile"),  # type: ignore[func-returns-value]
    (lambda x: torch.from_numpy(np.sin(x.numpy())), "torch's functions in the place of NumPy's"),
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
