"""`why.watch`: record a block of the program: autograd operations, hook calls and gradients."""

from __future__ import annotations

import sys
from typing import Any

from undertow.why.causes import CAUSES
from undertow.why.facts.facts import Facts
from undertow.why.facts.missing_gradients import Miss
from undertow.why.finding import fact
from undertow.why.gradient_flow import flow
from undertow.why.hook_list import HookList, hooks
from undertow.why.judge import judge
from undertow.why.ledgers import ledger
from undertow.why.objects import package_of, packages
from undertow.why.page.data import page_data
from undertow.why.page.html import write_page
from undertow.why.page.recorder import Recorder
from undertow.why.places import variables
from undertow.why.questions import Answer, grad, hook
from undertow.why.report import Report, Table
from undertow.why.show import Findings, verdict
from undertow.why.trace import GradEvent, Trace
from undertow.why.watch.watcher import DEFAULT_LIMIT, Watcher


class watch(Report):
    """Record autograd operations, hooks and gradients inside the block.

    Afterwards `findings()` lists what is wrong, `trace` holds the records, `ledger` what hooks did to gradients, and
    `flows` the gradients over steps of each model among the subjects.

    subjects: models and tensors, whose hooks from before the block are watched, too. engine: the package to watch; by
    default that of the subjects, or else torch if the program imported it, otherwise undertow.

    >>> from undertow import why
    >>> with why.watch(engine=torch) as seen:
    ...     x = torch.ones(2, requires_grad=True)
    ...     handle = x.register_hook(lambda grad: grad * 2)
    ...     x.sum().backward()
    >>> len(seen.trace.backwards), seen.ledger.title()
    (1, '1 hook call, 1 changed a gradient')
    """

    def __init__(self, *subjects: Any, engine: Any = None, limit: int = DEFAULT_LIMIT) -> None:
        self._subjects = subjects
        chosen = engine if engine is not None else package_of(*subjects) if subjects else packages()[-1]
        self._recorder = Recorder()
        self._watcher = Watcher(chosen, limit=limit, recorder=self._recorder)
        self.ledger = ledger(*subjects)
        self.flows = [flow(subject) for subject in subjects if hasattr(subject, "named_modules")]
        self.open = False

    @property
    def trace(self) -> Trace:
        """Everything that was recorded, as plain data."""
        return self._watcher.trace

    def __enter__(self) -> watch:
        self.open = True
        parts: list[Any] = [self.ledger, *self.flows, self._watcher]
        entered: list[Any] = []
        try:
            for part in parts:
                part.__enter__()
                entered.append(part)
            for one in self.flows:
                self._watcher.module_calls.adopt(one.model)
        except BaseException:
            for part in reversed(entered):
                part.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._watcher.names.globals(variables(sys._getframe(1)))
        parts: list[Any] = [self._watcher, *reversed(self.flows), self.ledger]
        for part in parts:
            part.__exit__(kind, error, trace)
        self.open = False

    def hooks(self) -> HookList:
        """Return the hooks that are on the subjects now, with what was recorded of them."""
        return hooks(*self._subjects)

    def findings(self) -> Findings:
        """Return what is wrong, with the line of each cause, as `undertow why` reports it for a script."""
        return Findings(judge(self.trace), verdict(self.trace))

    def check(self, notes: bool = False) -> None:
        """Raise AssertionError with the findings, if there are any. notes: whether notes count, too."""
        findings = self.findings()
        if any(notes or not finding.is_note for finding in findings):
            raise AssertionError(f"{findings.title()}\n\n{findings}")

    def save_html(self, path: str, title: str | None = None) -> None:
        """Write the page of `undertow why --html` for this block: one file that needs no server and no network."""
        write_page(path, page_data(self.trace, list(self.findings()), self._recorder, title))

    def grad(self, tensor: Any, loss: Any = None) -> Answer:
        """Answer as `why.grad`, and add from the records the line and the path where the gradient was lost."""
        record = self._watcher.tensors.find(tensor)
        if record is None:
            return grad(tensor, loss)
        name = self.trace.name(record.id)
        for finding in self.findings():
            if finding.tensor == record.id or name in finding.subjects:
                return Answer(name, finding, finding.message)
        found = grad(tensor, loss, name)
        if found.finding is None or found.code == "nan-born":
            return found
        # Nothing in the block used this gradient, so no finding mentions it. Judge as if it were read now.
        kind = "none" if tensor.grad is None else "zero"
        asked = Miss(record.id, kind, [GradEvent(self.trace.time + 1, "read", record.id, None)])
        facts = Facts(self.trace)
        seen = next((answer for cause in CAUSES if (answer := cause.miss(facts, asked)) is not None), None)
        return found if seen is None else Answer(name, seen, seen.message)

    def hook(self, handle: Any) -> Answer:
        """Answer as `why.hook`, and count the calls of module hooks, too."""
        record = self._watcher.hooks.by_handle.get(getattr(handle, "id", -1))
        if record is None:
            return hook(handle)
        subject = "hook" if record.place is None else f"hook at line {record.place.line}"
        fired = len(record.firings)
        facts = [fact(f"{record.name} is a {record.kind} hook, registered on {record.expression}", record.place)]
        for finding in self.findings():
            if subject in finding.subjects:
                return Answer(subject, finding, finding.message)
        if fired:
            return Answer(subject, None, f"it fired {fired} time{'' if fired == 1 else 's'}", facts)
        return hook(handle)

    # --- report

    def title(self) -> str:
        seen = self.trace
        return (
            f"{len(seen.ops)} operations, {len(seen.backwards)} backward passes, {len(seen.hooks)} hooks registered, "
            f"{len(seen.firings)} hook calls on {seen.engine}"
        )

    def tables(self) -> list[Table]:
        found: list[Table] = []
        if not self.open:
            found += [table._replace(title="findings") for table in self.findings().tables()]
        if self.trace.hooks:
            rows: list[tuple[Any, ...]] = [
                (hook.kind, hook.expression or None, hook.name, hook.place, len(hook.firings), hook.removed is not None)
                for hook in self.trace.hooks
            ]
            found.append(Table(("kind", "on", "hook", "registered", "fired", "removed"), rows, "hooks"))
        for table in self.ledger.tables():
            found.append(table._replace(title="ledger"))
        for one in self.flows:
            found += one.tables()
        return found

    def data(self) -> dict[str, Any]:
        return super().data() | {"findings": [finding.as_data() for finding in self.findings()]}

    def notes(self) -> list[str]:
        return [] if self.trace.complete else ["the limit was reached: later events were not recorded"]
