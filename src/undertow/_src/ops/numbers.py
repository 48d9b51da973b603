"""Python numbers as arguments of functions on tensors: what counts as one, and its effect on a tensor's dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.base.sites import warn_once
from undertow._src.engine.apply import FAST_DTYPES, NUMBERS, apply
from undertow._src.engine.arguments import as_element
from undertow._src.rules import convert
from undertow._src.rules.refusals import refusal
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import DTYPE_OF, INTEGRAL, SCALAR_DTYPE, combine, complex32, dtype, promote, result_type

if TYPE_CHECKING:
    from undertow._tensor import Tensor

_NUMBERS = (int, float, complex, np.number, np.bool_)


def is_number(value: object) -> bool:
    return isinstance(value, _NUMBERS)


def as_number(value: object) -> Any:
    """Return a number as Python's own, from NumPy's or from a 0-dim tensor."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, TensorCore) and not value._array.ndim and not value._requires_grad:
        return value._array.item()
    return value


def lifted_dtype(input: Tensor, *numbers: Any) -> dtype:
    """Return the dtype of a tensor's result with these numbers."""
    own = DTYPE_OF[input._array.dtype]
    scalar = None
    for number in numbers:
        kind = SCALAR_DTYPE[type(number)]
        if scalar is None or kind.category > scalar.category:
            scalar = kind
    return combine(own, None, scalar) if input._array.ndim else combine(None, own, scalar)


def lifted(input: Tensor, *numbers: Any) -> Tensor:
    """Return a tensor in the dtype of its result with these numbers."""
    if input._array.dtype in FAST_DTYPES and NUMBERS.issuperset(map(type, numbers)):
        return input
    wanted = lifted_dtype(input, *numbers)
    if wanted is complex32:
        raise refusal("mul", wanted)
    return input if wanted is DTYPE_OF[input._array.dtype] else apply(convert.to_copy, input, dtype=wanted.numpy)


def check_holds(input: Tensor, *numbers: Any) -> None:
    """Refuse an in-place op whose result has a kind of numbers that the tensor can't hold."""
    wanted, own = lifted_dtype(input, *numbers), DTYPE_OF[input._array.dtype]
    if wanted.category > own.category:
        raise RuntimeError(
            f"result type {wanted.scalar_name} can't be cast to the desired output type {own.scalar_name}"
        )


def check_fits(operands: tuple[Any, ...]) -> None:
    """Run `check_holds` for an op on two operands, before any other check."""
    self, other = operands
    if isinstance(other, TensorCore):
        kind, own = DTYPE_OF[other._array.dtype], DTYPE_OF[self._array.dtype]
        if kind.category > own.category:
            wanted = promote(own, kind)
            raise RuntimeError(
                f"result type {wanted.scalar_name} can't be cast to the desired output type {own.scalar_name}"
            )
    elif is_number(other):
        check_holds(self, other)


def warn_deprecated(name: str, signature: str) -> None:
    """Warn that an order of arguments is deprecated: one warning for all functions together."""
    warn_once(
        f"This overload of {name} is deprecated:\n\t{name}{signature}\nGive the factor by its name, after the tensors.",
        words=3,
    )


def refuse_bools(operands: tuple[Any, ...]) -> None:
    """Refuse to subtract bools from numbers or numbers from bools, as PyTorch does."""
    bools = [
        value._array.dtype.kind == "b" if isinstance(value, TensorCore) else isinstance(value, bool)
        for value in operands
    ]
    if any(bools) and not all(bools):
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. To invert a mask, write `~` or "
            "logical_not()."
        )


def as_factor(factor: object, operands: tuple[Any, ...]) -> Any:
    """Return alpha as a number; a negative one wraps around for bytes."""
    number = as_number(factor)
    common = result_type([DTYPE_OF[value._array.dtype] for value in operands if isinstance(value, TensorCore)])
    return as_element(number, common) if common.category == INTEGRAL else number


def check_factor(factor: object, operands: tuple[Any, ...]) -> None:
    """Check that the kind of alpha is not higher than that of the numbers it multiplies."""
    kinds = [DTYPE_OF[value._array.dtype] for value in operands if isinstance(value, TensorCore)]
    highest = max([SCALAR_DTYPE[type(v)].category for v in operands if is_number(v)] + [k.category for k in kinds])
    if isinstance(factor, bool):
        if highest:
            raise RuntimeError("Boolean alpha only supported for Boolean results.")
    elif isinstance(factor, float) and highest < 2:
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    elif isinstance(factor, complex) and highest < 3:
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
