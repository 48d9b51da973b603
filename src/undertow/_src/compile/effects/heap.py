"""The abstract heap: what objects and variables may hold, joined over all assignments."""

from __future__ import annotations

from typing import Any

from undertow._src.compile.effects.call_graph import Position, Worklist
from undertow._src.compile.effects.values import EMPTY, ONE, PLAIN, Closure, Fresh, Scope, Value, joined

ITEMS = "[]"  # the name of a place for any element of a container


class Heap:
    """Objects that the code makes, one for each place where it makes them, and what it writes into objects from outside.

    Nothing is ever taken out. Where something may hold more than before, the calls that read it are analyzed again.
    """

    def __init__(self, at: Position, worklist: Worklist) -> None:
        self._at = at
        self._worklist = worklist
        self._objects: dict[Any, Fresh] = {}
        self._closures: dict[Any, Closure] = {}
        self._scopes: dict[Any, Scope] = {}
        self._written: dict[Any, Fresh] = {}  # the values written into objects from outside, by place
        self._kept: list[Any] = []  # the owners of those places, which are identified by `id`

    # --- objects from outside

    def write(self, owner: Any, name: str | None, value: Value) -> None:
        """Add to the possible values of a place; without a name, of any place in its owner."""
        self.add(self._place(owner, name), value or ONE[PLAIN])

    def write_any(self, name: str) -> None:
        """Record that an attribute of this name may be set, of any object."""
        self.write(None, name, ONE[PLAIN])

    def written(self, owner: Any, name: str | None) -> Value:
        """Return the values that the code may find at a place besides its current one."""
        found = self._place(owner, name).contents
        if name is not None:
            found |= self._place(owner, None).contents | self._place(None, name).contents
        return found

    def _place(self, owner: Any, name: str | None) -> Fresh:
        key = id(owner), name
        if key not in self._written:
            self._written[key] = Fresh(None, reader=self._at.present)
            self._kept.append(owner)
        return self._written[key]

    # --- objects that the code makes

    def object(self, node: Any, kind: Any) -> Fresh:
        """Return the object of a kind that is made at a node."""
        key = id(self._at.frame), id(node), kind
        atom = self._objects.get(key)
        if atom is None:
            atom = self._objects[key] = Fresh(kind, reader=self._at.present)
        return atom

    def fresh(self, node: Any, kind: Any, contents: Value, keys: Value | None = None) -> Value:
        """Return the object made at a node, holding (at least) these contents."""
        atom = self.object(node, kind)
        self.add(atom, contents, keys)
        return frozenset([atom])

    def fresh_tuple(self, node: Any, items: list[Value], part: str = "") -> Value:
        """Return the tuple of exactly these items; `part` distinguishes several made at one node."""
        key = id(self._at.frame), id(node), "tuple", part, len(items)
        atom = self._objects.get(key)
        if atom is None:
            atom = self._objects[key] = Fresh(tuple, [EMPTY] * len(items), self._at.present)
        for number, item in enumerate(items):
            if atom.add_item(number, item):
                self._worklist.grown(atom.readers)
        return frozenset([atom])

    def pairs(self, node: Any, first: Value, second: Value) -> Value:
        """Return a list of pairs."""
        return self.fresh(node, list, self.fresh_tuple(node, [first, second], "pair"))

    def closure(self, node: Any, scope: Scope, defaults: dict[str, Value]) -> Value:
        """Return the function defined at a node, its defaults joined with those of earlier visits."""
        key = id(self._at.frame), id(node)
        closure = self._closures.get(key)
        if closure is None:
            closure = self._closures[key] = Closure(node, scope, self._at.frame, defaults)
        for name, value in defaults.items():
            if not value <= closure.defaults.get(name, EMPTY):
                closure.defaults[name] = closure.defaults.get(name, EMPTY) | value
                self._worklist.grown(closure.readers)
        return frozenset([closure])

    def add(self, atom: Fresh, contents: Value, keys: Value | None = None) -> None:
        """Add contents to an object; all of them may be keys, unless it is known which."""
        if atom.add(contents, contents if keys is None else keys):
            self._worklist.grown(atom.readers)

    def add_entry(self, atom: Fresh, name: str, value: Value) -> None:
        """Add to the possible values of a dict's entry."""
        if atom.add_named(name, value):
            self._worklist.grown(atom.readers)

    def set_field(self, atom: Fresh, name: str, value: Value) -> None:
        """Add to the possible values of an object's attribute."""
        if atom.add_field(name, value):
            self._worklist.grown(atom.readers)

    # --- variables

    def inner_scope(self, node: Any, names: set[str], parent: Scope) -> Scope:
        """Return the scope of a comprehension."""
        key = id(self._at.frame), id(node)
        if key not in self._scopes:
            self._scopes[key] = Scope(names, set(), parent)
        return self._scopes[key]

    def variable(self, scope: Scope, name: str) -> Value:
        """Return the possible values of a variable."""
        scope.readers.setdefault(name, set()).add(self._at.frame)
        return scope.values.get(name, EMPTY)

    def set_variable(self, scope: Scope, name: str, value: Value) -> None:
        """Add to the possible values of a variable."""
        before = scope.values.get(name, EMPTY)
        scope.values[name] = joined(before, value)
        if scope.values[name] is not before:
            self._worklist.grown(scope.readers.get(name, ()))

    def set_result(self, value: Value) -> None:
        """Add to the possible results of the current function."""
        frame = self._at.frame
        assert frame is not None
        before = frame.returns
        frame.returns = joined(before, value)
        if frame.returns is not before:
            self._worklist.grown(frame.readers)
