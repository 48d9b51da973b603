"""`why.compiled`: what compiled steps captured, and where their hooks run."""

from __future__ import annotations

import sys
from typing import Any

from undertow.compiler import explain
from undertow.why.report import Report, Table


class CompiledSteps(Report):
    """The data of `compile.explain` for one compiled step, or for all."""

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
        """Return the report; `steps` has all data of `compile.explain`."""
        return {"title": self.title(), "steps": self.steps, "notes": self.notes()}

    def __str__(self) -> str:
        return str(self.explained)

    __repr__ = __str__


def compiled(step: Any = None) -> CompiledSteps:
    """Return a report on a compiled step (or all): captured tensors, hooks and where they run, recompiles."""
    return CompiledSteps(explain(step))


def runs_of(hook: Any) -> list[str]:
    """Return where a hook runs in compiled steps, if there are any."""
    report = sys.modules.get("undertow._src.compile.report")
    return [] if report is None else report.runs_of(hook)
