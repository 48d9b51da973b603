"""Where a function takes a number, PyTorch takes a 0-dim tensor too, unless its gradient is wanted."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch as real_torch

import undertow
from tests.oracle.facts import differences, facts

Case = Callable[[ModuleType, Any, Any], Any]

CASES: dict[str, Case] = {
    "add": lambda torch, x, number: x.add(x, alpha=number),
    "add_": lambda torch, x, number: x.clone().add_(x, alpha=number),
    "sub": lambda torch, x, number: torch.sub(x, x, alpha=number),
    "rsub": lambda torch, x, number: torch.rsub(x, x, alpha=number),
    "addcmul": lambda torch, x, number: x.addcmul(x, x, value=number),
    "addcdiv_": lambda torch, x, number: x.clone().addcdiv_(x, x, value=number),
    "addmm": lambda torch, x, number: torch.addmm(x, x, x, beta=number, alpha=number),
    "addr": lambda torch, x, number: torch.addr(x, x[0], x[1], beta=number),
    "baddbmm": lambda torch, x, number: torch.baddbmm(x[None], x[None], x[None], alpha=number),
    "leaky_relu": lambda torch, x, number: torch.nn.functional.leaky_relu(-x, number),
    "elu": lambda torch, x, number: torch.nn.functional.elu(-x, number),
    "softplus": lambda torch, x, number: torch.nn.functional.softplus(x, number),
    "hardtanh": lambda torch, x, number: torch.nn.functional.hardtanh(x, 0.0, number),
    "threshold": lambda torch, x, number: torch.nn.functional.threshold(x, number, 0.0),
    "layer_norm": lambda torch, x, number: torch.nn.functional.layer_norm(x, (2,), eps=number),
    "label_smoothing": lambda torch, x, number: torch.nn.functional.cross_entropy(
        x, torch.tensor([0, 1]), label_smoothing=number
    ),
    "smooth_l1_loss": lambda torch, x, number: torch.nn.functional.smooth_l1_loss(x, 2 * x, beta=number),
    "vector_norm": lambda torch, x, number: torch.linalg.vector_norm(x, number),
    "std": lambda torch, x, number: x.std(correction=number),
    "isclose": lambda torch, x, number: torch.isclose(x, x + 0.4, atol=number),
}


def outcome(torch: ModuleType, name: str, wants_gradient: bool) -> Any:
    x = torch.arange(4.0).view(2, 2) + 1
    number = torch.tensor(0.5, requires_grad=wants_gradient)
    try:
        return facts(torch, CASES[name](torch, x, number))
    except TypeError as error:
        return type(error).__name__


@pytest.mark.parametrize("wants_gradient", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_a_number_in_a_tensor(name: str, wants_gradient: bool) -> None:
    expected, actual = (outcome(torch, name, wants_gradient) for torch in (real_torch, undertow))
    assert not list(differences(expected, actual))
    assert (expected == "TypeError") == wants_gradient
