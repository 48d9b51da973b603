"""Numbers that are inputs of a compiled program: learning rates and the like, and the user's (`counters`).

While a step is traced, an optimizer's float options are `Number`s. Arithmetic with one is part of the program. A
comparison (`momentum != 0`) has the outcome of the current value, and is recorded: a later call with other values runs the
same program as long as all outcomes stay the same. A number that Python code needs itself (`float(lr)`) is recorded as a
comparison with its exact value.

A Number is a float, because code asks `isinstance(lr, float)`; but the float inside is nan. C code that reads it directly
(math.sqrt, say) puts a nan into the program, where `baked` finds it: such a step is traced again with plain numbers.
"""

from __future__ import annotations

import math
import operator
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from operator import index
from types import FrameType
from typing import Any

import jax
import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import TraceAborted
from undertow._src.base import tracer
from undertow._src.base.sites import PACKAGE
from undertow._src.compile.tracing.current_trace import running_trace
from undertow._src.compile.tracing.stand_in_types import StandInType
from undertow._src.ops.public import public
from undertow._src.overrides import torch_function
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import SCALAR_DTYPE

Values = list[float]  # of a program's numbers, in order
Of = Callable[[Values], float]
ScalarGuard = tuple[
    Callable[[float, Any], Any], Of, Of, Any
]  # the comparison, the number, the other operand, the outcome


LARGEST_SINGLE = float(np.finfo(np.float32).max)
LARGEST = 2**53  # up to here a program's floats hold every integer


class Uncountable(TraceAborted, Exception):
    """A number can't be an input after all: values computed from it can't be computed in each call."""


class ScalarBecameConstant(TraceAborted, Exception):
    """A number that should be an input became a constant of the program."""


class Known:
    """Facts of a trace about its numbers: the comparisons with them, and what was computed from them."""

    def __init__(self) -> None:
        self.asked: list[ScalarGuard] = []
        self.computed: dict[tuple[Any, ...], SymbolicScalar] = {}  # the same computation gives the same number
        # Places of numbers that are true sizes of padded arguments, and the sizes in the trace; see `lengths`.
        self.padded: dict[int, int] = {}
        self.values: Values = []  # of all numbers in the call that is traced, if some are such sizes


