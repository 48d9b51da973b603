"""Pooling kernels on NumPy arrays against PyTorch: values, indices and adjoints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.oracle.kernels import check, floats, normal, seeds, sizes, tensor, untouched
from undertow._src.arrays.numpy import pool as pool


def theirs(name: str, rank: int) -> Any:
    return getattr(F, f"{name}{rank}d")


@st.composite
def problems(draw: Any) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """Input shape, and kernel, stride, padding, dilation, ceil_mode."""
    rank = draw(st.integers(1, 3))
    kernel = draw(sizes(1, 4, rank))
    stride = draw(st.one_of(st.just(kernel), sizes(1, 4, rank)))
    padding = tuple(draw(st.integers(0, k // 2)) for k in kernel)
    dilation = draw(st.one_of(st.just((1,) * rank), sizes(1, 2, rank)))
    least = [max(1, d * (k - 1) + 1 - 2 * p) for k, p, d in zip(kernel, padding, dilation, strict=True)]
    size = tuple(n + extra for n, extra in zip(least, draw(sizes(0, 7, rank)), strict=True))
    lead = draw(st.sampled_from([(2,), (1, 3), (3, 2), (0, 2)]))
    return (*lead, *size), (kernel, stride, padding, dilation, draw(st.booleans()))


@settings(max_examples=120, deadline=None)
@given(problems(), seeds, st.sampled_from(["normal", "ties", "nan", "-inf", "int64"]), st.booleans())
def test_max_pool(problem: Any, seed: int, content: str, strided: bool) -> None:
    shape, args = problem
    rank = len(args[0])
    assume(shape[0] or len(shape) == rank + 2)
    x = normal(seed, shape, strided=strided)
    if content in ("ties", "int64"):
        x = np.rint(x)
    if content == "int64":
        x = x.astype(np.int64)
    if content == "nan":
        x = np.where(normal(seed + 1, shape) > 1, np.nan, x)
    if content == "-inf":
        x = np.full(shape, -np.inf)
    values, indices = untouched(lambda x: pool.max_pool(x, *args), x)
    want, places = theirs("max_pool", rank)(tensor(x), *args, return_indices=True)
    check(values, want)
    check(indices, places)


@settings(max_examples=60, deadline=None)
@given(problems(), seeds)
def test_max_pool_gradients(problem: Any, seed: int) -> None:
    shape, args = problem
    rank = len(args[0])
    x = normal(seed, shape)
    tx = tensor(x, True)
    want, places = theirs("max_pool", rank)(tx, *args, return_indices=True)
    assume(np.isfinite(want.detach().numpy()).all())  # a dilated window may miss the input altogether
    g, indices, size = normal(seed + 1, tuple(want.shape)), places.numpy(), shape[len(shape) - rank :]
    (gx,) = torch.autograd.grad(want, tx, tensor(g))
    check(untouched(lambda g, i: pool.add_to_planes(g, i, size), g, indices), gx)
    check(pool.take_from_planes(x, indices, rank), want)
    if all(s >= d * (k - 1) + 1 for k, s, d in zip(args[0], args[1], args[3], strict=True)):
        check(pool.add_to_planes(g, indices, size, distinct=True), gx)


def test_max_unpool() -> None:
    x = normal(0, (2, 3, 6, 8))
    values, indices = F.max_pool2d(tensor(x), 2, return_indices=True)
    check(pool.put_in_planes(values.numpy(), indices.numpy(), (6, 8)), F.max_unpool2d(values, indices, 2))


@settings(max_examples=100, deadline=None)
@given(problems(), seeds, floats, st.booleans(), st.sampled_from([None, None, 1, 5]), st.booleans())
def test_avg_pool(problem: Any, seed: int, dtype: str, include: bool, divisor: int | None, strided: bool) -> None:
    shape, (kernel, stride, padding, _, ceil_mode) = problem
    rank = len(kernel)
    assume(rank < 3 or all(n >= k for n, k in zip(shape[-3:], kernel, strict=True)))  # PyTorch's avg_pool3d insists
    divisor = divisor if rank > 1 else None
    x = normal(seed, shape, dtype, strided)
    tx = tensor(x, True)
    extra = {"divisor_override": divisor} if rank > 1 else {}
    want = theirs("avg_pool", rank)(tx, kernel, stride, padding, ceil_mode, include, **extra)
    check(untouched(lambda x: pool.avg_pool(x, kernel, stride, padding, ceil_mode, include, divisor), x), want, 10)
    g, size = normal(seed + 1, tuple(want.shape), dtype, strided), shape[len(shape) - rank :]
    (gx,) = torch.autograd.grad(want, tx, tensor(g))
    got = untouched(lambda g: pool.avg_pool_grad(g, size, kernel, stride, padding, include, divisor), g)
    check(got, gx, 10)


def test_avg_pool_of_long_tiling_windows_integers_and_halves() -> None:
    x = normal(0, (2, 3, 32, 24), "float32")
    check(pool.avg_pool(x, (16, 8), (16, 8), (0, 0)), F.avg_pool2d(tensor(x), (16, 8)))
    n = np.array([[[-5, 2], [-1, 1]]])
    check(pool.avg_pool(n, (2, 2), (2, 2), (0, 0), divisor_override=2), F.avg_pool2d(tensor(n), 2, divisor_override=2))
    h = normal(0, (2, 3, 8, 8), "float16")
    check(pool.avg_pool(h, (2, 2), (2, 2), (0, 0)), F.avg_pool2d(tensor(h), 2))


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 3), st.data(), seeds, st.booleans())
def test_adaptive_pools(rank: int, data: st.DataObject, seed: int, strided: bool) -> None:
    shape, counts = (2, 3, *data.draw(sizes(1, 9, rank))), data.draw(sizes(1, 6, rank))
    x = normal(seed, shape, strided=strided)
    tx = tensor(x, True)
    mean = theirs("adaptive_avg_pool", rank)(tx, counts)
    check(untouched(lambda x: pool.adaptive_avg_pool(x, counts), x), mean)
    g = normal(seed + 1, tuple(mean.shape), strided=strided)
    check(pool.adaptive_avg_pool_grad(g, shape[2:]), torch.autograd.grad(mean, tx, tensor(g))[0])
    with_nan = np.where(normal(seed + 2, shape) > 1.5, np.nan, np.rint(x))
    for content in (x, with_nan):
        values, indices = untouched(lambda x: pool.adaptive_max_pool(x, counts), content)
        want, places = theirs("adaptive_max_pool", rank)(tensor(content), counts, return_indices=True)
        check(values, want)
        check(indices, places)


@pytest.mark.parametrize("batch", [0, 2])
def test_whole_planes(batch: int) -> None:
    x = normal(0, (batch, 3, 7, 9), "float32")
    check(pool.adaptive_avg_pool(x, (1, 1)), F.adaptive_avg_pool2d(tensor(x), 1))
    check(pool.adaptive_max_pool(x, (1, 1))[0], F.adaptive_max_pool2d(tensor(x), 1))
