"""Public ordering functions and the tensor methods made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from undertow import return_types
from undertow._src.arrays.device.array import is_known, values_known
from undertow._src.base import tracer
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import (
    as_bool,
    as_int,
    check_tensor,
    invalid_combination,
    is_int,
    must_be,
    no_kernel,
    wrap_dim,
    wrap_real_dim,
)
from undertow._src.ops.named import run, run_named
from undertow._src.ops.public import overloaded, public
from undertow._src.rules import sort as rules
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.dtypes import DTYPE_OF, FLOATING

if TYPE_CHECKING:
    from undertow._src.types.aliases import Number
    from undertow._tensor import Tensor


def _kind(input: Tensor) -> Any:
    return DTYPE_OF[input._array.dtype]


# --- sorting


@overloaded
def sort(
    input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool | None = None,
    out: tuple[Tensor, ...] | None = None,
) -> Any:  # fmt: skip
    """Return the elements in order along a dim, and the indices they had."""
    if not isinstance(input, TensorCore) or not is_int(dim) or not isinstance(descending, bool):
        raise invalid_combination("sort", (input, dim))
    place = wrap_dim(as_int(dim, "sort", "dim"), input._array.ndim)
    if _kind(input).is_complex:
        raise RuntimeError("Sort does not support complex dtypes on CPU")
    options: dict[str, Any] = {"dim": place, "descending": descending}
    if stable is None:
        return run_named(return_types.sort, "sort", out, rules.sort, input, **options)
    return run_named(return_types.sort, "sort", out, rules.sort_stable, input, stable=bool(stable), **options)


@overloaded
def argsort(input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Tensor:
    """Return the indices that put the elements in order along a dim."""
    if not isinstance(input, TensorCore) or not is_int(dim):
        raise invalid_combination("argsort", (input, dim))
    place = wrap_dim(as_int(dim, "argsort", "dim"), input._array.ndim)
    if _kind(input).is_complex:
        raise RuntimeError("Sort does not support complex dtypes on CPU")
    return apply(rules.argsort, input, stable=bool(stable), dim=place, descending=bool(descending))


@public
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the elements in order along the first dim."""
    check_tensor(input, "msort")
    return sort(input, 0)[0] if out is None else sort(input, 0, out=(out, wrap(np.empty(0, np.int64))))[0]


@public
def topk(
    input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, *,
    out: tuple[Tensor, ...] | None = None,
) -> Any:  # fmt: skip
    """Return the k largest (or smallest) elements along a dim, and where they stand."""
    check_tensor(input, "topk")
    count = as_int(k, "topk", "k", 2)
    place = wrap_dim(as_int(dim, "topk", "dim", 3), input._array.ndim)
    shape = input._array.shape
    if not 0 <= count <= (shape[place] if shape else 1):
        raise RuntimeError("selected index k out of range")
    kind = _kind(input)
    if kind.is_complex or kind.name == "bool":
        raise RuntimeError(f"topk does not support {'complex' if kind.is_complex else 'bool'} dtypes on CPU")
    best, in_order = as_bool(largest, "topk", "largest", 4), as_bool(sorted, "topk", "sorted", 5)
    return run_named(
        return_types.topk, "topk", out, rules.topk, input, k=count, dim=place, largest=best, sorted=in_order
    )


# --- picking by rank


def _picking(name: str, input: Tensor, dim: int, kernel: str) -> int:
    """Return the dim to select along, checked to have elements of an ordered dtype."""
    check_tensor(input, name)
    place = wrap_dim(as_int(dim, name, "dim", 2), input._array.ndim)
    shape = input._array.shape
    if shape and shape[place] == 0:
        name = name.removeprefix("nan")
        raise IndexError(f"{name}(): Expected reduction dim {place} to have non-zero size.")
    if _kind(input).is_complex or (kernel and _kind(input).name == "bool"):
        raise no_kernel(kernel or f"{name}_cpu", input)
    return place


@public
def kthvalue(
    input: Tensor, k: int, dim: int = -1, keepdim: bool = False, *, out: tuple[Tensor, ...] | None = None
) -> Any:
    """Return the k-th smallest element along a dim, and where it stands."""
    place = _picking("kthvalue", input, dim, "kthvalue_cpu")
    count = as_int(k, "kthvalue", "k", 2)
    shape = input._array.shape
    if not 1 <= count <= (shape[place] if shape else 1):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {place}")
    return run_named(return_types.kthvalue, "kthvalue", out, rules.kthvalue, input, k=count, dim=place, keepdim=keepdim)


