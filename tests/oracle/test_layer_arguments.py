"""Wrong shapes, dtypes and options given to layers and losses: the class and the opening words of the refusal."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.harness import agree

RAISING = [
    "F.conv1d(r(2, 4, 6), r(4, 4, 3).double())",
    "F.conv1d(r(1, 4, 6), r(4, 4, 3).double())",
    "F.conv1d(r(2, 4, 6), r(4, 4, 3).long(), r(4))",
    "F.conv2d(r(2, 4, 6, 6).double(), r(4, 4, 3, 3), r(4))",
    "F.conv_transpose2d(r(2, 4, 6, 6).double(), r(4, 4, 3, 3), r(4))",
    "F.conv_transpose2d(r(2, 4, 6, 6), r(4, 4, 3, 3).double(), r(4))",
    "F.conv1d(r(2, 4, 6), r(4, 4, 3, 3))",
    "F.conv1d(r(2, 4, 6), r(4, 4), padding='same')",
    "F.conv2d(r(2, 4, 6, 6), r(4, 4, 3))",
    "F.conv1d(r(1, 2, 5), r(4, 2, 2), dilation=0)",
    "F.conv1d(r(1, 1, 5), r(4, 2, 2), dilation=0)",
    "F.conv1d(r(1, 2, 5), r(4, 2, 2), r(4).double(), stride=0)",
    "F.conv1d(r(1, 1, 5), r(4, 2, 2), r(4).double())",
    "F.conv1d(r(1, 2, 5).double(), r(4, 2, 2), r(4), padding='same')",
    "F.interpolate(r(1, 2, 4, 4), 2.5, mode='bilinear')",
    "F.interpolate(r(1, 2, 4, 4), 2.5, mode='nearest-exact')",
    "torch.cdist(r(3, 4).double(), r(2, 4))",
    "torch.cdist(r(30, 4), r(28, 4).double())",
    "torch.cdist(r(3, 4), r(2, 4).half())",
    "torch.cdist(r(3, 5, 4), r(2, 4, 4))",
    "F.adaptive_avg_pool1d(r(2, 4, 6), (2, 2, 2, 2))",
    "F.adaptive_max_pool1d(r(2, 4, 6), (2, 2))",
    "F.max_pool1d(r(2, 4, 6, 3), 2, return_indices=True)",
    "F.max_pool1d(r(6), 2, return_indices=True)",
    "F.max_pool1d(r(2, 4, 1), 2, return_indices=True)",
    "F.max_pool1d(r(2, 4, 6), 2, padding=2, return_indices=True)",
    "F.max_pool1d(r(2, 4, 6), 0, return_indices=True)",
    "F.max_pool1d(r(2, 4, 6), 2, stride=0, return_indices=True)",
    "F.max_pool1d(r(2, 4, 6), 2, dilation=0, return_indices=True)",
    "F.cross_entropy(torch.tensor(1.0), L(2))",
    "F.embedding(L(2, 3), r(8), max_norm=1.0)",
    "F.embedding(L(2, 3) + 9, r(8, 0))",
    "F.embedding_bag(L(2, 3), r(8))",
    "F.embedding_bag(L(2, 3), r(8, 3, 3))",
    "F.embedding_bag(L(2, 3), r(8, 3), padding_idx=8)",
    "F.embedding_bag(L(2, 3), r(8, 3), padding_idx=-9)",
    "F.embedding_bag(L(2, 3), r(8, 3).long())",
    "F.embedding_bag(L(2, 3), r(8, 3) > 0)",
    "F.embedding_bag(L(2, 3) - 9, r(8, 3), mode='max')",
    "F.embedding_bag(L(3) + 9, r(8, 3), L(1), mode='sum', padding_idx=1)",
    "F.embedding_bag(L(2, 3), r(8, 3), mode='sum', per_sample_weights=r(2, 3).double())",
    "F.embedding_bag(L(2, 3), r(8, 3), mode='mean', per_sample_weights=r(2, 3))",
    "F.embedding_bag(L(3), r(8, 3), L(0), include_last_offset=True)",
    "F.huber_loss(r(2).long(), r(2))",
    "F.kl_div(r(2).long(), r(2))",
    "F.kl_div(r(2), r(2).long())",
    "F.kl_div(r(2) * 1j, r(2))",
    "F.kl_div(r(2), r(2) * 1j, log_target=True)",
    "F.soft_margin_loss(r(2).long(), r(2).long())",
    "F.soft_margin_loss(r(2).long(), r(2))",
    "F.soft_margin_loss(r(2) > 0, r(2) > 0)",
    "F.binary_cross_entropy(r(2).long(), r(2))",
    "F.binary_cross_entropy_with_logits(r(2).long(), r(2))",
    "F.binary_cross_entropy_with_logits(r(2) > 0, r(2) > 0)",
    "F.layer_norm(r(2, 4).long(), (4,), torch.ones(4))",
    "F.layer_norm(r(2, 4).long(), (4,))",
    "F.rms_norm(torch.tensor(1.0), (4,))",
    "F.pdist(r(2, 4).long())",
    "F.gumbel_softmax(r(2, 4).long())",
    "F.bilinear(r(2, 4), r(2, 3), r(4, 3))",
    "F.bilinear(r(2, 4), r(2, 3), r(4, 4, 3, 3))",
    "torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2), dim=5)",
]
RETURNING = [
    "F.multi_margin_loss(r(1, 4), torch.tensor(1))",
    "F.multi_margin_loss(r(1, 4), torch.tensor(1), reduction='none')",
    "F.soft_margin_loss(r(2), r(2) > 0)",
    "F.binary_cross_entropy_with_logits(r(2).double(), r(2))",
    "F.cross_entropy(r(2, 3), torch.tensor([0, 1]), label_smoothing=-0.1)",
    "F.cross_entropy(r(2, 3), r(2, 3), label_smoothing=-0.1)",
]


@pytest.mark.parametrize("code", RAISING)
def test_refused(code: str) -> None:
    agree(lambda torch: _run(torch, code), raises=True)


@pytest.mark.parametrize("code", RETURNING)
def test_accepted(code: str) -> None:
    agree(lambda torch: _run(torch, code), raises=False, rtol=1e-6)


def _run(torch: Any, code: str) -> Any:
    def r(*shape: int) -> Any:
        return (torch.ones(shape).cumsum(-1) / 7).sin()

    def L(*shape: int) -> Any:
        return torch.zeros(shape, dtype=torch.long)

    return eval(code, {"torch": torch, "F": torch.nn.functional, "r": r, "L": L})
