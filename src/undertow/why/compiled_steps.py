"""Compiled steps: what was captured, and where the hooks of a program run that Python no longer calls."""

from __future__ import annotations

import sys
from typing import Any

from undertow.compiler import explain
from undertow.why.report import Report, Table


class CompiledSteps(Report):
    """What `compile.explain` knows of one compiled step, or of all."""

    def __init__(self, explained: Any) -> None:
        self.explained = explained
        self.steps: list[dict[str, Any]] = explained.data

    def title(self) -> str:
        return f"{len(self.steps)} compiled step" + ("" if len(self.steps) == 1 else "s")

    def tables(self) -> list[Table]:
        steps = Table(("step", "where", "programs"), [], "steps")
        hooks = Table(("step", "name", "registered", "runs", "why", "times"), [], "hooks")
        statements = Table(("step", "source", "where", "runs", "why", "times"), [], "statements")
        for step in self.steps:
            steps.rows.append((step["name"], step["where"], len(step["programs"])))
            for program in step["programs"]:
                for table in (hooks, statements):
                    found = [{**each, "step": step["name"]} for each in program[table.title]]
                    table.rows.extend(tuple(each[column] for column in table.columns) for each in found)
        return [table for table in (steps, hooks, statements) if table.rows]

    def notes(self) -> list[str]:
        notes = []
        for step in self.steps:
            notes += [f"{step['name']} was compiled again because {cause}" for cause in step["recompiles"]]
            notes += [f"{step['name']} was refused: {step['refused']}"] if step["refused"] else []
        return notes

    def data(self) -> dict[str, Any]:
        """Return the report; `steps` has all that `compile.explain` gives as data."""
        return {"title": self.title(), "steps": self.steps, "notes": self.notes()}

    def __str__(self) -> str:
        return str(self.explained)

    __repr__ = __str__


def compiled(step: Any = None) -> CompiledSteps:
    """Return what a compiled step (or each of them) is made of: captured tensors, hooks and where they run, recompiles."""
    return CompiledSteps(explain(step))


def runs_of(hook: Any) -> list[str]:
    """Where a hook runs in compiled steps, if anything was compiled at all."""
    report = sys.modules.get("undertow._src.compile.report")
    return [] if report is None else report.runs_of(hook)
