"""Factories of evenly spaced numbers: arange, range, linspace, logspace.

NOTE the last bit. PyTorch's arange fills floats in blocks: the first number of a block is computed from the start of the
range, the others from the first by adding multiples of the step, each in one fused multiply-add; what is left over at the
end is computed from the start of the range again. `_progression` does the same, so results are equal to the last bit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from undertow._src.base.sites import warn
from undertow._src.engine.arguments import as_element, as_int, invalid_combination
from undertow._src.ops.public import overloaded, public
from undertow._src.tensor.factory_arguments import (
    check_options,
    has_no_values,
    into_out,
    made,
    number,
    parse_kind,
    without_values,
)
from undertow._src.types.dtypes import DTYPE_OF, SCALAR_DTYPE, bfloat16, dtype, get_default_dtype
from undertow.storage import Array

_SPLITTER = 2.0**27 + 1


@overloaded
def arange(
    *args: Any, start: Any = None, end: Any = None, step: Any = None, out: Any = None, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False,
) -> Any:  # fmt: skip
    """Return numbers from start (0) up to but without end, in steps (1)."""
    if start is end is step is None and len(args) == 1 and type(args[0]) is int:
        first, last, by = 0, args[0], 1
    else:
        named = (("start", start), ("end", end), ("step", step))
        first, last, by = _parse_range("arange", args, {key: value for key, value in named if value is not None})
    if dtype is None and out is not None:
        kind = DTYPE_OF[out._array.dtype]
    else:
        kind = parse_kind(dtype, "arange", _range_kind(first, last, by))
    check_options("arange", device, layout, pin_memory)
    if out is None and has_no_values(device):
        _arange(first, first, by, kind)  # checks what the CPU checks
        count = max(math.ceil((last - first) / by), 0)
        return made(without_values((count,), kind.numpy), "arange", requires_grad, device)
    array = _arange(first, last, by, kind)
    if out is None:
        return made(array, "arange", requires_grad, device)
    if out._array.size not in (0, array.size):
        warn(
            f"The number of elements in the out tensor of shape {list(out._array.shape)} is {out._array.size} which does "
            f"not match the computed number of elements {array.size}. If the step is not an integer, rounding may be the "
            f"cause. It is resized to ({array.size},)."
        )
    return into_out(out, array, "arange", dtype)


def _parse_range(name: str, args: tuple[Any, ...], given: dict[str, Any]) -> tuple[Any, Any, Any]:
    names = (("end",), ("start", "end"), ("start", "end", "step"))
    if not args and given.keys() == {"start"}:
        raise TypeError(f'{name}() missing 1 required positional arguments: "end"')
    if len(args) > 3 or not (args or given):
        raise invalid_combination(name, args, given)
    form = names[len(args) + len(given) - 1] if len(args) + len(given) <= 3 else ()
    positional = dict(zip(form, args, strict=False))
    if not form or positional.keys() & given.keys() or positional.keys() | given.keys() != set(form):
        raise invalid_combination(name, args, given)
    values = {**positional, **given}
    places = {key: place + 1 for place, key in enumerate(positional)}
    numbers = {key: number(value, name, key, places.get(key)) for key, value in values.items()}
    return numbers.get("start", 0), numbers["end"], numbers.get("step", 1)


def _range_kind(*values: Any) -> dtype:
    """Return int64 for whole numbers, the default dtype if any is a float."""
    return get_default_dtype() if any(isinstance(value, (float, complex)) for value in values) else SCALAR_DTYPE[int]


def _arange(first: Any, last: Any, by: Any, kind: dtype) -> Array:
    if any(isinstance(value, complex) for value in (first, last, by)):
        raise RuntimeError("value cannot be converted to type double without overflow")
    if kind.category == 0 or kind.is_complex:
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{kind.scalar_name}'")
    if by == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(first) and math.isfinite(last)):
        raise RuntimeError(f"unsupported range: {first:g} -> {last:g}")
    if (last > first) if by < 0 else (last < first):
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if kind.category == 1:
        for value in (first, last, by):
            as_element(value, SCALAR_DTYPE[int])
        start, end, step = int(first), int(last), int(by)
        if not step:
            raise ValueError("step must be nonzero")
        if kind.itemsize == 8:
            return np.arange(start, end, step, dtype=np.int64)
        count = math.ceil((float(last) - float(first)) / float(by))
        return (start + step * np.arange(max(count, 0))).astype(kind.numpy)
    count = math.ceil((float(last) - float(first)) / float(by))
    return _progression(first, by, count, kind, np.float32 if kind.itemsize == 2 else np.float64)


@public
def range(
    start: Any = 0, end: Any = None, step: Any = 1, *, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: Any = False, requires_grad: Any = False,
) -> Any:  # fmt: skip
    """Return numbers from start up to and with end; deprecated in favour of `arange`."""
    if end is None:
        raise TypeError('range() missing 1 required positional arguments: "end"')
    warn(
        "torch.range is deprecated and will be removed in a future release as it does not stop before the end, unlike "
        "Python's range and torch.arange."
    )
    first, last, by = number(start, "range", "start"), number(end, "range", "end"), number(step, "range", "step")
    kind = parse_kind(dtype, "range")
    check_options("range", device, layout, pin_memory)
    if by == 0:
        raise RuntimeError("step must be nonzero")
    if (last > first) if by < 0 else (last < first):
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    count = int((float(last) - float(first)) / float(by) + 1)
    array = (first + by * np.arange(count)).astype(kind.numpy)
    return into_out(out, array, "range", dtype) if out is not None else made(array, "range", requires_grad, device)


@overloaded
def linspace(
    start: Any, end: Any, steps: int, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = False, requires_grad: Any = False,
) -> Any:  # fmt: skip
    """Return `steps` numbers from start to end, both included."""
    first, last, count, kind = _parse_space("linspace", start, end, steps, out, dtype)
    check_options("linspace", device, layout, pin_memory)
    if out is None and has_no_values(device):
        return made(without_values((count,), kind.numpy), "linspace", requires_grad, device)
    array = _spaced(first, last, count, kind)
    return (
        into_out(out, array, "linspace", dtype) if out is not None else made(array, "linspace", requires_grad, device)
    )


@overloaded
def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: Any = False, requires_grad: Any = False,
) -> Any:  # fmt: skip
    """Return powers of a base whose exponents are evenly spaced from start to end."""
    first, last, count, kind = _parse_space("logspace", start, end, steps, out, dtype)
    check_options("logspace", device, layout, pin_memory)
    if not kind.is_inexact:
        first, last = int(first), int(last)
    exponents = _spaced(first, last, count, kind if kind.is_inexact else DTYPE_OF[np.dtype(np.float64)])
    with np.errstate(over="ignore", invalid="ignore"):
        wide = np.power(float(base), exponents.astype(np.complex128 if kind.is_complex else np.float64))
        array = wide.astype(kind.numpy)
    return (
        into_out(out, array, "logspace", dtype) if out is not None else made(array, "logspace", requires_grad, device)
    )


def _parse_space(name: str, start: Any, end: Any, steps: Any, out: Any, kind: Any) -> tuple[Any, Any, int, dtype]:
    if isinstance(steps, float):
        raise invalid_combination(name, (start, end, steps))
    count = as_int(steps, name, "steps", 3)
    for which, value in (("start", start), ("end", end)):
        if getattr(value, "_array", np.empty(())).ndim:
            raise RuntimeError(
                f"{name} only supports 0-dimensional start and end tensors, but got {which} with "
                f"{value._array.ndim} dimension(s)."
            )
    first = number(start.detach() if hasattr(start, "detach") else start, name, "start", 1)
    last = number(end.detach() if hasattr(end, "detach") else end, name, "end", 2)
    if count < 0:
        raise RuntimeError("number of steps must be non-negative")
    natural = get_default_dtype()
    if isinstance(first, complex) or isinstance(last, complex):
        natural = SCALAR_DTYPE[complex]
    chosen = DTYPE_OF[out._array.dtype] if kind is None and out is not None else parse_kind(kind, name, natural)
    if natural.is_complex and not chosen.is_complex:
        raise RuntimeError(
            f"torch.{name}(): inferred dtype {natural.scalar_name} can't be safely cast to passed dtype "
            f"{chosen.scalar_name}"
        )
    if chosen.category == 0:
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for 'Bool'")
    return first, last, count, chosen


def _spaced(first: Any, last: Any, count: int, kind: dtype) -> Array:
    """Compute from both ends to the middle, so that the ends are exact."""
    if count <= 1:
        return np.full(count, first).astype(kind.numpy)
    if kind.is_complex:
        step = (last - first) / (count - 1)
        places = np.arange(count)
        return np.where(places < count // 2, first + step * places, last - step * (count - 1 - places)).astype(
            kind.numpy
        )
    half = count // 2
    up, down = np.arange(half, dtype=np.float64), np.arange(count - 1 - half, -1, -1, dtype=np.float64)
    if kind.itemsize == 2 and kind.is_floating_point:  # every step of the sum is rounded
        own = kind.numpy.type
        start, end = own(first), own(last)
        step = (end - start) / own(count - 1)
        return np.concatenate([start + step * up.astype(own), end - step * down.astype(own)])
    if kind.category == 1:
        first, last, compute = int(first), int(last), np.float64
    else:
        compute = kind.numpy.type
    step = (compute(last) - compute(first)) / compute(count - 1)
    rising, falling = _fused(up, step, compute(first), compute), _fused(down, -step, compute(last), compute)
    return np.concatenate([rising, falling]).astype(kind.numpy)


def _progression(start: Any, step: Any, count: int, kind: dtype, compute: Any) -> Array:
    """Return start + step * i for all i < count, in blocks as PyTorch computes it; see NOTE the last bit."""
    values = _fused(np.arange(count, dtype=np.float64), step, start, compute).astype(kind.numpy)
    width = 32 // kind.itemsize
    blocks = count // (2 * width)
    if blocks:
        firsts = values[: blocks * 2 * width : width, None].astype(compute)
        if kind is bfloat16:  # the only case where multiplication and addition are not fused
            lanes = firsts + np.arange(width, dtype=np.float32) * np.float32(step)
        else:
            lanes = _fused(np.arange(width, dtype=np.float64), step, firsts, compute)
        values[: blocks * 2 * width] = lanes.reshape(-1).astype(kind.numpy)
    return values


def _fused(multiples: Array, step: Any, start: Any, compute: Any) -> Array:
    """Return multiples * step + start, rounded once to the dtype computed in."""
    if compute is np.float32:
        return (multiples * float(np.float32(step)) + np.asarray(start, np.float32).astype(np.float64)).astype(
            np.float32
        )
    step, start = float(step), np.asarray(start, np.float64)
    product = multiples * step
    high = multiples * _SPLITTER - (multiples * _SPLITTER - multiples)
    low = multiples - high
    step_high = step * _SPLITTER - (step * _SPLITTER - step)
    step_low = step - step_high
    product_error = ((high * step_high - product) + high * step_low + low * step_high) + low * step_low
    total = product + start
    carried = total - product
    total_error = (product - (total - carried)) + (start - carried)
    correction = total_error + product_error
    return np.where(correction == 0, total, total + correction)  # preserves -0.0
