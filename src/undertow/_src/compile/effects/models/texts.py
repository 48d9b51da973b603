"""Texts: what `print`, a logger, `str` and f-strings read of the objects that they show."""

from __future__ import annotations

from collections import deque
from typing import Any

from undertow._src.compile.effects.interface import Analysis
from undertow._src.compile.effects.models.items import children, inside
from undertow._src.compile.effects.objects import instance_dict
from undertow._src.compile.effects.purity import is_tensor
from undertow._src.compile.effects.special_methods import TEXT
from undertow._src.compile.effects.values import EMPTY, Atom, Concrete, Fresh, Value, is_plain

_CONTAINERS = (list, tuple, dict, set, frozenset, deque)
_SHOWN = ("SimpleNamespace", "Namespace")  # these show all their attributes


def show(analysis: Analysis, value: Value, node: Any) -> None:
    """Record that objects become text: call their methods for that, and read all that containers in them hold."""
    waiting, seen = [*value], set[Atom]()
    while waiting:
        atom = waiting.pop()
        if atom in seen:
            continue
        seen.add(atom)
        itself = frozenset([atom])
        analysis.log.contents(itself)
        analysis.protocols(itself, node, names=TEXT)
        waiting += _parts(analysis, atom, node)


def _parts(analysis: Analysis, atom: Atom, node: Any) -> Value:
    """Return what the text of an object shows, if not only methods of the user make it."""
    if isinstance(atom, Fresh):
        return atom.all_held()
    if not isinstance(atom, Concrete) or is_plain(atom.value) or is_tensor(atom.value):
        return EMPTY
    if isinstance(atom.value, _CONTAINERS):
        return children(analysis, atom)
    if not any("__dataclass_fields__" in vars(kind) or kind.__name__ in _SHOWN for kind in type(atom.value).__mro__):
        return frozenset(inside(analysis, atom))
    return EMPTY.union(*[analysis.attribute(atom, name, node) for name in [*instance_dict(atom.value)]])
