"""Mirrors of lists, dicts and objects that a step makes, for code on the host.

Eager code makes new ones in each call. So does a compiled step: for each one in the trace, a call makes one, which hooks
and the step's results share. It contains the mirrors of its contents (see `host_mirrors`), in the state of a hook call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from sys import getrefcount
from typing import Any

from undertow._src.compile.callbacks.containers import (
    UNCHANGING,
    Part,
    contents_of,
    emptied,
    fill,
    made_of,
    same_contents,
)
from undertow._src.compile.errors import CompileError


class ContainerMirror:
    """A container or an object of the trace, and its counterpart in the current call."""

    def __init__(self, value: Any) -> None:
        self.value = value  # kept until the end of the trace, and longer if the step leaves it
        self.kind = type(value)
        self._shell = None if isinstance(value, UNCHANGING) else emptied(value)
        self._seen: list[Part] | None = None  # its contents when a hook call last saw it in the trace
        self._other_run: list[Part] | None = None  # the same, for the calls of the other run
        self.begin()

    def begin(self) -> None:
        """Forget the container of the last call, before the next call of the program."""
        self.live: Any = None
        self._put: list[Part] | None = None  # the contents that were put in; a hook may have changed them

    def has_changed(self) -> bool:
        """Return whether the step has changed it since a hook call last saw it."""
        return self._seen is None or not same_contents(self._seen, contents_of(self.value))

    def change_runs(self) -> None:
        """From now on, know what the calls of the other run have seen: see `HostMirrors.calls_of`."""
        self._seen, self._other_run = self._other_run, self._seen

    def references_to(self, value: Any, others: Sequence[ContainerMirror]) -> int:
        """Count its references to a value of the trace, if only mirrors, or objects that they hold, hold the container."""
        own = _count(value, self._seen or ()) + _count(value, self._other_run or ())
        inside = _count(value, contents_of(self.value))
        around = inside and sum(
            each.references_to(self.value, _without(self, others)) for each in _without(self, others)
        )
        return own + (inside if inside and getrefcount(self.value) <= _ALONE + around else 0)

    def live_references_to(self, value: Any, others: Sequence[ContainerMirror]) -> int:
        """Count the same for this call's container and a value of this call."""
        own = _count(value, self._put or ())
        inside = 0 if self.live is None else _count(value, contents_of(self.live))
        around = inside and sum(
            each.live_references_to(self.live, _without(self, others)) for each in _without(self, others)
        )
        return own + (inside if inside and getrefcount(self.live) <= _ALONE + around else 0)

    def forget_turns(self) -> None:
        """Forget everything that was needed only during the trace."""
        self._seen = self._other_run = None

    def current_state(self) -> ContainerState:
        """Return the container's state at this point of the trace."""
        changed = None if self._seen is None else self.has_changed()
        self._seen = contents_of(self.value)
        return ContainerState(self, changed, self._seen)

    def is_changed_on_host(self) -> bool:
        """Return whether a hook of this call has changed it."""
        return self._put is not None and not same_contents(self._put, contents_of(self.live))

    def prepare(self) -> None:
        """Make this call's container, empty at first, because its contents may contain it."""
        if self.live is None and self._shell is not None:
            self.live = emptied(self._shell)

    def show(self, parts: list[Part], changed: bool | None, who: Any) -> None:
        """Set this call's container to its state at a hook call. A hook's changes stay unless the step has changed it.

        If no hook call of this run has seen it before, it is not known whether the step has changed it (None).
        """
        if self._shell is None:
            self.live = made_of(self.kind, parts) if self.live is None else self.live
            return
        if self._put is not None and (changed is False or (changed is None and same_contents(self._put, parts))):
            return
        if self.is_changed_on_host():
            raise CompileError(
                f"undertow.compile: {who} is shown a {self.kind.__name__} that both code on the host and the step itself "
                "have changed, and a program can't put these changes in order. Let only one of the two change it."
            )
        fill(self.live, parts)
        self._put = contents_of(self.live)


def _count(value: Any, parts: Iterable[Part]) -> int:
    return sum(part.value is value for part in parts)


def _without(mirror: ContainerMirror, others: Sequence[ContainerMirror]) -> list[ContainerMirror]:
    """Return the mirrors except one: containers may contain themselves."""
    return [each for each in others if each is not mirror]


_probe = ContainerMirror([])
_ALONE = getrefcount(_probe.value)  # references to objects that only the mirror holds


class ContainerState:
    """The state of a container at one hook call, with the mirrors of its contents."""

    __slots__ = ("container", "changed", "parts")

    def __init__(self, container: ContainerMirror, changed: bool | None, parts: list[Part]) -> None:
        self.container, self.changed, self.parts = container, changed, parts

    def each(self, function: Callable[[Any], Any]) -> list[Part]:
        """Return the contents, with a function applied to each."""
        return [part._replace(value=function(part.value)) for part in self.parts]
