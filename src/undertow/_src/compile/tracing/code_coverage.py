"""Recording which code runs in a trace, where reading all that the step can reach would take too long.

The analyzer leaves out code of packages that never ran (`effects.coverage`). So if code runs for the first time in a trace,
it was not read, and the trace is discarded: everything that it changed is restored, and the step is read and traced again.
The program is made from a trace in which every instruction had been read before. Until then, nothing may happen that can't
be undone: a C function that may act on the outside world is not called from unread code. And before code of a package runs
for the first time, everything that its names lead to is recorded: a trace restores that, too, and the step depends on it
after that.

Python reports every call, and in code that is noted every instruction. Most of what runs in a trace is undertow's own code,
or JAX's: while JAX runs nothing is reported (`aside`), and in undertow's code no call of a C function.
"""

from __future__ import annotations

import builtins
import sys
import threading
from _lsprof import Profiler
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import CodeType, FrameType, ModuleType
from typing import Any

from undertow._src.compile.effects import Coverage, purity
from undertow._src.compile.effects.coverage import RESULT, kind_of, spans_of
from undertow._src.compile.guards.reachability import FOREIGN, Reached
from undertow._src.compile.guards.snapshot import Snapshot
from undertow._src.compile.guards.walking import Walk
from undertow._src.compile.plan import Retrace
from undertow._src.compile.splitting.effect_splitting import EffectSplitter
from undertow._src.compile.tracing.current_trace import running_trace
from undertow._src.compile.tracing.results import forget_cached

_GIVES_IN_PARTS = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
_ACTING = {id(getattr(builtins, name)) for name in ("print", "input", "open", "exec", "eval", "compile", "breakpoint")}
_HARMLESS = {"builtins", "math", "cmath", "_operator", "_functools", "itertools", "_abc", "_collections", "_weakref"}
_IMPORTING = "<frozen importlib._bootstrap>", "_find_and_load"
_PLAIN = (str, bytes, int, float, complex, tuple, list, dict, set, frozenset, type, deque, OrderedDict, bytearray)


class NotRead(BaseException):
    """Ends a trace before unread code acts on the outside world. No `except Exception` handles it."""


def recording(splitter: EffectSplitter | None, state: Reached) -> AbstractContextManager[Recording | None]:
    """Return a block for a run of the step: a `Recording` if only code that runs is read."""
    if splitter is None or splitter.reading.coverage is None:
        return nullcontext()
    return Recording(splitter.reading.coverage, state, splitter.read_more)


