"""The special functions on NumPy arrays against PyTorch's, and against their own identities where PyTorch is coarser."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from undertow._src.arrays.numpy import gamma as numpy_gamma
from undertow._src.arrays.numpy import special as numpy_special

SPREAD = np.concatenate(
    [np.linspace(-6, 6, 301), np.geomspace(1e-6, 60, 150), -np.geomspace(1e-6, 30, 100), [1.4616, 0.999, 2.001]]
)
POSITIVE = np.abs(SPREAD) + 1e-3
UNIT = np.concatenate([np.linspace(-0.999, 0.999, 301), np.geomspace(1e-8, 0.5, 50), 1 - np.geomspace(1e-5, 0.5, 50)])
EDGES = np.array([0.0, -0.0, 1, -1, 2, 100, -100, 1e30, -1e30, np.inf, -np.inf, np.nan])

# name: (PyTorch's function, arguments, tolerance in float32 and in float64)
CASES: dict[str, tuple[Callable[[Any], Any], np.ndarray, float, float]] = {
    "erf": (torch.erf, SPREAD, 3e-7, 1e-15),
    "erfc": (torch.erfc, np.clip(SPREAD, -9, 8), 3e-7, 3e-15),
    "erfcx": (torch.special.erfcx, np.clip(SPREAD, -8, 60), 3e-6, 1e-14),
    "erfinv": (torch.erfinv, UNIT, 3e-7, 2e-15),
    "ndtri": (torch.special.ndtri, np.abs(UNIT), 6e-7, 3e-15),
    "sigmoid": (torch.sigmoid, SPREAD, 3e-7, 1e-15),
    "silu": (F.silu, SPREAD, 5e-7, 1e-15),
    "softplus": (lambda x: torch.logaddexp(x, torch.zeros_like(x)), SPREAD, 5e-7, 1e-15),
    "log_sigmoid": (F.logsigmoid, SPREAD, 5e-7, 1e-15),
    "logit": (torch.logit, (1 + UNIT) / 2, 2e-6, 2e-14),
    "lgamma": (torch.lgamma, POSITIVE, 5e-7, 3e-15),
    "i0": (torch.i0, SPREAD, 1e-6, 3e-15),
    "i0e": (torch.special.i0e, SPREAD, 1e-6, 3e-15),
    "i1": (torch.special.i1, SPREAD, 2e-6, 3e-15),
    "i1e": (torch.special.i1e, SPREAD, 2e-6, 3e-15),
}


def kernel(name: str) -> Callable[..., np.ndarray]:
    return getattr(numpy_special if hasattr(numpy_special, name) else numpy_gamma, name)


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    theirs, points, single, double = CASES[name]
    for dtype, tolerance in (("float32", single), ("float64", double)):
        x = points.astype(dtype)
        got = kernel(name)(x)
        assert got.dtype == dtype
        np.testing.assert_allclose(got, theirs(torch.from_numpy(x)).numpy(), rtol=tolerance, atol=tolerance * 1e-3)


@pytest.mark.parametrize("name", [*CASES, "digamma"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_edges(name: str, dtype: str) -> None:
    theirs = torch.digamma if name == "digamma" else CASES[name][0]
    x = EDGES.astype(dtype)
    want = theirs(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(kernel(name)(x), want, rtol=1e-5, atol=1e-35)


@pytest.mark.parametrize("name", [*CASES, "digamma", "gelu", "ndtr", "log_ndtr"])
def test_shapes_strides_and_half_precision(name: str) -> None:
    function = kernel(name)
    x = np.linspace(0.01, 0.9, 3 * 40_000).reshape(3, 40_000)  # longer than a block
    whole = function(x)
    assert whole.flags.c_contiguous
    np.testing.assert_allclose(function(x[:, ::-7]), whole[:, ::-7], rtol=1e-15)
    np.testing.assert_allclose(function(x.T), whole.T, rtol=1e-15)
    np.testing.assert_allclose(function(x[1, :5]), whole[1, :5], rtol=1e-14)
    scalar = function(x[0, 0].reshape(()))
    assert type(scalar) is np.ndarray and scalar.shape == ()
    assert function(np.zeros((0, 4))).shape == (0, 4)
    half = function(x[0, :9].astype(np.float16))
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, whole[0, :9], rtol=3e-2)


def test_gelu_is_pytorch_s() -> None:
    x = SPREAD.astype(np.float32)
    np.testing.assert_allclose(numpy_special.gelu(x), F.gelu(torch.from_numpy(x)).numpy(), rtol=1e-6, atol=1e-6)


def test_normal_distribution() -> None:
    x = np.clip(SPREAD, -12, 9)
    exact = np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x])
    np.testing.assert_allclose(numpy_special.ndtr(x), exact, rtol=1e-13)  # x/√2 is rounded
    np.testing.assert_allclose(numpy_special.log_ndtr(x), np.log(exact), rtol=1e-13, atol=2e-16)
    far = torch.special.log_ndtr(torch.tensor([-1e3, -50.0], dtype=torch.float64)).numpy()
    np.testing.assert_allclose(numpy_special.log_ndtr(np.array([-1e3, -50.0])), far, rtol=1e-14)


def test_far_tails_of_the_inverse() -> None:
    p = np.geomspace(1e-300, 1e-3, 60)
    np.testing.assert_allclose(numpy_special.ndtri(p), torch.special.ndtri(torch.from_numpy(p)).numpy(), rtol=3e-15)


@pytest.mark.parametrize("x", [SPREAD[SPREAD > 0.01], np.linspace(-7.3, -0.2, 40)], ids=["positive", "negative"])
def test_digamma_recurs_and_agrees(x: np.ndarray) -> None:
    digamma = numpy_gamma.digamma
    np.testing.assert_allclose(digamma(x + 1), digamma(x) + 1 / x, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(digamma(x), torch.digamma(torch.from_numpy(x)).numpy(), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 6])
def test_polygamma(n: int) -> None:
    for x in (np.geomspace(0.01, 80, 200), np.linspace(-4.7, -0.3, 50)):
        got, want = numpy_gamma.polygamma(n, x), torch.polygamma(n, torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)
    edges = np.array([0.0, np.nan, 1.0])
    np.testing.assert_allclose(numpy_gamma.polygamma(n, edges), torch.polygamma(n, torch.from_numpy(edges)).numpy())


def test_negative_lgamma() -> None:
    x = np.concatenate([np.linspace(-9.73, -0.1, 200), [-1.0, -2.0, -1e17, -150.5]])
    np.testing.assert_allclose(numpy_gamma.lgamma(x), torch.lgamma(torch.from_numpy(x)).numpy(), rtol=1e-14, atol=1e-14)


def test_zeta_by_pairs() -> None:
    s = np.array([1, 1.5, 2, 3.3, 5, 0.5, 2, 2, 3, np.nan, 2, 1.5, 30, 2])
    q = np.array([2, 0.3, 1e5, 4, 0.1, 2, -1.5, -2, -1.5, 1, np.nan, -0.5, 12, np.inf])
    want = torch.special.zeta(torch.from_numpy(s), torch.from_numpy(q)).numpy()
    np.testing.assert_allclose(numpy_gamma.zeta(s, q), want, rtol=1e-14)
    assert numpy_gamma.zeta(s[:2, None], q[:3]).shape == (2, 3)
