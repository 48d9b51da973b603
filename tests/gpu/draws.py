"""Random draws on `cuda`, written once for PyTorch and undertow. `record.py` recorded PyTorch's on an H200."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

SEEDS = (0, 1234567890123)
SMALL, LARGE = (5, 1000), (4098, 2**20 + 3)


class Case(NamedTuple):
    """A draw: what makes a tensor, given a module `torch` and a size; whether a CPU can compute its bits."""

    draw: Callable[[Any, int], Any]
    sizes: tuple[int, ...] = SMALL
    exact: bool = True


def _filled(method: str, dtype: str, *args: Any) -> Callable[[Any, int], Any]:
    def draw(torch: Any, n: int) -> Any:
        return getattr(torch.empty(n, dtype=getattr(torch, dtype), device="cuda"), method)(*args)

    return draw


def _made(factory: str, dtype: str) -> Callable[[Any, int], Any]:
    return lambda torch, n: getattr(torch, factory)(n, dtype=getattr(torch, dtype), device="cuda")


def _chances(torch: Any, n: int, dtype: str = "float32") -> Any:
    """Numbers in (0, 1) that are the same everywhere."""
    return ((torch.arange(n, dtype=torch.int64) * 7919 % 1000 + 1).double() / 1001).to(getattr(torch, dtype)).to("cuda")


def _dropped(torch: Any, n: int, dtype: str = "float32") -> Any:
    return torch.nn.functional.dropout(torch.full((n,), 1.375, dtype=getattr(torch, dtype), device="cuda"), 0.3)


def _integers(torch: Any, n: int, low: int, high: int, dtype: str = "int64") -> Any:
    return torch.randint(low, high, (n,), dtype=getattr(torch, dtype), device="cuda")


FLOATS = ("float32", "float64", "float16", "bfloat16")
CASES: dict[str, Case] = {}
for _kind in FLOATS:
    _large = LARGE if _kind in ("float32", "float64") else ()
    CASES |= {
        f"rand {_kind}": Case(_made("rand", _kind), SMALL + _large),
        f"randn {_kind}": Case(_made("randn", _kind), SMALL + _large[:1], exact=False),
        f"uniform_ {_kind}": Case(_filled("uniform_", _kind, -0.3, 2.7), exact=_kind != "float64"),
        f"normal_ {_kind}": Case(_filled("normal_", _kind, 0.7, 1.3), exact=False),
        f"exponential_ {_kind}": Case(_filled("exponential_", _kind, 1.5), exact=False),
        f"bernoulli_ {_kind}": Case(_filled("bernoulli_", _kind, 0.3)),
        f"bernoulli {_kind}": Case(
            lambda torch, n, kind=_kind: torch.bernoulli(_chances(torch, n, kind)), SMALL + _large
        ),
        f"dropout {_kind}": Case(partial(_dropped, dtype=_kind), (1, 4, 6, 8, 1000, 4098, 4100, 1081346, 3 * 2**20)),
    }
for _kind in ("bool", "uint8", "int32", "int64", "float16", "float32", "float64"):
    CASES[f"random_ {_kind}"] = Case(_filled("random_", _kind))
CASES |= {
    "randint small": Case(partial(_integers, low=0, high=10), SMALL + LARGE),
    "randint negative": Case(partial(_integers, low=-5, high=1000, dtype="int32")),
    "randint below 2**28": Case(partial(_integers, low=0, high=2**28 - 1)),
    "randint 2**28": Case(partial(_integers, low=0, high=2**28)),
    "randint wide": Case(partial(_integers, low=-3, high=2**40), SMALL + LARGE),
    "random_ all": Case(_filled("random_", "int64", -(2**63), None)),
    "bernoulli_ bool": Case(_filled("bernoulli_", "bool", 0.3)),
    "bernoulli_ tensor int64": Case(
        lambda torch, n: torch.empty(n, dtype=torch.int64, device="cuda").bernoulli_(_chances(torch, n))
    ),
    "randperm": Case(lambda torch, n: torch.randperm(n, device="cuda"), (0, 1, 2, 3, 10, 1000, 29999, 100000)),
    "randperm int32": Case(lambda torch, n: torch.randperm(n, device="cuda", dtype=torch.int32), (1000,)),
    "cauchy_": Case(_filled("cauchy_", "float32", 0.5, 2.0), exact=False),
    "cauchy_ float64": Case(_filled("cauchy_", "float64", 0.5, 2.0), exact=False),
    "geometric_": Case(_filled("geometric_", "float32", 0.3)),
    "geometric_ int64": Case(_filled("geometric_", "int64", 0.3)),
    "geometric_ float64": Case(_filled("geometric_", "float64", 0.3)),
    "log_normal_": Case(_filled("log_normal_", "float32", 0.5, 1.2), exact=False),
    "log_normal_ float64": Case(_filled("log_normal_", "float64", 0.5, 1.2), exact=False),
    "rand complex64": Case(_made("rand", "complex64")),
    "randn complex64": Case(_made("randn", "complex64"), exact=False),
    "normal of tensors": Case(
        lambda torch, n: torch.normal(_chances(torch, n), _chances(torch, n) + 1), exact=False
    ),
    "normal of a mean": Case(lambda torch, n: torch.normal(_chances(torch, n), 1.7), exact=False),
    "normal of a deviation": Case(lambda torch, n: torch.normal(0.4, _chances(torch, n)), exact=False),
    "dropout in place": Case(
        lambda torch, n: torch.nn.functional.dropout(torch.ones(n, device="cuda"), 0.3, inplace=True)
    ),
    "dropout2d": Case(
        lambda torch, n: torch.nn.functional.dropout2d(torch.ones(n, 3, 2, 2, device="cuda"), 0.3)
    ),
    "alpha_dropout": Case(
        lambda torch, n: torch.nn.functional.alpha_dropout(torch.ones(n, device="cuda"), 0.3, True)
    ),
    "native_dropout": Case(lambda torch, n: torch.native_dropout(torch.ones(n, device="cuda"), 0.3, True)[1]),
    "native_dropout 0": Case(lambda torch, n: torch.native_dropout(torch.ones(n, device="cuda"), 0.0, True)[1]),
    "native_dropout 1": Case(lambda torch, n: torch.native_dropout(torch.ones(n, device="cuda"), 1.0, True)[0]),
    "rrelu": Case(lambda torch, n: torch.nn.functional.rrelu(0.5 - _chances(torch, n), training=True)),
    "gumbel_softmax": Case(
        lambda torch, n: torch.nn.functional.gumbel_softmax(_chances(torch, n), 0.7), exact=False
    ),
    "multinomial": Case(lambda torch, n: torch.multinomial(_chances(torch, n), 5)),
    "multinomial one": Case(lambda torch, n: torch.multinomial(_chances(torch, n).double().expand(3, n), 1)),
    "multinomial rows": Case(lambda torch, n: torch.multinomial(_chances(torch, 7 * n).reshape(7, n), 4)),
    "multinomial replaced": Case(lambda torch, n: torch.multinomial(_chances(torch, n), 300, True)),
    "multinomial replaced rows": Case(
        lambda torch, n: torch.multinomial(_chances(torch, 7 * n, "float64").reshape(7, n), 200, True)
    ),
    "multinomial of few": Case(
        lambda torch, n: torch.multinomial(torch.tensor([0.0, 1, 0, 2, 0, 0, 3, 0], device="cuda"), n, True)
    ),
    # In which order a tensor is filled.
    "uniform_ transposed": Case(lambda torch, n: torch.empty(n, 7, device="cuda").t().uniform_()),
    "uniform_ with gaps": Case(lambda torch, n: torch.zeros(n * 2, 14, device="cuda")[::2, ::2].uniform_()),
    "bernoulli_ transposed": Case(
        lambda torch, n: torch.empty(n, 6, device="cuda").t().bernoulli_(_chances(torch, 6 * n).reshape(6, n))
    ),
    "bernoulli transposed": Case(lambda torch, n: torch.bernoulli(_chances(torch, 6 * n).reshape(n, 6).t())),
    "dropout transposed": Case(
        lambda torch, n: torch.nn.functional.dropout(torch.ones(n, 6, device="cuda").t(), 0.5)
    ),
    "dropout with gaps": Case(
        lambda torch, n: torch.nn.functional.dropout(torch.ones(2 * n, 16, device="cuda").t()[::2, ::2], 0.5)
    ),
    "dropout expanded": Case(
        lambda torch, n: torch.nn.functional.dropout(torch.ones(n, 1, device="cuda").expand(n, 8), 0.5)
    ),
    "dropout from 1": Case(lambda torch, n: torch.nn.functional.dropout(torch.ones(8 * n + 1, device="cuda")[1:], 0.5)),
    "dropout from 2": Case(lambda torch, n: torch.nn.functional.dropout(torch.ones(8 * n + 2, device="cuda")[2:], 0.5)),
}  # fmt: skip


def drawn(torch: Any, name: str, seed: int, n: int) -> tuple[Any, int]:
    """Return the values of a case on the CPU, as a NumPy array, and the generator's offset after it."""
    torch.manual_seed(seed)
    torch.rand(5, device="cuda")  # so that the offset is not 0
    values = CASES[name].draw(torch, n).detach().cpu()
    offset = int(torch.cuda.get_rng_state().numpy().view(np.int64)[1])
    if values.dtype is torch.bfloat16:
        values = values.float()
    return np.ascontiguousarray(values.numpy()), offset


def checksum(values: Any) -> int:
    return crc32(values.tobytes())


def sample(values: Any) -> list[float]:
    """Return some of the values: of small arrays all, of large ones some from all over."""
    flat = values.reshape(-1)
    flat = flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat
    return flat[:: max(1, flat.size // 40)].tolist()
