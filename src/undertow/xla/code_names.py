"""What code names: globals, attributes, modules that it imports. Read from the code itself, so that no source is needed."""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

_ON_GLOBALS = {
    "DELETE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL",
}  # fmt: skip


class Import(NamedTuple):
    """One import statement: `from ..name import names` has a level of 2."""

    name: str
    level: int
    names: tuple[str, ...]

    def module(self, namespace: dict[str, Any]) -> str:
        """The full name of the module, for code in a namespace."""
        if not self.level:
            return self.name
        package = namespace.get("__package__") or ""
        parents = package.split(".")[: len(package.split(".")) - self.level + 1]
        return ".".join([*parents, self.name] if self.name else parents)

    def loaded(self, namespace: dict[str, Any]) -> Iterator[str]:
        """The keys of `sys.modules` that the statement depends on."""
        parts = self.module(namespace).split(".")
        yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))
        package = sys.modules.get(".".join(parts))
        yield from (f"{'.'.join(parts)}.{name}" for name in self.names if not hasattr(package, name))


class Names(NamedTuple):
    """What a function, and those written inside it, may look up."""

    globals: set[str]
    all: set[str]  # these and attributes
    stored: set[str]  # globals that it sets
    imports: set[Import]


def names_of(code: types.CodeType) -> Names:
    """Read the names in a function's code."""
    found = list(dis.get_instructions(code))
    names = Names(
        {each.argval for each in found if each.opname in _ON_GLOBALS},
        set(code.co_names),
        {each.argval for each in found if each.opname == "STORE_GLOBAL"},
        set(),
    )
    for place, each in enumerate(found):
        if each.opname == "IMPORT_NAME":
            level, given = found[place - 2].argval, found[place - 1].argval
            names.imports.add(Import(each.argval, level or 0, tuple(given or ())))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            for mine, inner in zip(names, names_of(constant)):
                mine |= inner  # type: ignore[operator]
    return names
