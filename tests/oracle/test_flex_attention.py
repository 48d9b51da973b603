"""`flex_attention`: scores and masks as functions of where they stand."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import pytest

from tests.oracle.harness import agree

SCORE_MODS = {
    "none": None,
    "relative": lambda torch: lambda score, b, h, q, k: score + (q - k) * 0.1,
    "causal": lambda torch: lambda score, b, h, q, k: torch.where(q >= k, score, -float("inf")),
    "heads": lambda torch: lambda score, b, h, q, k: score * (h + 1),
    "table": lambda torch: (lambda table: lambda score, b, h, q, k: score + table[h, q])(torch.arange(16.0).view(2, 8)),
}
MASKS = {
    "none": None,
    "causal": lambda b, h, q, k: q >= k,
    "window": lambda b, h, q, k: (q - k).abs() <= 2,
    "blind": lambda b, h, q, k: q > k,
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("score", SCORE_MODS)
def test_attention(score: str, mask: str) -> None:
    def program(torch: Any) -> Any:
        flex = import_module(f"{torch.__name__}.nn.attention.flex_attention")
        q, k, v = [torch.randn(2, 2, 8, 4) for _ in range(3)]
        mod = SCORE_MODS[score]
        block = MASKS[mask] and flex.create_block_mask(MASKS[mask], None, None, 8, 8, device="cpu", BLOCK_SIZE=4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch recommends to compile it
            return flex.flex_attention(q, k, v, score_mod=mod and mod(torch), block_mask=block)

    agree(program, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mask", ["causal", "window", "blind"])
def test_block_masks(mask: str) -> None:
    def program(torch: Any) -> Any:
        flex = import_module(f"{torch.__name__}.nn.attention.flex_attention")
        block = flex.create_block_mask(MASKS[mask], 1, 2, 12, 8, device="cpu", BLOCK_SIZE=4)
        both = flex.and_masks(MASKS[mask], MASKS["causal"]), flex.or_masks(MASKS[mask], MASKS["causal"])
        masks = [flex.create_mask(each, 1, 1, 4, 6, device="cpu") for each in both]
        return block.shape, block.to_dense(), block.kv_num_blocks, block.full_kv_num_blocks, block.sparsity(), masks

    agree(program)


def test_grouped_heads() -> None:
    def program(torch: Any) -> Any:
        flex = import_module(f"{torch.__name__}.nn.attention.flex_attention")
        q, k = torch.randn(1, 4, 8, 4), torch.randn(1, 2, 8, 4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return flex.flex_attention(q, k, k, enable_gqa=True, scale=0.3)

    agree(program)


def test_gradients_are_those_of_the_formula() -> None:
    import undertow as torch

    flex = import_module("undertow.nn.attention.flex_attention")
    q, k, v = [torch.randn(1, 1, 3, 2, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    block = flex.create_block_mask(MASKS["causal"], None, None, 3, 3)
    assert torch.autograd.gradcheck(lambda *qkv: flex.flex_attention(*qkv, block_mask=block), (q, k, v))
