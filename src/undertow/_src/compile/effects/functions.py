"""Calls of Python functions: their parameters are bound and their code is gone through."""

from __future__ import annotations

import ast
from functools import partial
from types import FunctionType
from typing import Any

from undertow._src.compile.effects import purity
from undertow._src.compile.effects.coverage import RESULT
from undertow._src.compile.effects.elements import Elements
from undertow._src.compile.effects.graph import Frame
from undertow._src.compile.effects.source import definition
from undertow._src.compile.effects.values import (
    EMPTY,
    ONE,
    OPAQUE,
    PLAIN,
    Arguments,
    Fresh,
    Known,
    Scope,
    Simple,
    Value,
    bound_names,
)  # fmt: skip

MOST_CALLS_DEEP = 100
MOST_NESTED = 20  # calls in calls that are gone through at once; Python's own stack has an end


class Functions(Elements):
    """How functions with source are called."""

    def call_function(self, function: FunctionType, arguments: Arguments, node: Any) -> Value:
        found = definition(function)
        if found is None:
            self.here.may_write = True
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
        """Goes through a function as called here, if it has not been with these arguments.

        A call of one that this code is called by only adds to its arguments.
        """
        is_traced = self._is_traced()
        in_package = purity.is_installed(function.__code__.co_filename)
        if is_traced and in_package and not (self._comes_here() and self.was_entered(function, found)):
            return EMPTY
        if is_traced and in_package:
            arguments = self._narrowed(function, found, arguments)
        frame = self.frame.within(owner, is_traced) if self.frame is not None else None
        new = False
        if frame is None:
            key = self._shared(owner, arguments, is_traced) or (id(self.frame), id(node), id(owner), is_traced)
            frame = self.frames.get(key)
            if frame is None:
                if self.frame is not None and self.frame.depth >= MOST_CALLS_DEEP:
                    return self.unknown("calls too deeply to follow", node)
                frame = self.frames[key] = Frame(found, function, self.new_scope(found, parent), owner, self.frame)
                frame.decides = self.may_decide and in_package
                frame.is_traced, frame.is_cut = is_traced, is_traced and in_package
                self.waiting.append(frame)
                new = True
        self._bind_arguments(frame, defaults, arguments, node)
        self.here.calls[frame] = None
        if new and self.nested < MOST_NESTED:  # others wait until all that they are given is known
            self.walk(frame)
        frame.readers.add(self.frame)
        return self.returned(frame)

    def _is_traced(self) -> bool:
        """Whether what is called here is called in traces only, which are known: not by a statement on the host."""
        frame = self.frame
        if self.coverage is None or frame is None:
            return self.coverage is not None
        return frame.is_traced and not any(id(each) in self.coverage.hosted for each in frame.path)

    def _comes_here(self) -> bool:
        """Whether a trace came to the statement that is being gone through, which may be the user's."""
        return self.frame is None or not self.frame.path or not self._ran_not(self.frame, self.frame.path[-1])

    def was_entered(self, function: FunctionType, node: Any) -> bool:
        """Whether a trace came to a function, or to one inside it."""
        assert self.coverage is not None
        body = [node.body] if isinstance(node.body, ast.expr) else node.body
        return not all(self.coverage.is_dead(function.__code__, each) for each in body)

    def _narrowed(self, function: FunctionType, node: Any, given: Arguments) -> Arguments:
        """Arguments without what they never were in traces."""
        assert self.coverage is not None
        narrowed = partial(self.coverage.narrowed, function.__code__.co_filename, node)
        names = [each.arg for each in node.args.posonlyargs + node.args.args]
        named = [narrowed(name, value) for name, value in zip(names, given.positional)]
        keywords = {name: narrowed(name, value) for name, value in given.keywords.items()}
        maybe = {name: narrowed(name, value) for name, value in given.maybe.items()}
        positional = [*named, *given.positional[len(names) :]]
        return Arguments(positional, keywords, given.more, given.more_keywords, maybe)

    def returned(self, frame: Frame) -> Value:
        """Return what a function gives, as far as is known."""
        if not frame.is_cut:
            return frame.returns
        assert self.coverage is not None
        return self.coverage.narrowed(frame.function.__code__.co_filename, frame.node, RESULT, frame.returns)

    def _shared(self, owner: Any, arguments: Arguments, is_traced: bool) -> Any:
        """Return what the calls of a function from different places go by together, if they are alike: in
        installed packages only.

        Objects that the function makes are one then.
        """
        if not isinstance(owner, FunctionType) or purity.written_here(owner):
            return None
        if any(not isinstance(atom, (Simple, Known)) for atom in arguments.all()):
            return None
        keywords = (*arguments.keywords.items(), None, *arguments.maybe.items())
        return id(owner), tuple(arguments.positional), keywords, arguments.more, arguments.more_keywords, is_traced

    def walk(self, frame: Frame) -> None:
        """Goes through a function, until nothing that it says of itself changes what it has seen."""
        before, self.frame = self.frame, frame
        here, self.here = self.here, frame.at(())
        path, frame.path = frame.path, []
        self.nested += 1
        while frame.dirty:
            frame.dirty = False
            self.body(frame.node, frame.scope)
        self.nested -= 1
        frame.path = path
        self.frame, self.here = before, here

    def settle(self) -> None:
        """Goes through all functions again that have seen too little, the innermost first."""
        while self.waiting:
            waiting, self.waiting = self.waiting, []
            for frame in sorted(waiting, key=lambda frame: -frame.depth):
                if frame.dirty:
                    self.walk(frame)

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
            value |= arguments.maybe.get(name, EMPTY)
            given = name in arguments.keywords or name in arguments.maybe or name in defaults
            if name not in arguments.keywords and name in defaults:
                for atom in defaults[name]:
                    if isinstance(atom, Known):
                        self.found(atom, frame.function, name)
                value |= defaults[name]
            values[name] = value if value or given else ONE[OPAQUE]
        known = {*named, *keyword_names}
        left = [pair for pair in (*arguments.keywords.items(), *arguments.maybe.items()) if pair[0] not in known]
        if frame.is_cut and self.coverage is not None:
            filename = frame.function.__code__.co_filename
            values = {name: self.coverage.narrowed(filename, frame.node, name, value) for name, value in values.items()}
        scope = frame.scope
        before, self.frame = self.frame, frame
        if parameters.vararg is not None:
            if more:
                packed = self.fresh(parameters.vararg, tuple, EMPTY.union(more, *extra))
            else:
                packed = self.fresh_tuple(parameters.vararg, extra, "arguments")
            values[parameters.vararg.arg] = packed
        if parameters.kwarg is not None:
            values[parameters.kwarg.arg] = packed = self.fresh(parameters.kwarg, dict, EMPTY)
            (rest,) = packed
            assert isinstance(rest, Fresh)
            if arguments.more_keywords:
                self.put_into(rest, arguments.more_keywords | ONE[PLAIN])
            for name, value in left:
                self.put_under(rest, name, value)
        self.frame = before
        for name, value in values.items():
            self.set_variable(scope, name, value)


def _default(function: Any, number: int) -> Any:
    return function.__defaults__[number]


def _keyword_default(function: Any, name: str) -> Any:
    return function.__kwdefaults__[name]
