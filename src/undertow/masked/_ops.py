"""Functions of the elements that a mask keeps.

Masked-out elements are replaced by the identity of the operation (0 for a sum, 1 for a product, −∞ for a maximum), and
the plain function does the rest. `mask` is broadcast to the input; without one, every element counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from undertow._src.ops.activation import log_softmax as _log_softmax
from undertow._src.ops.activation import softmax as _softmax
from undertow._src.ops.compare import where
from undertow._src.ops.elementwise import logaddexp as _logaddexp
from undertow._src.ops.norms import linalg_vector_norm
from undertow._src.tensor.creation import ones_like
from undertow._src.tensor.from_data import tensor
from undertow._src.types import dtypes as d
from undertow._src.types.layouts import strided

DimOrDims = int | tuple[int, ...] | list[int] | None


# --- masks, dims and identities


def _canonical_dim(dim: DimOrDims, ndim: int) -> tuple[int, ...]:
    """Return dims as sorted non-negative numbers; none given means all."""
    chosen = tuple(range(ndim)) if dim is None or dim == () else (dim,) if isinstance(dim, int) else tuple(dim)
    count, found = max(ndim, 1), list[int]()
    for each in chosen:
        if each % count in found:
            raise RuntimeError(f"dim={each} appears multiple times in the list of dims")
        if not -count <= each < count:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-count}, {count - 1}], but got {each})"
            )
        found.append(each % count)
    return tuple(sorted(found)) if ndim else ()


def _input_mask(input: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the mask of the keyword arguments, in the input's shape."""
    if input.layout is not strided:
        raise ValueError(f"_input_mask expects strided input (got {input.layout})")
    mask = kwargs.get("mask")
    if mask is None:
        raise ValueError("_input_mask requires explicit mask")
    if mask.ndim > input.ndim:
        raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)")
    mask = mask.broadcast_to(input.shape) if mask.shape != input.shape else mask
    return mask if mask.dtype is d.bool else mask.bool()


