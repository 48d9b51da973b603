"""Sizes that vary (`compile(step, dynamic=…)`): what a trace knows of them.

A step with such sizes is traced twice with padded arguments, at two sizes, and `lowering/masking.py` makes one program of
both traces. Code of undertow sees the sizes of the arrays in the trace. The user's code sees numbers that are inputs of
the program, the true sizes: which of the sizes that it reads follow from those is guessed in the first trace, and the
second trace tells whether the guesses were right.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from undertow._src.base.tree import leaves, map_leaves
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.places import Numbers
from undertow._src.compile.plan import Retrace
from undertow._src.compile.tracing.step_inputs import Call
from undertow._src.compile.tracing.symbolic_scalars import Known, SymbolicScalar
from undertow._src.tensor.core import TensorCore

Cut = Callable[[], Any]  # makes a tensor of the smaller size


class Linear(NamedTuple):
    """A size that follows from one that varies."""

    symbol: int
    times: int
    offset: int


class Lengths:
    """The sizes of one kind of call that vary."""

    def __init__(
        self, true: Numbers, larger: tuple[int, ...], smaller: tuple[int, ...], cut: Mapping[int, Cut]
    ) -> None:
        self.true = true  # the sizes without padding, which each call fills in
        self.larger, self.smaller = larger, smaller  # the sizes of the two traces
        self._padded = cut  # by the ids of the padded arguments
        self._known: dict[tuple[int, int], Linear | None] = {}  # by the number of a read, and the position in it
        self._read: list[tuple[tuple[int, ...], list[Linear | None]]] = []  # the reads of the smaller trace
        self._count = 0
        self._scalars: list[Any] = []
        self.present: tuple[int, ...] = larger

    @property
    def places(self) -> list[tuple[Any, int]]:
        """Return the places in which a trace finds the true sizes."""
        return [(self.true, place) for place in range(len(self.true))]

    def places_of(self, call: Call) -> set[int]:
        """Return the places of the padded tensors among those of a call."""
        tensors = [leaf for leaf in leaves((call.args, call.kwargs)) if isinstance(leaf, TensorCore)]
        return {place for place, tensor in enumerate(tensors) if id(tensor) in self._padded}

    def begin(self, call: Call, smaller: bool) -> Call:
        """Begin a trace at the smaller size or at the larger one; return the call to trace."""
        self.present, self._count = self.smaller if smaller else self.larger, 0
        if not smaller:
            return call
        self._read.clear()
        cut = {padded: make() for padded, make in self._padded.items()}
        args, kwargs = map_leaves(lambda leaf: cut.get(id(leaf), leaf), (call.args, call.kwargs))
        return Call(call.function, args, kwargs)

    def show(self, scalars: Sequence[Any], first: int, known: Known, numbers: list[float]) -> None:
        """Take over the stand-ins for the true sizes."""
        self._scalars = [*scalars[: len(self.true)]]
        known.padded = {first + place: size for place, size in enumerate(self.present)}
        known.values = numbers

    def shown(self, sizes: tuple[int, ...]) -> tuple[Any, ...]:
        """Return sizes of an array, or numbers computed from them, for the user's code."""
        reading, self._count = self._count, self._count + 1
        if self.present is self.smaller:
            guesses = [self._known.get((reading, place), self._guess(size)) for place, size in enumerate(sizes)]
            self._read.append((sizes, guesses))
        else:
            guesses = self._verified(reading, sizes)
        return tuple([size if guess is None else self._number(guess) for size, guess in zip(sizes, guesses)])

    def verify(self) -> None:
        """Refuse a step whose second trace has read less than the first."""
        if self._count != len(self._read):
            raise self._differs()

    def _guess(self, size: int) -> Linear | None:
        for symbol, unit in enumerate(self.smaller):
            if size and size % unit == 0:
                return Linear(symbol, size // unit, 0)
        return None

    def _verified(self, reading: int, sizes: tuple[int, ...]) -> list[Linear | None]:
        if reading >= len(self._read) or len(self._read[reading][0]) != len(sizes):
            raise self._differs()
        before, guesses = self._read[reading]
        learnt = {}
        for place, (small, large, guess) in enumerate(zip(before, sizes, guesses)):
            if large != (small if guess is None else guess.times * self.larger[guess.symbol] + guess.offset):
                learnt[reading, place] = self._learn(small, large)
        if learnt:
            self._known.update(learnt)
            raise Retrace
        return guesses

    def _learn(self, small: int, large: int) -> Linear | None:
        """Return the meaning of a size that was guessed wrong."""
        if small == large:
            return None
        for symbol, (less, more) in enumerate(zip(self.smaller, self.larger)):
            if large - small == more - less:
                return Linear(symbol, 1, large - more)
        raise CompileError(
            f"undertow.compile: a size or stride that the step reads is {small} for size {self.smaller[0]} of its "
            f"argument and {large} for size {self.larger[0]} (`dynamic`), and follows from it in a way that is not known. "
            "Compile without `dynamic`, which makes a program for each size."
        )

    def _number(self, size: Linear) -> Any:
        number = self._scalars[size.symbol]
        for function, other in ((operator.mul, size.times), (operator.add, size.offset)):
            if other != (1 if function is operator.mul else 0):
                number = SymbolicScalar._combined(number, function, other, False)
        return number

    def _differs(self) -> CompileError:
        return CompileError(
            "undertow.compile: the step takes a different path through its code for a different size of its arguments "
            "(`dynamic`). Compile without `dynamic`, which makes a program for each size."
        )
