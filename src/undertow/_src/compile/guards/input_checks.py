"""Integer inputs of a call: labels and indices that are checked, lengths that decide shapes.

Eager code checks an index before it uses it. A program can't stop for that; but integers mostly arrive as arguments
or captured tensors, and can be checked before the program runs. So a trace records how other
integers follow from those, and what is to be checked. What is computed from anything else goes unchecked.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray, is_known
from undertow._src.arrays.device.memory import Buffer
from undertow._src.arrays.numpy import namespace as numpy_xp
from undertow._src.compile.guards.guard import Guard
from undertow._src.compile.tracing.symbolic_scalars import SymbolicScalar
from undertow._src.types.devices import cpu

Value = Callable[[Sequence[Any]], Any]  # an array on the host, given a call's arguments


class Elsewhere(Exception):
    """An argument is not on the host."""


class Check:
    """A check before each call. What can't have changed since the last one is not checked again."""

    def __init__(self, check: Callable[[Any], None], value: Value) -> None:
        self._check, self._value = check, value
        self._checked: Any = None

    def run(self, arguments: list[Any]) -> None:
        """Raise the error that eager code would raise."""
        try:
            array = self._value(arguments)
        except Elsewhere:
            return
        if array is self._checked:
            return
        self._check(array)
        self._checked = None if array.flags.writeable else array


class _Seen:
    """A captured tensor's numbers on the host. JAX's arrays never change, so each is fetched once."""

    def __init__(self) -> None:
        self._value: Any = None
        self._array: Any = None

    def of(self, array: Any) -> Any:
        """Return the numbers of an array."""
        if type(array) is not DeviceArray or array._parent is not None or array.buffer.host is not None:
            return _on_host(array)
        if array.buffer.value is not self._value:
            self._array, self._value = _on_host(array), array.buffer.value
        return self._array


class InputChecks:
    """How arrays follow from arguments, and the checks to make on them."""

    def __init__(self) -> None:
        self._values: weakref.WeakKeyDictionary[Buffer, Value] = weakref.WeakKeyDictionary()
        self.checks: list[Check] = []
        self.held: list[tuple[Value, Any]] = []  # values that the program depends on
        self.arguments: list[Any] = []  # of the first call
        self._before: dict[int, Any] = {}  # the values of captured tensors, by their ids

    def argument(self, array: DeviceArray, place: int) -> None:
        """Record where a call finds the integers of an argument."""
        if array.dtype.kind in "iu":
            self._values[array.buffer] = lambda arguments: _on_host(arguments[place]._array)

    def captured(self, tensor: Any, array: DeviceArray, original: Any) -> None:
        """Record where a call finds the integers of a captured tensor."""
        if array.dtype.kind in "iu" and array._parent is None:
            self._before[id(tensor)] = original
            seen = _Seen()
            self._values.setdefault(
                array.buffer, lambda arguments: seen.of(self._before.get(id(tensor), tensor._array))
            )

    def hold(self, array: DeviceArray) -> Any:
        """Return the value of an array in the first call, which is the same in later calls of the program; None if
        it is not known.
        """
        value = self._value(array)
        try:
            known = None if value is None else np.array(value(self.arguments))
        except Elsewhere:
            return None
        if value is not None:
            self.held.append((value, known))
        return known

    def finish(self) -> None:
        """Resolve the tensors to check, after the trace."""
        self.arguments = []
        self._before.clear()

    def check(self, check: Callable[[Any], None], array: DeviceArray) -> None:
        """Add a check before each call."""
        value = self._value(array)
        if value is not None:
            self.checks.append(Check(check, value))

    def follow(self, result: DeviceArray, word: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Record that an array function computed an array."""
        if word is None or not all(map(_is_of_the_host, kwargs.values())):
            return
        values = [self._value(arg) if type(arg) is DeviceArray else _as_it_is(arg) for arg in args]
        if not all(type(arg) is DeviceArray or _is_of_the_host(arg) for arg in args):
            return
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            self._values[result.buffer] = lambda arguments: word(*[value(arguments) for value in known], **kwargs)

    def _value(self, array: DeviceArray) -> Value | None:
        if array.buffer.writes:
            return None
        if is_known(array):
            return _as_it_is(np.asarray(array.value))
        whole = self._values.get(array.buffer)
        if whole is None or array._parent is None:
            return whole
        takes, part = [array._take], array._parent
        while part._parent is not None:
            takes.append(part._take)
            part = part._parent

        def taken(arguments: Sequence[Any]) -> Any:
            value = whole(arguments)
            for take in reversed(takes):
                value = take(numpy_xp, value)
            return value

        return taken


class InputValueGuard(Guard):
    """Guard integer inputs that shapes depend on."""

    def __init__(self, held: list[tuple[Value, Any]]) -> None:
        self._held = held

    @property
    def watches(self) -> str:
        """Return the line for `explain`."""
        return "arrays of lengths that decide shapes"

    @property
    def number(self) -> int:
        """Return their number."""
        return len(self._held)

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether none has changed."""
        try:
            return all(np.array_equal(value(arguments), known) for value, known in self._held)
        except Elsewhere:
            return False

    def reason(self) -> str:
        """Return what changed, in words."""
        return "lengths that decide shapes changed"


def _on_host(array: Any) -> Any:
    if type(array) is not DeviceArray:
        return array
    if array.device is not cpu:
        raise Elsewhere
    return np.asarray(array.value)


def _is_of_the_host(value: Any) -> bool:
    """Return whether an argument of an array function is a constant; several may be given in a list."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_of_the_host, value))
    return not isinstance(value, (DeviceArray, SymbolicScalar))


def _as_it_is(value: Any) -> Value:
    return lambda arguments: value
