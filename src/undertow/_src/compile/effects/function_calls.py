"""Calls of Python functions: arguments are bound to parameters and the body is analyzed."""

from __future__ import annotations

import ast
from functools import partial
from types import FunctionType
from typing import Any

from undertow._src.compile.effects.call_graph import Frame, Worklist
from undertow._src.compile.effects.coverage import RESULT, Coverage
from undertow._src.compile.effects.interface import Analysis
from undertow._src.compile.effects.models.unfollowed import call_sourceless
from undertow._src.compile.effects.purity import is_installed, written_here
from undertow._src.compile.effects.syntax_trees import definition
from undertow._src.compile.effects.values import (
    EMPTY,
    ONE,
    OPAQUE,
    PLAIN,
    CallArguments,
    Closure,
    Concrete,
    Scope,
    Simple,
    Value,
    bound_names,
)

MOST_CALLS_DEEP = 100
MOST_NESTED = 20  # bodies analyzed within one another; Python's own stack has an end


class FunctionCalls:
    """The calls that were analyzed, each with the values that its variables may have, and the worklist.

    decides: whether package code after a test that is certain to fail is skipped (see `certain_tests`).
    coverage: what ran in traces. Package code that ran in none is skipped; if None, nothing is.
    """

    def __init__(self, analysis: Analysis, worklist: Worklist, decides: bool, coverage: Coverage | None) -> None:
        self._analysis = analysis
        self._at = analysis.at
        self._worklist = worklist
        self._decides = decides
        self._coverage = coverage
        self._frames: dict[Any, Frame] = {}
        self._nested = 0  # the number of bodies that are being analyzed

    # --- calls

    def call(self, function: FunctionType, arguments: CallArguments, node: Any) -> Value:
        """Return the result of a function with source."""
        found = definition(function)
        if found is None:
            return call_sourceless(self._analysis, function, arguments, node)
        return self._enter(found, function, None, function, _defaults_of(function), arguments, node)

    def call_closure(self, closure: Closure, arguments: CallArguments, node: Any) -> Value:
        """Return the result of a function that the code itself defines."""
        closure.readers.add(self._at.frame)
        return self._enter(
            closure.node, closure.frame.function, closure.scope, closure, closure.defaults, arguments, node
        )

    def _enter(
        self, found: Any, function: FunctionType, parent: Scope | None, owner: Any, defaults: dict[str, Value],
        arguments: CallArguments, node: Any,
    ) -> Value:  # fmt: skip
        """Analyze a function for this call, unless it was analyzed with these arguments before.

        A recursive call only adds to the arguments of the call around it.
        """
        is_traced = self._is_traced()
        in_package = is_installed(function.__code__.co_filename)
        if is_traced and in_package:
            if not (self._ran_here() and self._was_entered(function, found)):
                return EMPTY
            arguments = self._narrowed(function, found, arguments)
        caller = self._at.frame
        frame = caller.within(owner, is_traced) if caller is not None else None
        new = False
        if frame is None:
            key = _shared_key(owner, arguments, is_traced) or (id(caller), id(node), id(owner), is_traced)
            frame = self._frames.get(key)
            if frame is None:
                if caller is not None and caller.depth >= MOST_CALLS_DEEP:
                    return self._analysis.log.unknown("calls too deeply to follow", node)
                scope = Scope(*bound_names(found), parent)
                decides, is_cut = self._decides and in_package, is_traced and in_package
                frame = Frame(found, function, scope, owner, caller, decides, is_traced, is_cut)
                self._frames[key] = frame
                self._worklist.add(frame)
                new = True
        self._bind(frame, defaults, arguments)
        self._at.notes.calls[frame] = None
        if new and self._nested < MOST_NESTED:  # others wait until all of their arguments are known
            self._walk(frame)
        frame.readers.add(caller)
        return self._returned(frame)

    def _bind(self, frame: Frame, defaults: dict[str, Value], arguments: CallArguments) -> None:
        """Add the arguments of a call, and defaults, to the possible values of the parameters."""
        parameters = frame.node.args
        named = [each.arg for each in parameters.posonlyargs + parameters.args]
        keyword_names = [each.arg for each in parameters.kwonlyargs]
        values: dict[str, Value] = dict(zip(named, arguments.positional))
        extra = arguments.positional[len(named) :]
        open_names = named[len(arguments.positional) :]
        for name in (*open_names, *keyword_names):
            value = arguments.keywords.get(name, EMPTY) | arguments.more_keywords | arguments.maybe.get(name, EMPTY)
            if name in open_names:
                value |= arguments.more
            given = name in arguments.keywords or name in arguments.maybe or name in defaults
            if name not in arguments.keywords and name in defaults:
                for atom in defaults[name]:
                    if isinstance(atom, Concrete):
                        self._analysis.log.read(atom, frame.function, name)
                value |= defaults[name]
            values[name] = value if value or given else ONE[OPAQUE]
        if frame.is_cut and self._coverage is not None:
            filename = frame.function.__code__.co_filename
            narrowed = partial(self._coverage.narrowed, filename, frame.node)
            values = {name: narrowed(name, value) for name, value in values.items()}
        heap = self._analysis.heap
        before, self._at.frame = self._at.frame, frame  # the call makes the containers of `*args` and `**kwargs`
        if parameters.vararg is not None:
            if arguments.more:
                packed = heap.fresh(parameters.vararg, tuple, EMPTY.union(arguments.more, *extra))
            else:
                packed = heap.fresh_tuple(parameters.vararg, extra, "arguments")
            values[parameters.vararg.arg] = packed
        if parameters.kwarg is not None:
            rest = heap.object(parameters.kwarg, dict)
            values[parameters.kwarg.arg] = frozenset([rest])
            if arguments.more_keywords:
                heap.add(rest, arguments.more_keywords | ONE[PLAIN])
            known = {*named, *keyword_names}
            for name, value in (*arguments.keywords.items(), *arguments.maybe.items()):
                if name not in known:
                    heap.add_entry(rest, name, value)
        self._at.frame = before
        for name, value in values.items():
            heap.set_variable(frame.scope, name, value)

    # --- the worklist

    def run_to_fixed_point(self) -> None:
        """Analyze calls again until no value that they read has grown since: a fixed point."""
        while self._worklist:
            for frame in self._worklist.take():
                if frame.dirty:
                    self._walk(frame)

    def forget(self, node: Any) -> None:
        """Forget the effects of a definition whose statements were replaced. The possible values stay valid."""
        frames = [frame for frame in self._frames.values() if frame.node is node]
        for frame in frames:
            frame.notes.clear()
            frame.scope.names, frame.scope.globals = bound_names(node)
        self._worklist.grown(frames)

    def _walk(self, frame: Frame) -> None:
        """Analyze a body repeatedly, until its additions no longer change what it reads."""
        at = self._at
        before, at.frame = at.frame, frame
        notes, at.notes = at.notes, frame.at(())
        path, frame.path = frame.path, []
        self._nested += 1
        while frame.dirty:
            frame.dirty = False
            self._analysis.run_body(frame.node, frame.scope)
        self._nested -= 1
        frame.path = path
        at.frame, at.notes = before, notes

    # --- what ran in traces

    def ran(self, frame: Frame | None, path: tuple[Any, ...] | list[Any]) -> bool:
        """Return whether a trace reached the last statement of a path; True if that is unknown."""
        if frame is None or not path or self._coverage is None:
            return True
        return not self._coverage.is_dead(frame.function.__code__, path[-1])

    def _is_traced(self) -> bool:
        """Return whether this call is made only in traces, whose coverage is known, and not by a statement on the host."""
        frame = self._at.frame
        if self._coverage is None or frame is None:
            return self._coverage is not None
        return frame.is_traced and not any(id(each) in self._coverage.hosted for each in frame.path)

    def _ran_here(self) -> bool:
        """Return whether a trace reached the current statement, which may be the user's."""
        frame = self._at.frame
        return frame is None or self.ran(frame, frame.path)

    def _was_entered(self, function: FunctionType, node: Any) -> bool:
        """Return whether a trace reached a function, or one inside it."""
        assert self._coverage is not None
        body = [node.body] if isinstance(node.body, ast.expr) else node.body
        return not all(self._coverage.is_dead(function.__code__, each) for each in body)

    def _narrowed(self, function: FunctionType, node: Any, given: CallArguments) -> CallArguments:
        """Return the arguments, without possible values that they had in no trace."""
        assert self._coverage is not None
        narrowed = partial(self._coverage.narrowed, function.__code__.co_filename, node)
        names = [each.arg for each in node.args.posonlyargs + node.args.args]
        named = [narrowed(name, value) for name, value in zip(names, given.positional)]
        keywords = {name: narrowed(name, value) for name, value in given.keywords.items()}
        maybe = {name: narrowed(name, value) for name, value in given.maybe.items()}
        positional = [*named, *given.positional[len(names) :]]
        return CallArguments(positional, keywords, given.more, given.more_keywords, maybe)

    def _returned(self, frame: Frame) -> Value:
        """Return the result of a function, as far as it is known."""
        if not frame.is_cut:
            return frame.returns
        assert self._coverage is not None
        return self._coverage.narrowed(frame.function.__code__.co_filename, frame.node, RESULT, frame.returns)


