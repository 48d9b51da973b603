"""Gathers, scatters, uniques and running reductions on NumPy arrays against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle.kernels import check, normal, seeds, sizes, tensor, untouched
from undertow._src.arrays.numpy import scan as scan
from undertow._src.arrays.numpy import scatter as kernels

REDUCTIONS = ["sum", "prod", "mean", "amax", "amin"]


@st.composite
def indexed(draw: Any) -> tuple[np.ndarray, int, np.ndarray, np.ndarray]:
    """An array, an axis, an index along it (shorter on other axes) and a source that may be larger than the index."""
    rank = draw(st.integers(0, 3))
    shape = draw(sizes(1, 5, rank))
    axis = draw(st.integers(-rank, rank - 1)) if rank else 0
    seed = draw(seeds)
    index_shape = tuple(
        draw(st.integers(0, 7 if rank and d == axis % rank else n)) for d, n in enumerate(shape)
    )  # fmt: skip
    index = np.random.default_rng(seed).integers(0, shape[axis] if rank else 1, index_shape)
    source_shape = tuple(n + draw(st.integers(0, 2)) for n in index_shape)
    return normal(seed, shape), axis, np.asarray(index), normal(seed + 1, source_shape)


@settings(max_examples=120, deadline=None)
@given(indexed())
def test_gather_and_scatter(case: Any) -> None:
    x, axis, index, source = case
    tx, ti, ts = tensor(x), tensor(index), tensor(source)
    check(untouched(lambda x, i: kernels.gather(x, axis, i), x, index), torch.gather(tx, axis, ti))
    check(untouched(lambda x, i, s: kernels.scatter_add(x, axis, i, s), x, index, source),
          torch.scatter_add(tx, axis, ti, ts))  # fmt: skip
    check(kernels.scatter(x, axis, index, source), torch.scatter(tx, axis, ti, ts))


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("include_self", [True, False])
@settings(max_examples=30, deadline=None)
@given(case=indexed())
def test_scatter_reduce(case: Any, reduce: str, include_self: bool) -> None:
    x, axis, index, source = case
    for values, more in ((x, source), (np.asarray(10 * x, np.int64), np.asarray(10 * source, np.int64))):
        got = untouched(
            lambda x, i, s: kernels.scatter_reduce(x, axis, i, s, reduce, include_self), values, index, more
        )
        want = torch.scatter_reduce(
            tensor(values), axis, tensor(index), tensor(more), reduce, include_self=include_self
        )
        check(got, want)


@settings(max_examples=80, deadline=None)
@given(st.data(), seeds)
def test_index_add_and_index_put(data: st.DataObject, seed: int) -> None:
    rank = data.draw(st.integers(1, 3))
    shape = data.draw(sizes(1, 5, rank))
    axis = data.draw(st.integers(-rank, rank - 1))
    pick = np.random.default_rng(seed)
    x, index = normal(seed, shape), pick.integers(0, shape[axis], data.draw(st.integers(0, 6)))
    source_shape = list(shape)
    source_shape[axis] = len(index)
    source = normal(seed + 1, tuple(source_shape), strided=True)
    got = untouched(lambda x, i, s: kernels.index_add(x, axis, i, s), x, index, source)
    check(got, torch.index_add(tensor(x), axis, tensor(index), tensor(source)))

    lead = data.draw(st.integers(1, rank))
    arrays = tuple(pick.integers(-n, n, (3, 1) if j == 0 else (4,)) for j, n in enumerate(shape[:lead]))
    values = normal(seed + 2, x[arrays].shape)
    got = kernels.index_put(x, arrays, values, accumulate=True)
    check(got, torch.index_put(tensor(x), tuple(map(tensor, arrays)), tensor(values), accumulate=True))

    mask, two = normal(seed + 3, shape) > 0, np.array(2.0)
    for accumulate in (True, False):
        want = torch.index_put(tensor(x), (tensor(mask),), tensor(two), accumulate)
        check(kernels.index_put(x, (mask,), two, accumulate), want)
    last = pick.integers(0, shape[-1], 5)
    expected = tensor(x).transpose(0, -1).contiguous()
    expected = expected.index_put((tensor(last),), tensor(two), accumulate=True).transpose(0, -1).contiguous()
    check(kernels.index_put(x, (Ellipsis, last), two, accumulate=True), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count, width, rows", [(7, 3, 20), (500, 64, 2000), (5, 1, 0), (3, 40_000, 4)])
def test_embedding_gradient(count: int, width: int, rows: int, dtype: str) -> None:
    g, index = normal(0, (rows, width), dtype), np.random.default_rng(1).integers(0, count, rows)
    want = torch.zeros(count, width, dtype=getattr(torch, dtype)).index_add(0, tensor(index), tensor(g))
    check(untouched(lambda g, i: kernels.add_rows(g, i, count), g, index), want, 10)


@settings(max_examples=80, deadline=None)
@given(st.data(), seeds)
def test_uniques_and_one_hot(data: st.DataObject, seed: int) -> None:
    rank = data.draw(st.integers(1, 3))
    shape = data.draw(sizes(1, 5, rank))
    x = np.random.default_rng(seed).integers(0, 3, shape)
    check(kernels.one_hot(x, 4), torch.nn.functional.one_hot(tensor(x), 4))
    pairs: list[Any] = [(kernels.unique, torch.unique), (kernels.unique_consecutive, torch.unique_consecutive)]
    for axis in (None, data.draw(st.integers(-rank, rank - 1))):
        for mine, theirs in pairs:
            want = theirs(tensor(x), return_inverse=True, return_counts=True, dim=axis)
            for got, expected in zip(untouched(lambda x: mine(x, axis), x), want, strict=True):
                np.testing.assert_array_equal(got, expected.numpy())
    nans = np.array([2.0, np.nan, 1.0, np.nan, 2.0])
    np.testing.assert_array_equal(kernels.unique(nans)[0], torch.unique(tensor(nans)).numpy())


@settings(max_examples=80, deadline=None)
@given(st.data(), seeds, st.sampled_from(["float32", "float64", "int32"]))
def test_running_reductions(data: st.DataObject, seed: int, dtype: str) -> None:
    rank = data.draw(st.integers(0, 3))
    shape = data.draw(sizes(1, 6, rank))
    axis = data.draw(st.integers(-rank, rank - 1)) if rank else 0
    x = np.asarray(3 * normal(seed, shape), dtype)
    check(untouched(lambda x: scan.cumsum(x, axis), x), torch.cumsum(tensor(x), axis))
    check(untouched(lambda x: scan.cumprod(x, axis), x), torch.cumprod(tensor(x), axis))
    ties = np.asarray(np.rint(x))
    if dtype != "int32":
        check(scan.logcumsumexp(x, axis), torch.logcumsumexp(tensor(x), axis))
        ties = np.where(ties == 2, np.nan, ties).astype(dtype)
    else:
        ties = x
    for mine, theirs in ((scan.cummax, torch.cummax), (scan.cummin, torch.cummin)):
        for got, want in zip(untouched(lambda x: mine(x, axis), ties), theirs(tensor(ties), axis), strict=True):
            check(got, want)


def test_running_sums_are_pytorch_s_to_the_last_bit() -> None:
    x = normal(0, (5, 4000), "float32")
    np.testing.assert_array_equal(scan.cumsum(x, 1), torch.cumsum(tensor(x), 1).numpy())
    np.testing.assert_array_equal(scan.cumsum(x, 0), torch.cumsum(tensor(x), 0).numpy())
