"""What is known of the expressions of hooks: which are tensor work for a program, which depend on the state of Python."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import BuiltinFunctionType
from typing import Any

from undertow._src.compile.effects import Effect, Reading
from undertow._src.compile.effects.values import MADE, NONE, PLAIN, TENSOR, Atom, Concrete, Method, Value
from undertow._src.tensor.core import TensorCore
from undertow.nn.modules.module import Module

_FACTS = ("shape", "dtype", "device", "ndim", "requires_grad")  # of a tensor, which a trace knows
_ASKED = ("size", "dim", "numel", "nelement", "ndimension", "element_size", "is_floating_point")


class ExpressionFacts:
    """What is known of the expressions and statements of hooks."""

    def __init__(self, reading: Reading, others: Iterable[Effect]) -> None:
        self.reading = reading
        effects = [*reading.effects.effects, *others]
        self._of_containers = {
            id(place.owner) for place in reading.effects.places if isinstance(place.owner, (list, dict, set, deque))
        }
        modules = {id(each) for place in reading.effects.places for each in _parts_of_module(place.owner)}
        self._of_containers -= modules
        self._changes_unknown = any(effect.target is None and effect.kind != "call" for effect in effects)
        self._changed: dict[int, set[str | None]] = {}
        for effect in effects:
            self._changed.setdefault(id(effect.target), set()).add(effect.attribute)

    def value(self, part: int) -> Value:
        return self.reading.values.get(part, frozenset())

    def is_work(self, part: int) -> bool:
        """Whether an expression is probably a tensor, and computed without effects."""
        value = self.value(part)
        numbers = {atom for atom in value if atom in (PLAIN, NONE)}  # of None and the like, if it were no tensor
        return any(map(is_tensor, value)) and all(map(is_tensor, value - numbers)) and self.is_stable(part)

    def is_stable(self, part: int) -> bool:
        """Whether an expression has no effects, and reads nothing that hooks change or that is still to be filled."""
        if part in self.reading.written or self.reading.effects_of(part):
            return False
        places = self.reading.places.get(part, ())
        if any(name is None and owner in self._of_containers for owner, name in places):
            return False  # such as a list of earlier records
        return not places or not (self._changes_unknown or any(self._is_changed(*place) for place in places))

    def _is_changed(self, owner: int, name: str | None) -> bool:
        names = self._changed.get(owner, ())
        return bool(names) and (name is None or None in names or name in names)

    def is_local(self, part: int) -> bool:
        """Whether an expression depends on nothing but variables of the hook."""
        return self.is_stable(part) and not self.reading.places.get(part)

    def is_known(self, part: ast.expr, original: Callable[[ast.AST], int]) -> bool:
        """Whether an expression reads a tensor's property that a trace knows: its shape, its dtype."""
        asked = part.func if isinstance(part, ast.Call) else part
        names = _ASKED if isinstance(part, ast.Call) else _FACTS
        if not isinstance(asked, ast.Attribute) or asked.attr not in names or not self.is_local(original(part)):
            return False
        return any(map(is_tensor, self.value(original(asked.value))))

    def changes(self, part: int) -> bool:
        """Whether a statement changes objects that the code itself has made."""
        return bool(self.reading.changes.get(part))

    def called(self, part: int) -> set[Any]:
        """Return the possible values of a called expression: functions and classes, and C methods by their names."""
        known: list[Any] = [
            atom.value if isinstance(atom, Concrete) else atom.name if isinstance(atom, Method) else None
            for atom in self.value(part)
        ]
        return {each if isinstance(each, (str, type, BuiltinFunctionType)) else None for each in known}

    def is_none(self, part: int) -> bool:
        """Whether an expression is certainly None."""
        value = self.value(part)
        return bool(value) and all(
            atom is NONE or (isinstance(atom, Concrete) and atom.value is None) for atom in value
        )


def _parts_of_module(owner: Any) -> Iterator[Any]:
    """Yield the dicts in which a module keeps its parameters, buffers and modules."""
    if isinstance(owner, Module):
        yield from (each for each in vars(owner).values() if isinstance(each, dict))


def is_tensor(atom: Atom) -> bool:
    return atom in (TENSOR, MADE) or (isinstance(atom, Concrete) and isinstance(atom.value, TensorCore))
