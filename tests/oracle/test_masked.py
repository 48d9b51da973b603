"""Reductions and normalizations under a mask, with their gradients, as torch.masked has them."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.oracle.harness import agree

REDUCTIONS = "sum prod amax amin mean var std logsumexp".split()
ALONG = "softmax log_softmax softmin cumsum cumprod argmax argmin median".split()
OPTIONS: list[dict[str, Any]] = [{}, {"dim": 1}, {"dim": (0, 1)}, {"dim": -1, "keepdim": True}, {"dim": ()}]


def given(torch: Any) -> Any:
    masked = importlib.import_module(f"{torch.__name__}.masked")
    mask = torch.tensor([[True, False, True], [False, False, False]])
    values = torch.tensor([[-3.0, -2.0, -1.0], [0.0, 1.0, 2.0]], dtype=torch.float64)
    return masked, values, [None, mask, mask[0], mask[:, :1], mask.int()]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str) -> None:
    def program(torch: Any) -> Any:
        masked, x, masks = given(torch)
        found = [getattr(masked, name)(x, mask=mask, **options) for mask in masks for options in OPTIONS]
        found.append(getattr(masked, name)(x, 1, dtype=torch.float32, mask=masks[1]))
        if name != "mean":
            found.append(getattr(masked, name)(x.long(), 1, mask=masks[1]))
        x = x.requires_grad_()
        full = torch.tensor([[True, False, True], [False, True, True]])
        return [*found, torch.autograd.grad(getattr(masked, name)(x, 1, mask=full).sum(), x)]

    agree(program)


@pytest.mark.parametrize("name", ALONG)
def test_along_a_dim(name: str) -> None:
    def program(torch: Any) -> Any:
        masked, x, masks = given(torch)
        found = [getattr(masked, name)(x, dim, mask=mask) for mask in masks for dim in (0, 1, -1)]
        if not name.startswith("arg"):
            x = x.requires_grad_()
            full = torch.tensor([[True, False, True], [False, True, True]])
            result = getattr(masked, name)(x, 1, mask=full)
            found += torch.autograd.grad(result.where(full, 0).sum() if name != "median" else result.sum(), x)
        return found

    agree(program)


def test_norms_sums_of_exponentials_and_the_parts() -> None:
    def program(torch: Any) -> Any:
        masked, x, masks = given(torch)
        mask = masks[1]
        found = [
            masked.norm(x, order, 1, mask=m) for order in (2.0, 1, 0, 3, float("inf"), -float("inf")) for m in masks
        ]
        found += [masked.normalize(x, 2.0, 1, mask=m) for m in masks]
        found += [masked.logaddexp(x, x * 2, input_mask=mask, other_mask=~mask), masked.logaddexp(x, x * 2)]
        found += [masked.var(x, 1, False, mask=mask), masked.var(x, 1, correction=2), masked.std(x + 1j, 1)]
        found += [masked._input_mask(x, mask=masks[2]), masked._output_mask(masked.sum, x, 1, mask=mask)]
        found += [masked._output_mask(masked.norm, x, 2.0, 1, mask=mask), masked._canonical_dim((-1, 0), 3)]
        found += [masked._output_mask(function, x, 1, mask=mask) for function in (masked.softmax, masked.cumsum)]
        for name in ("sum", "prod", "amax", "amin", "mean", "argmax", "logsumexp", "median"):
            found += [
                masked._reduction_identity(name, x.to(kind)) for kind in (torch.float32, torch.int64, torch.uint8)
            ]
        return found

    agree(program)


@pytest.mark.parametrize(
    "code", [
        "sum(x, 1, mask=torch.ones(2, dtype=torch.bool))", "sum(x, 1, mask=torch.ones(2, 2, 3, dtype=torch.bool))",
        "sum(x, (0, 0))", "sum(x, 5)", "mean(x.long(), 1)", "amax(x > 0, 1, mask=x > 0)", "_input_mask(x)",
    ],
)  # fmt: skip
def test_what_is_refused(code: str) -> None:
    def program(torch: Any) -> Any:
        masked, x, _ = given(torch)
        return eval(f"masked.{code}", {"torch": torch, "masked": masked, "x": x})

    agree(program, raises=True)
