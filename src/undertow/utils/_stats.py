"""Counts of function calls."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

simple_call_counter: OrderedDict[str, int] = OrderedDict()


def count_label(label: str) -> None:
    simple_call_counter[label] = simple_call_counter.get(label, 0) + 1


def count(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Count a function's calls, under its qualified name."""

    @functools.wraps(fn)
    def counted(*args: Any, **kwargs: Any) -> Any:
        count_label(fn.__qualname__)
        return fn(*args, **kwargs)

    return counted
