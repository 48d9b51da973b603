"""The edges of nn, one line each: bad sizes, empty batches, infinite losses, rare arguments, and what torch warns of.

A line, continued where the next one is indented, holds statements separated by `; `. What is compared is the value of the
last one and its strides, or the error, and the warnings.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.harness import agree
from tests.oracle.snippets import described, evaluate, tensors_in

LOSSES = """
F.nll_loss(torch.zeros(5), torch.tensor([1, 0, 4]))
F.cross_entropy(torch.zeros(5), torch.tensor([1, 2]))
F.nll_loss(torch.zeros(5), torch.tensor([1]), reduction='none')
F.nll_loss(torch.zeros(2, 3, 4, 5), torch.zeros(2, 5).long())
F.cross_entropy(torch.zeros(2, 3, 4, 5), torch.zeros(2, 4, 5, 1).long())
F.binary_cross_entropy(torch.ones(2) / 2, torch.tensor([0.5, 1.5]))
F.binary_cross_entropy(torch.ones(2) / 2, torch.tensor([0.5, -0.5]))
F.binary_cross_entropy(torch.ones(2) / 2, torch.tensor([0.5, float('nan')]))
F.binary_cross_entropy(torch.tensor([0.5, float('nan')]), torch.ones(2))
F.binary_cross_entropy_with_logits(torch.ones(2), torch.tensor([True, False]))
F.ctc_loss(torch.ones(6, 0, 4), torch.zeros(0, 3).long(), torch.zeros(0).long(), torch.zeros(0).long())
F.ctc_loss(torch.ones(0, 2, 4), torch.zeros(2, 3).long(), torch.zeros(2).long(), torch.zeros(2).long())
x = torch.randn(6, 2, 4).log_softmax(2).requires_grad_();
    loss = F.ctc_loss(x, torch.tensor([[1, 2, 2], [3, 1, 0]]), (2, 5), (3, 2)); torch.autograd.grad(loss, x)
x = torch.randn(6, 2, 4).log_softmax(2).requires_grad_();
    loss = F.ctc_loss(x, torch.tensor([[1, 2, 2], [3, 1, 0]]), (2, 5), (3, 2), zero_infinity=True);
    torch.autograd.grad(loss, x)
"""

ATTENTION = """
nn.MultiheadAttention(6, 2)(torch.ones(4, 2, 6), *[torch.ones(5, 2, 6)] * 2, key_padding_mask=torch.zeros(1,
    5).bool())
nn.MultiheadAttention(6, 2, add_zero_attn=True)(torch.ones(4, 2, 6), *[torch.ones(5, 2, 6)] * 2,
    key_padding_mask=torch.zeros(2, 4).bool())
nn.MultiheadAttention(6, 2)(torch.ones(4, 2, 6), *[torch.ones(5, 2, 6)] * 2, key_padding_mask=torch.zeros(2,
    5).bool(), attn_mask=torch.zeros(4, 5))
nn.MultiheadAttention(6, 2)(torch.ones(4, 2, 6), *[torch.ones(5, 2, 6)] * 2, key_padding_mask=torch.zeros(2,
    5).long(), attn_mask=torch.zeros(4, 5))
nn.MultiheadAttention(6, 2, kdim=3, vdim=4)(torch.ones(4, 2, 6), torch.ones(5, 2, 4), torch.ones(5, 2, 4))
nn.MultiheadAttention(6, 2, kdim=3, vdim=4)(torch.ones(4, 2, 6), torch.ones(5, 2, 3), torch.ones(5, 2, 3))
m = nn.MultiheadAttention(6, 2); m.merge_masks(torch.zeros(3, 3), torch.ones(2, 3), torch.ones(2, 3, 6))
m = nn.MultiheadAttention(6, 2); m.merge_masks(torch.zeros(4, 3, 3), None, torch.ones(2, 3, 6))
m = nn.MultiheadAttention(6, 2); m.merge_masks(None, torch.ones(2, 3), torch.ones(2, 3, 6)), m.merge_masks(None,
    None, None)
nn.TransformerEncoderLayer(6, 2, 8)(torch.ones(4, 2, 6), src_mask=torch.zeros(4, 4),
    src_key_padding_mask=torch.zeros(2, 4).bool())
nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 8), 1)(torch.ones(4, 2, 6), mask=torch.zeros(4, 4),
    src_key_padding_mask=torch.zeros(2, 4).bool())
nn.TransformerDecoderLayer(6, 2, 8)(torch.ones(4, 2, 6), torch.ones(4, 2, 6), tgt_mask=torch.zeros(4, 4),
    tgt_key_padding_mask=torch.zeros(2, 4).bool())
[nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 8, **options),
    1).use_nested_tensor for options in (dict(norm_first=True), dict(bias=False, batch_first=True),
    dict(batch_first=True, activation=F.silu), dict())]
nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 3, 8, batch_first=True), 1).use_nested_tensor
nn.TransformerEncoder(nn.Linear(3, 3), 1).use_nested_tensor
x = torch.randn(1, 1, 3, 4); F.scaled_dot_product_attention(x, x, x, attn_mask=torch.randn(3, 3), is_causal=True)
x = torch.randn(1, 3, 4); F.scaled_dot_product_attention(x, x, x, attn_mask=torch.randn(3, 3), is_causal=True)
"""


def _lines(text: str) -> list[str]:
    return text.strip().replace("\n    ", " ").split("\n")


def _names(torch: Any) -> dict[str, Any]:
    return {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}


@pytest.mark.parametrize("text", _lines(LOSSES))
def test_losses(text: str) -> None:
    _agree(text)


@pytest.mark.parametrize("text", _lines(ATTENTION))
def test_attention(text: str) -> None:
    _agree(text)


@pytest.mark.parametrize("padding", ["end", "start", "none", "infinite", "whole row"])
@pytest.mark.parametrize("case", ["frozen", "no_grad", "training", "grad", "grad input", "mask", "norm", "unbatched"])
def test_an_encoder_at_inference_leaves_padded_places_zero(case: str, padding: str) -> None:
    if (case, padding) == ("mask", "whole row"):
        return  # PyTorch's fused layer has NaN where its other paths, and undertow, have zeros

    def program(torch: Any) -> Any:
        layer = torch.nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True)
        norm = torch.nn.LayerNorm(6) if case == "norm" else None
        encoder = torch.nn.TransformerEncoder(layer, 2, norm=norm).train(case == "training")
        encoder.requires_grad_(case in ("training", "grad", "no_grad"))
        rows = {"end": [[0, 0, 1], [0, 0, 0]], "start": [[1, 0, 0], [0, 0, 0]], "whole row": [[1, 1, 1], [0, 0, 1]]}
        padded = torch.tensor(rows.get(padding, rows["end"])).bool() & (padding != "none")
        if padding == "infinite":
            padded = torch.zeros(2, 3).masked_fill(padded, float("-inf"))
        x = torch.randn(2, 3, 6, requires_grad=case == "grad input")
        mask = torch.zeros(3, 3, dtype=padded.dtype) if case == "mask" else None
        if case == "unbatched":
            x, padded = x[1], padded[1]
        with torch.set_grad_enabled(case != "no_grad"):
            return encoder(x, mask=mask, src_key_padding_mask=padded)

    agree(program, rtol=1e-4, atol=1e-5)


def _agree(text: str) -> None:
    def program(torch: Any, log: Any) -> Any:
        result = evaluate(text, _names(torch))
        log("layout", [described(tensor) for tensor in tensors_in(torch, result)])
        return result

    agree(program, warns=True, words=10)
