"""The version of PyTorch whose behaviour undertow has."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import Any


def _numbers(version: Any) -> tuple[int, ...]:
    """Return the leading numbers of a version: (2, 13, 0) of "2.13.0+cpu", "2.13.0a1" or (2, 13, 0)."""
    parts = str(version).split("+")[0].split(".") if isinstance(version, str) else version
    digits = ("".join(takewhile(str.isdigit, str(part))) for part in parts)
    numbers = [int(digit) for digit in takewhile(bool, digits)]
    while numbers and not numbers[-1]:
        numbers.pop()  # 2.13 is 2.13.0
    return tuple(numbers)


class TorchVersion(str):
    """A text that compares as a version, with texts and with tuples.

    >>> TorchVersion("2.13.0") >= (2, 9), TorchVersion("2.13.0") < "2.9"
    (True, False)
    """

    __slots__ = ()

    def __lt__(self, other: str | Iterable[Any]) -> bool:
        return _numbers(self) < _numbers(other)

    def __le__(self, other: str | Iterable[Any]) -> bool:
        return _numbers(self) <= _numbers(other)

    def __gt__(self, other: str | Iterable[Any]) -> bool:
        return _numbers(self) > _numbers(other)

    def __ge__(self, other: str | Iterable[Any]) -> bool:
        return _numbers(self) >= _numbers(other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (str, tuple, list)) and _numbers(self) == _numbers(other)

    __hash__ = str.__hash__


__version__ = TorchVersion("2.13.0+undertow")
