"""The operands and results of a rule: inputs as arrays of one dtype, results as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import Target
from undertow._src.arrays.device.placement import hosted, on_busy_device
from undertow._src.arrays.namespaces import DeviceNamespace, namespace_of, run_formula
from undertow._src.arrays.numpy import namespace as numpy_xp
from undertow._src.arrays.numpy.order import empty_copy_of, ordered
from undertow._src.base import tracer
from undertow._src.engine.arguments import broadcast_two
from undertow._src.engine.rule_node import CONJUGATE, MATCH_INPUT, UPCAST
from undertow._src.rules.refusals import refusal
from undertow._src.rules.rule import Rule
from undertow._src.tensor.core import TensorCore, ndarray
from undertow._src.types.dtypes import (
    DTYPE_OF,
    FLOAT8,
    SCALAR_DTYPE,
    combine,
    complex32,
    dtype,
    get_default_dtype,
    promote,
)

if TYPE_CHECKING:
    from undertow._src.rules.array import Array

PYTHON_NUMBERS = frozenset({float, int, bool, complex})


def compute(rule: Rule, inputs: Sequence[Any], statics: dict[str, Any]) -> tuple[list[Any], int, tuple[Any, ...]]:
    """Return a rule's operands as arrays, what is done to its gradient (`post_grad`), and its results as arrays."""
    arrays, post_grad, target = operands(rule, inputs)
    values = run_forward(rule, arrays, statics, target)
    if rule.outputs == 1 and not rule.hidden:
        values = (values,)
        if rule.promote in _ORDERED and not rule.rows and type(values[0]) is ndarray and values[0].ndim > 1:
            laid = [_laid(each, array) for each, array in zip(inputs, arrays) if type(array) is ndarray]
            if not all(array.flags.c_contiguous for array in (*laid, values[0])):
                values = (ordered(values[0], laid if rule.name != "where" else sorted(laid, key=_is_no_mask)),)
    if target is not None:  # computed in float32 for float16 and bfloat16
        shown = len(values) - len(rule.hidden)
        values = tuple(
            [
                value.astype(target.numpy) if place < shown and value.dtype == target.opmath.numpy else value
                for place, value in enumerate(values)
            ]
        )
    ordered_by_operands = rule.promote in _ORDERED and len(values) == 1 and not rule.rows
    if type(values[0]) is DeviceArray and (ordered_by_operands or rule.name == "to_copy"):
        values[0].lie_like(arrays if rule.name != "where" else sorted(arrays, key=_is_no_mask))
    return arrays, post_grad, values


_SUMS = frozenset(("add", "sub", "rsub"))
_ORDERED = ("numeric", "float")  # elementwise functions give their results the layout of their operands


def _rounded(number: float, dtype: np.dtype[Any]) -> float:
    if hasattr(number, "rounded_to"):  # a symbolic scalar of the traced program
        return number.rounded_to(dtype)
    return type(number)(np.asarray(number, dtype))


def _laid(given: object, array: object) -> Any:
    """Return an operand for its layout; one that was cast has the strides of PyTorch's copy, without repeated dims."""
    if isinstance(given, TensorCore) and given._array is not array and type(given._array) is ndarray:
        return empty_copy_of(given._array)
    return array


def _is_no_mask(array: Array) -> bool:
    return array.dtype.kind != "b"


# Ops with CPU kernels for eight-bit floats; ops that only move elements take them too.
_WITH_FLOAT8 = frozenset("abs eq ne isnan where mm bmm addmm mv matmul to_copy copy".split())


def run_forward(rule: Rule, arrays: Sequence[Any], statics: dict[str, Any], target: dtype | None) -> Any:
    """Return a rule's results, before rounding. NumPy's error about shapes becomes PyTorch's."""
    if target is not None and rule.name in _SUMS and "alpha" in statics:
        statics = {**statics, "alpha": _rounded(statics["alpha"], target.numpy)}  # as PyTorch rounds it
    device = None if rule.name == "to_device" else on_busy_device(arrays)
    try:
        if device is not None:
            values = rule.forward(numpy_xp, *[each if each is None else np.asarray(each) for each in arrays], **statics)
            return tuple([hosted(each, device) for each in values]) if type(values) is tuple else hosted(values, device)
        xp = namespace_of(arrays)
        if type(xp) is DeviceNamespace and not rule.view and tracer.current is None:
            key = rule, *statics.items()
            values = run_formula(key, lambda xp, arrays: rule.forward(xp, *arrays, **statics), arrays)
            if values is not NotImplemented:
                return values
        return rule.forward(xp, *arrays, **statics)
    except (TypeError, ValueError):  # JAX raises a TypeError
        if rule.promote in ("numeric", "float"):
            operands = sorted(zip(rule.inputs, arrays), key=lambda named: named[0] != rule.mask)
            shape: tuple[int, ...] = ()
            for _, array in operands:
                shape = broadcast_two(shape, () if array is None else array.shape)
        raise


