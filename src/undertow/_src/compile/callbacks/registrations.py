"""The lines that registered hooks and defined functions, for messages."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType
from typing import Any

from undertow._src.base import hooks
from undertow._src.base.sites import Site
from undertow._src.compile.effects import purity
from undertow._src.compile.guards.places import put_back
from undertow._src.compile.guards.reachability import GLOBAL_HOOKS, Reached
from undertow._src.compile.guards.walking import Walk


class Registrations:
    """The lines that registered the hooks of a step: before it, on what it can reach, or while it is traced."""

    def __init__(self, state: Reached, arguments: Iterable[Any]) -> None:
        self._state, self._arguments = state, arguments
        self._lines: dict[int, list[str]] | None = None
        self._noted: list[Any] = []
        self._read = 0  # how many of those are in `_lines`

    def __enter__(self) -> Registrations:
        self._before, hooks.noted = hooks.noted, self._noted
        return self

    def __exit__(self, *exc: Any) -> None:
        hooks.noted = self._before

    def of(self, hook: Any) -> str:
        """Return file:line, or several; empty if unknown."""
        if self._lines is None:
            self._lines = {}
            for own in self._maps():
                for identity, each in own.items():
                    self._add(each, getattr(identity, "site", None))
        for each in self._noted[self._read :]:
            if isinstance(each, hooks.RemovableHandle):
                self._add((each.hooks_dict_ref() or {}).get(each.id), getattr(each.id, "site", None))
            else:
                for part in each[1:]:
                    self._add(part, each[0])
        self._read = len(self._noted)
        lines = self._lines.get(id(hook), [])
        return lines[0] + (f" and {len(lines) - 1} more" if len(lines) > 1 else "") if lines else ""

    def reached(self) -> Reached:
        """Find all hooks from before the step: on objects that the step or its hooks reach."""
        walk = Walk(seen=set(self._state.seen))
        for hook in [each for own in self._maps() for each in own.values()]:
            for each in (hook, *_inside(hook)):
                walk.follow(each, "a hook")
        return walk.found

    def _maps(self) -> Iterator[dict[int, Any]]:
        for tensor in (*self._state.tensors, *self._arguments):
            if tensor._meta is not None:
                yield from (own for own in (tensor._meta.hooks, tensor._meta.post_hooks) if own)
            if tensor._edge is not None:
                yield from tensor._edge[0]._hooked_outputs().values()
        for holder in (*self._state.modules, *self._state.optimizers):
            yield from (own for name, own in vars(holder).items() if "hooks" in name and isinstance(own, dict))
        yield from GLOBAL_HOOKS

    def _add(self, hook: Any, site: Site | None) -> None:
        if hook is None or site is None or self._lines is None:
            return
        for each in (hook, *_inside(hook)):
            lines = self._lines.setdefault(id(each), [])
            if str(site) not in lines:
                lines.append(str(site))


def _inside(hook: Any) -> Iterator[Any]:
    """Return the user's function inside a wrapper of undertow: a multi-grad hook, or a hook watched by `why`."""
    while isinstance(hook, functools.partial):
        hook = hook.func
    if hasattr(hook, "hook"):
        yield hook.hook
    if purity.origin_of(hook) == "own":
        for cell in getattr(hook, "__closure__", None) or ():
            if callable(cell.cell_contents):
                yield cell.cell_contents


def code_of(function: Any) -> CodeType | None:
    """Return the code of a function, or of a callable object's `__call__`; None if it has none."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)
    return code or getattr(type(function).__call__, "__code__", None)


def where_defined(function: Any) -> str:
    """Return file:line of the beginning of a function's code; "" if unknown."""
    code = code_of(function)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


class Removals:
    """Hooks that a call on the host removes. A replay finds them in place until that call."""

    def __init__(self, handles: Sequence[hooks.RemovableHandle]) -> None:
        self._handles = handles
        self._held: list[tuple[Any, dict[int, Any]]] = []  # maps of hooks, as they were before the call
        self._gone: list[tuple[Any, list[int]]] = []  # the hooks that the call removed from them

    def __enter__(self) -> None:
        maps = [ref() for handle in self._handles for ref in (handle.hooks_dict_ref, *handle.extra_dict_ref)]
        self._held = [(each, dict(each)) for each in maps if each is not None]

    def __exit__(self, *raised: object) -> None:
        self._held = [(each, held) for each, held in self._held if not held.keys() <= each.keys()]
        self._gone = [(each, [number for number in held if number not in each]) for each, held in self._held]

    def begin(self) -> None:
        """Begin a call of the program."""
        self._held, self._gone = [], []

    def undo(self) -> None:
        """Put the hooks back, in their order."""
        for each, held in self._held:
            put_back(each, held | dict(each))

    def redo(self) -> None:
        """Remove them again."""
        for each, numbers in self._gone:
            for number in numbers:
                each.pop(number, None)
