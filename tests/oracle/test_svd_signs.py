"""Signs of singular vectors, which depend on the way that LAPACK takes: by shape, on both sides of each threshold."""

from __future__ import annotations

import numpy as np
import pytest

import undertow
from tests.oracle.harness import agree, to_tensor

TALL = [(rows, few) for few in (2, 3, 5, 8) for rows in sorted({few, few * 3 // 2, few * 2, few * 4})]
WIDE = [(rows, rows * times + more) for rows in (1, 2, 3, 5) for times in (1, 2, 10, 20) for more in (-1, 0, 1)][1:]


@pytest.mark.parametrize("shape", [*TALL, *WIDE, (2, 6, 4), (2, 3, 9), (3, 2, 4, 7)], ids=str)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_svd(shape, dtype):
    random = np.random.RandomState(0)
    matrix = random.randn(*shape) + (1j * random.randn(*shape) if dtype == "complex128" else 0)
    agree(lambda torch: tuple(torch.linalg.svd(to_tensor(torch, matrix), full_matrices=False)), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["svd_lowrank", "pca_lowrank"])
@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5), (20, 8), (8, 20), (9, 4), (4, 9), (2, 12, 7)], ids=str)
def test_low_rank(name, shape):
    matrix = np.random.RandomState(0).randn(*shape)
    agree(lambda torch: getattr(torch, name)(to_tensor(torch, matrix), q=3), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(6, 4), (4, 9), (3, 40)], ids=str)
def test_full_bases_and_deficient_ranks(shape):
    """What completes a basis is arbitrary: that it does is what counts."""
    full = np.random.RandomState(0).randn(*shape)
    for matrix in (full, np.outer(full[:, 0], full[0]), np.zeros(shape)):
        for wanted in (True, False):
            u, s, vh = [part.numpy() for part in undertow.linalg.svd(undertow.tensor(matrix), full_matrices=wanted)]
            few = len(s)
            np.testing.assert_allclose((u[:, :few] * s) @ vh[:few], matrix, atol=1e-10)
            np.testing.assert_allclose(u.T @ u, np.eye(u.shape[1]), atol=1e-10)
            np.testing.assert_allclose(vh @ vh.T, np.eye(vh.shape[0]), atol=1e-10)


@pytest.mark.parametrize("shape", [(6, 4), (4, 9), (3, 20), (5, 5), (2, 3, 9)], ids=str)
def test_compiled(shape):
    """A compiled step takes the same way as eager mode."""
    matrix = undertow.tensor(np.random.RandomState(0).randn(*shape))
    step = lambda x: tuple(undertow.linalg.svd(x, full_matrices=False))
    for eager, compiled in zip(step(matrix), undertow.compile(step)(matrix), strict=True):
        np.testing.assert_allclose(compiled.numpy(), eager.numpy(), rtol=1e-6, atol=1e-6)
