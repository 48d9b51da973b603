"""What a step's own code does besides tensor work is said, because a program does not do it."""

from __future__ import annotations

import pytest

import undertow as torch
from undertow.xla import CompileWarning

layer = torch.nn.Linear(2, 1)


def prints(x: torch.Tensor) -> torch.Tensor:
    print("in the step")
    return layer(x).sum()


def computes(x: torch.Tensor) -> torch.Tensor:
    return layer(x).relu().sum()


def test_printing_in_a_step_is_warned_of() -> None:
    with pytest.warns(CompileWarning, match=r"prints \(.*test_step_effects\.py:\d+\)"):
        torch.compile(prints)(torch.ones(1, 2))


def test_a_plain_step_is_not() -> None:
    torch.compile(computes)(torch.ones(1, 2))
