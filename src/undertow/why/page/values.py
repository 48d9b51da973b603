"""Plain values for the page: short numbers, names, and the text of source files."""

from __future__ import annotations

import linecache
import math
import os
from collections.abc import Iterable
from typing import Any

from undertow.why.facts.facts import Facts
from undertow.why.places import Place

MOST_LINES = 4000  # in one file
MOST_LINES_IN_ALL = 20_000


def number(value: float | None, digits: int = 6) -> float | str | None:
    """Return a number rounded to some digits. NaN and Inf become texts, since JSON has none."""
    if value is None:
        return None
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return float(f"{value:.{digits}g}")


def length(norms: Iterable[float | None]) -> float | str | None:
    """Return the norm of several tensors together."""
    known = [norm for norm in norms if norm is not None]
    return number(math.hypot(*known)) if known else None


def tensor_name(facts: Facts, tensor: int) -> str:
    """Return a parameter's name in its module (`net.fc.weight`, not a loop's `p`); for other tensors `facts.name`."""
    record = facts.trace.tensors[tensor]
    if record.module is not None:
        labels = {label for label, number in facts.trace.modules[record.module].parameters.items() if number == tensor}
        for name in record.names:
            if name.rpartition(".")[2] in labels and "." in name:
                return name
    return facts.name(tensor)


class SourceFiles:
    """The source files that the page refers to, numbered by first use, with their text."""

    def __init__(self, script: str | None = None) -> None:
        self.numbers: dict[str, int] = {}
        self.script = script
        if script is not None:
            self.number(script)

    def number(self, file: str | None) -> int | None:
        if file is None:
            return None
        return self.numbers.setdefault(file, len(self.numbers))

    def place(self, place: Place | None) -> dict[str, Any] | None:
        """Return a line of a file: {file, line}."""
        return None if place is None else {"file": self.number(place.file), "line": place.line}

    def data(self) -> list[dict[str, Any]]:
        """Return [{path, name, lines}]; `lines` is None for a file that cannot be read or is too long for a page."""
        names = _short_names(list(self.numbers))
        found: list[dict[str, Any]] = []
        room = MOST_LINES_IN_ALL
        for path in self.numbers:
            lines = [line.rstrip("\n") for line in linecache.getlines(path)]
            fits = 0 < len(lines) <= min(MOST_LINES, room)
            room -= len(lines) if fits else 0
            found.append({"path": path, "name": names[path], "lines": lines if fits else None})
        return found


def _short_names(paths: list[str]) -> dict[str, str]:
    """Return each file's base name, with its folder where two files share the base name."""
    plain = [os.path.basename(path) for path in paths]
    return {
        path: name if plain.count(name) == 1 else os.path.join(os.path.basename(os.path.dirname(path)), name)
        for path, name in zip(paths, plain)
    }