_UNSET: Any = object()


@overloaded
def median(input: Tensor, dim: int = _UNSET, keepdim: bool = False, *, out: tuple[Tensor, ...] | None = None) -> Any:
    """Return the median of all elements (the lower of two in the middle), or along a dim with where it stands."""
    return _median("median", rules.median_all, rules.median, return_types.median, input, dim, keepdim, out)


@overloaded
def nanmedian(input: Tensor, dim: int = _UNSET, keepdim: bool = False, *, out: tuple[Tensor, ...] | None = None) -> Any:
    """Return the median of the elements that are not nan."""
    return _median("nanmedian", rules.nanmedian_all, rules.nanmedian, return_types.nanmedian, input, dim, keepdim, out)


def _median(name: str, of_all: Any, along: Any, fields: Any, input: Tensor, dim: Any, keepdim: bool, out: Any) -> Any:
    if dim is _UNSET:
        check_tensor(input, name)
        if _kind(input).is_complex or _kind(input).name == "bool":
            raise no_kernel("median_cpu", input)
        return run(name, out, of_all, input)
    place = _picking(name, input, dim, "median_out")
    return run_named(fields, name, out, along, input, dim=place, keepdim=keepdim)


@public
def mode(input: Tensor, dim: int = -1, keepdim: bool = False, *, out: Any = None) -> Any:
    """Return the most frequent element along a dim (the smallest of several), and where it last stands."""
    place = _picking("mode", input, dim, "")
    return run_named(return_types.mode, "mode", out, rules.mode, input, dim=place, keepdim=keepdim)


# --- distinct elements


def _chosen(results: tuple[Any, ...], *flags: bool) -> Any:
    """Return the values, and the requested further results."""
    wanted = [results[0], *[result for result, flag in zip(results[1:], flags, strict=True) if flag]]
    return wanted[0] if len(wanted) == 1 else tuple(wanted)


@public
def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Tensor:  # fmt: skip
    """Return the distinct elements (or slices along a dim) in order; also where each went, and how many there were."""
    check_tensor(input, "unique")
    if _kind(input).is_complex:
        raise no_kernel("unique", input)
    if dim is None:
        return _chosen(apply(rules.unique, input), return_inverse, return_counts)
    place = wrap_real_dim(as_int(dim, "unique", "dim"), input._array.ndim)
    if 0 in input._array.shape[:place] + input._array.shape[place + 1 :]:
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so there is nothing to compare")
    return _chosen(apply(rules.unique_dim, input, dim=place), return_inverse, return_counts)