_ORDERS = frozenset(("lt", "le", "gt", "ge"))  # their results are bools, whatever their operands are


def checks_cast_first(rule: Rule, error: NotImplementedError) -> bool:
    """Whether a missing kernel is an error only if the result could be cast to the dtype that it is written in."""
    return rule.promote in ("numeric", "float") and rule.name not in _ORDERS and "not implemented for" in str(error)


def common_dtype(rule: Rule, inputs: Sequence[Any]) -> dtype:
    """Return the dtype that a rule's operands are promoted to."""
    dimensioned = zero_dim = scalar = None
    masked = rule.inputs.index(rule.mask) if rule.mask is not None else -1
    for place, given in enumerate(inputs):
        if place == masked:
            continue
        if isinstance(given, TensorCore):
            kind = DTYPE_OF[given._array.dtype]
            if given._array.ndim:
                dimensioned = kind if dimensioned is None else promote(dimensioned, kind)
            else:
                zero_dim = kind if zero_dim is None else promote(zero_dim, kind)
        elif given is not None:
            kind = SCALAR_DTYPE[type(given)]
            scalar = kind if scalar is None else promote(scalar, kind)
    return combine(dimensioned, zero_dim, scalar)


def operands(rule: Rule, inputs: Sequence[Any]) -> tuple[list[Any], int, dtype | None]:
    """Return the rule's operands in one dtype, what is done to its gradient (`post_grad`), and the dtype of results."""
    if rule.promote is None:
        return [given._array if isinstance(given, TensorCore) else given for given in inputs], 0, None
    common = common_dtype(rule, inputs)
    if "bifc"[common.category] not in rule.accepts or common is complex32:
        raise refusal(rule.name, common)
    if common in FLOAT8 and rule.name not in _WITH_FLOAT8:
        raise refusal(rule.name, common)
    if rule.promote == "float" and not (common.is_floating_point or common.is_complex):
        common = get_default_dtype()
    exact = common.opmath  # what NumPy computes in; accelerators' kernels take half precision directly
    if rule.half and exact is not common and _on_accelerator(inputs):
        exact = common
    compute = exact.numpy
    arrays: list[Any] = []
    post_grad, shape = 0, None
    masked = rule.inputs.index(rule.mask) if rule.mask is not None else -1
    for place, given in enumerate(inputs):
        if isinstance(given, TensorCore):
            array = given._array
            if array.dtype != compute and place != masked:
                post_grad |= MATCH_INPUT
                array = array.astype(compute)
            if shape is not None and array.shape != shape and rule.promote != "same":
                post_grad |= MATCH_INPUT
            shape = array.shape
            arrays.append(array)
        else:
            if given is not None:
                if exact is not common and rule.name not in _EXACT_NUMBERS:
                    given = _rounded(given, common.numpy)
                given = _number(given, compute, place == 1 and rule.name in _DIVISIONS)
            arrays.append(given)
    if common.is_complex:
        post_grad |= MATCH_INPUT if not rule.holomorphic else MATCH_INPUT | CONJUGATE
    if exact is common:
        return arrays, post_grad, None
    return arrays, post_grad | MATCH_INPUT | UPCAST, common


def _on_accelerator(inputs: Sequence[Any]) -> bool:
    if Target.platform == "cpu":  # a program for the CPU rounds as NumPy does
        return False
    return namespace_of([given._array for given in inputs if isinstance(given, TensorCore)]) is not numpy_xp


_EXACT_NUMBERS = frozenset(("mul", "div"))  # multiply half precision unrounded; other numbers are rounded first
_DIVISIONS = frozenset("div div_floor remainder fmod".split())


def _number(given: object, compute: np.dtype[Any], divides: bool) -> Any:
    """Return a Python number as an array; integers wrap around as PyTorch's do."""
    if type(given) not in PYTHON_NUMBERS and hasattr(given, "as_array"):  # a symbolic scalar of the traced program
        if divides and compute.kind in "iu" and given % 2 ** (8 * compute.itemsize) == 0:
            raise RuntimeError("ZeroDivisionError")
        return given.as_array(compute)
    try:
        return np.asarray(given, compute)
    except OverflowError:
        return np.asarray(given).astype(compute)
