"""Compiled steps: what was captured, and where the hooks of a program run that Python no longer calls."""

from __future__ import annotations

import sys
from typing import Any

from undertow.compiler import explain


def compiled(step: Any = None) -> Any:
    """What a compiled step (or each of them) is made of: captured tensors, hooks and where they run, recompiles."""
    return explain(step)


def runs_of(hook: Any) -> list[str]:
    """Where a hook runs in compiled steps, if anything was compiled at all."""
    report = sys.modules.get("undertow.xla.report")
    return [] if report is None else report.runs_of(hook)
