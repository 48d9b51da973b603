"""Public reductions and the tensor methods made of them: sums, products, extremes, truth."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from undertow import return_types
from undertow._src.base.modes import local
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import (
    as_bool,
    as_int,
    as_ints,
    check_tensor,
    invalid_combination,
    is_int,
    is_listed_int,
    must_be,
    no_kernel,
    wrap_dim,
    wrap_dims,
)
from undertow._src.engine.outputs import into
from undertow._src.ops.convert import warn_of_real
from undertow._src.ops.elementwise import maximum, minimum
from undertow._src.ops.named import run, run_named
from undertow._src.ops.public import overloaded, public
from undertow._src.rules import reduce as rules
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import DTYPE_OF, FLOATING, as_dtype
from undertow._src.types.sizes import EveryDim

if TYPE_CHECKING:
    from undertow._src.rules.rule import Rule
    from undertow._src.types.aliases import _size
    from undertow._src.types.dtypes import dtype
    from undertow._tensor import Tensor

UNSET: Any = object()


def folded_dims(dim: object, input: Tensor, name: str) -> tuple[int, ...]:
    """Return the dims to reduce, from an int, several or None (all of them)."""
    ndim = input._array.ndim
    if type(dim) is int:
        dim = wrap_dim(dim, ndim)
        return (dim,) if ndim else ()
    if isinstance(dim, (tuple, list)) and builtins.all(map(is_listed_int, dim[:1])):
        dims = wrap_dims(as_ints(dim, name, "dim"), ndim)
        return (dims or tuple(range(ndim))) if ndim else ()
    if dim is None:
        return EveryDim(range(ndim))
    if is_int(dim):
        return folded_dims(as_int(dim, name, "dim"), input, name)
    raise invalid_combination(name, (input, dim))


def _flag(keepdim: object, name: str) -> bool:
    return keepdim if keepdim is False or keepdim is True else as_bool(keepdim, name, "keepdim", 3)


def storage_of(dtype: object, input: Tensor, name: str) -> Any:
    """Return the NumPy dtype of the requested result, which must be differentiable."""
    if dtype is None:
        return None
    wanted = as_dtype(dtype, name, "dtype")
    if wanted.category < FLOATING and input._requires_grad and local.modes.grad_enabled:
        raise RuntimeError(f"Autograd not support dtype: {wanted.scalar_name}")
    warn_of_real(input._array, wanted.numpy)
    return wanted.numpy


def decided_by(out: Tensor | None, dtype: object, input: Tensor) -> Any:
    """Return the requested dtype, or else that of `out`, which may be any that the input can be cast to."""
    if dtype is not None or not isinstance(out, TensorCore):
        return dtype
    return None if _kind(input).is_complex else _kind(out)


def _kind(input: Tensor) -> Any:
    return DTYPE_OF[input._array.dtype]


# --- sums and products


@overloaded
def sum(
    input: Tensor, dim: int | _size | None = UNSET, keepdim: bool = False, *, dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the sum of all elements, or over the given dims."""
    check_tensor(input, "sum")
    dtype = decided_by(out, dtype, input)
    kind = None if dtype is None else storage_of(dtype, input, "sum")
    if dim is UNSET:
        return rules.sum_all.run(input, dtype=kind) if out is None else run(
            "sum", out, rules.sum_all, input, dtype=kind)  # fmt: skip
    dims = folded_dims(dim, input, "sum")
    return run("sum", out, rules.sum, input, dim=dims, keepdim=_flag(keepdim, "sum"), dtype=kind)


