"""`out=`: which functions take it, into what shapes, dtypes and memory, what it refuses, and where it is recorded.

A case is one call; each is made with every kind of `out` below, and all that can be seen of it is compared.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch as real_torch

import undertow
from tests.oracle.harness import agree
from tests.oracle.programs import attempt

CALLS = """
F.gelu(x)
F.softplus(x)
F.hardshrink(x)
F.softshrink(x)
F.linear(x, s)
F.linear(x, s, v)
F.avg_pool2d(x[None, None], 2)
torch.slice_scatter(x, x[:2], 0, 0, 2)
torch.frexp(x)
torch.triangular_solve(x, s)
torch.lu_unpack(*torch.linalg.lu_factor(s))
torch.linalg.lstsq(s, x)
torch.linalg.lu_factor_ex(s)
torch.linalg.lu_factor(s)
torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)
torch.unbind_copy(x)
torch.ger(v, v)
torch.abs(x.t())
torch.clamp(x, 0, 1)
torch.add(x.t(), 1)
torch.softmax(x, 0)
torch.log_softmax(x, 0)
torch.floor_divide(x, 2)
torch.heaviside(x, x)
torch.diag(x)
torch.diag(v)
torch.expand_copy(x, (3, 3))
torch.select_copy(x, 0, 1)
torch.linalg.matrix_norm(x)
torch.linalg.norm(x)
torch.linalg.cond(s)
torch.linalg.inv(s)
torch.linalg.cholesky(s)
torch.linalg.solve(s, x)
torch.linalg.eigvals(s)
torch.linalg.matrix_power(s, 2)
torch.linalg.multi_dot([s, x, s])
torch.tensordot(x, s, 1)
torch.inner(x, s)
torch.quantile(x, 0.5, 0)
torch.kron(x, s)
torch.diff(x)
torch.sort(x)
torch.topk(x, 2)
torch.max(x, 0)
torch.max(x)
torch.cummax(x, 0)
torch.cumsum(x, 0)
torch.amax(x, 0)
torch.any(x > 0)
torch.where(x > 0, x, s)
torch.gather(x, 0, torch.zeros(1, 3, dtype=torch.long))
torch.index_select(x, 0, torch.tensor([0]))
torch.masked_select(x, x > 0)
torch.take(x, torch.tensor([0]))
torch.nonzero(x)
torch.cat([x, s])
torch.stack([x, s])
torch.matmul(x, s)
torch.mv(x, v)
torch.float_power(x, 2)
torch.nan_to_num(x)
torch.isnan(x)
torch.relu(x)
torch.var_mean(x)
torch.histc(x)
torch.searchsorted(v.sort()[0], v)
torch.mean(x)
torch.logsumexp(x, 0)
torch.cholesky_solve(x, s)
torch.view_as_real_copy(torch.complex(x, x))
torch.conj_physical(torch.complex(x, x))
""".strip().splitlines()

Given = Callable[[Any, Any], Any]
OUTS: dict[str, Given] = {
    "empty": lambda torch, like: torch.empty(0, dtype=like.dtype),
    "filled": lambda torch, like: torch.ones(tuple(like.shape), dtype=like.dtype),
    "another shape": lambda torch, like: torch.ones(tuple(like.shape) + (2,), dtype=like.dtype),
    "turned": lambda torch, like: torch.ones(tuple(like.shape)[::-1], dtype=like.dtype).permute(
        list(reversed(range(like.dim())))
    ),
    "float32": lambda torch, like: torch.ones(tuple(like.shape), dtype=torch.float32),
    "complex128": lambda torch, like: torch.ones(tuple(like.shape), dtype=torch.complex128),
    "int64": lambda torch, like: torch.ones(tuple(like.shape), dtype=torch.int64),
    "a leaf": lambda torch, like: torch.ones(
        tuple(like.shape), dtype=like.dtype, requires_grad=like.is_floating_point() or like.is_complex()
    ),
}
# Where torch lets LAPACK decide how a result lies that it makes room for.
LAID_BY_LAPACK = ("torch.triangular_solve", "torch.linalg.lstsq", "torch.cholesky_solve")


def environment(torch: Any, grad: bool) -> dict[str, Any]:
    x = torch.tensor([[1.5, -0.5, 2.0], [0.25, 1.0, -3.0], [4.0, 0.75, -1.25]], dtype=torch.float64, requires_grad=grad)
    s = torch.tensor([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]], dtype=torch.float64)
    v = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
    return {"torch": torch, "F": torch.nn.functional, "x": x, "s": s, "v": v}


@pytest.mark.parametrize("call", CALLS)
def test_out(call: str) -> None:
    def program(torch: Any, log: Any) -> None:
        plain = eval(call, environment(torch, False))
        results = [plain] if isinstance(plain, torch.Tensor) else list(plain)
        for kind, make in OUTS.items():
            for grad in (False, True):
                outs = [make(torch, each) for each in results]
                names = environment(torch, grad) | {"out": outs[0] if isinstance(plain, torch.Tensor) else tuple(outs)}
                given = attempt(log, (kind, grad), lambda: eval(f"{call[:-1]}, out=out)", names), words=6)
                if given is not None and not call.startswith(LAID_BY_LAPACK):
                    log(type(given).__name__, [each.stride() for each in outs])

    agree(program, graph=True, warns=True)


@pytest.mark.parametrize(
    "call", ["torch.abs(x)", "F.gelu(x)", "torch.softmax(x, 0)", "torch.msort(x)", "torch.diag(x)"]
)
def test_out_that_is_no_tensor(call: str) -> None:
    agree(lambda torch: eval(f"{call[:-1]}, out='word')", environment(torch, False)), raises=True)


ONCE = """
torch.cholesky(s)
torch.qr(s)
torch.lu(s)
x.T.T, torch.ones(2, 2, 2).T
torch.tensor(1.0).mT
torch.chain_matmul(x, s)
torch.meshgrid(v, v)
torch.complex(x, x).double()
(x.requires_grad_() * 2).sum().backward(create_graph=True)
torch.add(v, 2, v)
torch.addcmul(v, 2, v, v)
F.conv1d(v[None, None], torch.ones(1, 1, 2).double(), padding="same")
torch.index_reduce(v, 0, torch.tensor([0]), v[:1], "prod")
"""


@pytest.mark.parametrize("code", ONCE.strip().splitlines())
def test_warnings_once_in_a_process(code: str) -> None:
    """Each is given the first time only, unless `set_warn_always` says otherwise."""

    def count(torch: Any, always: bool) -> int:
        torch.set_warn_always(always)
        try:
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                eval(code, environment(torch, False))
        finally:
            torch.set_warn_always(False)
        return len(found)

    count(real_torch, False), count(undertow, False)  # or somebody gave it before
    assert count(real_torch, False) == count(undertow, False) == 0
    assert count(real_torch, True) == count(undertow, True) == 1
