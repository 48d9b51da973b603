"""Settings that steps of `test_changes_seen` import inside their code."""

from __future__ import annotations

from typing import Any

SCALE: Any = 1.0
TABLE: dict[str, Any] = {"scale": 1.0}


class Nested:
    scale: Any = 1.0


def scale() -> Any:
    return SCALE


def __getattr__(name: str) -> Any:
    if name == "computed":
        return SCALE + 1
    raise AttributeError(name)
