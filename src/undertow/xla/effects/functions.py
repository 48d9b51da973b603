"""Calls of Python functions: their parameters are bound and their code is gone through."""

from __future__ import annotations

from functools import partial
from types import FunctionType
from typing import Any

from undertow.xla.effects.elements import Elements
from undertow.xla.effects.source import definition
from undertow.xla.effects.state import Frame
from undertow.xla.effects.values import EMPTY, ONE, OPAQUE, PLAIN, Arguments, Known, Scope, Value, bound_names

MOST_CALLS_DEEP = 40


class Functions(Elements):
    """How functions with source are called."""

    def call_function(self, function: FunctionType, arguments: Arguments, node: Any) -> Value:
        found = definition(function)
        if found is None:
            self.may_write = True
            name = function.__qualname__
            what = "has no source to read" if self.frame is None else f"calls `{name}`, which has no source to read"
            self.effect("call", what, node, field="unknown")
            return ONE[OPAQUE]
        defaults: dict[str, Value] = {}
        names = function.__code__.co_varnames
        count = function.__code__.co_argcount
        given: Any = function.__defaults__ or ()
        for number, value in enumerate(given):
            name = names[count - len(given) + number]
            defaults[name] = frozenset([Known(value, name, partial(_default, function, number))])
        for name, value in (function.__kwdefaults__ or {}).items():
            defaults[name] = frozenset([Known(value, name, partial(_keyword_default, function, name))])
        return self.enter_function(found, function, None, function, defaults, arguments, node)

    def new_scope(self, node: Any, parent: Scope | None) -> Scope:
        names, global_names = bound_names(node)
        return Scope(names, global_names, parent)

    def enter_function(
        self, found: Any, function: FunctionType, parent: Scope | None, owner: Any, defaults: dict[str, Value],
        arguments: Arguments, node: Any,
    ) -> Value:  # fmt: skip
        """Goes through a function as called here; a call of one that is being gone through only adds to its arguments."""
        frame = next((each for each in reversed(self.stack) if each.owner is owner), None)
        if frame is None:
            key = id(self.frame), id(node), id(owner)
            frame = self.frames.get(key)
            if frame is None:
                frame = self.frames[key] = Frame(found, function, self.new_scope(found, parent), owner)
        self._bind_arguments(frame, defaults, arguments, node)
        if frame.active:
            return frame.returns
        if len(self.stack) >= MOST_CALLS_DEEP:
            return self.unknown("calls too deeply to follow", node)
        before, self.frame = self.frame, frame
        frame.active = True
        self.stack.append(frame)
        try:
            self.body(found, frame.scope)
        finally:
            self.stack.pop()
            frame.active = False
            self.frame = before
        return frame.returns

    def _bind_arguments(self, frame: Frame, defaults: dict[str, Value], arguments: Arguments, node: Any) -> None:
        parameters = frame.node.args
        named = [each.arg for each in parameters.posonlyargs + parameters.args]
        values: dict[str, Value] = {}
        for name, value in zip(named, arguments.positional):
            values[name] = value
        extra = list(arguments.positional[len(named) :])
        more = arguments.more
        open_names = named[len(arguments.positional) :]
        keyword_names = [each.arg for each in parameters.kwonlyargs]
        for name in open_names:
            values[name] = more
        for name in (*open_names, *keyword_names):
            value = values.get(name, EMPTY) | arguments.keywords.get(name, EMPTY) | arguments.more_keywords
            if name not in arguments.keywords and name in defaults:
                for atom in defaults[name]:
                    if isinstance(atom, Known):
                        self.found(atom, frame.function, name)
                value |= defaults[name]
            values[name] = value or ONE[OPAQUE]
        known = {*named, *keyword_names}
        left = [value for name, value in arguments.keywords.items() if name not in known]
        scope = frame.scope
        before, self.frame = self.frame, frame
        if parameters.vararg is not None:
            if more:
                packed = self.fresh(parameters.vararg, tuple, EMPTY.union(more, *extra))
            else:
                packed = self.fresh_tuple(parameters.vararg, extra, "arguments")
            values[parameters.vararg.arg] = packed
        if parameters.kwarg is not None:
            values[parameters.kwarg.arg] = self.fresh(
                parameters.kwarg, dict, EMPTY.union(arguments.more_keywords, *left) | ONE[PLAIN]
            )
        self.frame = before
        for name, value in values.items():
            present = scope.values.get(name, EMPTY)
            if not value <= present:
                scope.values[name] = self.limited(present | value)
                self.changed = True


def _default(function: Any, number: int) -> Any:
    return function.__defaults__[number]


def _keyword_default(function: Any, name: str) -> Any:
    return function.__kwdefaults__[name]