class Recording:
    """A block that records what runs. At its end it raises Retrace if anything was new."""

    def __init__(self, coverage: Coverage, state: Reached, read_again: Callable[[], None]) -> None:
        self._coverage, self._read_again = coverage, read_again
        self._state = state
        self._snapshots: list[Snapshot] = []
        self._empty = _empty_among(state)  # cached functions whose caches are empty
        self._kinds: dict[str, str] = {}  # of files, see `_kind_of_file`
        self._ran: dict[int, tuple[CodeType, set[int]]] = {}
        self._noted: set[Any] = set()  # kinds of arguments and results
        self._grew = False
        self._acted: set[CodeType] = set()  # code that was read and that acted on the outside world
        self._tracing: dict[int, Any] = {}  # trace functions, by the id of the code
        self._met: dict[Any, tuple[CodeType, dict[str, Any]]] = {}  # code of packages, with its globals
        self._thread = threading.get_ident()
        self._on = self._profiles = self._imports = False

    def __enter__(self) -> Recording:
        self._before = sys.gettrace(), sys.getprofile()
        if isinstance(self._before[1], Profiler):
            self._before[1].disable()
        self._on = True
        self._switch(True)
        sys._getframe().f_trace_opcodes = True  # Python 3.12 delivers them only if a frame asked before
        sys.settrace(self._enter)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, *rest: Any) -> None:
        trace, profile = self._before
        self._on = False
        sys.settrace(trace)
        sys.setprofile(None if isinstance(profile, Profiler) else profile)
        if isinstance(profile, Profiler):
            profile.enable()
        grew = self._grew or isinstance(error, NotRead)
        for code, offsets in self._ran.values():
            spans = spans_of(code)
            grew |= self._coverage.add(code.co_filename, {spans[offset // 2] for offset in offsets})
        grew |= not self._met.keys() <= self._coverage.packages.keys()
        self._coverage.packages.update(self._met)
        if grew:
            for snapshot in reversed(self._snapshots):
                forget_cached(snapshot.state.caches, running_trace().memory.is_made)
                snapshot.restore()
            for cache in self._empty:
                if getattr(cache.__wrapped__, "__code__", None) not in self._acted:
                    cache.cache_clear()  # the effects of filling it have been undone
            if error is None or isinstance(error, (Exception, NotRead)):
                self._read_again()
                raise Retrace from None

    def codes(self) -> Iterator[CodeType]:
        """Return the code of the user and of packages that ran."""
        return (code for code, _ in self._ran.values())

    def aside(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of JAX's without recording."""
        if not self._on or threading.get_ident() != self._thread or sys.gettrace() is None:
            return function(*args, **kwargs)
        sys.settrace(None)
        sys.setprofile(None)
        try:
            return function(*args, **kwargs)
        finally:
            self._switch(self._profiles)
            sys.settrace(self._enter)

    # --- what runs

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        kind = self._kinds.get(code.co_filename)
        if kind is None:
            kind = self._kinds[code.co_filename] = _kind_of_file(frame)
        if kind == "standard" and (code.co_filename, code.co_name) == _IMPORTING and not self._imports:
            self._imports = True
            return self._until_left(frame, self._imported)
        if kind == "standard" or self._imports:
            return None
        if kind != "noted":
            if not self._profiles:
                return None
            if kind == "acting" and frame.f_back is not None and code.co_name not in purity.ANSWERED:
                self._act(frame.f_back)
            self._switch(False)
            return self._until_left(frame, self._back)
        if id(code) not in self._tracing:
            self._meet(code, frame)
        if purity.is_installed(code.co_filename) and event == "call" and not frame.f_lasti > 0:
            self._note_arguments(code, frame)
        frame.f_trace = self._tracing[id(code)]  # first: without it, Python 3.13 ignores `f_trace_opcodes`
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if self._profiles:
            return frame.f_trace
        self._switch(True)
        return self._called_back(frame.f_trace)

    def _until_left(self, frame: FrameType, then: Callable[[], None]) -> Any:
        """Return the trace function that waits for a frame's end."""
        frame.f_trace_lines = False

        def left(frame: FrameType, event: str, arg: Any) -> Any:
            if event == "return":
                then()
            return left

        return left

    def _called_back(self, tracing: Any) -> Any:
        """Return the trace function for code that undertow calls: a hook, a module's `forward`."""

        def called_back(frame: FrameType, event: str, arg: Any) -> Any:
            tracing(frame, event, arg)
            if event == "return":
                self._switch(False)
            return called_back

        return called_back

    def _imported(self) -> None:
        self._imports = False

    def _back(self) -> None:
        self._switch(True)

    def _switch(self, on: bool) -> None:
        """Turn reports of C functions on or off: they are not needed where undertow or JAX call them."""
        if self._on:  # else it is `__exit__` that is left
            self._profiles = on
            sys.setprofile(self._profile if on else None)

    def _meet(self, code: CodeType, frame: FrameType) -> None:
        ran: set[int] = set()
        self._ran[id(code)] = code, ran
        key = code.co_filename, code.co_firstlineno, code.co_qualname, id(frame.f_globals)
        if purity.is_installed(code.co_filename) and key not in self._coverage.packages and key not in self._met:
            self._met[key] = code, frame.f_globals
            walk = Walk(seen=self._state.seen, named=self._state.named)
            walk.look_up_for(code, frame.f_globals)
            found = walk.found
            self._snapshots.append(Snapshot(found))
            self._empty += _empty_among(found)
            self._state = found

        returns = purity.is_installed(code.co_filename) and not code.co_flags & _GIVES_IN_PARTS

        def tracing(frame: FrameType, event: str, arg: Any) -> Any:
            ran.add(frame.f_lasti)
            if event == "return" and returns:
                self._note_kind(code, RESULT, arg)
            return tracing

        self._tracing[id(code)] = tracing

    def _note_arguments(self, code: CodeType, frame: FrameType) -> None:
        """Record the kinds of a function's arguments."""
        given = frame.f_locals
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            self._note_kind(code, name, given.get(name, self))

    def _note_kind(self, code: CodeType, name: str, value: Any) -> None:
        key = id(code), name, type(value)
        if key not in self._noted:
            self._noted.add(key)
            self._grew |= self._coverage.note_kind(code, name, kind_of(value))

    # --- what must not

    def _profile(self, frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and not self._imports and not _is_harmless(function):
            self._act(frame)

    def _act(self, frame: FrameType) -> None:
        """End the trace before unread code does something that can't be undone."""
        if self._is_unread(frame):
            raise NotRead
        around: FrameType | None = frame
        while around is not None and around.f_code not in self._acted:
            self._acted.add(around.f_code)
            around = around.f_back

    def _is_unread(self, frame: FrameType) -> bool:
        """Return whether unread code of the user or of a package has led to a frame's next action."""
        around: FrameType | None = frame
        while around is not None:
            name = around.f_code.co_filename
            kind = self._kinds.get(name)
            if kind == "noted":
                return not self._coverage.ran(name, spans_of(around.f_code)[around.f_lasti // 2])
            if kind != "standard":
                return False
            around = around.f_back
        return False


def _kind_of_file(frame: FrameType) -> str:
    """Return the owner of a file's code: "noted" for the user, and for packages that undertow does not use itself.

    "standard" is the standard library, which acts for its callers. "acting" is code of undertow that acts on the outside
    world, such as saving files. The rest is "other".
    """
    whose = purity.origin_of_file(frame.f_code.co_filename)
    if whose == "user":
        return "other" if str(frame.f_globals.get("__name__", "")).partition(".")[0] in FOREIGN else "noted"
    if whose == "own" and purity.own_field(purity.own_module(frame.f_code.co_filename)) == "output":
        return "acting"
    return "standard" if whose == "standard" else "other"


def _empty_among(state: Reached) -> list[Any]:
    return [cache for cache, _ in state.caches if not cache.cache_info().currsize]


def _is_harmless(function: Any) -> bool:
    """Return whether a C function only computes, or changes only objects that a trace restores."""
    owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if name.startswith("__") and name != "__import__":
        return True
    if owner is None or isinstance(owner, ModuleType):
        return getattr(function, "__module__", None) in _HARMLESS and id(function) not in _ACTING
    return isinstance(owner, _PLAIN)
