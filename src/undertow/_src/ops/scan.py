"""Public running reductions and the tensor methods made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow import return_types
from undertow._src.engine.arguments import as_int, check_tensor, no_kernel, wrap_dim
from undertow._src.engine.outputs import refuse_recording
from undertow._src.engine.writes import apply_in_place
from undertow._src.ops.named import run, run_named
from undertow._src.ops.public import public
from undertow._src.ops.reduce import decided_by, storage_of
from undertow._src.rules import scan as rules
from undertow._src.types.dtypes import DTYPE_OF, FLOATING, as_dtype

if TYPE_CHECKING:
    from undertow._src.types.dtypes import dtype
    from undertow._tensor import Tensor


def _checked(input: Tensor, dim: object, name: str) -> int:
    check_tensor(input, name)
    return wrap_dim(as_int(dim, name, "dim", 2), input._array.ndim)


def _cast(input: Tensor, dtype: object, name: str) -> Tensor:
    """Return the input in the dtype asked for; integers and bools run in int64."""
    wanted = None if dtype is None else as_dtype(dtype, name, "dtype")
    return input if wanted is None or wanted is DTYPE_OF[input._array.dtype] else input.to(wanted)


@public
def cumsum(input: Tensor, dim: int, *, dtype: dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Return the running sum along a dim."""
    place = _checked(input, dim, "cumsum")
    if out is not None:
        refuse_recording("cumsum", (input, out))
    dtype = decided_by(out, dtype, input)
    kind = storage_of(dtype, input, "cumsum")
    _refuse_bools(kind if out is None else out._array.dtype, "cumsum")
    return run("cumsum", out, rules.cumsum, input, dim=place, dtype=kind)


def _refuse_bools(kind: Any, name: str) -> None:
    if kind is not None and kind.kind == "b":
        raise NotImplementedError(f"\"{name}_out_cpu\" not implemented for 'Bool'")


@public
def cumprod(input: Tensor, dim: int, *, dtype: dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Return the running product along a dim."""
    place = _checked(input, dim, "cumprod")
    if dtype is not None:
        _refuse_bools(as_dtype(dtype, "cumprod", "dtype").numpy, "cumprod")
    result = run("cumprod", out, rules.cumprod, _cast(input, dtype, "cumprod"), dim=place)
    return result if dtype is None or out is not None else result.to(dtype)


@public
def cumsum_(input: Tensor, dim: int, *, dtype: dtype | None = None) -> Tensor:
    """In-place cumsum."""
    place = _checked(input, dim, "cumsum_")
    if input._array.dtype.kind == "b":
        raise no_kernel("cumsum_out_cpu", input)
    return apply_in_place(rules.cumsum, input, dim=place, dtype=input._array.dtype)


@public
def cumprod_(input: Tensor, dim: int, *, dtype: dtype | None = None) -> Tensor:
    """In-place cumprod."""
    place = _checked(input, dim, "cumprod_")
    if input._array.dtype.kind == "b":
        raise no_kernel("cumprod_out_cpu", input)
    return apply_in_place(rules.cumprod, input, dim=place)


@public
def cummax(input: Tensor, dim: int, *, out: Any = None) -> Any:
    """Return the running maximum along a dim, and where it stands."""
    place = _checked(input, dim, "cummax")
    if input._array.dtype.kind == "c":
        raise no_kernel("cummax_cpu", input)
    return run_named(return_types.cummax, "cummax", out, rules.cummax, input, dim=place)


@public
def cummin(input: Tensor, dim: int, *, out: tuple[Tensor, ...] | None = None) -> Any:
    """Return the running minimum along a dim, and where it stands."""
    place = _checked(input, dim, "cummin")
    if input._array.dtype.kind == "c":
        raise no_kernel("cummin_cpu", input)
    return run_named(return_types.cummin, "cummin", out, rules.cummin, input, dim=place)


@public
def logcumsumexp(input: Tensor, dim: int, *, out: Tensor | None = None) -> Tensor:
    """Return the running log Σ eˣ along a dim."""
    place = _checked(input, dim, "logcumsumexp")
    if DTYPE_OF[input._array.dtype].category < FLOATING:
        raise no_kernel("logcumsumexp_out_cpu", input)
    return run("logcumsumexp", out, rules.logcumsumexp, input, dim=place)


class ScanMethods:
    """Running reductions as methods of a tensor."""

    __slots__ = ()

    cumsum, cumprod, cummax, cummin, logcumsumexp = cumsum, cumprod, cummax, cummin, logcumsumexp
    cumsum_, cumprod_ = cumsum_, cumprod_
