"""`make_tensor` draws what PyTorch's draws; `assert_allclose` and the rarer complaints of `assert_close`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.oracle.harness import agree

DTYPES = "float32 float64 float16 bfloat16 int64 int8 uint8 bool complex64 complex128".split()
OPTIONS: list[dict[str, Any]] = [
    {}, {"low": 1, "high": 3}, {"noncontiguous": True}, {"exclude_zero": True}, {"requires_grad": True},
    {"low": 5, "high": 2}, {"low": float("nan")}, {"low": -300, "high": 300}, {"low": 2, "high": 2},
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_make_tensor(dtype: str, options: dict[str, Any]) -> None:
    def program(torch: Any) -> Any:
        made = torch.testing.make_tensor((3, 4), dtype=getattr(torch, dtype), device="cpu", **options)
        return made, made.stride(), torch.testing.make_tensor(2, dtype=torch.float32, device="cpu")

    agree(program, words=5)


PAIRS = [
    lambda torch: (None, torch.ones(1)),
    lambda torch: (torch.ones(2), np.ones(2, np.float32)),
    lambda torch: (torch.nn.Parameter(torch.ones(1)), torch.ones(1)),
    lambda torch: (torch.ones(2).to_sparse(), torch.ones(2).to_sparse() * 2),
    lambda torch: (torch.ones(2).to_sparse(), torch.ones(2)),
    lambda torch: (torch.ones(2).to_sparse(), torch.ones(2).to_sparse()),
    lambda torch: (torch.ones(2).to_sparse(), torch.tensor([0.0, 1.0]).to_sparse()),
]


@pytest.mark.parametrize("number", range(len(PAIRS)))
@pytest.mark.parametrize("allow_subclasses", [True, False])
def test_rare_pairs(number: int, allow_subclasses: bool) -> None:
    agree(lambda torch: torch.testing.assert_close(*PAIRS[number](torch), allow_subclasses=allow_subclasses), words=20)


@pytest.mark.parametrize("dtype", ["int64", "float16", "bfloat16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("difference", [1e-2, 2e-3, 5e-4, 5e-5, 5e-6, 5e-7])
def test_assert_allclose(dtype: str, difference: float) -> None:
    def program(torch: Any) -> Any:
        one = torch.tensor([1e5]) if dtype == "int64" else torch.ones(1)
        kind = getattr(torch, dtype)
        torch.testing.assert_allclose(one.to(kind), (one * (1 + difference)).to(kind))

    agree(program, words=3, warns=True)
