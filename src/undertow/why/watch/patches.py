"""Replace attributes of the engine for the time of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_MISSING = object()


class Patches:
    """Replaced attributes, restored in reverse order."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Replace an attribute of a class or module, also one that it inherits."""
        self._undo.append((owner, name, vars(owner).get(name, _MISSING)))
        setattr(owner, name, value)

    def wrap(self, owner: Any, name: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Replace a function by `around(function)`, with the same name and documentation."""
        original = getattr(owner, name)
        replacement = around(original)
        for attribute in ("__name__", "__qualname__", "__doc__", "__module__"):
            if hasattr(original, attribute):
                setattr(replacement, attribute, getattr(original, attribute))
        replacement.__wrapped__ = original  # type: ignore[attr-defined]
        self.put(owner, name, replacement)

    def undo(self) -> None:
        """Restore all attributes."""
        while self._undo:
            owner, name, before = self._undo.pop()
            if before is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
