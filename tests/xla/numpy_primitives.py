"""JAX's frequent primitives on NumPy arrays, for `interpreted.py`: JAX itself would compile each of them for each shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

KNOWN = {np.dtype(each) for each in ("bool", "int32", "int64", "uint8", "float32", "float64")}
_FLOATS = {np.dtype("float32"), np.dtype("float64")}


def evaluate(equation: Any, given: Sequence[Any]) -> list[Any] | None:
    """Compute an equation's results, or return None: the primitive, a dtype or an option is a rare one."""
    function = FUNCTIONS.get(equation.primitive.name)
    if function is None or not all(getattr(each.aval, "dtype", None) in KNOWN for each in equation.invars):
        return None
    outputs = [each.aval for each in equation.outvars]
    if not all(each.dtype in KNOWN for each in outputs):
        return None
    with np.errstate(all="ignore"):  # XLA warns of nothing
        made = function(outputs[0], equation.params, *[np.asarray(each) for each in given])
    if made is None:
        return None
    results = made if equation.primitive.multiple_results else [made]
    return [np.asarray(each, output.dtype) for each, output in zip(results, outputs, strict=True)]


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda output, options, *given: function(*given)


def _of_floats(function: Callable[..., Any]) -> Callable[..., Any]:
    """Leave integers to XLA, which divides them in a way of its own."""
    return lambda output, options, *given: function(*given) if given[0].dtype in _FLOATS else None


def _reduction(function: Callable[..., Any], **more: Any) -> Callable[..., Any]:
    return lambda output, options, given: (
        function(given, axis=tuple(options["axes"]), **more) if options.get("out_sharding") is None else None
    )


def _convert(output: Any, options: Any, given: Any) -> Any:
    """Leave floats that become integers to XLA: NumPy gives any number for those that do not fit."""
    return None if given.dtype in _FLOATS and output.dtype.kind in "iu" else given.astype(output.dtype)


def _broadcast(output: Any, options: Any, given: Any) -> Any:
    shape = [1] * len(output.shape)
    for place, size in zip(options["broadcast_dimensions"], given.shape, strict=True):
        shape[place] = size
    return np.broadcast_to(given.reshape(shape), output.shape)


def _dot(output: Any, options: Any, left: Any, right: Any) -> Any:
    (of_left, of_right), (rows_left, rows_right) = options["dimension_numbers"]
    if left.dtype not in _FLOATS or left.dtype != right.dtype:
        return None
    left, kept = _for_product(left, rows_left, of_left)
    right, other = _for_product(right, rows_right, of_right)
    rows = left.shape[: len(rows_left)]
    product = left.reshape(*rows, math.prod(kept), -1) @ np.swapaxes(right.reshape(*rows, math.prod(other), -1), -1, -2)
    return product.reshape(output.shape)


def _for_product(array: Any, rows: Sequence[int], contracted: Sequence[int]) -> tuple[Any, list[int]]:
    """Return the array with batch dims first and contracted ones last, and the sizes of those between."""
    between = [dim for dim in range(array.ndim) if dim not in rows and dim not in contracted]
    return array.transpose(*rows, *between, *contracted), [array.shape[dim] for dim in between]


def _select(output: Any, options: Any, which: Any, *cases: Any) -> Any:
    return np.where(which, cases[1], cases[0]) if which.dtype == bool and len(cases) == 2 else None


def _slice(output: Any, options: Any, given: Any) -> Any:
    steps = options["strides"] or [1] * given.ndim
    return given[tuple(map(slice, options["start_indices"], options["limit_indices"], steps))]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": _elementwise(np.abs),
    "add": _elementwise(np.add),
    "and": _elementwise(np.bitwise_and),
    "broadcast_in_dim": _broadcast,
    "concatenate": lambda output, options, *given: np.concatenate(given, axis=options["dimension"]),
    "convert_element_type": _convert,
    "copy": _elementwise(np.array),
    "cos": _elementwise(np.cos),
    "div": _of_floats(np.divide),
    "dot_general": _dot,
    "eq": _elementwise(np.equal),
    "exp": _elementwise(np.exp),
    "floor": _of_floats(np.floor),
    "ge": _elementwise(np.greater_equal),
    "gt": _elementwise(np.greater),
    "integer_pow": lambda output, options, given: given ** options["y"] if given.dtype in _FLOATS else None,
    "is_finite": _elementwise(np.isfinite),
    "le": _elementwise(np.less_equal),
    "log": _elementwise(np.log),
    "log1p": _elementwise(np.log1p),
    "lt": _elementwise(np.less),
    "max": _elementwise(np.maximum),
    "min": _elementwise(np.minimum),
    "mul": _elementwise(np.multiply),
    "ne": _elementwise(np.not_equal),
    "neg": _elementwise(np.negative),
    "not": _elementwise(np.invert),
    "optimization_barrier": lambda output, options, *given: given,
    "or": _elementwise(np.bitwise_or),
    "pow": _of_floats(np.power),
    "reduce_and": _reduction(np.logical_and.reduce),
    "reduce_max": _reduction(np.max),
    "reduce_min": _reduction(np.min),
    "reduce_or": _reduction(np.logical_or.reduce),
    "reduce_prod": _reduction(np.prod),
    "reduce_sum": _reduction(np.sum),
    "reshape": lambda output, options, given: None if options["dimensions"] else given.reshape(output.shape),
    "rsqrt": _elementwise(lambda each: 1 / np.sqrt(each)),
    "select_n": _select,
    "sign": _elementwise(np.sign),
    "sin": _elementwise(np.sin),
    "slice": _slice,
    "sqrt": _elementwise(np.sqrt),
    "square": _elementwise(np.square),
    "squeeze": lambda output, options, given: given.reshape(output.shape),
    "stack": lambda output, options, *given: np.stack(given, axis=options["axis"]),
    "sub": _elementwise(np.subtract),
    "tanh": _elementwise(np.tanh),
    "transpose": lambda output, options, given: given.transpose(options["permutation"]),
}
