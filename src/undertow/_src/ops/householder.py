"""QR in LAPACK's factored form: a matrix of reflections, the orthogonal matrix they make, and products with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow import return_types
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import check_tensor, no_kernel
from undertow._src.ops.named import run, run_named
from undertow._src.ops.public import public
from undertow._src.rules import decompose
from undertow._src.rules import householder as rules
from undertow._src.types.dtypes import DTYPE_OF, FLOATING

if TYPE_CHECKING:
    from undertow._tensor import Tensor


def _check_kind(input: Tensor, kernel: str) -> None:
    kind = DTYPE_OF[input._array.dtype]
    if kind.category < FLOATING or kind.opmath is not kind:
        raise no_kernel(kernel, input)


@public
def geqrf(input: Tensor, *, out: tuple[Tensor, ...] | None = None) -> Any:
    """R in the upper triangle and below it the reflections whose product is Q, with their weights."""
    check_tensor(input, "geqrf")
    if input._array.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    _check_kind(input, "geqrf_cpu")
    return run_named(return_types.geqrf, "geqrf", out, decompose.geqrf, input)


def _check_reflections(input: Tensor, tau: Tensor, name: str) -> None:
    a, t = input._array.shape, tau._array.shape
    if len(a) < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if name != "torch.ormqr" and a[-2] < a[-1]:
        raise RuntimeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if name != "torch.ormqr" and a[-1] < t[-1]:
        raise RuntimeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    if len(a) - len(t) != 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input; it has {len(t)} dims and the input {len(a)}"
        )
    if t[:-1] != a[:-2]:
        raise RuntimeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {list(t)}"
        )


def _product(input: Tensor, tau: Tensor, name: str, out: Tensor | None) -> Tensor:
    check_tensor(input, name)
    check_tensor(tau, name, "tau", 2)
    _check_reflections(input, tau, "torch.linalg.householder_product")
    kinds = [DTYPE_OF[each._array.dtype] for each in (input, tau)]
    if kinds[0] is not kinds[1]:
        raise RuntimeError(
            f"torch.linalg.householder_product: tau dtype {kinds[1].scalar_name} does not match input dtype "
            f"{kinds[0].scalar_name}"
        )
    _check_kind(input, "orgqr_cpu")
    return run("linalg_householder_product", out, rules.linalg_householder_product, input, tau)


@public
def linalg_householder_product(input: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the first columns of the orthogonal matrix that the reflections of `geqrf` make."""
    return _product(input, tau, "linalg_householder_product", out)


@public
def orgqr(input: Tensor, input2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the first columns of the orthogonal matrix that the reflections of `geqrf` make."""
    return _product(input, input2, "orgqr", out)


@public
def ormqr(
    input: Tensor, input2: Tensor, input3: Tensor, left: bool = True, transpose: bool = False, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Q X for the orthogonal matrix that reflections make (X Q with left=False, Qᴴ for Q with transpose=True)."""
    for place, (argument, value) in enumerate({"input": input, "input2": input2, "input3": input3}.items(), 1):
        check_tensor(value, "ormqr", argument, place)
    if input._array.ndim < 2:
        raise RuntimeError("torch.ormqr: input must have at least 2 dimensions.")
    if input3._array.ndim < 2:
        raise RuntimeError("torch.ormqr: other must have at least 2 dimensions.")
    side = -2 if left else -1
    if input3._array.shape[side] != input._array.shape[-2]:
        raise RuntimeError(f"torch.ormqr: other.shape[{side}] must be equal to input.shape[-2]")
    if input2._array.shape[-1] != min(input3._array.shape[side], input._array.shape[-1]):
        raise RuntimeError(f"torch.ormqr: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])")
    _check_reflections(input, input2, "torch.ormqr")
    kinds = [DTYPE_OF[each._array.dtype] for each in (input, input2, input3)]
    for argument, kind in (("tau", kinds[1]), ("other", kinds[2])):
        if kind is not kinds[0]:
            raise RuntimeError(
                f"torch.ormqr: Expected input and {argument} to have the same dtype, but input has dtype"
                f"{kinds[0].scalar_name} and {argument} has dtype {kind.scalar_name}"
            )
    _check_kind(input, "ormqr_cpu")
    if out is None:
        return apply(rules.ormqr, input, input2, input3, left=bool(left), transpose=bool(transpose))
    return run("ormqr", out, rules.ormqr, input, input2, input3, left=bool(left), transpose=bool(transpose))