def _shared_key(owner: Any, arguments: CallArguments, is_traced: bool) -> Any:
    """Return the key by which calls from different places share one analysis, if they may.

    In installed packages, calls with equal arguments may. They then also share the objects that the function makes.
    """
    if not isinstance(owner, FunctionType) or written_here(owner):
        return None
    if any(not isinstance(atom, (Simple, Concrete)) for atom in arguments.all()):
        return None
    keywords = (*arguments.keywords.items(), None, *arguments.maybe.items())
    return id(owner), tuple(arguments.positional), keywords, arguments.more, arguments.more_keywords, is_traced


def _defaults_of(function: FunctionType) -> dict[str, Value]:
    """Return the defaults of a function's parameters, each with a function that reads it again."""
    found: dict[str, Value] = {}
    given: tuple[Any, ...] = function.__defaults__ or ()
    first = function.__code__.co_argcount - len(given)
    for number, value in enumerate(given):
        name = function.__code__.co_varnames[first + number]
        found[name] = frozenset([Concrete(value, name, partial(_default, function, number))])
    for name, value in (function.__kwdefaults__ or {}).items():
        found[name] = frozenset([Concrete(value, name, partial(_keyword_default, function, name))])
    return found


def _default(function: Any, number: int) -> Any:
    return function.__defaults__[number]


def _keyword_default(function: Any, name: str) -> Any:
    return function.__kwdefaults__[name]
