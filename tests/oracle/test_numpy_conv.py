"""Convolution kernels on NumPy arrays: values against PyTorch, and the adjoint identities that make their gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle.kernels import check, floats, normal, seeds, sizes, tensor, untouched
from undertow._src.arrays.numpy import conv as numpy_conv
from undertow._src.arrays.numpy.conv import conv, conv_input_grad, conv_weight_grad
from undertow._src.arrays.numpy.windows import fold, unfold

THEIRS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


@st.composite
def problems(draw: Any) -> tuple[tuple[int, ...], tuple[int, ...], tuple[Any, ...]]:
    """Input shape, weight shape and the arguments that follow them."""
    rank = draw(st.integers(1, 3))
    kernel, dilation, padding = draw(sizes(1, 3, rank)), draw(sizes(1, 2, rank)), draw(sizes(0, 3, rank))
    stride = draw(st.one_of(st.just((1,) * rank), sizes(1, 3, rank)))
    least = [max(1, d * (k - 1) + 1 - 2 * p) for k, p, d in zip(kernel, padding, dilation, strict=True)]
    size = tuple(n + extra for n, extra in zip(least, draw(sizes(0, 8, rank)), strict=True))
    groups = draw(st.integers(1, 3))
    inputs, outputs = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    batch = draw(st.integers(0, 4))
    return (
        (batch, groups * inputs, *size),
        (groups * outputs, inputs, *kernel),
        (stride, padding, dilation, groups),
    )


@settings(max_examples=80, deadline=None)
@given(problems(), seeds, floats, st.booleans())
def test_three_contractions(problem: Any, seed: int, dtype: str, strided: bool) -> None:
    x_shape, w_shape, args = problem
    x, w = normal(seed, x_shape, dtype, strided), normal(seed + 1, w_shape, dtype, strided)
    tx, tw = tensor(x, True), tensor(w, True)
    y = THEIRS[len(w_shape) - 2](tx, tw, None, *args)
    g = normal(seed + 2, tuple(y.shape), dtype, strided)
    gx, gw = torch.autograd.grad(y, (tx, tw), tensor(g))
    scale = 4 * math.sqrt(math.prod(w_shape)) + g.size**0.5
    check(untouched(lambda x, w: conv(x, w, *args), x, w), y, scale)
    check(untouched(lambda g, w: conv_input_grad(g, w, x_shape, *args), g, w), gx, scale)
    check(untouched(lambda g, x: conv_weight_grad(g, x, w_shape, *args), g, x), gw, scale)


@settings(max_examples=40, deadline=None)
@given(problems(), seeds)
def test_adjoints(problem: Any, seed: int) -> None:
    """⟨g, conv(x, w)⟩ = ⟨conv_input_grad(g, w), x⟩ = ⟨conv_weight_grad(g, x), w⟩."""
    x_shape, w_shape, args = problem
    x, w = normal(seed, x_shape), normal(seed + 1, w_shape)
    y = conv(x, w, *args)
    g = normal(seed + 2, y.shape)
    form = np.vdot(g, y)
    np.testing.assert_allclose(np.vdot(conv_input_grad(g, w, x_shape, *args), x), form, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.vdot(conv_weight_grad(g, x, w_shape, *args), w), form, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("budget", [64, 4096])
def test_blocks_of_images_and_rows(monkeypatch: pytest.MonkeyPatch, stride: int, budget: int) -> None:
    """Little memory for columns: several blocks of images, and images cut into rows."""
    monkeypatch.setattr(numpy_conv, "_COLUMN_BYTES", budget)
    x, w = normal(0, (5, 2, 17, 20)), normal(1, (3, 2, 3, 3))
    args: Any = ((stride, stride), (1, 1), (1, 1), 1)
    tx, tw = tensor(x, True), tensor(w, True)
    y = F.conv2d(tx, tw, None, *args)
    g = normal(2, tuple(y.shape))
    gx, gw = torch.autograd.grad(y, (tx, tw), tensor(g))
    check(conv(x, w, *args), y, 10)
    check(conv_input_grad(g, w, x.shape, *args), gx, 10)
    check(conv_weight_grad(g, x, w.shape, *args), gw, 1000)


def test_pointwise() -> None:
    x, w = normal(0, (3, 4, 9, 10), "float32"), normal(1, (6, 2, 1, 1), "float32")
    args: Any = ((1, 1), (0, 0), (1, 1), 2)
    check(conv(x, w, *args), F.conv2d(tensor(x), tensor(w), None, *args))


@pytest.mark.parametrize("output_padding", [0, 1])
def test_transposed_convolution(output_padding: int) -> None:
    g, w = normal(0, (2, 4, 5, 6)), normal(1, (4, 3, 3, 2))
    want = F.conv_transpose2d(tensor(g), tensor(w), None, 2, 1, output_padding)
    check(conv_input_grad(g, w, tuple(want.shape), (2, 2), (1, 1), (1, 1), 1), want, 10)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_infinite_values_stay_where_they_are(value: float) -> None:
    """Windows that wrap around image rows must not carry an inf, or make a nan of it."""
    x, w = np.abs(normal(0, (2, 2, 24, 24))), np.abs(normal(1, (3, 2, 3, 3)))
    args: Any = ((1, 1), (1, 1), (1, 1), 1)
    x[0, 1, 5, 23] = value
    tx, tw = tensor(x, True), tensor(w, True)
    y = F.conv2d(tx, tw, None, *args)
    g = np.abs(normal(2, tuple(y.shape)))
    g[1, 0, 7, 0] = value
    gx, gw = torch.autograd.grad(y, (tx, tw), tensor(g))
    check(conv(x, w, *args), y, 10)
    check(conv_input_grad(g, w, x.shape, *args), gx, 10)
    check(conv_weight_grad(g, x, w.shape, *args), gw, 1000)


def test_complex_and_half_precision() -> None:
    args: Any = ((1, 2), (1, 0), (1, 1), 1)
    z = normal(0, (2, 2, 6, 7)) + 1j * normal(1, (2, 2, 6, 7))
    v = normal(2, (3, 2, 2, 3)) + 1j * normal(3, (3, 2, 2, 3))
    np.testing.assert_allclose(conv(z, v, *args), F.conv2d(tensor(z), tensor(v), None, *args).numpy(), rtol=1e-12)
    x, w = normal(0, (2, 2, 6, 7), "float16"), normal(2, (3, 2, 2, 3), "float16")
    check(conv(x, w, *args), F.conv2d(tensor(x), tensor(w), None, *args), 10)


@settings(max_examples=40, deadline=None)
@given(problems().filter(lambda p: len(p[1]) == 4 and p[0][0] > 0), seeds, st.booleans())
def test_unfold_and_fold(problem: Any, seed: int, strided: bool) -> None:
    x_shape, w_shape, (stride, padding, dilation, _) = problem
    kernel, size = w_shape[2:], x_shape[2:]
    x = normal(seed, x_shape, strided=strided)
    columns = unfold(x, kernel, stride, padding, dilation)
    check(columns, F.unfold(tensor(x), kernel, dilation, padding, stride))
    check(fold(columns, size, kernel, stride, padding, dilation),
          F.fold(tensor(columns), size, kernel, dilation, padding, stride), 10)  # fmt: skip
