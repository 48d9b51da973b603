"""Namespaces as dicts: `globals()`, `vars(module)`, `sys.modules`."""

from __future__ import annotations

import functools
from typing import Any

from undertow._src.compile.effects.interface import Analysis
from undertow._src.compile.effects.objects import MISSING
from undertow._src.compile.effects.values import NONE, ONE, PLAIN, Atom, CallArguments, Concrete, Value, strings_in


def namespace_item(analysis: Analysis, atom: Concrete, key: Value, node: Any) -> Value:
    """Return the value of a name in a module, or the loaded module of a name."""
    names = strings_in(key)
    if not names:
        return analysis.log.unguardable(f"reads `{atom.name}[…]` by a name that is not known", node)
    found: set[Atom] = set()
    namespace = atom.value
    for name in names:
        analysis.log.lookup(namespace, name)
        value = namespace.get(name, MISSING)
        if value is not MISSING:
            known = Concrete(value, f"{atom.name}[{name!r}]", functools.partial(namespace.get, name, MISSING))
            analysis.log.read(known, atom.value, name)
            found.add(known)
    return frozenset(found) or ONE[PLAIN]


def namespace_method(
    analysis: Analysis, owner: Concrete, name: str, arguments: CallArguments, node: Any
) -> Value | None:
    """Return the result of a method of a module's namespace or of `sys.modules`; None if it only writes."""
    if name in ("get", "__getitem__", "__contains__", "setdefault", "pop") and arguments.positional:
        found = namespace_item(analysis, owner, arguments.positional[0], node)
        if name in ("setdefault", "pop"):
            return None
        return found.union(ONE[NONE], *arguments.positional[1:])
    if name in ("update", "__setitem__", "__delitem__"):
        return None
    return analysis.log.unguardable(f"goes through all of `{owner.name}`", node)
