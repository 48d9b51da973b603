"""What the tests of the NumPy kernels share: drawing arrays and comparing them with what PyTorch computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

ROUNDING = {"float32": 3e-6, "float64": 1e-12, "float16": 2e-3}

floats = st.sampled_from(["float32", "float64"])
seeds = st.integers(0, 2**32 - 1)


def normal(seed: int, shape: tuple[int, ...], dtype: str = "float64", strided: bool = False) -> np.ndarray:
    """Normal values; strided ones are every other element of a transposed array."""
    draw = np.random.default_rng(seed)
    if strided and shape:
        wide = draw.normal(size=(*shape[::-1][:-1], 2 * shape[0]))
        return wide.astype(dtype).T[::2]
    return draw.normal(size=shape).astype(dtype)


def sizes(low: int, high: int, rank: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.tuples(*[st.integers(low, high)] * rank)


def tensor(array: np.ndarray, requires_grad: bool = False) -> torch.Tensor:
    return torch.from_numpy(np.array(array, order="C")).requires_grad_(requires_grad)


def check(got: np.ndarray, want: Any, scale: float = 1.0) -> None:
    """Same dtype, shape and values up to rounding, and an array that is new and contiguous."""
    expected = want.detach().numpy()
    assert type(got) is np.ndarray
    assert got.flags.c_contiguous
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    tolerance = ROUNDING.get(got.dtype.name, 0.0)
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * scale)


def untouched(call: Callable[..., Any], *arrays: np.ndarray) -> Any:
    """call(*arrays), having checked that it left the arrays as they were."""
    before = [a.copy() for a in arrays]
    result = call(*arrays)
    for a, b in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(a, b)
    return result
