"""Softmax, normalisation, row reductions and resizing on NumPy arrays against PyTorch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.oracle.kernels import check, floats, normal, seeds, tensor, untouched
from undertow._src.arrays.numpy import nn as nn
from undertow._src.arrays.numpy import norm as norm
from undertow._src.arrays.numpy import resize as resize
from undertow._src.arrays.numpy import rows as rows

SHAPES = [(), (5,), (3000,), (4, 0), (0, 4), (5, 7), (300, 10), (300, 64), (40, 1000), (3, 4, 5, 6)]
INFINITE = np.array([[-np.inf, -np.inf], [np.inf, 0], [np.nan, 1], [-1e4, -1e4], [np.inf, -np.inf], [-np.inf, 2]])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [1.0, 30.0, 1e5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softmax(shape: tuple[int, ...], size: float, dtype: str) -> None:
    """Near zero, far from it, and too far for e^x without a shift."""
    for axis in range(-max(1, len(shape)), max(1, len(shape))):
        x = (normal(axis + 9, shape) * size + 0.7 * size).astype(dtype)
        g = normal(1, shape, dtype)
        tx = tensor(x, True)
        soft, log_soft = F.softmax(tx, axis), F.log_softmax(tx, axis)
        check(untouched(lambda x: nn.softmax(x, axis), x), soft, 0.01)
        check(untouched(lambda x: nn.log_softmax(x, axis), x), log_soft, 0.1)
        y, log_y = soft.detach().numpy(), log_soft.detach().numpy()
        (gx,) = torch.autograd.grad(soft, tx, tensor(g))
        check(untouched(lambda g, y: nn.softmax_grad(g, y, axis), g, y), gx)
        (gx,) = torch.autograd.grad(log_soft, tx, tensor(g))
        check(untouched(lambda g, y: nn.log_softmax_grad(g, y, axis), g, log_y), gx, 30)
        if x.shape and 0 not in x.shape:
            check(nn.logsumexp(x, (axis,), False), torch.logsumexp(tx, axis))


def test_confident_log_softmax_keeps_its_digits() -> None:
    x = normal(0, (4000, 10)).astype(np.float32)
    x[:, 3] += 14
    want = torch.log_softmax(tensor(x).double(), 1).numpy()
    got = nn.log_softmax(x, 1)
    theirs = torch.log_softmax(tensor(x), 1).numpy()
    assert np.abs(got - want).max() <= 2 * np.abs(theirs - want).max()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("repeats", [1, 1500])
def test_softmax_of_infinities(dtype: str, repeats: int) -> None:
    x = np.tile(INFINITE.astype(dtype), (repeats, 1))
    check(nn.softmax(x, 1), F.softmax(tensor(x), 1))
    check(nn.log_softmax(x, 1), F.log_softmax(tensor(x), 1))
    check(nn.softmax(x.T.copy(), 0), F.softmax(tensor(x.T), 0))
    check(nn.logsumexp(x, (1,), True), torch.logsumexp(tensor(x), 1, True))


def test_logsumexp_over_several_axes() -> None:
    x = normal(0, (3, 4, 5, 6), strided=True)
    check(nn.logsumexp(x, (0, -1), False), torch.logsumexp(tensor(x), (0, -1)))
    check(nn.logsumexp(x, (1, 2), True), torch.logsumexp(tensor(x), (1, 2), True))
    empty = np.zeros((0, 3))
    check(nn.logsumexp(empty, (0,), False), torch.logsumexp(tensor(empty), 0))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 300), st.integers(1, 130), seeds, floats, st.booleans())
def test_row_reductions(count: int, width: int, seed: int, dtype: str, strided: bool) -> None:
    x = normal(seed, (count, width), dtype, strided and count > 0)
    y = normal(seed + 1, (count, width), dtype)
    np.testing.assert_allclose(rows.row_sums(x), x.astype(np.float64).sum(1), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(rows.row_dots(x, y), (x.astype(np.float64) * y).sum(1), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(rows.row_maxima(x), x.max(axis=1))


def test_row_maxima_carry_nan() -> None:
    x = normal(0, (500, 8))
    x[7, 0] = x[9, 7] = np.nan
    np.testing.assert_array_equal(rows.row_maxima(x), x.max(axis=1))


@pytest.mark.parametrize("offset", [0.0, 100.0])
@pytest.mark.parametrize(
    "shape, trailing", [((4, 3, 16), 1), ((4, 3, 16), 2), ((700, 5), 1), ((2, 900), 2), ((0, 8), 1)]
)
def test_layer_norm(shape: tuple[int, ...], trailing: int, offset: float) -> None:
    x = normal(0, shape) + offset
    g = normal(1, shape)
    tx = tensor(x, True)
    want, mean, rstd = torch.native_layer_norm(tx, list(shape[-trailing:]), None, None, 1e-5)
    got = untouched(lambda x: norm.layer_norm(x, trailing, None, None, 1e-5), x)
    for mine, theirs in zip(got, (want, mean, rstd), strict=True):
        check(mine, theirs, 1000)
    (gx,) = torch.autograd.grad(want, tx, tensor(g))
    needs = (True, False, False)
    back = untouched(lambda g, x, m, r: norm.layer_norm_grad(g, x, m, r, None, trailing, needs)[0], g, x, *got[1:])
    check(back, gx, 1000)


def test_layer_norm_in_float32_is_at_least_as_accurate() -> None:
    for offset in (0.0, 100.0, 1e4):
        x = (normal(0, (200, 300)) + offset).astype(np.float32)
        want = F.layer_norm(tensor(x).double(), (300,)).numpy()
        theirs = np.abs(F.layer_norm(tensor(x), (300,)).numpy() - want).max()
        assert np.abs(norm.layer_norm(x, 1, None, None, 1e-5)[0] - want).max() <= max(theirs, 1e-6)


def test_rms_norm() -> None:
    x, g = normal(0, (6, 5, 40)), normal(1, (6, 5, 40))
    tx = tensor(x, True)
    want = F.rms_norm(tx, (40,), eps=1e-5)
    got, rstd = norm.rms_norm(x, 1, None, 1e-5)
    check(got, want)
    back, _ = norm.rms_norm_grad(g, x, rstd, None, 1, (True, False))
    assert back is not None
    check(back, torch.autograd.grad(want, tx, tensor(g))[0])


@pytest.mark.parametrize("shape", [(8, 3), (64, 5), (6, 4, 9), (5, 3, 7, 8), (40, 16, 32, 32)])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_batch_norm(shape: tuple[int, ...], offset: float) -> None:
    x, g = normal(0, shape) + offset, normal(1, shape)
    tx = tensor(x, True)
    axes = [a for a in range(len(shape)) if a != 1]
    mean, variance = untouched(norm.channel_moments, x)
    check(mean, tx.mean(axes))
    check(variance, tx.var(axes, correction=0), 100)
    want = F.batch_norm(tx, None, None, training=True)
    rstd = 1 / np.sqrt(variance + 1e-5)
    check(norm.channel_affine(x, rstd, -mean * rstd), want, 1000)
    (gx,) = torch.autograd.grad(want, tx, tensor(g))
    needs = (True, False, False)
    back = untouched(lambda g, x, m, r: norm.batch_norm_grad(g, x, m, r, None, True, needs, 1e-5)[0], g, x, mean, rstd)
    check(back, gx, 1000)
    check(rows.channel_sums(x), tx.sum(axes), 1000)
    check(rows.channel_dots(x, g), (tx * tensor(g)).sum(axes), 1000)


def test_half_precision() -> None:
    x = normal(0, (6, 20), "float16")
    check(nn.softmax(x, 1), F.softmax(tensor(x), 1))
    check(nn.log_softmax(x, 0), F.log_softmax(tensor(x), 0))
    check(nn.logsumexp(x, (1,), False), torch.logsumexp(tensor(x), 1))


# --- resizing -----------------------------------------------------------------------------------------------------

lengths = st.integers(1, 40)
scales = st.sampled_from([0.3, 0.5, 0.7, 1.5, 2.0, 2.5, 3.3])


@settings(max_examples=80, deadline=None)
@given(lengths, st.integers(1, 60), st.one_of(st.none(), scales), floats, st.booleans())
def test_nearest(size: int, count: int, scale: float | None, dtype: str, exact: bool) -> None:
    x = normal(0, (2, size), dtype)[None]
    count = count if scale is None else int(size * scale)
    assume(count)
    mode = "nearest-exact" if exact else "nearest"
    asked: dict[str, Any] = {"size": count} if scale is None else {"scale_factor": scale}
    want = F.interpolate(tensor(x), mode=mode, **asked).numpy()
    indices = resize.nearest_indices(size, count, scale, exact, dtype)
    if not (
        exact and size == 2
    ):  # PyTorch's 1-d kernel rounds ties of a pair by a fused multiply, its 2-d kernel does not
        np.testing.assert_array_equal(x[..., indices], want)


def taps_of(mode: str, size: int, count: int, corners: bool, scale: float | None, antialias: bool, dtype: str) -> Any:
    if antialias:
        return resize.antialias_taps(size, count, mode == "bicubic", corners, scale, dtype)
    make = resize.cubic_taps if mode == "bicubic" else resize.linear_taps
    return make(size, count, corners, scale, dtype)


@settings(max_examples=80, deadline=None)
@given(st.tuples(lengths, lengths), st.tuples(lengths, lengths), st.one_of(st.none(), scales),
       st.sampled_from(["bilinear", "bicubic"]), st.booleans(), st.booleans(), st.booleans())  # fmt: skip
def test_interpolation(
    size: Any, counts: Any, scale: Any, mode: str, corners: bool, antialias: bool, long: bool
) -> None:
    size = tuple(n + 120 * long for n in size)
    if scale is not None:
        counts = tuple(int(n * scale) for n in size)
        assume(all(0 < c != n for c, n in zip(counts, size, strict=True)))
    assume(not antialias or min(*size, *counts) > 1)  # PyTorch repeats one value along such an axis
    asked: dict[str, Any] = {"size": counts} if scale is None else {"scale_factor": scale}
    x = normal(0, (1, 2, *size))
    tx = tensor(x, True)
    want = F.interpolate(tx, mode=mode, align_corners=corners, antialias=antialias, **asked)
    tall, wide = [taps_of(mode, n, c, corners, scale, antialias, "float64") for n, c in zip(size, counts, strict=True)]
    check(untouched(lambda x: resize.resize(resize.resize(x, wide, -1), tall, -2), x), want, 100)
    g = normal(1, tuple(want.shape))
    (gx,) = torch.autograd.grad(want, tx, tensor(g))
    check(untouched(lambda g: resize.resize_adjoint(resize.resize_adjoint(g, tall, 2), wide, 3), g), gx, 1000)


def test_resizing_keeps_infinities_local() -> None:
    x = normal(0, (1, 2, 9), "float32")
    x[0, 0, 4] = np.inf
    tx = tensor(x, True)
    want = F.interpolate(tx, size=20, mode="linear")
    taps = resize.linear_taps(9, 20)
    check(resize.resize(x, taps, -1), want)
    g = normal(1, (1, 2, 20), "float32")
    g[0, 1, 3] = -np.inf
    got, expected = resize.resize_adjoint(g, taps, -1), torch.autograd.grad(want, tx, tensor(g))[0].numpy()
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(expected))
    matrix = resize.resize_matrix(taps)
    assert matrix.shape == (20, 9)
    assert math.isclose(matrix.sum(), 20, rel_tol=1e-6)
