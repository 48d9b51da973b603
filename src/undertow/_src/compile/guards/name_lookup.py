"""Names that code looks up: globals, builtins, attributes of modules, imports."""

from __future__ import annotations

import os
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from undertow._src.compile.effects import purity
from undertow._src.compile.effects.objects import instance_dict
from undertow._src.compile.guards.code_names import Import, names_of
from undertow._src.compile.guards.places import OfClass, Slots, place_at
from undertow._src.compile.guards.reachability import Reached

ENVIRONMENT = {"environ", "getenv"}


class NameLookup:
    """Find the values of names, and record their places."""

    def __init__(self, found: Reached, follow: Callable[[Any, str], None]) -> None:
        self.found = found
        self._follow = follow  # follows a value to all that it reaches

    def names_in(self, functions: Iterable[types.FunctionType]) -> None:
        """Find the names that functions look up, without following their values."""
        for function in functions:
            if self.found.is_new(function) and purity.origin_of(function) == "user":
                self.found.functions.append(function)
                names = names_of(function.__code__)
                self.found.mentioned |= names.all | names.methods
                self.found.strings |= names.strings
                self.look_up(function, names.globals, names.all)
                for each in names.imports:
                    self.look_at_import(each, function.__globals__, names.all)
                if not names.all.isdisjoint(ENVIRONMENT):
                    self.found.maps.append((os.environ._data, "os.environ"))  # type: ignore[attr-defined]

    def look_up_for(self, code: types.CodeType, namespace: dict[str, Any]) -> None:
        """Follow the names that code of a package looks up, in the modules that have them."""
        names = names_of(code)
        met: set[int] = set()
        for used in sorted(names.globals & namespace.keys()):
            self._look_up_one(namespace, used, names.all, met)
        for used in names.globals - namespace.keys():
            self.note(namespace, used)
        for each in names.imports:
            self.look_at_import(each, namespace, names.all)

    def name(self, namespace: dict[str, Any], key: str) -> None:
        """Follow a name that code looks up implicitly."""
        if namespace is sys.modules:
            if ("sys.modules", key) not in self.found.named:
                self.found.named.add(("sys.modules", key))
                self.found.loaded.append(key)
        elif key in namespace:
            self._look_up_one(namespace, key, set(), set())
        else:
            self.note(namespace, key)

    def look_at_place(self, owner: Any, attribute: str | None) -> None:
        """Guard a place that code of an installed package reads, without following its value."""
        if isinstance(owner, type) and attribute is not None:
            for kind in owner.__mro__:
                if purity.origin_of(kind) == "user" and not purity.written_here(kind):
                    self.note(OfClass(kind), attribute, id(kind))
                if attribute in vars(kind):
                    break
        elif isinstance(owner, dict) and attribute is not None:
            self.note(owner, attribute)
        elif id(owner) in self.found.seen:
            return
        elif attribute is not None:
            attributes, slots = instance_dict(owner), Slots(owner)
            if attribute in slots.members:
                self.note(slots, attribute, id(owner))
            elif type(owner).__dictoffset__:
                self.note(attributes, attribute)
            self.look_at_place(type(owner), attribute)
        else:
            kinds = (types.CellType, self.found.cells), (dict, self.found.maps), (np.ndarray, self.found.arrays)
            places: Iterator[list[Any]] = (each for kind, each in kinds if isinstance(owner, kind))
            found = next(places, self.found.lists if isinstance(owner, (list, deque, set)) else None)
            if found is not None and self.found.is_new(owner):
                found.append((owner, "state of a package"))

    def look_up(self, code: types.FunctionType, own: set[str], names: set[str]) -> None:
        """Follow the names that code may look up: in its module, among builtins, and in modules that these names
        have as values.
        """
        met: set[int] = set()
        function: Any = code  # mypy's cache leaves `__builtins__` out, so whether it knows the name depends on the run
        builtin: dict[str, Any] = function.__builtins__
        for used in sorted(own):
            if used in code.__globals__:
                self._look_up_one(code.__globals__, used, names, met)
                continue
            self.note(code.__globals__, used)  # the name may be added later
            if used in builtin:
                self._look_up_one(builtin, used, names, met)
            else:
                self.note(builtin, used)

    def _look_up_one(self, namespace: dict[str, Any], used: str, names: set[str], met: set[int]) -> None:
        value = namespace[used]
        self.note(namespace, used)
        if isinstance(value, types.ModuleType):
            self._look_up_in(value, names, met)
        elif value is not sys.modules and place_at(namespace, used) not in self.found.replaced:
            self._follow(value, used)

    def _look_up_in(self, module: types.ModuleType, names: set[str], met: set[int]) -> None:
        """Follow names in a module, and in modules among its values."""
        if id(module) in met:
            return
        met.add(id(module))
        self._follow(module, module.__name__)
        namespace = vars(module)
        for used in sorted(names & namespace.keys()):
            self._look_up_one(namespace, used, names, met)
        if "__getattr__" in namespace and purity.written_here(module):  # its `__getattr__` provides missing names
            self._look_up_one(namespace, "__getattr__", names, met)

    def look_at_import(self, statement: Import, namespace: dict[str, Any], names: set[str]) -> None:
        """Follow a module that code imports at run time, and the names in it."""
        met: set[int] = set()
        for name in statement.loaded(namespace):
            if ("sys.modules", name) not in self.found.named:
                self.found.named.add(("sys.modules", name))
                self.found.loaded.append(name)
            if name in sys.modules:
                self._look_up_in(sys.modules[name], names, met)

    def note(self, namespace: Any, name: str, owner: int | None = None) -> None:
        place = id(namespace) if owner is None else owner, name
        if place not in self.found.named:
            self.found.named.add(place)
            self.found.globals.append((namespace, name))