class SymbolicScalar(metaclass=StandInType):
    """A number as the program sees it: its current value, and the traced value of each call."""

    __slots__ = ()

    value: Any
    traced: Any  # a 0-dim float64 array
    of: Of  # how it is computed from a program's numbers
    known: Known
    is_asked = False  # whether only the program knows it; see `unbacked_scalars`

    @property
    def kind(self) -> type:
        """The type of the number."""
        return type(self.value)

    def refusal(self) -> Exception:
        """Why the number itself is not available."""
        raise NotImplementedError

    # --- arithmetic

    def _combined(self, function: Callable[..., Any], other: Any, swapped: bool) -> Any:
        if isinstance(other, SymbolicScalar) and other.is_asked:
            return NotImplemented  # the other operand computes it
        mine, its = self.of, of(other)
        counted = not isinstance(self, Number) or (isinstance(other, SymbolicScalar) and not isinstance(other, Number))
        if isinstance(other, SymbolicScalar):
            value, traced = other.value, other.traced
        elif isinstance(other, (int, float)):
            if counted and isinstance(other, int) and _kind(int(other)) is None:
                raise Uncountable
            value, traced = other, float(other)
        elif type(other) is DeviceArray:
            array = self.beside(other.dtype)
            return function(other, array) if swapped else function(array, other)
        else:
            return NotImplemented  # the tensor computes it
        about = (id(other),) if isinstance(other, SymbolicScalar) else (exact_key(other),)
        if swapped:
            return self._computed((function, *about, id(self)), lambda: scalar_for(
                function(value, self.value), function(traced, self.traced), lambda v: function(its(v), mine(v)), self.known,
                counted,
            ), other)  # fmt: skip
        return self._computed((function, id(self), *about), lambda: scalar_for(
            function(self.value, value), function(self.traced, traced), lambda v: function(mine(v), its(v)), self.known,
            counted,
        ), other)  # fmt: skip

    def _computed(
        self, computation: tuple[Any, ...], make: Callable[[], SymbolicScalar], other: Any = None
    ) -> SymbolicScalar:
        """Return the result of a computation; the same number if the same computation was made before."""
        computed = self.known.computed
        if computation not in computed:
            with guarded_errors(self, other):
                computed[computation] = make()
        return computed[computation]

    def as_array(self, dtype: Any = None) -> DeviceArray:
        """Return the number as an array of the program."""
        return DeviceArray(self.traced if dtype is None else self.traced.astype(dtype))

    def rounded_to(self, dtype: np.dtype[Any]) -> SymbolicScalar:
        """Return the nearest number of a dtype with fewer digits."""
        return self._changed(_rounding_to(dtype))

    def beside(self, dtype: Any) -> DeviceArray:
        """Return the number as an array, with the dtype that NumPy gives it beside an array of this dtype."""
        return self.as_array(dtype if dtype is not None and dtype.kind in "fcV" else None)

    def as_element(self, dtype: np.dtype[Any]) -> DeviceArray | None:
        """Return the number as an element of a tensor; None if that takes the number itself."""
        if dtype == np.float64 or (dtype == np.float32 and self.fits_single()):
            return self.as_array(dtype)
        return None

    def fits_single(self) -> bool:
        """Return whether the number is in the range of float32."""
        return bool(abs(self) <= LARGEST_SINGLE)

    def _changed(self, function: Callable[[Any], Any]) -> SymbolicScalar:
        of, counted = self.of, not isinstance(self, Number)
        return self._computed(
            (function, id(self)),
            lambda: scalar_for(
                function(self.value), function(self.traced), lambda v: function(of(v)), self.known, counted
            ),
        )

    def __neg__(self) -> Any:
        return self._changed(operator.neg)

    def __abs__(self) -> Any:
        return self._changed(abs)

    def __pos__(self) -> Any:
        return self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    # --- questions

    def _answer(self, question: Callable[[float, Any], Any], about: Any = None) -> Any:
        if isinstance(about, TensorCore):
            return NotImplemented  # the other operand compares
        if isinstance(about, SymbolicScalar) and about.is_asked:
            return NotImplemented
        answer = question(self.value, about.value if isinstance(about, SymbolicScalar) else about)
        self.known.asked.append((question, self.of, of(about), answer))
        return answer

    def __bool__(self) -> bool:
        return self._answer(_is_true)

    def __float__(self) -> float:
        _lift(sys._getframe(1))
        return float(self._answer(_itself))

    item = __float__

    def __int__(self) -> int:
        _lift(sys._getframe(1))
        return int(self._answer(_itself))

    __trunc__ = __int__

    def __round__(self, digits: int | None = None) -> Any:
        _lift(sys._getframe(1))
        return round(self._answer(_itself), digits)

    def __hash__(self) -> int:
        _lift(sys._getframe(1))
        return hash(self._answer(_itself))


class Number(SymbolicScalar, float):  # type: ignore[misc]
    """An option of an optimizer."""

    __slots__ = ("value", "traced", "of", "known")

    def __new__(cls, value: float, traced: Any, of: Of, known: Known) -> Number:
        number = float.__new__(cls, math.nan)
        number.value, number.traced, number.of, number.known = value, traced, of, known
        return number

    def __repr__(self) -> str:
        return repr(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)


