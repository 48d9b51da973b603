"""The guard on values that hooks in a program read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from undertow._src.compile.effects import Read
from undertow._src.compile.guards.guard import Guard
from undertow._src.compile.guards.places import Place, change, held_at, place_at, same


def of_holder(read: Read, holder: Any, key: Any) -> Read:
    """Return a read that checks whether a hook still finds a number in its place: there it is an input."""
    return Read(f"where {read.name} is kept", lambda: same(read.get(), held_at(holder, key)), True)


class ReadGuard(Guard):
    """Guard values that hooks read and that no place guard watches."""

    def __init__(self, reads: list[Read]) -> None:
        self._reads = reads

    def __bool__(self) -> bool:
        """Return whether there is anything to watch."""
        return bool(self._reads)

    @property
    def watches(self) -> str:
        """Return the line for `explain`."""
        names = ", ".join(dict.fromkeys(f"`{read.name}`" for read in self._reads))
        return f"values that hooks read: {names}"

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether no value has changed."""
        for read in self._reads:
            if read.changed():
                return False
        return True

    def reason(self) -> str:
        """Return a value that changed, in words."""
        read = next(read for read in self._reads if read.changed())
        return change(f"`{read.name}`, which a hook reads,", read.value, read.get())

    def changed_numbers(self) -> dict[Place, tuple[Any, Any]]:
        """Return the places whose number changed, but not its type."""
        return {
            place_at(*read.kept_at): read.kept_at
            for read in self._reads
            if read.kept_at is not None
            and type(read.value) in (int, float)
            and read.changed()
            and type(held_at(*read.kept_at)) is type(read.value)
        }
