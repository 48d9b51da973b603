"""A watched stretch of a program that begins in one call and ends in another."""

from __future__ import annotations

import logging
from typing import Any

from undertow.why.judge import judge
from undertow.why.objects import package_of, packages
from undertow.why.show import Findings, verdict
from undertow.why.trace import Trace
from undertow.why.watch.watcher import DEFAULT_LIMIT, Watcher

LOGGER = logging.getLogger("undertow.why")


class Stretch:
    """Watch from `begin` to `end`, which returns the findings.

    models: modules made before, whose parameters and hooks are known by name. engine: the package to watch; by default
    that of the models, or else torch if it is imported, otherwise undertow.
    """

    def __init__(self, *models: Any, engine: Any = None, limit: int = DEFAULT_LIMIT) -> None:
        self.models = models
        self.watcher = Watcher(engine or (package_of(*models) if models else packages()[-1]), limit=limit)
        self.is_open = False

    @property
    def trace(self) -> Trace:
        return self.watcher.trace

    @property
    def steps(self) -> int:
        """How many optimizer steps have ended."""
        return sum(step.end >= 0 for optimizer in self.trace.optimizers for step in optimizer.steps)

    def begin(self) -> None:
        self.watcher.start()
        self.is_open = True
        for model in self.models:
            self.watcher.module_calls.adopt(model)

    def end(self, names: dict[str, Any], error: BaseException | None = None, complete: bool = True) -> Findings:
        """Stop watching and judge. names: variables that lead to the program's objects.

        error: the exception that ended the stretch. complete: False if the program goes on after it.
        """
        watcher, trace = self.watcher, self.trace
        if self.is_open:
            self.is_open = False
            if isinstance(error, Exception):
                trace.error = watcher.failed(error)
            watcher.stop()
            trace.complete = trace.complete and complete
            watcher.names.modules()
            watcher.names.globals(names)
        return Findings(judge(trace), verdict(trace))


class FirstSteps:
    """Watch the first optimizer steps of a training run, log the findings, and cost nothing after that.

    `findings` has them afterwards. They are logged by the logger `undertow.why`: findings as a warning, else as info.
    """

    def __init__(self, steps: int) -> None:
        if steps < 1:
            raise ValueError(f"why watches at least one step, but got steps={steps}")
        self.steps = steps
        self.findings: Findings | None = None
        self._stretch: Stretch | None = None

    def begin(self, model: Any) -> None:
        """Begin to watch, unless a run was watched before. First, end the watch of a run that an exception has ended."""
        self.end()
        if self.findings is None:
            self._stretch = Stretch(model)
            self._stretch.begin()

    def stepped(self) -> None:
        """End after the last step to watch."""
        if self._stretch is not None and self._stretch.steps >= self.steps:
            self.end(complete=False)

    def end(self, error: BaseException | None = None, complete: bool = True) -> None:
        """Stop watching, judge and log."""
        stretch, self._stretch = self._stretch, None
        if stretch is None:
            return
        self.findings = stretch.end({"model": stretch.models[0]}, error, complete)
        wrong = any(not finding.is_note for finding in self.findings)
        watched = f"{stretch.steps} optimizer step{'' if stretch.steps == 1 else 's'} watched"
        LOGGER.log(logging.WARNING if wrong else logging.INFO, "%s\n%s", watched, self.findings)
