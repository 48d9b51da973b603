"""Public statistics: variance and its root, quantiles, covariance, differences and integrals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.device.array import values_known
from undertow._src.base.sites import warn
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import as_int, check_tensor, invalid_combination, wrap_dim, wrap_real_dim
from undertow._src.engine.outputs import into
from undertow._src.ops import join
from undertow._src.ops.complex import complex
from undertow._src.ops.named import run
from undertow._src.ops.numbers import as_number
from undertow._src.ops.public import overloaded, public
from undertow._src.ops.reduce import UNSET, folded_dims
from undertow._src.rules import reduce as rules
from undertow._src.rules.rule import Rule
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.dtypes import DTYPE_OF, FLOATING
from undertow._src.types.sizes import DefaultInt

if TYPE_CHECKING:
    from undertow._src.types.aliases import Number, _size
    from undertow._tensor import Tensor


def _kind(input: Tensor) -> Any:
    return DTYPE_OF[input._array.dtype]


# --- variance


def _spread(
    name: str, rule: Rule, input: Tensor, dim: object, unbiased: object, keepdim: bool, correction: Any,
    out: Tensor | None = None,
) -> Any:  # fmt: skip
    """var, std and their pairs with the mean: (input, unbiased), (input, dim, unbiased, keepdim) or by correction."""
    check_tensor(input, name)
    if isinstance(dim, bool):
        dim, unbiased = UNSET, dim
    if unbiased is not UNSET and (not isinstance(unbiased, bool) or correction is not UNSET):
        given = {"correction": correction} if correction is not UNSET else {}
        raise invalid_combination(name, (input,), {**given, "unbiased": unbiased})
    if correction is UNSET or correction is None:
        unknown = unbiased is UNSET and (correction is None or dim is UNSET)
        correction = DefaultInt(1) if unknown else int(unbiased is UNSET or bool(unbiased))
    if _kind(input).category < FLOATING:
        which = "std and var" if name in ("var", "std") else name
        raise RuntimeError(f"{which} only support floating point and complex dtypes")
    dims = folded_dims(None if dim is UNSET else dim, input, name)
    correction = correction if type(correction) is DefaultInt else as_number(correction)
    if 0 in input._array.shape or rules.folded_count(input._array.shape, dims) - correction <= 0:
        warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the number of elements that "
            "each result is made of."
        )
    statics = {"dim": dims, "correction": correction, "keepdim": bool(keepdim)}
    if rule.outputs == 1:
        return run(name, out, rule, input, **statics)
    return apply(rule, input, **statics)


@overloaded
def var(
    input: Tensor, dim: int | _size | None = UNSET, unbiased: bool = UNSET, keepdim: bool = False, *,
    correction: Number | None = UNSET, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the mean squared distance from the mean; the sum is divided by count - correction."""
    return _spread("var", rules.var, input, dim, unbiased, keepdim, correction, out)


