"""Gradients where formulas have a hard place: norms at zero, residuals of least squares, parts of a memory replaced."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import undertow
from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt

cases = Table()


@cases.test
def test_numerics(program):
    agree(program, requires_grad=False)


def wanting(torch, values):
    return torch.tensor(np.asarray(values), requires_grad=True)


def random(torch, *shape, seed=0, imaginary=False):
    draws = np.random.RandomState(seed)
    return wanting(torch, draws.randn(*shape) + (1j * draws.randn(*shape) if imaginary else 0))


def derivatives(torch, function, *inputs):
    """First and second derivatives of a function's sum, the second along a fixed direction."""
    first = torch.autograd.grad(function(*inputs).sum(), inputs, create_graph=True)
    along = [torch.linspace(0.3, 1.1, g.numel(), dtype=g.dtype).view(g.shape) for g in first]
    return first, torch.autograd.grad(sum((g * v).sum() for g, v in zip(first, along, strict=True)), inputs)


@cases
def norms_at_zero(torch, log):
    for p in (1.5, 2, 3, 0.5):
        log(p, derivatives(torch, lambda x, p=p: torch.linalg.vector_norm(x, p), wanting(torch, [0.0, 0.0, 0.0])))
        log(
            p, derivatives(torch, lambda x, p=p: x.norm(p, dim=1), wanting(torch, [[0.0, 0.0], [1.0, 2.0], [0.0, 3.0]]))
        )
    log(derivatives(torch, lambda x: torch.linalg.matrix_norm(x), wanting(torch, np.zeros((2, 2)))))
    log(derivatives(torch, lambda x: torch.dist(x, torch.zeros(2, dtype=torch.float64)), wanting(torch, [0.0, 0.0])))


@cases
def determinants_of_singular_matrices(torch, log):
    log(derivatives(torch, torch.linalg.det, random(torch, 3, 3)))
    log(derivatives(torch, torch.linalg.det, wanting(torch, [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])))
    log(derivatives(torch, torch.linalg.det, wanting(torch, np.zeros((3, 3)))))


@cases
def residuals_of_least_squares(torch, log):
    for imaginary in (False, True):
        for shape in ((5, 3), (2, 5, 3)):
            A = random(torch, *shape, imaginary=imaginary)
            B = random(torch, *shape[:-1], 2, seed=1, imaginary=imaginary)
            for driver in ("gels", "gelsd"):
                found = torch.linalg.lstsq(A, B, driver=driver)
                weights = torch.linspace(0.5, 2, found.residuals.numel(), dtype=torch.float64).view(
                    found.residuals.shape
                )
                log(torch.autograd.grad((found.residuals * weights).sum(), [A, B], retain_graph=True))
                log(torch.autograd.grad((found.residuals * weights).sum() + found.solution.abs().sum(), [A, B]))
    A, b = random(torch, 2, 4, 3), random(torch, 2, 4, seed=1)
    found = torch.linalg.lstsq(A, b, driver="gels")
    log(torch.autograd.grad(found.residuals.sum() + found.solution.sum(), [A, b]))
    A, B = random(torch, 4, 3), random(torch, 4, 2)
    log(derivatives(torch, lambda A, B: torch.linalg.lstsq(A, B, driver="gels").residuals, A, B))


@cases
def what_strides_show_replaced(torch, log):
    x, part = random(torch, 3, 4), random(torch, 2, 2)
    y = torch.as_strided_scatter(x, part, (2, 2), (4, 1), 1)
    log(y, torch.autograd.grad((y**2).sum(), [x, part]))
    log(derivatives(torch, lambda x, part: torch.as_strided_scatter(x, part, (2, 2), (4, 1), 1) ** 3, x, part))
    try:
        torch.as_strided_scatter(x.t(), part, (2, 2), (1, 4), 2)
    except RuntimeError as error:
        log("currently only supported for contiguous inputs" in str(error))


@cases
def bools_scattered(torch, log):
    x, i = torch.tensor([True, False, True, False]), torch.tensor([0, 1, 1, 3])
    source = torch.tensor([False, True, False, True])
    for reduce in ("amax", "amin", "prod", "sum", "mean"):
        for include_self in (True, False):
            attempt(log, (reduce, include_self), lambda r=reduce, s=include_self: x.scatter_reduce(
                0, i, source, r, include_self=s))  # fmt: skip
    attempt(log, "index_reduce", lambda: x.index_reduce(0, i, source, "amax"))


@pytest.mark.parametrize("mean", [0.0, 1e4])
@pytest.mark.parametrize("shape", [(4, 8, 16), (4, 8, 20, 20)], ids=["small", "large"])
@pytest.mark.parametrize("norm", [
    "F.layer_norm(x, x.shape[1:], *[p.reshape(8, *[1] * (x.ndim - 2)).expand(x.shape[1:]) for p in (w, b)])",
    "F.group_norm(x, 2, w, b)",
    "F.batch_norm(x, None, None, w, b, training=True)",
    "F.batch_norm(x, x.detach().mean((0, *range(2, x.ndim))), torch.ones(8, dtype=x.dtype), w, b)",
])  # fmt: skip
def test_norms_far_from_zero_are_as_exact_as_pytorchs(norm, shape, mean):
    random = np.random.RandomState(0)
    x = (random.randn(*shape) + mean).astype(np.float32)
    weight, bias = (random.rand(2, 8) + 0.5).astype(np.float32)
    direction = random.randn(*shape).astype(np.float32)

    def run(torch, dtype):
        tensors = [torch.tensor(a.astype(dtype), requires_grad=True) for a in (x, weight, bias)]
        out = eval(norm, {"torch": torch, "F": torch.nn.functional, **dict(zip("xwb", tensors, strict=True))})
        return [out.detach(), *torch.autograd.grad(out, tensors, torch.tensor(direction.astype(dtype)))]

    for true, theirs, ours in zip(
        run(torch, np.float64), run(torch, np.float32), run(undertow, np.float32), strict=True
    ):
        scale = true.abs().max().item()
        error, allowed = (np.abs(got.numpy() - true.numpy()).max() / scale for got in (ours, theirs))
        assert error <= max(2 * allowed, 1e-6), (error, allowed)