@overloaded
def mean(
    input: Tensor, dim: int | _size | None = UNSET, keepdim: bool = False, *, dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the mean of all elements, or over the given dims."""
    check_tensor(input, "mean")
    given = _kind(input) if dtype is None else as_dtype(dtype, "mean", "dtype")
    if given.category < FLOATING:
        which = "Input" if dtype is None else "Optional"
        raise RuntimeError(
            f"mean(): could not infer output dtype. {which} dtype must be floating point or complex. "
            f"Got: {given.scalar_name}"
        )
    kind = None if dtype is None else given.numpy
    if kind is not None:
        warn_of_real(input._array, kind)
    if dim is UNSET:
        return run("mean", out, rules.mean_all, input, dtype=kind)
    dims = folded_dims(dim, input, "mean")
    return run("mean", out, rules.mean, input, dim=dims, keepdim=_flag(keepdim, "mean"), dtype=kind)


@public
def nansum(
    input: Tensor, dim: int | _size | None = None, keepdim: bool = False, *, dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the sum, with nan counted as zero."""
    check_tensor(input, "nansum")
    if _kind(input).is_complex:
        raise RuntimeError("nansum on CPU does not support complex inputs")
    if _kind(input).category < FLOATING:
        return sum(input, dim, keepdim, dtype=dtype, out=out)
    dims = folded_dims(dim, input, "nansum")
    return run("nansum", out, rules.nansum, input, dim=dims, keepdim=keepdim, dtype=storage_of(dtype, input, "nansum"))


@public
def nanmean(
    input: Tensor, dim: int | _size | None = None, keepdim: bool = False, *, dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the mean of the elements that are not nan."""
    check_tensor(input, "nanmean")
    if _kind(input).category < FLOATING:
        raise RuntimeError(
            f"nanmean(): expected input to have floating point or complex dtype but got {_kind(input).scalar_name}"
        )
    if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(
            f"nanmean(): could not infer output dtype. A mean is a float or a complex number, which {dtype} can't hold."
        )
    there = sum(~input.detach().isnan(), dim, keepdim)
    result = nansum(input, dim, keepdim, dtype=dtype) / there
    return result if out is None else into(out, result.detach, (input,), "nanmean")


@overloaded
def prod(
    input: Tensor, dim: int = UNSET, keepdim: bool = False, *, dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the product of all elements, or along one dim."""
    check_tensor(input, "prod")
    if dim is not UNSET and not is_int(dim):
        raise invalid_combination("prod", (input, dim))
    if dtype is not None and as_dtype(dtype, "prod", "dtype") is not _kind(input):
        input = input.to(dtype)
    if dim is UNSET:
        result = run("prod", out, rules.prod_all, input)
    else:
        place = wrap_dim(as_int(dim, "prod", "dim", 2), input._array.ndim)
        result = run("prod", out, rules.prod, input, dim=place, keepdim=_flag(keepdim, "prod"))
    return result if dtype is None or out is not None else result.to(dtype)


# --- extremes


def _check_nonempty(input: Tensor, name: str, dims: tuple[int, ...] | None) -> None:
    shape = input._array.shape
    if dims is None:
        if 0 in shape:
            raise RuntimeError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Pass dim=.")
        return
    for dim in dims:
        if shape and shape[dim] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {dim} to have non-zero size.")


def _extreme(name: str, whole: Any, along: Any, pairwise: Callable[..., Any], kind: Any) -> Callable[..., Any]:
    """max or min in all forms: of everything, along a dim, and of two tensors."""

    @overloaded
    def function(
        input: Tensor, dim: Any = UNSET, keepdim: bool = False, *, other: Any = UNSET,
        out: Tensor | None = None,
    ) -> Any:  # fmt: skip
        if not isinstance(input, TensorCore):
            raise invalid_combination(name, (input,) if dim is UNSET else (input, dim))
        if isinstance(dim, TensorCore) or other is not UNSET:
            return pairwise(input, dim if other is UNSET else other, out=out)
        if dim is UNSET:
            _check_nonempty(input, name, None)
            if _kind(input).is_complex:
                raise no_kernel(f"{name}_all", input)
            return run(name, out, whole, input)
        if not is_int(dim):
            raise invalid_combination(name, (input, dim))
        if out is not None and not isinstance(out, (tuple, list)):
            raise invalid_combination(name, (input, dim), {"out": out})
        place = wrap_dim(as_int(dim, name, "dim"), input._array.ndim)
        _check_nonempty(input, name, (place,))
        if _kind(input).is_complex:
            raise RuntimeError(f"{name}(): does not support complex input")
        return run_named(kind, name, out, along, input, dim=place, keepdim=_flag(keepdim, name))

    function.__name__ = function.__qualname__ = name
    return function


max = _extreme("max", rules.max_all, rules.max, maximum, return_types.max)
max.__doc__ = "The largest element; with a dim the largest along it and where it stands; of two tensors elementwise."
min = _extreme("min", rules.min_all, rules.min, minimum, return_types.min)
min.__doc__ = "The smallest element; with a dim the smallest along it and where it stands; of two tensors elementwise."


def _fold_extreme(
    name: str, rule: Rule, kernel: str, input: Tensor, dim: object, keepdim: bool, out: Tensor | None
) -> Tensor:
    check_tensor(input, name)
    dims = folded_dims(dim, input, name)
    _check_nonempty(input, name, None if dim is None or (isinstance(dim, (tuple, list)) and not dim) else dims)
    if _kind(input).is_complex:
        raise no_kernel(kernel, input)
    return run(name, out, rule, input, dim=dims, keepdim=_flag(keepdim, name))


@public
def amax(input: Tensor, dim: int | _size = (), keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return the largest element over the given dims; ties share the gradient."""
    return _fold_extreme("amax", rules.amax, "max_values_cpu", input, dim, keepdim, out)


@public
def amin(input: Tensor, dim: int | _size = (), keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return the smallest element over the given dims; ties share the gradient."""
    return _fold_extreme("amin", rules.amin, "min_values_cpu", input, dim, keepdim, out)


@public
def aminmax(
    input: Tensor, *, dim: int | None = None, keepdim: bool = False, out: tuple[Tensor, ...] | None = None
) -> Any:
    """Return the smallest and the largest element, of everything or along a dim."""
    check_tensor(input, "aminmax")
    shape = input._array.shape
    if dim is None:
        if 0 in shape:
            raise RuntimeError(
                "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
            )
        dims = tuple(range(len(shape)))
    else:
        dims = folded_dims(as_int(dim, "aminmax", "dim"), input, "aminmax")
        if dims and shape[dims[0]] == 0:
            raise IndexError(f"aminmax: Expected reduction dim {dims[0]} to have non-zero size.")
    if _kind(input).is_complex:
        raise no_kernel("aminmax_cpu", input)
    return run_named(return_types.aminmax, "aminmax", out, rules.aminmax, input, dim=dims, keepdim=keepdim)


def _place_of_extreme(name: str, rule: Rule, input: Tensor, dim: object, keepdim: bool, out: Any) -> Tensor:
    check_tensor(input, name)
    if dim is not None:
        dim = as_int(dim, name, "dim", 2)
    kind = _kind(input)
    if kind.is_complex or kind.name == "bool":
        raise RuntimeError(f"{name}(): does not support {'complex' if kind.is_complex else 'bool'} input")
    shape = input._array.shape
    if dim is None:
        if 0 in shape:
            raise IndexError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0.")
    else:
        dim = wrap_dim(dim, len(shape))
        _check_nonempty(input, name, (dim,))
    return run(name, out, rule, input, dim=dim, keepdim=_flag(keepdim, name))


@public
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return the index of the largest element: in the flat tensor, or along a dim."""
    return _place_of_extreme("argmax", rules.argmax, input, dim, keepdim, out)


@public
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return the index of the smallest element: in the flat tensor, or along a dim."""
    return _place_of_extreme("argmin", rules.argmin, input, dim, keepdim, out)


# --- truth and counting


def _truth(name: str, rule: Rule, input: Tensor, dim: object, keepdim: bool, out: Any) -> Tensor:
    if not isinstance(input, TensorCore):
        raise invalid_combination(name, (input,))
    dims = () if isinstance(dim, (tuple, list)) and not dim else folded_dims(dim, input, name)
    return run(name, out, rule, input, dim=dims, keepdim=_flag(keepdim, name))


@overloaded
def any(input: Tensor, dim: int | _size | None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Whether any element is true (not zero), of all or over the given dims."""
    return _truth("any", rules.any, input, dim, keepdim, out)


@overloaded
def all(input: Tensor, dim: int | _size | None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Whether all elements are true (not zero), of all or over the given dims."""
    return _truth("all", rules.all, input, dim, keepdim, out)


@public
def count_nonzero(input: Tensor, dim: int | _size | None = None) -> Tensor:
    """How many elements are not zero."""
    check_tensor(input, "count_nonzero")
    return apply(rules.count_nonzero, input, dim=folded_dims(dim, input, "count_nonzero"))


@public
def logsumexp(input: Tensor, dim: int | _size, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """log Σ eˣ over the given dims, without overflow."""
    check_tensor(input, "logsumexp")
    if not isinstance(dim, (tuple, list)) and not is_int(dim):
        raise must_be("tuple of ints", dim, "logsumexp", "dim", 2)
    dims = folded_dims(dim, input, "logsumexp")
    return run("logsumexp", out, rules.logsumexp, input, dim=dims, keepdim=_flag(keepdim, "logsumexp"))


class ReduceMethods:
    """Reductions as methods of a tensor."""

    __slots__ = ()

    sum, mean, nansum, nanmean, prod = sum, mean, nansum, nanmean, prod
    max, min, amax, amin, aminmax, argmax, argmin = max, min, amax, amin, aminmax, argmax, argmin
    any, all, count_nonzero, logsumexp = any, all, count_nonzero, logsumexp
