"""A compiled step gives eager mode's numbers for special values too: what wraps, what rounds, nan, signs of zero, ties."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import undertow as torch

FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.0, -3.0, math.inf, -math.inf, math.nan, 1e30, -1e30,
          65504.0, 1e10, 3e9, -3e9, 300.0, -129.0, 1e-30, 7.25]  # fmt: skip
WHOLE = {
    "int64": [0, 1, -1, 2, -2, 7, -7, 63, 64, 65, 2**31, -(2**31), 2**63 - 1, -(2**63), 255, 256],
    "int32": [0, 1, -1, 2, -2, 7, -7, 31, 32, 33, 2**31 - 1, -(2**31), 255, 256, -3, 3],
    "int8": [0, 1, -1, 2, -2, 7, -7, 8, 9, 127, -128, 100, -100, 3, -3, 31],
    "uint8": [0, 1, 2, 7, 8, 9, 127, 128, 200, 255, 254, 3, 4, 5, 6, 31],
    "bool": [True, False],
}
TOLERANCE = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 2e-6, "float64": 1e-12}


def of_any(x: Any) -> list[Any]:
    return [
        x.to(torch.int64), x.to(torch.int32), x.to(torch.int16), x.to(torch.int8), x.to(torch.uint8), x.to(torch.bool),
        x.to(torch.float16), x.to(torch.bfloat16), x.to(torch.float64), x + 1, x * 2, x / 2, x + 0.1, x == 1, x > 0,
        x.sum(), x.prod(), x.any(), x.all(), x.cumsum(0), torch.sqrt(x), torch.exp(x), torch.sigmoid(x), torch.isnan(x),
        torch.sort(x), torch.sort(x, descending=True), torch.argsort(x, stable=True), torch.where(x > 0, x, 0),
    ]  # fmt: skip


def of_numbers(x: Any) -> list[Any]:
    return [
        x.argmax(), x.argmin(), x.max(), x.min(), torch.max(x, 0), torch.min(x, 0), torch.topk(x, 3),
        torch.cummin(x, 0).indices,
        -x, torch.abs(x), torch.sign(x), x // 2, x // -2, x % 2, x % -2, x % 3, torch.fmod(x, 2), torch.fmod(x, -3),
        torch.mode(x),
        x.clamp(-2, 2) if x.is_signed() else x, x.pow(0), x.pow(2), x.pow(3), x.median(), torch.kthvalue(x, 2),
    ]  # fmt: skip


def of_floats(x: Any) -> list[Any]:
    return [
        torch.round(x), torch.floor(x), torch.ceil(x), torch.trunc(x), torch.frac(x), torch.rsqrt(x), torch.reciprocal(x),
        torch.expm1(x), torch.log(x), torch.log1p(x), torch.log2(x), torch.atan(x), torch.tanh(x),
        torch.sinh(x), torch.erf(x),
        torch.digamma(2 * x), torch.nan_to_num(x), torch.isinf(x), torch.signbit(x), torch.logit(x),
        x.pow(0.5), x.pow(-1), x.pow(-2),
        5 % x, 1 / x, 5 // x, torch.softmax(x, 0), torch.logsumexp(x, 0), torch.nansum(x), torch.nanmedian(x), torch.std(x),
        torch.round(x, decimals=1), torch.relu(x), torch.nn.functional.elu(x), torch.nn.functional.softplus(x),
    ]  # fmt: skip


def of_two(x: Any, y: Any) -> list[Any]:
    return [
        x + y, x * y, x == y, x < y, x >= y, torch.where(x > y, x, y), torch.logical_xor(x, y),
    ]  # fmt: skip


def of_two_floats(x: Any, y: Any) -> list[Any]:
    return [
        x - y, x / y, x // y, x % y, torch.fmod(x, y), torch.div(x, y, rounding_mode='trunc'),
        torch.div(x, y, rounding_mode='floor'),
        torch.fmax(x, y).abs(), torch.fmin(x, y).abs(), torch.copysign(x, y), torch.atan2(x, y), torch.xlogy(x, y),
        torch.logaddexp(x, y), torch.hypot(x, y), torch.maximum(x, y).abs(), torch.minimum(x, y).abs(),
    ]  # fmt: skip


def of_two_integers(x: Any, y: Any) -> list[Any]:
    return [
        x - y, torch.sub(x, y, alpha=3), x << y, x >> y, x & y, x | y, x ^ y,
        x ** torch.where(y < 0, 3, y), x // (y | 1), x % (y | 1), torch.fmod(x, y | 1),
    ]  # fmt: skip


def flat(result: Any) -> list[Any]:
    return [result] if isinstance(result, torch.Tensor) else [each for part in result for each in flat(part)]


def same(eager: Any, compiled: Any) -> Any:
    """Where integers are equal, and floats within rounding: exactly so if they are nan, infinite or a zero with a sign.

    XLA takes numbers below the normal ones for zero (docs/compile.md).
    """
    name = str(eager.dtype).removeprefix("torch.")
    if name not in TOLERANCE:
        return eager.numpy() == compiled.numpy()
    a, b = eager.double().numpy(), compiled.double().numpy()
    special = ~np.isfinite(a) | (a == 0)
    alike = np.where(
        special, (a == b) & (np.signbit(a) == np.signbit(b)), np.isclose(a, b, rtol=TOLERANCE[name], atol=0)
    )
    flushed = (np.abs(a) < torch.finfo(eager.dtype).tiny) & (b == 0) & (name != "float16")
    return alike | (np.isnan(a) & np.isnan(b)) | flushed


def differing(step: Any, *given: Any) -> list[str]:
    with np.errstate(all="ignore"):
        eager = flat(step(*given))
    compiled = flat(torch.compile(step)(*given))
    found = []
    for place, (a, b) in enumerate(zip(eager, compiled, strict=True)):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        bad = torch.from_numpy(np.asarray(~same(a, b)))
        if bad.any():
            where = [each[bad].tolist()[:5] if each.shape == a.shape else "" for each in given]
            found.append(f"result {place} of {where}: {a[bad].tolist()[:5]} and {b[bad].tolist()[:5]}")
    return found


@pytest.mark.parametrize("kind", [*TOLERANCE, *WHOLE])
def test_of_one(kind: str) -> None:
    x = torch.tensor(WHOLE.get(kind, FLOATS), dtype=getattr(torch, kind))
    steps = [of_any] + [of_numbers] * (kind != "bool") + [of_floats] * (kind in TOLERANCE)
    assert [found for step in steps for found in differing(step, x)] == []


@pytest.mark.parametrize("kind", [*TOLERANCE, *WHOLE])
def test_of_two(kind: str) -> None:
    values = torch.tensor(WHOLE.get(kind, FLOATS), dtype=getattr(torch, kind))
    x, y = values.repeat_interleave(len(values)), values.repeat(len(values))
    steps = [of_two] + [of_two_floats] * (kind in TOLERANCE) + [of_two_integers] * (kind in WHOLE and kind != "bool")
    assert [found for step in steps for found in differing(step, x, y)] == []


def best_first(x: Any) -> list[Any]:
    return [torch.topk(x, 5), torch.topk(x, 3, largest=False), torch.topk(x, 40), torch.sort(x), torch.sort(x, 0)]


@pytest.mark.parametrize("distinct", [3, 100_000])
def test_order_of_equal_elements(distinct: int) -> None:
    x = torch.randint(0, distinct, (20, 60), generator=torch.Generator().manual_seed(0)).float()
    assert differing(best_first, x) == []
    assert differing(best_first, torch.where(x == 1, math.nan, x)) == []


BESIDE_INTEGERS: dict[str, Any] = {
    "arithmetic": lambda x, n: [x + n, x * n, n - x, x & n, torch.add(x, n), x.clone().add_(n)],
    "comparisons": lambda x, n: [x > n, n > x, x == n, n != x],
    "divisions": lambda x, n: [x // n, x % n, torch.fmod(x, n), torch.div(x, n, rounding_mode="trunc"), n // (x + 1)],
    "factors": lambda x, n: torch.add(x, x, alpha=n),
    "powers": lambda x, n: x**n,
    "choices": lambda x, n: torch.where(x > 1, x, n),
    "fills": lambda x, n: [torch.full_like(x, n), x.masked_fill(x > 1, n)],
}


@pytest.mark.parametrize("kind", ["int32", "uint8"])
@pytest.mark.parametrize("name", BESIDE_INTEGERS)
def test_python_numbers_beside_integers(name: str, kind: str) -> None:
    """A number that has changed is an input of the program; it wraps, or is refused, as a plain one is."""
    step, x = BESIDE_INTEGERS[name], torch.tensor([1, 2, 100], dtype=getattr(torch, kind))
    compiled = torch.compile(step)
    for n in (1, 2, 300, 3_000_000_000, 2**40, -1, 0, 7):
        expected, found = (raised_or_made(function, x, n) for function in (step, compiled))
        assert found == expected, n


def raised_or_made(step: Any, x: Any, n: int) -> Any:
    try:
        return [(str(each.dtype), each.tolist()) for each in flat(step(x, n))]
    except (RuntimeError, OverflowError) as error:
        return type(error).__name__, str(error)


def test_floats_beside_integers_are_of_the_default_dtype() -> None:
    compiled = torch.compile(lambda x, n: [n - x, n * x, n < x])
    for n in (0.5, 1.5, 2.5):
        assert [each.dtype for each in compiled(torch.tensor([1, 2]), n)] == [torch.float32, torch.float32, torch.bool]


SCALE = torch.tensor([0.7, -1.3, 0.3])


@pytest.mark.parametrize(
    "product",
    [
        lambda x: x * SCALE,
        lambda x: x.softmax(1),
        lambda x: torch.nn.functional.layer_norm(x, (3,)),
        lambda x: torch.nn.functional.normalize(x, dim=1),
    ],
)
def test_the_difference_of_an_element_and_itself_is_zero(product: Any) -> None:
    """XLA would compute `a * b - c` with one rounding: an error of rounding, and a norm whose gradient is not 0."""
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()

    def step(x: Any) -> Any:
        e = product(x)
        difference = e[:, None] - e[None]
        (gradient,) = torch.autograd.grad(torch.cdist(e, e).sum() + difference.norm(dim=-1).sum(), x)
        same = [difference.diagonal(), torch.cdist(e, e).diagonal(), e[2:] - e.flip(0).flip(0)[2:], e[:1] - e[0]]
        return *same, (e[0] * math.inf)[:, None] - (e[0] * math.inf)[None], gradient

    *expected, gradient = step(x)
    *found, other = torch.compile(step)(x)
    assert all(not each.any() for each in found[:4]) and torch.allclose(gradient, other, atol=1e-4)
    assert [each.tolist() for each in expected[:4]] == [each.tolist() for each in found[:4]]
    assert found[4].isnan().tolist() == expected[4].isnan().tolist()