@public
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the first of every run of equal elements (or slices along a dim)."""
    check_tensor(input, "unique_consecutive")
    if _kind(input).is_complex:
        raise no_kernel("unique" if dim is None else "unique_dim", input)
    place = None if dim is None else wrap_real_dim(as_int(dim, "unique_consecutive", "dim"), input._array.ndim)
    if place is not None and input._array.shape[place] and not input._array.size:
        raise RuntimeError(
            "There are 0 sized dimensions, and they aren't selected, so unique_consecutive cannot be applied"
        )
    return _chosen(apply(rules.unique_consecutive, input, dim=place), return_inverse, return_counts)


# --- bins


@public
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each whole number occurs, or the sum of weights that go with it."""
    check_tensor(input, "bincount")
    array = input._array
    kind = _kind(input)
    if kind.category >= FLOATING or kind.name == "bool":
        raise no_kernel("bincount_cpu", input)
    length = as_int(minlength, "bincount", "minlength")
    if length < 0:
        raise RuntimeError("minlength should be >= 0")
    known = values_known(array) or is_known(array)
    if array.ndim != 1 or (known and array.size and array.min() < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and weights._array.shape != array.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    if not known and length and array.size:  # during a trace
        tracer.running().check_in_program(
            (array.min() >= 0) & (array.max() < length),
            f"bincount in a compiled step has minlength ({length}) bins: a number is not below that, or negative",
        )
    return apply(rules.bincount, input, weights, minlength=length)


@public
def histc(input: Tensor, bins: int = 100, min: Number = 0, max: Number = 0, *, out: Tensor | None = None) -> Tensor:
    """How many elements fall into each of equal bins between min and max (those of the input if both are equal)."""
    check_tensor(input, "histc")
    if _kind(input).category != FLOATING:
        raise no_kernel("histogram_cpu", input)
    count = as_int(bins, "histc", "bins", 2)
    if count <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {count} for dimension 0")
    if max < min:
        raise RuntimeError("torch.histc: max must be larger than min")
    return run("histc", out, rules.histc, input, bins=count, min=float(min), max=float(max))


def bin_edges(low: Any, high: Any, count: int, dtype: Any) -> np.ndarray:
    """Return the edges of bins of one width, counted from both ends in the dtype's precision; an empty range is widened."""
    if low == high:
        low, high = low - 0.5, high + 0.5
    first, last = np.asarray(low, dtype), np.asarray(high, dtype)
    step, places = np.float64((last - first) / dtype.type(count)), np.arange(count + 1)
    rising, falling = first + step * places, last - step * (count - places)  # rounded once, as fused operations are
    return np.where(places < (count + 1) // 2, rising, falling).astype(dtype)


@public
def histogram(
    input: Tensor, bins: int | Tensor = 100, *, range: Any = None, weight: Tensor | None = None, density: bool = False,
    out: Any = None,
) -> Any:  # fmt: skip
    """How many elements (or how much weight) fall into each bin, and the edges of the bins."""
    check_tensor(input, "histogram")
    if _kind(input).category != FLOATING:
        raise no_kernel("histogram_cpu", input)
    array = input._array
    if is_int(bins):
        count = as_int(bins, "histogram", "bins", 2)
        if count <= 0:
            raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {count} for dimension 0")
        low, high = range if range is not None else (array.min(), array.max()) if array.size else (0.0, 1.0)
        bins = wrap(bin_edges(low, high, count, array.dtype))
    return run_named(return_types.histogram, "histogram", out, rules.histogram, input, bins, weight, density=density)


@public
def searchsorted(
    sorted_sequence: Tensor, input: Tensor | Number, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Any = None, out: Any = None,
) -> Tensor:  # fmt: skip
    """Where elements would be inserted to keep (each row of) a sorted sequence sorted."""
    check_tensor(sorted_sequence, "searchsorted", "sorted_sequence")
    if side is not None and side not in ("left", "right"):
        raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites: side is left, and right=True"
        )
    value = input if isinstance(input, TensorCore) else wrap(np.asarray(input))
    edges, shape = sorted_sequence._array.shape, value._array.shape
    if not shape and len(edges) != 1:
        raise RuntimeError(
            "torch.searchsorted(): input value can be a scalar only with boundaries of one dim; the dims are "
            f"{len(edges)} and 0"
        )
    if not edges:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension"
        )
    if sorter is not None and sorter._array.shape != edges:
        raise RuntimeError(
            "torch.searchsorted(): boundary and sorter must have the same size; they are "
            f"{list(edges)} and {list(sorter._array.shape)}"
        )
    if len(edges) != 1 and edges[:-1] != shape[:-1]:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or match the input in all but the last; "
            f"it is of {list(edges)}, the input of {list(shape)}"
        )
    return run("searchsorted", out, rules.searchsorted, sorted_sequence, value, sorter, right=right or side == "right",
               dtype=np.dtype(np.int32 if out_int32 else np.int64))  # fmt: skip


@public
def bucketize(
    input: Tensor | Number, boundaries: Tensor, *, out_int32: bool = False, right: bool = False, out: Any = None
) -> Tensor:
    """Which bucket between sorted boundaries each element falls into."""
    if not isinstance(boundaries, TensorCore):
        raise must_be("Tensor", boundaries, "bucketize", "boundaries", 2)
    if boundaries._array.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries._array.ndim})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)


class SortMethods:
    """Ordering functions as methods of a tensor."""

    __slots__ = ()

    sort, argsort, msort, topk, kthvalue, median, nanmedian, mode = (
        sort, argsort, msort, topk, kthvalue, median, nanmedian, mode)  # fmt: skip
    unique, unique_consecutive, bincount, histc, histogram = unique, unique_consecutive, bincount, histc, histogram
