"""Models of what operations on values do: one module for each family of operations.

A model is a function. It receives the analyzer (as an `Analysis`) and returns what the result may be. `MODELS` is the table
from which the analyzer takes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from undertow._src.compile.effects.interface import Analysis
from undertow._src.compile.effects.models import attributes, calls, classes, items, operators
from undertow._src.compile.effects.values import Atom, CallArguments, Value


@dataclass(frozen=True)
class Models:
    """One model for each operation; most look further, by the kind of the value or the function that is called."""

    call: Callable[[Analysis, Atom, CallArguments, Any], Value]
    attribute: Callable[[Analysis, Atom, str, Any], Value]
    set_attribute: Callable[[Analysis, Atom, str, Value, Any, bool], None]
    iterate: Callable[[Analysis, Atom, Any], Value]
    item: Callable[[Analysis, Atom, Any, Value, Any], Value]
    set_item: Callable[[Analysis, Atom, Value, Value, Any, bool], None]
    protocols: Callable[[Analysis, Value, Any, Value, tuple[str, ...]], Value]
    enter: Callable[[Analysis, Atom, Any], tuple[Value, bool]]


MODELS = Models(
    call=calls.call,
    attribute=attributes.read,
    set_attribute=attributes.store,
    iterate=items.iterate,
    item=items.read,
    set_item=items.store,
    protocols=operators.call_special_methods,
    enter=classes.enter,
)
