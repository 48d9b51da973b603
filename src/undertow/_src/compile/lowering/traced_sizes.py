"""Sizes that vary, in two traces of a step: values, equations and the lengths of their dimensions."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from undertow._src.base.sites import PACKAGE
from undertow._src.compile.errors import FOREIGN, CompileError

_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep
_ON_THE_WAY = frozenset(("asked", "__call__", "_call_impl", "_wrapped_call_impl", "dispatch", "<lambda>"))


class Length(NamedTuple):
    """The size of a padded dimension: one of the true sizes, and a difference."""

    symbol: int
    offset: int


Factor = int | Length
Layout = tuple[Factor, ...]  # the factors of a dimension, the outermost first
Link = tuple["Value", int, "Value", int]  # two dimensions that have the same layout


class TooShort(Exception):
    """A call is too short for the program of its bucket: a dimension would be empty, or of size 1."""

    def __init__(self, least: list[int]) -> None:
        super().__init__(least)
        self.least = least


class Sizes:
    """The sizes of the two traces, and for which true sizes the program is right."""

    def __init__(self, smaller: Sequence[int], larger: Sequence[int]) -> None:
        self.smaller, self.larger = smaller, larger
        self.least = [2] * len(larger)

    def length(self, small: int, large: int) -> Length | None:
        """Return the length of a dimension with these sizes in the two traces, if it is one true size and a difference."""
        for symbol, (less, more) in enumerate(zip(self.smaller, self.larger)):
            if small - less == large - more:
                return Length(symbol, large - more)
        return None

    def at(self, factor: Factor, sizes: Sequence[Any]) -> Any:
        """Return the size of a factor, given the sizes of the arguments."""
        return factor if isinstance(factor, int) else sizes[factor.symbol] + factor.offset

    def of(self, layout: Layout) -> tuple[int, int]:
        """Return the sizes of a dimension in the two traces."""
        return tuple([math.prod([self.at(each, at) for each in layout]) for at in (self.smaller, self.larger)])

    def at_least(self, length: Length, size: int) -> None:
        """Record that a dimension must have at least some size."""
        self.least[length.symbol] = max(self.least[length.symbol], size - length.offset)


class Value:
    """A variable or a constant of both traces."""

    def __init__(self, small: Any, large: Any, sizes: Sizes, known: tuple[Any, Any] | None = None) -> None:
        self.dtype, self.shapes = large.dtype, (tuple(small.shape), tuple(large.shape))
        self.known = known  # its values, if it is a constant
        self.layouts: list[Layout | None] = []
        for less, more in zip(*self.shapes, strict=True):
            length = None if less == more else sizes.length(less, more)
            self.layouts.append((more,) if less == more else None if length is None else (length,))
            if length is not None:
                sizes.at_least(length, 2)
        self.is_fixed = self.shapes[0] == self.shapes[1]
        self.whole: Value | None = None  # its stand-in in the larger trace; see `_elided`

    @property
    def shape(self) -> tuple[int, ...]:
        return self.shapes[1]

    def is_full(self, dim: int, start: tuple[int, int], stop: tuple[int, int]) -> bool:
        """Return whether a part along a dimension is the whole dimension, in both traces."""
        return start == (0, 0) and stop == (self.shapes[0][dim], self.shapes[1][dim])

    def stands_for(self, other: Value) -> bool:
        """Return whether a value of the smaller trace corresponds to a given value of the larger one."""
        value: Value | None = self
        while value is not None and value is not other:
            value = value.whole
        return value is other

    def is_padded(self, dim: int) -> bool:
        return self.shapes[0][dim] != self.shapes[1][dim]


class Step:
    """An equation of both traces."""

    def __init__(self, equations: tuple[Any, Any], given: list[Value], made: list[Value]) -> None:
        self.small, self.large = equations[0].params, equations[1].params
        self.equation, self.primitive, self.name = equations[1], equations[1].primitive, equations[1].primitive.name
        self.given, self.made = given, made

    def is_fixed(self) -> bool:
        """Return whether none of its values has a padded dimension."""
        return all(value.is_fixed for value in (*self.given, *self.made))

    def pair(self, name: str) -> list[tuple[Any, Any]]:
        """Return the entries of a parameter in both traces."""
        return [*zip(self.small[name], self.large[name])]

    def refusal(self, why: str) -> CompileError:
        """Return the error for a step that can't be compiled for sizes that vary."""
        line, called = line_and_function(self.equation)
        return CompileError(
            f"undertow.compile: at {line}, `{called}` ({self.name}) {why}. Padding would show in its result: compute this "
            "without the dimension that varies, or compile without `dynamic`, which makes a program for each size."
        )


def line_and_function(equation: Any) -> tuple[str, str]:
    """Return the user's line that led to an equation, and the function of undertow that it called."""
    called = equation.primitive.name
    traceback = equation.source_info.traceback
    for frame in () if traceback is None else traceback.frames:
        if not frame.file_name.startswith((*FOREIGN, _NUMPY)):
            return f"{frame.file_name}:{frame.line_num}", called
        name = frame.function_name.rpartition(".")[2]
        if frame.file_name.startswith(PACKAGE) and name not in _ON_THE_WAY:
            called = name
    return "an unknown line", called
