"""The signatures of PyTorch's operators, read from `aten_schemas.txt` at their first use."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from undertow._src.overrides.custom_operators import Schema


@cache
def _lines() -> dict[str, dict[str, str]]:
    """Return the text of every signature, by operator and overload."""
    found: dict[str, dict[str, str]] = {}
    for line in (Path(__file__).parent.parent / "aten_schemas.txt").read_text().splitlines():
        if not line.startswith("#"):
            name, _, overload = line.partition("(")[0].partition(".")
            found.setdefault(name, {})[overload or "default"] = line
    return found


@cache
def overloads(name: str) -> dict[str, Schema]:
    """Return the signatures of an operator by overload; none if undertow does not know it."""
    return {overload: Schema("aten", line) for overload, line in _lines().get(name, {}).items()}
