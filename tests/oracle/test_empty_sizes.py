"""Layers and losses of tensors without elements: the value, the gradients, or the refusal that PyTorch gives."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.harness import Log, agree

# (what is computed, the shapes of a, b and c): "long" in front of a shape makes zeros of dtype int64.
CASES: list[tuple[str, tuple[Any, ...]]] = [
    ("F.conv1d(a, b, c)", ((2, 0, 6), (4, 0, 3), (4,))),
    ("F.conv2d(a, b, c)", ((2, 0, 6, 7), (4, 0, 3, 3), (4,))),
    ("F.conv3d(a, b)", ((2, 0, 4, 4, 4), (4, 0, 3, 3, 3))),
    ("F.conv1d(a, b, padding='same')", ((2, 0, 6), (4, 0, 3))),
    ("F.conv1d(a, b, c)", ((0, 4, 6), (4, 4, 3), (4,))),
    ("F.conv2d(a, b, padding=2)", ((2, 3, 0, 6), (4, 3, 3, 3))),
    ("F.conv1d(a.double(), b.double())", ((2, 4, 6), (4, 4, 0))),
    ("F.conv_transpose1d(a, b, c)", ((0, 4, 6), (4, 4, 3), (4,))),
    ("F.conv_transpose1d(a, b)", ((2, 4, 0), (4, 4, 3))),
    ("F.conv_transpose1d(a.double(), b.double())", ((2, 4, 6), (4, 0, 3))),
    ("F.conv_transpose2d(a, b)", ((0, 4, 6, 6), (4, 4, 3, 3))),
    ("nn.LazyConv1d(4, 3)(a)", ((2, 0, 6),)),
    ("F.batch_norm(a, None, None)", ((2, 0, 3),)),
    ("F.batch_norm(a, None, None)", ((0, 4, 2),)),
    ("F.batch_norm(a, None, None, b, c, training=True)", ((2, 0, 6), (4,), (4,))),
    ("F.batch_norm(a, torch.ones(3), torch.ones(4))", ((2, 4, 0),)),
    ("nn.BatchNorm1d(4)(a)", ((2, 0, 6),)),
    ("nn.BatchNorm2d(4)(a)", ((0, 4, 2, 2),)),
    ("nn.BatchNorm3d(4).eval()(a)", ((2, 4, 0, 1, 1),)),
    ("F.adaptive_max_pool1d(a, 0)", ((2, 4, 6),)),
    ("F.adaptive_avg_pool1d(a, 0)", ((2, 4, 6),)),
    ("F.adaptive_max_pool2d(a, (0, 3), return_indices=True)", ((2, 4, 6, 6),)),
    ("F.adaptive_avg_pool2d(a, 0)", ((2, 4, 6, 6),)),
    ("F.adaptive_max_pool3d(a, 0)", ((2, 4, 3, 3, 3),)),
    ("F.adaptive_avg_pool3d(a, 0)", ((2, 4, 3, 3, 3),)),
    ("F.adaptive_max_pool1d(a, 2)", ((2, 0, 6),)),
    ("F.adaptive_max_pool2d(a, 2)", ((2, 0, 6, 6),)),
    ("F.adaptive_max_pool2d(a, 2)", ((0, 2, 6, 6),)),
    ("F.adaptive_max_pool3d(a, 2)", ((2, 0, 3, 3, 3),)),
    ("F.fractional_max_pool2d(a, 2, output_size=3)", ((0, 4, 6, 7),)),
    ("F.fractional_max_pool2d(a, 2, output_size=3)", ((2, 0, 6, 7),)),
    ("F.fractional_max_pool2d(a, 2, output_size=3)", ((2, 4, 0, 7),)),
    ("F.fractional_max_pool3d(a, 2, output_size=3)", ((0, 4, 6, 6, 7),)),
    ("F.fractional_max_pool3d(a, 2, output_size=3)", ((2, 4, 6, 0, 7),)),
    ("F.nll_loss(a, b)", ((0, 4, 6), ("long", 0, 6))),
    ("F.nll_loss(a, b, reduction='none')", ((0, 4, 6), ("long", 0, 6))),
    ("F.nll_loss(a, b, reduction='sum')", ((0, 4, 6), ("long", 0, 6))),
    ("F.nll_loss(a, b, ignore_index=0)", ((2, 0), ("long", 2))),
    ("F.nll_loss(a, b, ignore_index=0, reduction='none')", ((2, 0), ("long", 2))),
    ("F.cross_entropy(a, b)", ((0, 4), ("long", 0))),
    ("F.cross_entropy(a, b, label_smoothing=0.1)", ((2, 0), (2, 0))),
    ("F.embedding(b, a)", ((0, 4), ("long", 2, 3))),
    ("F.embedding(b, a)", ((0, 4), ("long", 0, 3))),
    ("F.embedding_bag(b, a)", ((8, 3), ("long", 2, 0))),
    ("F.embedding_bag(b, a)", ((8, 3), ("long", 0, 3))),
    ("F.conv1d(a, b, padding=2, stride=2)", ((0, 0, 0), (4, 0, 3))),
    ("F.conv3d(a, b, padding=2, stride=2)", ((0, 3, 5, 5, 5), (4, 3, 3, 3, 3))),
    ("F.conv_transpose3d(a, b, c, stride=2)", ((0, 3, 5, 5, 5), (3, 4, 3, 3, 3), (4,))),
    ("F.max_pool1d(a, 2, padding=2)", ((3, 0),)),
    ("F.max_pool3d(a, 2)", ((2, 0, 4, 4, 4),)),
    ("F.avg_pool3d(a, 2)", ((2, 3, 0, 4, 4),)),
    ("F.avg_pool3d(a, 5)", ((3, 4, 4, 4),)),
    ("F.adaptive_avg_pool3d(a, 0)", ((0, 0, 4, 4, 4),)),
    ("F.max_unpool1d(a, b, 2)", ((2, 3, 0), ("long", 2, 3, 0))),
    ("F.max_unpool2d(a, b, 2)", ((2, 0, 3, 3), ("long", 2, 0, 3, 3))),
    ("F.max_unpool2d(a, b, 2)", ((3, 3), ("long", 3, 3))),
    ("F.pad(a, (-4, 0, -4, 0), mode='reflect')", ((2, 3, 4, 4),)),
    ("F.pad(a, (-3, -2), mode='replicate')", ((2, 3, 4),)),
    ("F.pad(a, (-3, -1, 0, 0), mode='replicate')", ((2, 3, 4, 4),)),
    ("F.channel_shuffle(a, 3).detach()", ((2, 0, 4, 4),)),
    ("F.batch_norm(a, None, None, training=True)", ((),)),
    ("F.batch_norm(a, torch.zeros(3), torch.ones(3))", ((3,),)),
    ("F.batch_norm(a, torch.zeros(3), torch.ones(3))", ((0,),)),
    ("nn.BatchNorm1d(0)(a)", ((0, 0),)),
    ("F.instance_norm(a, torch.zeros(3), torch.ones(3), use_input_stats=False)", ((3,),)),
    ("F.instance_norm(a, torch.zeros(3), torch.ones(3), use_input_stats=False)", ((),)),
    ("nn.utils.rnn.unpad_sequence(a, torch.tensor([3, 0]))", ((3, 2, 4),)),
    ("F.cross_entropy(a, b, c)", ((2, 3), ("long", 2), (2,))),
    ("torch.cdist(a, b)", ((0, 4), (3, 4))),
    ("torch.cdist(a, b)", ((3, 0), (2, 0))),
]


@pytest.mark.parametrize(("code", "shapes"), CASES)
def test_without_elements(code: str, shapes: tuple[Any, ...]) -> None:
    def program(torch: Any, log: Log) -> None:
        names: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, "nn": torch.nn}
        for name, shape in zip("abc", shapes):
            whole = shape[:1] == ("long",)
            names[name] = torch.zeros(shape[1:], dtype=torch.long) if whole else torch.ones(shape, requires_grad=True)
        result = eval(code, names)
        found = result if isinstance(result, tuple) else (result,)
        log(*found)
        leaves = [names[name] for name in "abc" if name in names and names[name].requires_grad]
        if found[0].requires_grad:
            log(torch.autograd.grad(found[0].sum(), leaves, allow_unused=True))

    agree(program)
