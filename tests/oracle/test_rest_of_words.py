"""Warnings and errors of functions that are called in a way few programs call them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.harness import agree

CALLS = """
x[[[0, 1], [1, 2]]]; x[[slice(0, 1)]]; x[[None]]; x[[torch.tensor([0])]]; x[[0, 1]]; x[[True, False]]
x.nonzero(as_tuple=True)[0].stride(); torch.where(x > 0)[1].stride(); x.is_contiguous(memory_format=3)
x.is_contiguous(memory_format=None); torch.trapezoid(x, x, dx=1.0); torch.cumulative_trapezoid(x, x, dx=1.0)
x.int().softmax(0); x.int().softmax(1); x.int().log_softmax(0); x.bool().log_softmax(-1); x.softmax(0, dtype=torch.int32)
torch.baddbmm(x, x, x); torch.addbmm(x, x, x); torch.logspace(0, 1, 3, base=-1); torch.bmm(x, x[None])
""".strip().replace("\n", ";").split(";")


@pytest.mark.parametrize("text", [text.strip() for text in CALLS])
def test_calls(text: str) -> None:
    def program(torch: Any) -> Any:
        return eval(text, {"torch": torch, "x": torch.arange(6.0).reshape(2, 3)})

    agree(program, words=6, warns="[[" in text)
