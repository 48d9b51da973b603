"""A replay: the step runs eagerly, because a call on the host has raised.

By then the program has run, but its results were not stored, and some calls on the host were made. These are not
repeated: their outcome is used. So the error is raised where eager mode raises it, after everything that happens before,
and the step's own `try` and `with` statements handle it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from undertow._src.base import hooks, tracer
from undertow._src.compile.callbacks.hook_facts import is_own
from undertow._src.compile.callbacks.host_calls import HostCall
from undertow._src.compile.errors import CompileError
from undertow._src.compile.splitting.statement_probes import ProbedCode, StatementProbe


class Interrupted(Exception):
    """A call on the host has raised while a program ran."""


class Replay:
    """One replay. Hooks and probed statements are counted as in the trace, so that each finds its earlier call."""

    def __init__(self, calls: Iterable[HostCall], code: ProbedCode) -> None:
        self._calls = {call.order: call for call in calls}
        self._code = code
        self._thread, self._turn = threading.get_ident(), 0
        self._has_raised = False
        self._lost: set[str] = set()  # variables that statements on the host have set

    def run(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the step."""
        for call in reversed([*self._calls.values()]):
            call.removals.undo()
        before, tracer.hooks, StatementProbe.replay = tracer.hooks, self, self
        try:
            with self._code:
                result = function(*args, **kwargs)
        finally:
            tracer.hooks, StatementProbe.replay = before, None
        for call in self._calls.values():
            if call.outcome.error is not None:
                raise CompileError(
                    f"undertow.compile: {call.placed} raised {call.outcome.error!r}, but did not fire when the step ran "
                    "again, eagerly, because code on the host had changed which hooks fire. Make that change "
                    "outside of the step."
                ) from call.outcome.error
        return result

    def call_hook(self, hook: Any, args: tuple[Any, ...]) -> Any:
        """Call a hook, or return the outcome if it was already called on the host."""
        if is_own(hook) or threading.get_ident() != self._thread:
            return hooks.fire(hook, *args, decided=True)
        raising = self._calls.get(self._turn + 1)
        if raising is not None and raising.outcome.error is not None:
            raising.outcome.repeat_writes(args)
        done = self._next()
        if done is None:
            return hooks.fire(hook, *args, decided=True)
        done.outcome.repeat_writes(args)
        return done.outcome.repeat_answer()

    def meets(self, probe: StatementProbe) -> bool:
        """Return whether a probed statement is to run now."""
        if threading.get_ident() != self._thread:
            return True
        if self._next() is not None:
            self._lost |= probe.stored
            return False
        if self._has_raised and not self._lost.isdisjoint(probe.used):
            raise CompileError(
                f"undertow.compile: the statement `{probe.source}` ({probe.place}) comes after an error that the step "
                "handles, and uses variables that code on the host had set before the error. Compile the part that raises "
                "as a step of its own."
            )
        return True

    def _next(self) -> HostCall | None:
        """Return the next call on the host, if it was made."""
        self._turn += 1
        call = self._calls.get(self._turn)
        if call is not None:
            call.removals.redo()
            for stream, state in call.outcome.states_after:  # its draws are not repeated
                stream.set_state(state)
        if call is not None and call.outcome.error is not None:
            for each in self._calls.values():
                each.outcome.keep_gradients()
            error, call.outcome.error, self._has_raised = call.outcome.error, None, True
            raise error
        return call if call is not None and call.outcome.done else None