class Real(SymbolicScalar):
    """A float of the user. `isinstance` takes it for a float, but it is none, so that C code has to call `__float__`."""

    __slots__ = ("value", "traced", "of", "known")

    __class__ = property(lambda self: float)  # `isinstance` uses it

    def __init__(self, value: Any, traced: Any, of: Of, known: Known) -> None:
        self.value, self.traced, self.of, self.known = value, traced, of, known

    def __repr__(self) -> str:
        return repr(self._answer(_itself))

    def __format__(self, spec: str) -> str:
        return format(self._answer(_itself), spec)


class RealOfNumPy(Real):
    """A float that a function of NumPy has returned."""

    __slots__ = ()

    __class__ = property(lambda self: np.float64)
    dtype = np.dtype(np.float64)

    def item(self) -> Any:
        """Return the number as Python's own."""
        return self._changed(_of_python)


class Whole(SymbolicScalar):
    """An integer of the user."""

    __slots__ = ("value", "traced", "of", "known")

    __init__, __repr__, __format__ = Real.__init__, Real.__repr__, Real.__format__
    __class__ = property(lambda self: int)

    def __index__(self) -> int:
        size = self._size_in_trace()
        return int(self) if size is None else size

    def __int__(self) -> int:
        size = self._size_in_trace()
        return super().__int__() if size is None else size

    def __float__(self) -> float:
        size = self._size_in_trace()
        return super().__float__() if size is None else float(size)

    __trunc__ = __int__

    def __bool__(self) -> bool:
        size = self._size_in_trace()
        return super().__bool__() if size is None else bool(size)

    def _combined(self, function: Callable[..., Any], other: Any, swapped: bool) -> Any:
        size = self._size_in_trace() if isinstance(other, (int, float)) else None
        if size is None:
            return super()._combined(function, other, swapped)
        other = index(other) if isinstance(other, Whole) else other
        return function(other, size) if swapped else function(size, other)

    def _answer(self, question: Callable[[float, Any], Any], about: Any = None) -> Any:
        size = self._size_in_trace() if question in _COMPARISONS and isinstance(about, (int, float)) else None
        if size is None:
            return super()._answer(question, about)
        return question(size, index(about) if isinstance(about, Whole) else about)

    def _size_in_trace(self) -> int | None:
        """Return the padded size for a true size, if undertow's own code needs it: arrays in the trace are padded.

        The user's code gets the true size, and its branches on it are guarded.
        """
        known = self.known
        if not known.padded or not asks_undertow(sys._getframe(1)):
            return None
        noted = _Noted(known.values)
        self.of(noted)
        if not noted.used or not noted.used <= known.padded.keys():
            return None
        return int(self.of([known.padded.get(place, value) for place, value in enumerate(known.values)]))

    def as_array(self, dtype: Any = None) -> DeviceArray:
        whole = DeviceArray(self.traced.astype(np.int64))
        if dtype is None or np.dtype(dtype).kind not in "iu":
            return whole if dtype is None else super().as_array(dtype)
        return whole.astype(dtype, copy=False)  # integers wrap; for a float, XLA would take the nearest one

    def beside(self, dtype: Any) -> DeviceArray:
        if dtype is None or dtype.kind not in "iu":
            return super().beside(dtype)
        if not self._answer(_fits, dtype):
            raise OverflowError(f"Python integer {self.value} out of bounds for {dtype}")
        return self.as_array(dtype)


def scalar_for(value: Any, traced: Any, of: Of, known: Known, counted: bool) -> SymbolicScalar:
    """Return the symbolic scalar for a computed value: an option, or a user's number, whose type is guarded."""
    if not counted:
        return Number(value, traced, of, known)
    kind = _kind(value)
    if kind is None:
        raise Uncountable
    known.asked.append((_kind, of, _nothing, kind))
    return kind(value, traced, of, known)


def _kind(value: Any, about: Any = None) -> type[Real] | type[Whole] | None:
    """Return the class that stands for a user's number, if any can. It may depend on n: compare 2 ** n and
    n ** 0.5.
    """
    if type(value) is float:
        return Real
    if type(value) is np.float64:
        return RealOfNumPy
    return Whole if type(value) is int and abs(value) <= LARGEST else None


