"""Helpers for type checkers, without effect at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def not_none(obj: Any) -> Any:
    """Return the object, which must not be None."""
    if obj is None:
        raise TypeError("Invariant encountered: value was None when it should not be")
    return obj


def _as_it_is(source: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return a decorator that declares a function to have the signature of another."""
    return lambda function: function


copy_func_params = copy_method_params = copy_func_sig = copy_method_sig = _as_it_is
