"""Symbolic numbers, as a compiler has them. There are none here: these functions take and return plain numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


class SymInt:
    """An int that is not known yet; no number is an instance."""

    __module__ = "torch"


class SymFloat:
    """A float that is not known yet; no number is an instance."""

    __module__ = "torch"


class SymBool:
    """A bool that is not known yet; no value is an instance."""

    __module__ = "torch"


def sym_int(a: Any) -> int:
    """Return a number as an int, rounded towards zero."""
    return math.trunc(a)


def sym_float(a: Any) -> float:
    """Return a number as a float."""
    return float(a)


def sym_not(a: Any) -> Any:
    """Return the opposite of a bool."""
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """Return the larger of two numbers, as a float if one of them is."""
    larger = max(a, b)
    return float(larger) if isinstance(a, float) or isinstance(b, float) else larger


def sym_min(a: Any, b: Any) -> Any:
    """Return the smaller of two numbers, as a float if one of them is."""
    smaller = min(a, b)
    return float(smaller) if isinstance(a, float) or isinstance(b, float) else smaller


def sym_sum(args: Sequence[Any]) -> Any:
    """Return the sum of several numbers."""
    return sum(args)


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """Return t if b, else f."""
    return t if b else f


def sym_sqrt(a: Any) -> float:
    """Return the square root of a number."""
    return math.sqrt(a)
