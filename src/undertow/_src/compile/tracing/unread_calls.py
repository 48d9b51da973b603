"""Functions of the user that run in a trace although the analyzer has not read them: their effects would be missed.

The analyzer follows calls that it can see. Code of the standard library, or written in C, may call other functions of the
user (`functools.partialmethod`, keys of `sorted`, `__del__`). So each trace notes which code runs. That must not disturb
the trace, in which reference counts decide what is kept: it sees neither frames nor values. If functions ran that were not
read, the step is traced once more. That trace reads them, with their arguments, and is thrown away; if what ran of them
does more than compute, the step is refused.
"""

from __future__ import annotations

import ast
import functools
import linecache
import sys
import threading
from _lsprof import Profiler
from collections.abc import Callable, Iterable, Iterator
from inspect import CO_OPTIMIZED, CO_VARARGS, CO_VARKEYWORDS
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any

from undertow._src.compile.callbacks.hook_facts import exact_kind_of
from undertow._src.compile.cures import cure_of
from undertow._src.compile.effects import Effect, Effects, Frame, analyse, purity
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.places import OfClass
from undertow._src.compile.guards.reachability import Reached
from undertow._src.compile.plan import Plan, Retrace
from undertow._src.compile.splitting.effect_splitting import EffectSplitter
from undertow._src.compile.splitting.user_functions import Key, key_of
from undertow._src.compile.tracing.current_trace import running_trace

_MOST_CALLS = 16  # of one function that are read: those after it have the same kinds of arguments, most likely
_ASKED_ONCE = {"__subclasshook__", "__subclasscheck__"}  # Python keeps the answers
_TOOLS = (4, 3, 5)  # numbers of tools that Python does not give to others


class CodeWatch:
    """A block that notes the code that runs, and that holds nothing else of the trace."""

    def __init__(self) -> None:
        self.codes: set[CodeType] = set()
        self._profiler: Profiler | None = None
        self._tool: int | None = None

    def __enter__(self) -> CodeWatch:
        if sys.version_info >= (3, 12):
            self._monitor()
        else:
            self._before = sys.getprofile()
            if isinstance(self._before, Profiler):
                self._before.disable()
            self._profiler = Profiler(subcalls=False, builtins=False)
            self._profiler.enable()
        return self

    def __exit__(self, *exc: Any) -> None:
        if self._profiler is not None:
            self._profiler.disable()
            self.codes = {entry.code for entry in self._profiler.getstats() if isinstance(entry.code, CodeType)}
            if isinstance(self._before, Profiler):
                self._before.enable()
            elif self._before is not None:
                sys.setprofile(self._before)
        elif self._tool is not None:
            monitoring: Any = getattr(sys, "monitoring")  # noqa: B009 (Python 3.11 has none)
            monitoring.set_events(self._tool, 0)
            monitoring.free_tool_id(self._tool)

    def _monitor(self) -> None:
        monitoring: Any = getattr(sys, "monitoring")  # noqa: B009
        self._tool = next((tool for tool in _TOOLS if monitoring.get_tool(tool) is None), None)
        if self._tool is None:
            return
        codes, thread, own, off = self.codes, threading.get_ident, threading.get_ident(), monitoring.DISABLE

        def started(code: CodeType, offset: int) -> Any:
            if thread() == own:
                codes.add(code)
                return off
            return None

        monitoring.use_tool_id(self._tool, "undertow")
        events = monitoring.events
        for event in (events.PY_START, events.PY_RESUME):
            monitoring.register_callback(self._tool, event, started)
        monitoring.set_events(self._tool, events.PY_START | events.PY_RESUME)
        monitoring.restart_events()