def _lift(frame: FrameType) -> None:
    """Raise Retrace if C functions, which need the number itself, can be replaced in the calling code."""
    if tracer.current is not None:
        while frame.f_code.co_filename == __file__ and frame.f_back is not None:
            frame = frame.f_back
        running_trace().lift(frame)


def asks_undertow(frame: FrameType | None) -> bool:
    """Return whether the code that uses a number is undertow's own, or code that it calls."""
    while frame is not None and frame.f_code.co_filename.startswith(_PASSED):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(PACKAGE)


def _nothing(values: Values) -> Any:
    return None


@contextmanager
def guarded_errors(*values: Any) -> Iterator[None]:
    """Record the exact numbers if a computation with them raises: the step may handle the error."""
    try:
        yield
    except (ArithmeticError, ValueError):
        for each in values:
            exactly(each)
        raise


def exactly(value: Any) -> Any:
    """Return a number's value, recorded as a comparison with it; return anything else unchanged."""
    return value._answer(_itself) if isinstance(value, SymbolicScalar) else value


def exact_key(value: Any) -> Any:
    """Return a key that differs for 1 and 1.0, and for 0.0 and -0.0."""
    if isinstance(value, tuple):
        return tuple(map(exact_key, value))
    return (type(value), float(value).hex() if isinstance(value, float) else value)


def of(value: Any) -> Of:
    """Return how a value is computed from a program's numbers."""
    return value.of if isinstance(value, SymbolicScalar) else lambda values: value


def _is_true(value: float, about: Any) -> bool:
    return bool(value)


def _fits(value: float, dtype: Any) -> bool:
    bounds = np.iinfo(dtype)
    return bounds.min <= value <= bounds.max


def _itself(value: float, about: Any) -> float:
    return value


def _of_python(value: Any) -> Any:
    return value.item() if type(value) is np.float64 else value


@cache
def _rounding_to(dtype: np.dtype[Any]) -> Callable[[Any], Any]:
    """Return one function for each dtype, because computations are told apart by their functions."""

    def rounded(value: Any) -> Any:
        if isinstance(value, (int, float)):
            return float(np.asarray(value, dtype))
        return value.astype(dtype).astype(np.float64)

    return rounded


def _arithmetic(function: Callable[..., Any], swapped: bool) -> Callable[..., Any]:
    return lambda self, other: self._combined(function, other, swapped)


