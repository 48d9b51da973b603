"""Distributions from text, for the tests of torch.distributions."""

from __future__ import annotations

import inspect
from typing import Any

import torch as real_torch

MODULES = real_torch.distributions


def signature(function: Any) -> list[Any]:
    return [(p.name, p.kind.name, p.default) for p in inspect.signature(function).parameters.values()]


def make(torch: Any, text: str) -> Any:
    D = torch.distributions

    def T(*numbers: float) -> Any:
        made = torch.tensor(numbers, dtype=torch.float32)
        return made[0] if len(numbers) == 1 else made

    names = {name: getattr(D, name) for name in MODULES.__all__ if hasattr(D, name)}
    return eval(text, {"torch": torch, "T": T, "D": D, **names})
