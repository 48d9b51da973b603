"""The rules of vmap for elementwise functions, and for functions along a dim: sums, softmax, sorting."""

from __future__ import annotations

from typing import Any

from undertow._src.ops.broadcasting import broadcast_shapes
from undertow._src.ops.compare import where
from undertow._src.ops.reduce import amax, amin
from undertow._src.tensor.core import TensorCore
from undertow.func._batched import cannot_write, rule
from undertow.func._vmapping import MappedLevel

# Elementwise functions of tensors that broadcast; numbers and options are passed unchanged.
POINTWISE = """
abs absolute acos acosh add addcdiv addcmul angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan
atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil clamp clamp_max
clamp_min clip conj conj_physical copysign cos cosh deg2rad digamma div divide eq erf erfc erfinv exp exp2 expm1 fix
float_power floor floor_divide fmax fmin fmod frac ge greater greater_equal gt heaviside hypot i0 isclose isfinite isinf
isnan isneginf isposinf isreal ldexp le lerp less less_equal lgamma log log10 log1p log2 logaddexp logaddexp2 logical_and
logical_not logical_or logical_xor logit lt maximum minimum mul multiply nan_to_num ne neg negative nextafter
not_equal polar pow positive rad2deg real reciprocal relu remainder round rsqrt rsub sgn sigmoid sign signbit sin sinc
sinh sqrt square sub subtract tan tanh true_divide trunc where xlogy complex imag
celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu6 selu silu softplus softshrink
softsign tanhshrink threshold
__add__ __and__ __div__ __eq__ __floordiv__ __ge__ __gt__ __invert__ __le__ __lshift__ __lt__ __mod__ __mul__ __ne__
__neg__ __or__ __pow__ __radd__ __rdiv__ __rfloordiv__ __rlshift__ __rmod__ __rmul__ __rpow__ __rrshift__ __rshift__
__rsub__ __rtruediv__ __sub__ __truediv__ __xor__ __rxor__ __ror__ __rand__
clone contiguous detach to type type_as float double half bfloat16 int long short char byte bool cfloat cdouble cpu
zeros_like ones_like full_like empty_like resolve_conj resolve_neg view_as_real view_as_complex alias
tril triu isin
entr erfcx expit gammaln i0e i1 i1e log_ndtr ndtr ndtri psi xlog1py zeta polygamma mvlgamma
"""
IN_PLACE = """
add_ addcdiv_ addcmul_ abs_ ceil_ clamp_ clamp_max_ clamp_min_ clip_ copy_ cos_ div_ divide_ erf_ exp_ expm1_
floor_ floor_divide_ fmod_ lerp_ log_ log10_ log1p_ log2_ logical_and_ logical_or_ mul_ multiply_ neg_ pow_
reciprocal_ relu_ remainder_ round_ rsqrt_ sigmoid_ sign_ sin_ sqrt_ square_ sub_ subtract_ tan_ tanh_ true_divide_
trunc_ zero_ __iadd__ __isub__ __imul__ __itruediv__ __ifloordiv__ __imod__ __ipow__ __iand__ __ior__ __ixor__
"""

# The in-place form of each function; names that no method has are never looked up.
IN_PLACE += " ".join([f"{name}_" for name in POINTWISE.split() if name[0] != "_" and name != "detach"])


def aligned(level: MappedLevel, values: list[Any], rank: int | None = None) -> list[Any]:
    """Return the whole tensors of examples, reshaped to broadcast as the examples would; other values unchanged.

    Type promotion follows the dims of the examples: a scalar per example is still a 0-dim tensor.
    """
    tensors = [value for value in values if isinstance(value, TensorCore)]
    rank = max([value.dim() for value in tensors]) if rank is None else rank
    dimensioned = [value.dtype for value in tensors if value.dim()]
    kinds = {value.dtype for value in tensors}
    result = []
    for value in values:
        if level.holds(value):
            whole, own = value._value, value.dim()
            if own == 0 and dimensioned and len(kinds) > 1 and _weaker(whole.dtype, dimensioned):
                whole = whole.to(dimensioned[0])
            if own < rank:
                whole = whole.reshape(whole.shape[0], *[1] * (rank - own), *whole.shape[1:])
            value = whole
        elif isinstance(value, TensorCore) and rank == 0 and len(kinds) > 1:
            value = value.unsqueeze(0)
        result.append(value)
    return result