@overloaded
def std(
    input: Tensor, dim: int | _size | None = UNSET, unbiased: bool = UNSET, keepdim: bool = False, *,
    correction: Number | None = UNSET, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the square root of the variance."""
    return _spread("std", rules.std, input, dim, unbiased, keepdim, correction, out)


@overloaded
def var_mean(
    input: Tensor, dim: int | _size | None = UNSET, unbiased: bool = UNSET, keepdim: bool = False, *,
    correction: Number | None = UNSET,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the variance and the mean."""
    return _spread("var_mean", rules.var_mean, input, dim, unbiased, keepdim, correction)


@overloaded
def std_mean(
    input: Tensor, dim: int | _size | None = UNSET, unbiased: bool = UNSET, keepdim: bool = False, *,
    correction: Number | None = UNSET,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the standard deviation and the mean."""
    return _spread("std_mean", rules.std_mean, input, dim, unbiased, keepdim, correction)


# --- quantiles

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(
    name: str, input: Tensor, q: object, dim: object, keepdim: bool, interpolation: str, skip_nan: bool
) -> Tensor:
    check_tensor(input, name)
    if not isinstance(q, (TensorCore, int, float)) or isinstance(q, bool):
        raise invalid_combination(name, (input, q))
    array = input._array
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )
    if not isinstance(q, TensorCore) and not 0 <= q <= 1:
        raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q:g}")
    if array.dtype not in (np.float32, np.float64):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    wanted = q._array if isinstance(q, TensorCore) else np.asarray(q, array.dtype)
    if wanted.ndim > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
    if wanted.dtype != array.dtype:
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
    place = 0 if dim is None else wrap_dim(as_int(dim, name, "dim"), array.ndim)
    if not array.size:
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    if isinstance(q, TensorCore) and values_known(wanted) and not ((wanted >= 0) & (wanted <= 1)).all():
        raise RuntimeError(f"{name}() q values must be in the range [0, 1]")

    if dim is None:
        rows, kept = input.flatten(), (1,) * array.ndim
    elif not array.ndim:
        rows, kept = input.reshape(1), ()
    else:
        rows = input if place == array.ndim - 1 else input.unsqueeze(-1).transpose(place, -1)
        kept = (*array.shape[:place], 1, *array.shape[place + 1 :])
    fractions = q if isinstance(q, TensorCore) else wrap(wanted)
    picked = _interpolate(rows.sort()[0], fractions.reshape(-1), interpolation, skip_nan)
    shape = kept if keepdim else () if dim is None else kept[:place] + kept[place + 1 :]
    if not wanted.ndim:
        return apply(rules.squeeze_in_place, picked, size=shape)
    return apply(rules.squeeze_in_place, picked.unsqueeze(0).transpose(0, -1), size=(wanted.size, *shape))


def _interpolate(ordered: Tensor, fractions: Tensor, interpolation: str, skip_nan: bool) -> Tensor:
    """Values at fractions of each sorted row; the last dim of the result runs over the fractions."""
    values, q = ordered._array, fractions._array
    missing = np.isnan(values)
    last = values.shape[-1] - 1
    if skip_nan:
        steps = np.maximum((~missing).sum(-1, keepdims=True) - 1, 0).astype(q.dtype)
        ranks = q * steps
    else:
        whole = ~missing.any(-1, keepdims=True)
        steps = whole * q.dtype.type(last)
        ranks = np.where(whole, q * q.dtype.type(last), q.dtype.type(last))
    if interpolation in ("lower", "higher", "nearest"):
        ranks = {"lower": np.floor, "higher": np.ceil, "nearest": np.rint}[interpolation](ranks)
    below = np.floor(ranks)
    weights = np.full_like(ranks, 0.5) if interpolation == "midpoint" else ranks - below
    if interpolation in ("lower", "higher", "nearest"):
        return ordered.gather(-1, wrap(below.astype(np.int64)))
    above, between = np.ceil(ranks), wrap(weights)
    if interpolation == "linear" and fractions.requires_grad:
        between = fractions * wrap(steps) + wrap(weights - q * steps)
    return ordered.gather(-1, wrap(below.astype(np.int64))).lerp(
        ordered.gather(-1, wrap(above.astype(np.int64))), between
    )


def _into_same(out: object, result: object, input: object) -> Any:
    if out is None:
        return result
    return into(out, lambda: result, (), "quantile")


@overloaded
def quantile(
    input: Tensor, q: Tensor | float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the value below which a fraction q of the elements lies."""
    result = _quantile("quantile", input, q, dim, keepdim, interpolation, False)
    return _into_same(out, result, input)


@overloaded
def nanquantile(
    input: Tensor, q: Tensor | float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the value below which a fraction q of the elements that are not nan lies."""
    result = _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)
    return _into_same(out, result, input)


# --- covariance


def _check_weights(name: str, weights: Tensor | None, count: int, wanted: str, category: int) -> None:
    if weights is None:
        return
    array, kind = weights._array, _kind(weights)
    if array.ndim > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with {array.ndim} dimensions"
        )
    if kind.category != category:
        raise RuntimeError(f"cov(): expected {name} to have {wanted} but got {name} with {kind.scalar_name} dtype")
    if array.size != count:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input but got {array.size} "
            f"!= {count}"
        )
    if values_known(array) and array.size and array.min() < 0:
        raise RuntimeError(f"cov(): {name} cannot be negative")


@public
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """Return the covariance of variables in rows, with observations in columns."""
    check_tensor(input, "cov")
    if input._array.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {input._array.ndim} dimensions"
        )
    rows = input if input._array.ndim == 2 else input.view(1, -1)
    _check_weights("fweights", fweights, rows._array.shape[1], "integral dtype", 1)
    _check_weights("aweights", aweights, rows._array.shape[1], "floating point dtype", 2)
    weights = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    count: Any = rows._array.shape[1]
    if weights is None:
        total: Any = wrap(np.asarray(count))
        mean = rows.sum(1) / total
        free: Any = count - correction
    else:
        total = weights.sum()
        mean = (rows * weights).sum(1) / total
        free = total - correction
        if aweights is not None and correction:
            spread = weights * aweights
            free = total - correction * spread.sum() / total
    if free <= 0:
        warn("cov(): degrees of freedom is <= 0. There must be more observations than `correction`.")
        free = 0
    centred = rows - mean.unsqueeze(1)
    weighted = centred if weights is None else centred * weights
    divisor = free if isinstance(free, TensorCore) else wrap(np.asarray(free))
    return (centred.mm(weighted.t().conj()) / divisor).squeeze()


@public
def corrcoef(input: Tensor) -> Tensor:
    """Return the correlation of variables in rows, with observations in columns."""
    check_tensor(input, "corrcoef")
    if input._array.ndim > 2:
        raise RuntimeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{input._array.ndim} dimensions"
        )
    spread = cov(input)
    if not spread._array.ndim:
        return spread / spread
    scale = spread.diag().real.sqrt() if _kind(spread).is_complex else spread.diagonal().sqrt()
    result = spread / scale.view(-1, 1) / scale.view(1, -1)
    if _kind(spread).is_complex:
        return complex(result.real.clamp(-1, 1), result.imag.clamp(-1, 1))
    return result.clamp(-1, 1)


# --- differences and integrals


@public
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Each element minus the one before it along a dim, n times over."""
    check_tensor(input, "diff")
    if not input._array.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    place = wrap_dim(as_int(dim, "diff", "dim"), input._array.ndim)
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    for extra in (prepend, append):
        if extra is None:
            continue
        if extra._array.ndim != input._array.ndim:
            raise RuntimeError("diff expects prepend or append to be the same dimension as input")
        for axis, (have, other) in enumerate(zip(input._array.shape, extra._array.shape, strict=True)):
            if axis != place and have != other:
                raise RuntimeError(
                    "diff expects the shape of tensor to prepend or append to match the input's except in the "
                    f"dim of the differences; along {axis} they are {have} and {other}"
                )
    parts = [part for part in ((prepend, input, append) if n else (input,)) if part is not None]
    result = input if len(parts) == 1 else join.cat(parts, place)
    if n == 0:
        result = result.clone()
    for _ in range(min(n, result._array.shape[place])):
        count = max(result._array.shape[place] - 1, 0)
        later, earlier = result.narrow(place, min(1, result._array.shape[place]), count), result.narrow(place, 0, count)
        result = later.logical_xor(earlier) if _kind(result).name == "bool" else later - earlier
    return result if out is None else into(out, result.detach, (input,), "diff")


def _trapezoid_steps(name: str, y: Tensor, x: Tensor, dim: int) -> Tensor:
    """Return the widths between sample points, shaped to multiply the samples."""
    length = y._array.shape[dim]
    if not x._array.ndim:  # one point, and no step from it
        x = x.reshape(1)
        return diff(x)
    if x._array.ndim == 1:
        if x._array.shape[0] != length:
            raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
        shape = [1] * y._array.ndim
        shape[dim] = -1
        return diff(x).view(shape)
    if x._array.shape[dim] != length:
        raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
    return diff(x, dim=dim)


def _check_samples(name: str, y: Tensor, x: object, dim: object) -> int:
    check_tensor(y, name, "y")
    place = wrap_real_dim(as_int(dim, name, "dim"), y._array.ndim)
    for argument, value in (("y", y), ("x", x)):
        if isinstance(value, TensorCore) and value._array.dtype.kind == "b":
            raise RuntimeError(f"{name}: received a bool input for `{argument}`, but bool is not supported")
    return place


def _halves(y: Tensor, dim: int) -> tuple[Any, Any]:
    count = max(y._array.shape[dim] - 1, 0)
    return y.narrow(dim, min(1, y._array.shape[dim]), count), y.narrow(dim, 0, count)


def _refuse_both(name: str, y: object, x: object, dx: object) -> None:
    """Refuse samples with both positions x and a distance dx."""
    if x is not None and dx is not None:
        raise invalid_combination(name, (y, x), {"dx": dx})


@overloaded
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: object = None, dim: int = -1) -> Tensor:
    """Return the integral of samples along a dim by the trapezoidal rule."""
    _refuse_both("trapezoid", y, x, dx)
    place = _check_samples("trapezoid", y, x, dim)
    if y._array.shape[place] == 0:
        return y.sum(place) * 0.5
    if x is not None:
        later, earlier = _halves(y, place)
        return apply(rules.halve, ((later + earlier) * _trapezoid_steps("trapezoid", y, x, place)).sum(place))
    ends = y.select(place, 0) + y.select(place, y._array.shape[place] - 1)
    return apply(rules.scale, y.sum(place) - apply(rules.scale, ends, factor=0.5), factor=1 if dx is None else dx)


@overloaded
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """Return the running integral of samples along a dim by the trapezoidal rule."""
    _refuse_both("cumulative_trapezoid", y, x, dx)
    place = _check_samples("cumulative_trapezoid", y, x, dim)
    later, earlier = _halves(y, place)
    if x is not None:
        areas = (later + earlier) * _trapezoid_steps("cumulative_trapezoid", y, x, place)
        return apply(rules.halve, areas.cumsum(place))
    return apply(rules.scale, later + earlier, factor=(1 if dx is None else dx) / 2).cumsum(place)


@overloaded
def trapz(y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """Return the integral of samples along a dim by the trapezoidal rule."""
    _refuse_both("trapz", y, x, dx)
    return trapezoid(y, x, dx=dx, dim=dim)


class StatisticsMethods:
    """Statistics as methods of a tensor."""

    __slots__ = ()

    var, std, quantile, nanquantile, cov, corrcoef, diff = var, std, quantile, nanquantile, cov, corrcoef, diff
