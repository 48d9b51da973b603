"""Functions of the user that run in a trace although the analyzer has not read them: their effects would be missed.

The analyzer follows calls that it can see. Code of the standard library, or written in C, may call other functions of the
user (`functools.partialmethod`, `contextlib.closing`). So Python reports each function that a trace enters. One that was
not read is read then, with its arguments; if it does more than compute, the step is refused.
"""

from __future__ import annotations

import ast
import sys
import threading
from collections.abc import Callable
from inspect import CO_OPTIMIZED
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any

from undertow._src.compile.callbacks.hook_facts import exact_kind_of
from undertow._src.compile.cures import cure_of
from undertow._src.compile.effects import Frame, analyse, purity
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.reachability import is_foreign
from undertow._src.compile.splitting.effect_splitting import EffectSplitter
from undertow._src.compile.tracing.current_trace import running_trace

Key = tuple[str, int, str]  # of a function: its file, line and name


class CallWatch:
    """A block that records which functions of the user run. At its end it refuses those with effects nobody knows of."""

    def __init__(self, splitter: EffectSplitter, read: set[int]) -> None:
        self._splitter = splitter
        self._read = read  # ids of the code of functions that were read for hooks and statements
        self._known: set[Key] | None = None
        self._met: dict[int, CodeType] = {}
        self._unread: list[tuple[FunctionType, dict[str, Any]]] = []  # with their arguments
        self._thread, self._on = threading.get_ident(), False
        met, meet = self._met, self._meet

        def enter(frame: FrameType, event: str, arg: Any) -> None:  # called for each function, so it should be fast
            code = frame.f_code
            if id(code) not in met:
                meet(code, frame)

        self._enter = enter

    def __enter__(self) -> CallWatch:
        self._on = sys.gettrace() is None  # else a debugger has it
        if self._on:
            sys.settrace(self._enter)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, *rest: Any) -> None:
        if self._on:
            sys.settrace(None)
        self._on = False
        if error is None:
            for function, given in self._unread:
                self._refuse(function, given)
        self._unread.clear()

    def aside(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of JAX's without recording."""
        if not self._on or threading.get_ident() != self._thread or sys.gettrace() is None:
            return function(*args, **kwargs)
        sys.settrace(None)
        try:
            return function(*args, **kwargs)
        finally:
            sys.settrace(self._enter)

    def _meet(self, code: CodeType, frame: FrameType) -> None:
        self._met[id(code)] = code
        if not _is_users(code) or id(code) in self._read or _key_of(code) in self._keys():
            return
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        given = frame.f_locals
        cells = tuple([CellType(given[name]) if name in given else CellType() for name in code.co_freevars])
        function = FunctionType(code, frame.f_globals, code.co_name, None, cells)
        self._unread.append((function, {name: given[name] for name in names if name in given}))

    def _keys(self) -> set[Key]:
        """Return the functions that were read as a part of the step."""
        if self._known is None:
            self._known = {_key_of_frame(frame) for frame in self._splitter.reading.whole.frames}
        return self._known

    def _refuse(self, function: FunctionType, given: dict[str, Any]) -> None:
        code = function.__code__
        if id(code) in self._read or is_foreign(function):  # a hook, which has been read since
            return
        effects = analyse(function, (), {name: exact_kind_of(value) for name, value in given.items()})
        own = running_trace().is_own
        missed = [each for each in self._splitter.missed_among(effects) if each.target is None or not own(each.target)]
        if missed:
            raise CompileError(
                f"undertow.compile: the step calls `{code.co_qualname}` ({code.co_filename}:{code.co_firstlineno}) "
                f"through code that undertow can't follow, and it {missed[0]}. That would happen when the step is "
                f"compiled, and not on later calls. Call it directly, or {cure_of(missed[0])}."
            )


def _is_users(code: CodeType) -> bool:
    """Return whether code is that of a function in the user's own files, and not of a part of one."""
    if not code.co_flags & CO_OPTIMIZED or (code.co_name.startswith("<") and code.co_name != "<lambda>"):
        return False
    return purity.origin_of_file(code.co_filename) == "user" and not purity.is_installed(code.co_filename)


def _key_of(code: CodeType) -> Key:
    return code.co_filename, code.co_firstlineno, code.co_name


def _key_of_frame(frame: Frame) -> Key:
    node, file = frame.node, frame.function.__code__.co_filename
    if isinstance(node, ast.Lambda):
        return file, node.lineno, "<lambda>"
    return file, min([node.lineno, *[each.lineno for each in node.decorator_list]]), node.name