def _output_mask(op: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    """Return which elements of the result have at least one unmasked input."""
    name = op if isinstance(op, str) else op.__name__
    if name not in (*_IDENTITIES, "norm", *_NORMALIZATIONS) or name == "logaddexp":
        raise ValueError(f"_output_mask expected masked operation (got callable {name})")
    mask = _input_mask(input, **kwargs)
    if name in _NORMALIZATIONS:
        return mask
    dim = args[name == "norm"] if len(args) > (name == "norm") else kwargs.get("dim")
    return _any(mask, _canonical_dim(dim, input.ndim), bool(kwargs.get("keepdim", False)))


def _any(mask: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    for dim in reversed(dims):
        mask = mask.any(dim=dim, keepdim=keepdim)
    return mask


def _lowest(dtype: Any, name: str) -> float | int:
    if dtype is d.bool:
        raise NotImplementedError(f"identity of {name} on {dtype} input")
    floats = dtype.is_floating_point or (dtype.is_complex and name == "logsumexp")
    return -math.inf if floats else d.iinfo(dtype).min


def _highest(dtype: Any, name: str) -> float | int:
    if dtype is d.bool:
        raise NotImplementedError(f"identity of {name} on {dtype} input")
    return math.inf if dtype.is_floating_point else d.iinfo(dtype).max


_IDENTITIES: dict[str, Callable[[Any, str], Any] | None] = {
    "sum": lambda dtype, name: 0, "prod": lambda dtype, name: 1, "cumsum": lambda dtype, name: 0,
    "cumprod": lambda dtype, name: 1, "amax": _lowest, "argmax": _lowest, "logaddexp": _lowest, "logsumexp": _lowest,
    "amin": _highest, "argmin": _highest, "mean": None, "var": None, "std": None,
    "median": lambda dtype, name: math.nan,
}  # fmt: skip
_NORMALIZATIONS = ("softmax", "log_softmax", "softmin", "normalize", "cumsum", "cumprod")  # which keep the shape


def _reduction_identity(op_name: str, input: Any, *args: Any) -> Any:
    """Return the identity of an operation, or None if it has none."""
    dtype = input.dtype
    if op_name == "norm":
        order = args[0] if args else 2
        value = math.inf if order == -math.inf else 0.0
        return tensor(value, dtype=dtype, device=input.device)
    if op_name not in _IDENTITIES:
        raise NotImplementedError(f"identity of {op_name} on {dtype} input")
    of = _IDENTITIES[op_name]
    if op_name == "median" and not dtype.is_floating_point:
        dtype = d.get_default_dtype()
    return None if of is None else tensor(of(dtype, op_name), dtype=dtype, device=input.device)


def _where(mask: Any, input: Any, fill_value: Any) -> Any:
    """Return the input where the mask keeps it, and the value elsewhere."""
    return where(mask, input, fill_value)


def _combine_input_and_mask(op: Any, input: Any, mask: Any, *args: Any) -> Any:
    """Return the input with masked-out elements replaced by the identity."""
    if mask is None:
        return input
    identity = _reduction_identity(op if isinstance(op, str) else op.__name__, input, *args)
    return where(_input_mask(input, mask=mask), input, identity)


# --- reductions


def _as(input: Any, dtype: Any) -> Any:
    return input if dtype is None or input.dtype is dtype else input.to(dtype)


def _summing(input: Any, dtype: Any) -> Any:
    """Return the dtype of a sum: integers are added as int64."""
    if dtype is None and not (input.dtype.is_floating_point or input.dtype.is_complex):
        return d.int64
    return input.dtype if dtype is None else dtype


def sum(input: Any, dim: DimOrDims = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None) -> Any:
    """Return the sum of the elements that the mask keeps; 0 if there are none."""
    wide = _as(input, _summing(input, dtype))
    return _combine_input_and_mask("sum", wide, mask).sum(
        _canonical_dim(dim, input.ndim), bool(keepdim), dtype=wide.dtype
    )


def prod(
    input: Any, dim: DimOrDims = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None
) -> Any:
    """Return the product of the elements that the mask keeps; 1 if there are none."""
    result = _combine_input_and_mask("prod", _as(input, _summing(input, dtype)), mask)
    for each in reversed(_canonical_dim(dim, input.ndim)):
        result = result.prod(each, bool(keepdim))
    return result


def cumsum(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Return running sums, where masked-out elements count as 0."""
    wide = _as(input, dtype)
    return _combine_input_and_mask("sum", wide, mask).cumsum(_one(dim, input))


def cumprod(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Return running products, where masked-out elements count as 1."""
    wide = _as(input, dtype)
    return _combine_input_and_mask("prod", wide, mask).cumprod(_one(dim, input))


def _one(dim: int, input: Any) -> int:
    return (_canonical_dim(dim, input.ndim) or (0,))[0]


def amax(
    input: Any, dim: DimOrDims = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None
) -> Any:
    """Return the largest of the elements that the mask keeps; the dtype's lowest value if there are none."""
    wide = _as(input, dtype)
    return (
        _combine_input_and_mask("amax", wide, mask).amax(_canonical_dim(dim, input.ndim), bool(keepdim)).to(wide.dtype)
    )


def amin(
    input: Any, dim: DimOrDims = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None
) -> Any:
    """Return the smallest of the elements that the mask keeps; the dtype's highest value if there are none."""
    wide = _as(input, dtype)
    return (
        _combine_input_and_mask("amin", wide, mask).amin(_canonical_dim(dim, input.ndim), bool(keepdim)).to(wide.dtype)
    )


def argmax(
    input: Any, dim: int | None = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None
) -> Any:
    """Return the index of the largest element that the mask keeps."""
    found = _combine_input_and_mask("argmax", input, mask).argmax(dim, bool(keepdim))
    return found.to(input.dtype if dtype is None else dtype)


def argmin(
    input: Any, dim: int | None = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None
) -> Any:
    """Return the index of the smallest element that the mask keeps."""
    found = _combine_input_and_mask("argmin", input, mask).argmin(dim, bool(keepdim))
    return found.to(input.dtype if dtype is None else dtype)


def mean(
    input: Any, dim: DimOrDims = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None
) -> Any:
    """Return the mean of the elements that the mask keeps; nan if there are none."""
    kind = input.dtype if dtype is None else dtype
    if not (kind.is_floating_point or kind.is_complex):
        raise ValueError(
            f"mean(): Could not infer output dtype. There is no mean of {kind}: pass a floating-point dtype, such as "
            "dtype=torch.float32"
        )
    if mask is None:
        return _as(input, kind).mean(_canonical_dim(dim, input.ndim), bool(keepdim))
    count = _count(input, dim, keepdim, mask)
    return sum(input, dim, keepdim=keepdim, dtype=kind, mask=mask) / count


def _count(input: Any, dim: DimOrDims, keepdim: Any, mask: Any) -> Any:
    """Return the number of unmasked elements for each element of the result."""
    there = ones_like(input, dtype=d.int64) if mask is None else _input_mask(input, mask=mask).to(d.int64)
    return there.sum(_canonical_dim(dim, input.ndim), bool(keepdim))


def median(input: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Return the median of the elements that the mask keeps; nan if there are none."""
    wide = _as(input, dtype)
    if not wide.dtype.is_floating_point:
        raise ValueError(f"masked median expected no fully masked out rows, since dtype is {wide.dtype}")
    if mask is None:
        return wide.nanmedian(_one(dim, input), keepdim).values
    if wide.isnan().any():
        raise ValueError("masked median expected no nan elements")
    return _combine_input_and_mask("median", wide, mask).nanmedian(_one(dim, input), keepdim).values


def logsumexp(input: Any, dim: DimOrDims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Return the logarithm of the sum of exponentials of the elements that the mask keeps."""
    wide = _as(input, dtype)
    kept = _combine_input_and_mask("logsumexp", wide, mask)
    return kept.logsumexp(_canonical_dim(dim, input.ndim), bool(keepdim)).to(wide.dtype)


def logaddexp(input: Any, other: Any, *, dtype: Any = None, input_mask: Any = None, other_mask: Any = None) -> Any:
    """Return log(exp(a) + exp(b)), where masked-out elements add nothing."""
    one, two = _as(input, dtype), _as(other, dtype)
    return _logaddexp(
        _combine_input_and_mask("logaddexp", one, input_mask), _combine_input_and_mask("logaddexp", two, other_mask)
    ).to(one.dtype)


def norm(
    input: Any, ord: float | None = 2.0, dim: DimOrDims = None, *, keepdim: bool | None = False, dtype: Any = None,
    mask: Any = None,
) -> Any:  # fmt: skip
    """Return the norm of the elements that the mask keeps."""
    wide = _as(input, dtype)
    kept = wide if mask is None else _combine_input_and_mask("norm", wide, mask, ord)
    return linalg_vector_norm(kept, ord, _canonical_dim(dim, input.ndim), bool(keepdim))  # type: ignore[arg-type]


def _spread(
    root: bool, input: Any, dim: DimOrDims, unbiased: bool | None, correction: Any, keepdim: Any, dtype: Any, mask: Any
) -> Any:
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    less = 1.0 if unbiased is None and correction is None else float(unbiased) if unbiased is not None else correction
    kind = input.dtype if dtype is None else dtype
    if not (kind.is_floating_point or kind.is_complex):
        kind = d.float32
    wide, dims = _as(input, kind), _canonical_dim(dim, input.ndim)
    count = _count(input, dim, True, mask)
    centre = sum(wide, dims, keepdim=True, mask=mask) / count
    apart = wide - centre
    total = sum(apart * apart.conj() if kind.is_complex else apart * apart, dims, keepdim=bool(keepdim), mask=mask)
    left = (count.reshape(total.shape) if not keepdim else count) - less
    result = total / left.clamp(min=0)
    return (result.sqrt() if root else result).to(kind)


def var(
    input: Any, dim: DimOrDims = None, unbiased: bool | None = None, *, correction: float | None = None,
    keepdim: bool | None = False, dtype: Any = None, mask: Any = None,
) -> Any:  # fmt: skip
    """Return the variance of the elements that the mask keeps."""
    return _spread(False, input, dim, unbiased, correction, keepdim, dtype, mask)


def std(
    input: Any, dim: DimOrDims = None, unbiased: bool | None = None, *, correction: float | None = None,
    keepdim: bool | None = False, dtype: Any = None, mask: Any = None,
) -> Any:  # fmt: skip
    """Return the standard deviation of the elements that the mask keeps."""
    return _spread(True, input, dim, unbiased, correction, keepdim, dtype, mask)


# --- normalizations


def softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Return `softmax` over the elements that the mask keeps; the others are 0."""
    return _softmax(_combine_input_and_mask("amax", _as(input, dtype), mask), _one(dim, input))


def log_softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Return `log_softmax` over the elements that the mask keeps."""
    return _log_softmax(_combine_input_and_mask("amax", _as(input, dtype), mask), _one(dim, input))


def softmin(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Return `softmax` of the negated elements that the mask keeps."""
    return _softmax(-_combine_input_and_mask("amin", _as(input, dtype), mask), _one(dim, input))


def normalize(input: Any, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None) -> Any:
    """Return the elements that the mask keeps, divided by their norm; the others are 0."""
    wide = _as(input, dtype)
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    kept = wide if mask is None else _combine_input_and_mask("sum", wide, mask)
    return kept / size.clamp(min=eps)
