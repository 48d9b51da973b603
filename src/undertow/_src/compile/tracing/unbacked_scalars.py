"""Numbers that code takes out of tensors (`loss.item()`) and computes with: only the running program knows them.

Arithmetic with one is part of the program, in Python's precision. A comparison is a data-dependent branch. Where
the step leaves one (a total that is kept, a result), it is read from the program's outputs. Code that needs the
number itself (`f"{x}"`, a C function) is refused, unless it is an integer (`range(n)`): each has a program of its own.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.base.sites import outside
from undertow._src.compile.tracing.current_trace import running_trace
from undertow._src.compile.tracing.symbolic_scalars import LARGEST_SINGLE, Known, Real, SymbolicScalar, Values, Whole
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import SCALAR_DTYPE

_EXACT = 2**53  # up to here a float holds every whole number
_FITS = 2**31  # two such numbers have a product that an int64 holds
_PLAIN = (operator.add, operator.sub, operator.mul, operator.truediv)
_WHOLE = (operator.floordiv, operator.mod)


class Asked(SymbolicScalar):
    """The stand-in for a number from a tensor during a trace."""

    is_asked = True
    kind: type
    array: DeviceArray  # the number as an array of the program
    is_single = False  # whether it is an element of a tensor whose numbers are all in the range of float32

    def __init__(self, value: Any, known: Known) -> None:
        kind, array = self.kind, DeviceArray(value)
        self.value, self.traced, self.known, self.array = None, value, known, array

        def left(values: Values) -> Any:
            return kind(np.asarray(array.buffer.value))

        self.of = left

    def _combined(self, function: Callable[..., Any], other: Any, swapped: bool) -> Any:
        if isinstance(other, TensorCore) or type(other) is DeviceArray:
            return super()._combined(function, other, swapped)
        if not isinstance(other, (int, float)):
            return NotImplemented
        a, b = (_operand(other), self) if swapped else (self, _operand(other))
        whole = self.kind is int and _kind(other) is int
        if function is not operator.truediv and whole:
            limit = _FITS if function is operator.mul else 2**62
            if function not in (*_PLAIN, *_WHOLE) or not (_below(a, limit) and _below(b, limit)):
                raise self.refusal()
            divisor_is_zero = function in _WHOLE and not running_trace().decide(_traced(b) != 0, True)
            if divisor_is_zero:
                return function(1, 0)  # which raises
            return AskedWhole(function(_traced(a), _traced(b)), self.known)
        if function not in _PLAIN:
            raise self.refusal()
        x, y = _as_float(a), _as_float(b)
        if x is None or y is None:
            raise self.refusal()
        if function is operator.truediv and not running_trace().decide(jnp.asarray(y) != 0, True):
            return function(1 if whole else 1.0, 0 if whole else 0.0)  # which raises
        return AskedReal(function(x, y), self.known)

    def _changed(self, function: Callable[[Any], Any]) -> SymbolicScalar:
        return type(self)(function(self.traced), self.known)

    def _answer(self, question: Callable[[Any, Any], Any], about: Any = None) -> Any:
        if isinstance(about, TensorCore):
            return super()._answer(question, about)
        if question not in _COMPARISONS:
            raise self.refusal()
        if not isinstance(about, (int, float)):
            return NotImplemented
        if self.kind is int and _kind(about) is int:
            x, y = (
                self.traced,
                _traced(about) if isinstance(about, SymbolicScalar) or abs(about) < 2**63 else float(about),
            )
        else:
            x, y = _as_float(self), _as_float(about)
            if x is None or y is None:
                raise self.refusal()
        return running_trace().decide(question(x, y))

    def __bool__(self) -> bool:
        return running_trace().decide(self.traced != 0)

    def is_finite(self) -> bool:
        return running_trace().decide(jnp.isfinite(self.traced), True)

    def is_nan(self) -> bool:
        return running_trace().decide(jnp.isnan(self.traced), False)

    def is_inf(self) -> bool:
        return running_trace().decide(jnp.isinf(self.traced), False)

    def fits_single(self) -> bool:
        """Return whether the number is in the range of float32, or infinite, or nan."""
        if self.is_single:
            return True
        return running_trace().decide(~(jnp.isfinite(self.traced) & (abs(self.traced) > LARGEST_SINGLE)), True)

    def as_float(self) -> Asked:
        """Return the number as a float."""
        value = _as_float(self)
        if value is None:
            raise self.refusal()
        return self if self.kind is float else AskedReal(value, self.known)

    def as_whole(self) -> Asked:
        """Return the number as an integer."""
        if self.kind is int:
            return self
        if not self.is_finite():
            return int(math.nan) if self.is_nan() else int(math.inf)  # type: ignore[return-value]  # which raises
        if not _below(self, _EXACT):
            raise self.refusal()
        return AskedWhole(jnp.trunc(self.traced).astype(np.int64), self.known)

    def refusal(self) -> Exception:
        """Return the error for code that needs the number itself, or a Retrace if C functions can be replaced there."""
        return running_trace().needs_number(self.array, outside(sys._getframe(1)))

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise self.refusal()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        ask = {"isfinite": self.is_finite, "isnan": self.is_nan, "isinf": self.is_inf}.get(ufunc.__name__)
        if ask is None or method != "__call__" or len(inputs) != 1 or options:
            raise self.refusal()
        return np.bool_(ask())


class AskedReal(Asked, Real):
    """The stand-in for a float."""

    kind = float
    __init__ = Asked.__init__


class AskedWhole(Asked, Whole):
    """The stand-in for an integer."""

    kind = int
    _hash: int | None = None
    __init__ = Asked.__init__

    def __index__(self) -> int:
        """Return the number itself: each number has its own program, as each shape has."""
        return running_trace().whole(self.traced)

    def __int__(self) -> int:
        running_trace().lift(sys._getframe(1))
        return self.__index__()

    def __hash__(self) -> int:
        if self._hash is None:  # as a key of a dict, it outlives the trace
            self._hash = hash(self.__index__())
        return self._hash


def asked(array: DeviceArray) -> Asked | None:
    """Return the stand-in for the only element of an array; None if there can be none."""
    SCALAR_DTYPE[AskedReal], SCALAR_DTYPE[AskedWhole] = SCALAR_DTYPE[float], SCALAR_DTYPE[int]
    value, kind = jnp.reshape(array.value, ()), array.dtype.kind
    number: Asked | None = None
    if kind in "iu" and array.dtype != np.uint64:
        number = AskedWhole(value.astype(np.int64), Known())
    elif kind in "fV":
        number = AskedReal(value.astype(np.float64), Known())
    if number is not None:
        number.is_single = array.dtype != np.float64
    return number


def _kind(number: Any) -> type:
    return float if isinstance(number, float) else int


def _operand(number: Any) -> Any:
    return number if isinstance(number, SymbolicScalar) else float(number) if isinstance(number, float) else int(number)


def _traced(number: Any) -> Any:
    if not isinstance(number, SymbolicScalar):
        return number
    return number.traced.astype(np.int64) if _kind(number) is int else number.traced


def _below(number: Any, limit: int) -> bool:
    """Return whether a number's magnitude is below a limit; for an unknown number, whether it likely is."""
    if not isinstance(number, SymbolicScalar):
        return abs(number) < limit
    if not number.is_asked:
        return bool(abs(number) < limit)
    return running_trace().decide(abs(number.traced) < limit, True)


def _as_float(number: Any) -> Any:
    """Return a number as a float of the program; None if it is too large for that."""
    if isinstance(number, SymbolicScalar):
        if number.is_asked and _kind(number) is int and not _below(number, _EXACT + 1):
            return None
        return number.traced.astype(np.float64)
    return float(number) if isinstance(number, float) or abs(number) <= _EXACT else None


_COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