def _question(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: self._answer(function, other)


for _name in ("add", "sub", "mul", "truediv", "pow", "floordiv", "mod"):
    setattr(SymbolicScalar, f"__{_name}__", _arithmetic(getattr(operator, _name), False))
    setattr(SymbolicScalar, f"__r{_name}__", _arithmetic(getattr(operator, _name), True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(SymbolicScalar, f"__{_name}__", _question(getattr(operator, _name)))
_COMPARISONS = frozenset((operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne))
# Frames between a number and the code that uses it: this file's own, those of overrides, NumPy's and JAX's.
_PASSED = (
    __file__, public.__code__.co_filename, torch_function.__file__,
    *[os.path.dirname(os.path.abspath(str(module.__file__))) + os.sep for module in (np, jax)],
)  # fmt: skip


def inputs(values: Values, traced: Any, known: Known, counters: int = 0) -> list[Any]:
    """Return a program's symbolic scalars, given a vector of traced values. The last of them are the user's."""
    SCALAR_DTYPE[Number] = SCALAR_DTYPE[Real] = SCALAR_DTYPE[RealOfNumPy] = SCALAR_DTYPE[float]
    SCALAR_DTYPE[Whole] = SCALAR_DTYPE[int]
    options = len(values) - counters
    return [
        scalar_for(value, traced[place], operator.itemgetter(place), known, place >= options)
        for place, value in enumerate(values)
    ]


def baked(jaxpr: Any) -> bool:
    """Return whether the nan inside a Number got into a program."""
    for equation in jaxpr.eqns:
        for operand in equation.invars:
            value = getattr(operand, "val", None)
            if isinstance(value, (float, np.floating, np.ndarray)) and np.ndim(value) == 0 and value != value:
                return True
        for parameter in equation.params.values():
            inner = getattr(parameter, "jaxpr", None)
            if inner is not None and baked(getattr(inner, "jaxpr", inner)):
                return True
    return False


class ScalarGuards:
    """The comparisons with a program's numbers, by the number that the outcome depends on."""

    def __init__(self, asked: list[ScalarGuard], values: Values) -> None:
        self.good = values  # numbers for which every outcome is known to be the same
        self._about: dict[int, list[ScalarGuard]] = {}
        once: dict[Any, ScalarGuard] = {}
        for each in asked:
            noted = _Noted(values)
            each[1](noted)
            beside = each[2](noted)
            if once.setdefault((each[0], id(each[1]), beside), each) is each:
                for place in noted.used:
                    self._about.setdefault(place, []).append(each)

    def __len__(self) -> int:
        """Return the number of comparisons."""
        return len({id(each) for asked in self._about.values() for each in asked})

    def hold(self, values: Values) -> bool:
        """Return whether every comparison has the outcome that it had when the program was made."""
        if self._about and values != self.good:
            for place, (now, before) in enumerate(zip(values, self.good)):
                if now != before:
                    for each in self._about.get(place, ()):
                        if not _same_answer(each, values):
                            return False
            self.good = values
        return True

    def failed_guard(self, values: Values) -> int | None:
        """Return the first number whose change makes a recorded comparison come out differently."""
        for place, (now, before) in enumerate(zip(values, self.good)):
            if now != before and not all(_same_answer(each, values) for each in self._about.get(place, ())):
                return place
        return None


def _same_answer(asked: ScalarGuard, values: Values) -> bool:
    question, of, about, answer = asked
    try:
        now = question(of(values), about(values))
        return now == answer or (now != now and answer != answer)  # nan equals itself here
    except (ArithmeticError, ValueError):  # of `math`: the step itself will raise it
        return False


def all_hold(asked: list[ScalarGuard], values: Values) -> bool:
    """Return whether comparisons have the same outcomes."""
    return all(_same_answer(each, values) for each in asked)


class NumbersOfCall:
    """Numbers in a graph that a backward program differentiates, in which they are buffers that the first one kept."""

    def __init__(
        self, scalars: list[tuple[SymbolicScalar, DeviceArray]], values: Values, asked: list[ScalarGuard]
    ) -> None:
        self._scalars, self._values, self._asked = scalars, values, asked
        self._before: list[tuple[SymbolicScalar, Any, Any]] = []
        self._known: list[tuple[Known, Any, Any]] = []

    def show(self) -> None:
        """Give the numbers the values of a call, for the program that is being traced."""
        for scalar, kept in self._scalars:
            self._before.append((scalar, scalar.value, scalar.traced))
            scalar.value, scalar.traced = None if scalar.is_asked else scalar.of(self._values), kept.value
            if all(known is not scalar.known for known, _, _ in self._known):
                self._known.append((scalar.known, scalar.known.asked, scalar.known.computed))
                scalar.known.asked, scalar.known.computed = self._asked, {}

    def take_back(self) -> None:
        """Restore the old values."""
        for scalar, value, traced in self._before:
            scalar.value, scalar.traced = value, traced
        for known, asked, computed in self._known:
            known.asked, known.computed = asked, computed
        self._before, self._known = [], []


class _Noted(list[float]):
    """Values that record which of them were read."""

    def __init__(self, values: Values) -> None:
        super().__init__(values)
        self.used: set[int] = set()

    def __getitem__(self, place: Any) -> Any:
        self.used.add(place)
        return super().__getitem__(place)
