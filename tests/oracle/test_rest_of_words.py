"""Warnings and errors of functions that are called in a way few programs call them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.oracle.harness import agree
from tests.oracle.programs import attempt

CALLS = (
    """
x[[[0, 1], [1, 2]]]; x[[slice(0, 1)]]; x[[None]]; x[[torch.tensor([0])]]; x[[0, 1]]; x[[True, False]]
x.nonzero(as_tuple=True)[0].stride(); torch.where(x > 0)[1].stride(); x.is_contiguous(memory_format=3)
x.is_contiguous(memory_format=None); torch.trapezoid(x, x, dx=1.0); torch.cumulative_trapezoid(x, x, dx=1.0)
x.int().softmax(0); x.int().softmax(1); x.int().log_softmax(0); x.bool().log_softmax(-1); x.softmax(0, dtype=torch.int32)
torch.baddbmm(x, x, x); torch.addbmm(x, x, x); torch.logspace(0, 1, 3, base=-1); torch.bmm(x, x[None])
F.pad(x, (1, 1), mode="foo"); F.pad(x[0], (1,), mode="foo"); torch.nn.Parameter(x, requires_grad=3)
""".strip()
    .replace("\n", ";")
    .split(";")
)


IGNORED = [
    "nll_loss(x, t", "nll_loss(x, t, weight=w", "cross_entropy(x, t", "cross_entropy(x, t, weight=w, label_smoothing=0.1",
]  # fmt: skip


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("text", IGNORED)
def test_what_is_ignored_may_be_infinite(text: str, reduction: str) -> None:
    def program(torch: Any) -> Any:
        x = torch.tensor([[-torch.inf, 0.0], [0.0, -1.0], [0.0, 2.0]], requires_grad=True)
        names = {"x": x, "t": torch.tensor([-100, 1, 0]), "w": torch.tensor([1.0, 2.0])}
        loss = eval(f"F.{text}, reduction={reduction!r})", {"F": torch.nn.functional, **names})
        return loss, torch.autograd.grad(loss.sum(), x)[0].nan_to_num(7.0), repr(loss)

    agree(program)


@pytest.mark.parametrize("name", ["smooth_l1_loss", "huber_loss"])
def test_slopes_where_there_is_no_number(name: str) -> None:
    def program(torch: Any) -> Any:
        x = torch.tensor([torch.nan, torch.inf, -torch.inf, 1.0, -1.0, 0.5, 3.0], requires_grad=True)
        loss = getattr(torch.nn.functional, name)(x, torch.zeros(7), reduction="none")
        (first,) = torch.autograd.grad(loss.sum(), x, create_graph=True)
        return loss, first.detach(), torch.autograd.grad(first.sum(), x)[0][3:]

    agree(program, requires_grad=False)


def test_a_loss_of_nothing_is_no_negative_zero() -> None:
    def program(torch: Any) -> Any:
        x, t = torch.zeros(2, 2), torch.tensor([0, 1])
        return [repr(torch.nn.functional.nll_loss(x, t, reduction=each)) for each in ("none", "sum", "mean")]

    agree(program)


TYPES = [
    "torch.int8",
    "torch.strided",
    "torch.device('cpu')",
    "torch.Size([1])",
    "np.float32(2)",
    "np.bool_(True)",
    "{}",
]


@pytest.mark.parametrize("text", TYPES)
def test_the_names_of_types(text: str) -> None:
    def program(torch: Any, log: Any) -> None:
        x, value = torch.ones(3), eval(text, {"torch": torch, "np": np})
        attempt(log, "key", lambda: x[value], words=20)
        attempt(log, "item", lambda: x.__setitem__(0, value), words=20)
        attempt(log, "argument", lambda: torch.exp(value), words=20)

    agree(program)


@pytest.mark.parametrize("text", [text.strip() for text in CALLS])
def test_calls(text: str) -> None:
    def program(torch: Any) -> Any:
        return eval(text, {"torch": torch, "F": torch.nn.functional, "x": torch.arange(6.0).reshape(2, 3)})

    agree(program, words=6, warns="[[" in text)
