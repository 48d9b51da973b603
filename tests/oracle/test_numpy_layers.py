"""The array kernels of attention, norms, embeddings and losses in the sizes and cases that small samples do not reach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from undertow._src.arrays import composed
from undertow._src.arrays.numpy import attention as numpy_attention
from undertow._src.arrays.numpy import embedding as numpy_embedding
from undertow._src.arrays.numpy import namespace as numpy_xp
from undertow._src.arrays.numpy import norm as numpy_norm
from undertow._src.arrays.quiet import quietly


def numbers(seed: int, *shape: int, dtype: str = "float64") -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def leaf(array: Any) -> Any:
    return torch.tensor(array, requires_grad=True)


def close(actual: Any, expected: Any, rtol: float = 1e-9, atol: float = 1e-10) -> None:
    np.testing.assert_allclose(actual, expected.detach().numpy(), rtol=rtol, atol=atol)


@pytest.mark.parametrize("kept", [1 << 26, 0], ids=["weights_kept", "weights_again"])
@pytest.mark.parametrize("sizes", [(3, 150, 150), (2, 130, 260), (2, 260, 130), (5, 40, 30)])
@pytest.mark.parametrize("case", ["plain", "causal", "mask", "hidden_rows", "large"])
def test_attention(monkeypatch: pytest.MonkeyPatch, kept: int, sizes: tuple[int, int, int], case: str) -> None:
    monkeypatch.setattr(numpy_attention, "_KEPT_BYTES", kept)
    heads, length, source = sizes
    q = numbers(0, 2, length, heads, 8).transpose(0, 2, 1, 3)
    k, v = numbers(1, 2, heads, source, 8), numbers(2, 2, heads, source, 8)
    if case == "large":
        q = q * 60
    mask = numbers(3, length, source) if case == "mask" else None
    if case == "hidden_rows":
        mask = np.where(np.random.default_rng(4).random((2, 1, length, source)) < 0.5, 0.0, -np.inf)
        mask[:, :, 3] = -np.inf
    causal, scale = case == "causal", 0.3
    leaves = [leaf(x) for x in (q, k, v)]
    added = None if mask is None else torch.tensor(mask)
    want = F.scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], added, is_causal=causal, scale=scale)
    g = numbers(5, 2, heads, length, 8)
    grads = torch.autograd.grad(want, leaves, torch.tensor(g))
    out, rows, weights = quietly(numpy_attention.attention, q, k, v, mask, causal, scale)
    close(out, want)
    assert out.strides == np.empty_like(q).strides  # laid out as the query is
    got = quietly(numpy_attention.attention_grad, g, q, k, v, mask, out, rows, weights, causal, scale)
    for one, other in zip(got, grads, strict=True):
        close(one, other, 1e-8, 1e-9)


@pytest.mark.parametrize("mean", [0.0, 3.0, 1000.0])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape", [(40, 7, 96), (3, 5000), (5000, 3)])
def test_layer_norm(shape: tuple[int, ...], affine: bool, mean: float) -> None:
    x, g = numbers(0, *shape) + mean, numbers(1, *shape)
    width = shape[-1:]
    weight, bias = (numbers(2, *width), numbers(3, *width)) if affine else (None, None)
    leaves = [leaf(a) for a in (x, weight, bias) if a is not None]
    want = F.layer_norm(leaves[0], width, *leaves[1:])
    grads = torch.autograd.grad(want, leaves, torch.tensor(g))
    out, center, rstd = numpy_norm.layer_norm(x, 1, weight, bias, 1e-5)
    close(out, want, 1e-7, 1e-8)
    got = numpy_norm.layer_norm_grad(g, x, center, rstd, weight, 1, (True, affine, affine))
    for one, other in zip([a for a in got if a is not None], grads, strict=True):
        close(one, other, 1e-6, 1e-7)


def test_layer_norm_keeps_float32_exact_far_from_zero() -> None:
    x = (numbers(0, 64, 128) + 1e4).astype("float32")
    exact = F.layer_norm(torch.tensor(x, dtype=torch.float64), (128,))
    out, _, _ = numpy_norm.layer_norm(x, 1, None, None, 1e-5)
    close(out, exact, 1e-4, 1e-4)


@pytest.mark.parametrize("mean", [0.0, 1000.0])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [(6, 3, 20, 30), (50, 3), (4, 3, 5)])
def test_batch_norm(shape: tuple[int, ...], training: bool, mean: float) -> None:
    x, g = numbers(0, *shape) + mean, numbers(1, *shape)
    weight, bias, running = numbers(2, 3), numbers(3, 3), (numbers(4, 3) + mean, np.abs(numbers(5, 3)) + 0.5)
    leaves = [leaf(a) for a in (x, weight, bias)]
    means, variances = map(torch.tensor, running)
    want = F.batch_norm(leaves[0], means, variances, leaves[1], leaves[2], training)
    grads = torch.autograd.grad(want, leaves, torch.tensor(g))
    center, variance = numpy_norm.channel_moments(x) if training else running
    rstd = 1 / np.sqrt(variance + 1e-5)
    close(numpy_norm.channel_affine(x, rstd * weight, bias - center * rstd * weight), want, 1e-6, 1e-7)
    for one, other in zip(
        numpy_norm.batch_norm_grad(g, x, center, rstd, weight, training, (True,) * 3, 1e-5), grads, strict=True
    ):
        close(one, other, 1e-6, 1e-6)


@pytest.mark.parametrize("kernel", ["layer_norm", "rms_norm", "batch_norm"])
@pytest.mark.parametrize("needs", [(True, True, True), (True, False, False), (False, True, True)])
def test_composed_kernels_are_numpys(kernel: str, needs: tuple[bool, ...]) -> None:
    x, g, weight, bias = numbers(0, 60, 4, 30), numbers(1, 60, 4, 30), numbers(2, 30), numbers(3, 30)
    pair: tuple[Any, Any]
    arguments: tuple[Any, ...]
    if kernel == "layer_norm":
        _, mean, rstd = composed.layer_norm(numpy_xp, x, 1, weight, bias, 1e-5)
        arguments = (g, x, mean, rstd, weight, 1, needs)
        pair = composed.layer_norm_grad(numpy_xp, *arguments), numpy_norm.layer_norm_grad(*arguments)
    elif kernel == "rms_norm":
        _, rstd = composed.rms_norm(numpy_xp, x, 1, weight, 1e-5)
        arguments = (g, x, rstd, weight, 1, needs[:2])
        pair = composed.rms_norm_grad(numpy_xp, *arguments), numpy_norm.rms_norm_grad(*arguments)
    else:
        mean, variance = composed.channel_moments(numpy_xp, x)
        arguments = (g, x, mean, 1 / np.sqrt(variance + 1e-5), weight[:4], True, needs, 1e-5)
        pair = composed.batch_norm_grad(numpy_xp, *arguments), numpy_norm.batch_norm_grad(*arguments)
    for one, other in zip(*pair, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("count", [5, 300])
def test_rows_are_added(count: int) -> None:
    index, rows = np.random.default_rng(0).integers(0, count, (8, 10)), numbers(1, 8, 10, 3)
    want = np.zeros((count, 3))
    np.add.at(want, index, rows)
    np.testing.assert_allclose(numpy_embedding.add_rows(rows, index, count), want, rtol=1e-12)