def _weaker(kind: Any, others: list[Any]) -> bool:
    """Whether a 0-dim tensor of this dtype does not affect the result's dtype."""
    return len(set(others)) == 1 and kind.category <= others[0].category


@rule(POINTWISE)
def pointwise(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Align the tensors and run the function once."""
    values = aligned(level, [*args, *kwargs.values()])
    given, named = values[: len(args)], dict(zip(kwargs, values[len(args) :], strict=True))
    return level.wrap_all(function(*given, **named))


@rule(IN_PLACE)
def in_place(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Write into the whole tensor; refuse a target that is shared by all examples."""
    target, *others = args
    values = aligned(level, [*others, *kwargs.values()], target.dim()) if others or kwargs else []
    if not level.holds(target):
        if function.__name__ not in ("add_", "__iadd__"):
            raise cannot_write(function.__name__)
        found = next(value for value in values if isinstance(value, TensorCore) and value.dim() > target.dim())
        raise RuntimeError(
            f"output with shape {list(target.shape)} doesn't match the broadcast shape {list(found.shape)}: it is shared "
            "by all examples of a vmap and can't hold a value for each"
        )
    widest = max([value.dim() for value in (*others, *kwargs.values()) if isinstance(value, TensorCore)], default=0)
    if widest > target.dim():
        own = [level.size, *[1] * (widest - target.dim()), *target.shape]
        wide = broadcast_shapes(own, *[value.shape for value in values if isinstance(value, TensorCore)])
        raise RuntimeError(f"output with shape {own} doesn't match the broadcast shape {list(wide)}")
    function(target._value, *values[: len(others)], **dict(zip(kwargs, values[len(others) :], strict=True)))
    return target


@rule("masked_fill masked_fill_")
def masked_fill(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Write a value at a mask; where each example has its own value, choose by the mask."""
    writes = function.__name__ == "masked_fill_"
    input, mask, value = tuple(args) + tuple([kwargs[name] for name in ("input", "mask", "value") if name in kwargs])
    if not (isinstance(value, TensorCore) and level.holds(value)):
        return (in_place if writes else pointwise)(function, level, (input, mask, value), {})
    if value.dim():
        raise RuntimeError(
            f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.dim()} dimension(s)."
        )
    if writes and not level.holds(input):
        raise cannot_write("masked_fill_")
    chosen = where(mask, value.to(input.dtype), input)
    return input.copy_(chosen) if writes else chosen


@rule("fill fill_")
def fill(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Write a value everywhere; each example may have its own."""
    writes = function.__name__ == "fill_"
    input, value = tuple(args) + tuple([kwargs[name] for name in ("input", "value") if name in kwargs])
    if not (isinstance(value, TensorCore) and level.holds(value)):
        return (in_place if writes else pointwise)(function, level, (input, value), {})
    if value.dim():
        raise RuntimeError(
            f"fill_ only supports 0-dimension value tensor but got tensor with {value.dim()} dimensions."
        )
    if writes and not level.holds(input):
        raise cannot_write("fill_")
    return input.copy_(value) if writes else value.to(input.dtype).expand(input.shape).clone()


# --- along a dim

# Position of `dim` among the arguments. Without a dim these reduce everything.
REDUCTIONS = {
    **dict.fromkeys("sum mean prod amax amin nansum nanmean all any argmax argmin count_nonzero std var".split(), 1),
    **dict.fromkeys("std_mean var_mean logsumexp max min aminmax".split(), 1),
    **dict.fromkeys("norm linalg_vector_norm".split(), 2),
}
# These keep the dims, or change the length of one: the position of `dim`, and its default.
ALONG = {
    **dict.fromkeys("softmax log_softmax softmin cumsum cumprod logcumsumexp cummax cummin".split(), (1, None)),
    **dict.fromkeys("sort argsort".split(), (1, -1)),
    "topk": (2, -1),
    "glu": (1, -1),
    "normalize": (2, 1),
}


@rule(" ".join(REDUCTIONS))
def reduction(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Reduce all dims of an example, or some of them."""
    name = function.__name__
    if len(args) > 1 and isinstance(args[1], TensorCore):  # max(x, y)
        return pointwise(function, level, args, kwargs)
    if not level.holds(args[0]):
        return NotImplemented
    place = REDUCTIONS[name]
    args, kwargs = list(args), dict(kwargs)
    if name in ("std", "var", "std_mean", "var_mean") and len(args) > 1 and isinstance(args[1], bool):
        return NotImplemented  # var(x, unbiased)
    positional = len(args) > place
    dim = args.pop(place) if positional else kwargs.pop("dim", kwargs.pop("axis", None))
    whole, rank = args[0]._value, args[0].dim()
    if name == "norm" and (args[1:2] or [kwargs.get("p", 2)])[0] in ("fro", "nuc") and (dim is None or rank > 2):
        return NotImplemented
    keep = args[place] if len(args) > place else kwargs.get("keepdim", False)
    if dim is None or dim in ((), []):
        if name in ("max", "min"):
            function = amax if name == "max" else amin
        flat = whole.reshape(whole.shape[0], -1)
        rest, kwargs["keepdim"] = args[1:place], False
        if name in ("count_nonzero",):
            del kwargs["keepdim"]
        found = function(flat, *rest, dim=1, **kwargs)
        if keep:
            found = _map(lambda one: one.reshape(-1, *[1] * rank), found)
        return level.wrap_all(found)
    if rank == 0:
        whole, rank = whole.unsqueeze(1), 1
        shifted: Any = 1
        args = args[:place]
        if name != "count_nonzero":
            kwargs["keepdim"] = False
    else:
        shifted = shift(dim, rank)
    if positional:
        return level.wrap_all(function(whole, *args[1:place], shifted, *args[place:], **kwargs))
    return level.wrap_all(function(whole, *args[1:], dim=shifted, **kwargs))


def shift(dim: Any, rank: int) -> Any:
    """Return a dim of an example, or several, as dims of the whole tensor."""
    if isinstance(dim, (tuple, list)):
        return tuple([shift(each, rank) for each in dim])
    if not -max(rank, 1) <= dim < max(rank, 1):
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-max(rank, 1)}, {max(rank, 1) - 1}], but got {dim})"
        )
    return dim % max(rank, 1) + 1


def _map(function: Any, results: Any) -> Any:
    if isinstance(results, TensorCore):
        return function(results)
    return type(results)(map(function, results)) if type(results) is tuple else type(results)([*map(function, results)])


@rule(" ".join(ALONG))
def along(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Run a function along a dim of every example."""
    if not level.holds(args[0]):
        return NotImplemented
    place, usual = ALONG[function.__name__]
    args, kwargs = list(args), dict(kwargs)
    if function.__name__ in ("sort", "argsort") and isinstance(kwargs.get("stable"), bool) and len(args) > 1:
        return NotImplemented
    whole, rank = args[0]._value, args[0].dim()
    given = len(args) > place
    dim = args[place] if given else kwargs.pop("dim", kwargs.pop("axis", usual))
    if not isinstance(dim, int) or isinstance(dim, bool):
        return NotImplemented
    if rank == 0:
        return NotImplemented
    if given:
        args[place] = shift(dim, rank)
        return level.wrap_all(function(whole, *args[1:], **kwargs))
    return level.wrap_all(function(whole, *args[1:], dim=shift(dim, rank), **kwargs))