class UnreadCalls:
    """A block around a trace that is thrown away: at its end it refuses the functions that do more than compute."""

    def __init__(self, splitter: EffectSplitter, plan: Plan) -> None:
        self._splitter, self._plan = splitter, plan
        self._known: dict[Key, set[Any]] = {}  # the arguments with which each function was read
        self._effects: list[tuple[CodeType, Effect]] = []  # that a program would miss, of functions that ran
        self._lines: set[tuple[str, int]] = set()  # that ran, in files of the user
        self._files: dict[str, bool] = {}  # whether each is the user's
        self._thread = threading.get_ident()

    def __enter__(self) -> UnreadCalls:
        self._before = sys.gettrace()  # a debugger's
        sys.settrace(self._enter)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, *rest: Any) -> None:
        sys.settrace(self._before)
        if error is not None and not isinstance(error, Exception):
            return
        for code, effect in self._effects:
            if effect.line is None or (effect.file, effect.line) in self._lines:
                raise CompileError(
                    f"undertow.compile: the step calls `{code.co_qualname}` ({code.co_filename}:{code.co_firstlineno}) "
                    f"through code that undertow can't follow, and it {effect}. That would happen when the step is "
                    f"compiled, and not on later calls. Call it directly, or {cure_of(effect)}."
                ) from None
        self._splitter.functions.harmless |= self._splitter.functions.unread
        self._splitter.functions.unread = set()
        raise Retrace from None

    def aside(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of JAX's without the trace function, which makes it slow."""
        if threading.get_ident() != self._thread or sys.gettrace() is None:
            return function(*args, **kwargs)
        sys.settrace(None)
        try:
            return function(*args, **kwargs)
        finally:
            sys.settrace(self._enter)

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        is_users = self._files.get(code.co_filename)
        if is_users is None:
            is_users = self._files[code.co_filename] = _is_users_file(code.co_filename)
        if not is_users:
            return None
        if key_of(code) in self._splitter.functions.unread:
            self._look(code, frame)
        self._lines.add((code.co_filename, frame.f_lineno))
        return self._line

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        self._lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line

    def _look(self, code: CodeType, frame: FrameType) -> None:
        """Read a function with the arguments of a call."""
        args, kwargs = _arguments_of(code, frame.f_locals)
        known = self._known.setdefault(key_of(code), set())
        given = *map(id, args), *[(name, id(value)) for name, value in kwargs.items()]
        if given in known or len(known) >= _MOST_CALLS:
            return
        known.add(given)
        kinds = [exact_kind_of(each) for each in args], {name: exact_kind_of(each) for name, each in kwargs.items()}
        self._effects += [(code, effect) for effect in self._missed(analyse(_function_of(frame), *kinds))]
        # What it looks up is guarded. Its variables are not: they may belong to this trace.
        alone = FunctionType(code, frame.f_globals, code.co_name, None, tuple(CellType() for _ in code.co_freevars))
        self._plan.roots.append((alone, code.co_name))

    def _missed(self, effects: Effects) -> Iterator[Effect]:
        trace = running_trace()
        for each in self._splitter.missed_among(effects):
            made = each.target  # by the step, if it is new: then each call makes its own
            if made is None or not (trace.is_own(made) or (type(made) is not dict and trace.is_new(made, None))):
                yield each


def unread_among(codes: Iterable[CodeType], splitter: EffectSplitter, state: Reached) -> set[Key]:
    """Return the functions of the user that ran in a trace and have not been read."""
    ran = {key_of(code) for code in codes if _is_users(code)} - splitter.functions.harmless - splitter.functions.read
    if not ran:
        return ran
    frames = splitter.reading.whole.frames
    ran -= {key_of(frame.function.__code__) for frame in frames} | {_key_of_frame(frame) for frame in frames}
    if ran:
        called = [function for each in _runs_once(state) for function in analyse(each).functions]
        splitter.functions.harmless |= {key_of(function.__code__) for function in called}
    return ran - splitter.functions.harmless


def _runs_once(state: Reached) -> Iterator[Any]:
    """Yield the functions whose results are kept, so that what they do happens once in eager mode, too."""
    for cache, _ in state.caches:
        if cache.cache_parameters()["maxsize"] != 0:
            yield cache.__wrapped__
    for holder, _ in state.maps:
        if isinstance(holder, OfClass):
            yield from (
                each.func for each in vars(holder.owner).values() if isinstance(each, functools.cached_property)
            )


def _key_of_frame(frame: Frame) -> Key:
    node, file = frame.node, frame.function.__code__.co_filename
    if isinstance(node, ast.Lambda):
        return file, node.lineno, "<lambda>"
    return file, min([node.lineno, *[each.lineno for each in node.decorator_list]]), node.name


def _is_users(code: CodeType) -> bool:
    """Return whether code is that of a function in the user's own files, and not of a part of one."""
    if not code.co_flags & CO_OPTIMIZED or (code.co_name.startswith("<") and code.co_name != "<lambda>"):
        return False
    # Classes are given methods without source (dataclasses), which have no effects of their own.
    has_source = code.co_name not in _ASKED_ONCE and bool(linecache.getline(code.co_filename, code.co_firstlineno))
    return has_source and _is_users_file(code.co_filename)


def _is_users_file(file: str) -> bool:
    return purity.origin_of_file(file) == "user" and not purity.is_installed(file)


def _arguments_of(code: CodeType, values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call, by position and by name."""
    names, n_args = code.co_varnames, code.co_argcount
    n_named = n_args + code.co_kwonlyargcount
    args = [values[name] for name in names[:n_args] if name in values]
    kwargs = {name: values[name] for name in names[n_args:n_named] if name in values}
    if code.co_flags & CO_VARARGS:
        args += values.get(names[n_named], ())
        n_named += 1
    if code.co_flags & CO_VARKEYWORDS:
        kwargs |= values.get(names[n_named], {})
    return args, kwargs


def _function_of(frame: FrameType) -> FunctionType:
    """Return a function like the one that runs: with its code, globals and closure."""
    code, given = frame.f_code, frame.f_locals
    cells = tuple([CellType(given[name]) if name in given else CellType() for name in code.co_freevars])
    return FunctionType(code, frame.f_globals, code.co_name, None, cells)
