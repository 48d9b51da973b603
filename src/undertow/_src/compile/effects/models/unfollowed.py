"""Calls of code that is not analyzed: C extensions, the standard library."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from undertow._src.compile.effects import purity
from undertow._src.compile.effects.interface import Analysis
from undertow._src.compile.effects.models.items import with_contents
from undertow._src.compile.effects.values import NONE, ONE, OPAQUE, PLAIN, CallArguments, Concrete, Value, is_plain
from undertow._tensor import Tensor
from undertow.nn import Module
from undertow.optim import Optimizer


def call_unfollowed(
    analysis: Analysis, atom: Concrete, arguments: CallArguments, node: Any, field: str | None = None
) -> Value:
    """Call something that may do anything, also with its arguments."""
    name = atom.name
    analysis.log.held(with_contents(analysis, arguments.all()))
    if isinstance(atom.value, FunctionType) and "." not in name:
        name = f"{atom.value.__module__}.{atom.value.__qualname__}"
    what = "prints" if atom.value is print else f"calls `{name}`"
    field = field or purity.field_of(atom.value)
    targets = _given_away(arguments) if field == "unknown" else []
    for target in targets:
        analysis.log.place(target, None)
        analysis.heap.write(target, None, ONE[PLAIN])
        analysis.log.effect("call", what, node, target, field=field)
    if not targets or purity.origin_of(atom.value) != "standard":
        analysis.log.effect("call", what, node, field=field)
    if purity.origin_of(atom.value) not in ("standard", "builtin"):
        analysis.log.unfollowed_call()
    return ONE[NONE] if atom.value is print else ONE[OPAQUE]


def _given_away(arguments: CallArguments) -> list[Any]:
    """Return the objects from outside among the arguments that code which is not analyzed may change."""
    known = [atom.value for atom in arguments.all() if isinstance(atom, Concrete) and not is_plain(atom.value)]
    return [value for value in known if not isinstance(value, (Tensor, Module, Optimizer)) and not callable(value)]
