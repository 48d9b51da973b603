"""`why.watch`: one block that watches all: what was done with autograd, what hooks did, how gradients went."""

from __future__ import annotations

import sys
from typing import Any

from undertow.why.gradient_flow import flow
from undertow.why.hook_list import HookList, hooks
from undertow.why.ledgers import ledger
from undertow.why.objects import package_of, packages
from undertow.why.report import Report, Table
from undertow.why.trace import HookRecord, Trace
from undertow.why.watch.watcher import DEFAULT_LIMIT, Watcher


class watch(Report):
    """Watches the block. Then `trace` is what was seen, `ledger` what hooks did to gradients, `flows` how the gradients
    of the models among the subjects went over steps.

    subjects: models and tensors whose earlier hooks are watched, too. engine: the package to watch, when no subject
    tells; torch where the program imported it, undertow otherwise.

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
        self._watcher = Watcher(chosen, limit=limit)
        self.ledger = ledger(*subjects)
        self.flows = [flow(subject) for subject in subjects if hasattr(subject, "named_modules")]
        self.open = False

    @property
    def trace(self) -> Trace:
        """Everything that was seen, as plain records."""
        return self._watcher.trace

    def __enter__(self) -> watch:
        self.open = True
        parts: list[Any] = [self.ledger, *self.flows, self._watcher]
        entered: list[Any] = []
        try:
            for part in parts:
                part.__enter__()
                entered.append(part)
        except BaseException:
            for part in reversed(entered):
                part.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._watcher.names.globals(sys._getframe(1).f_locals)
        parts: list[Any] = [self._watcher, *reversed(self.flows), self.ledger]
        for part in parts:
            part.__exit__(kind, error, trace)
        self.open = False

    def hooks(self) -> HookList:
        """The hooks on the subjects now, with what was seen of them."""
        return hooks(*self._subjects)

    def hook_records(self) -> list[HookRecord]:
        """The hooks that were registered inside the block."""
        return self.trace.hooks

    # --- report

    def title(self) -> str:
        seen = self.trace
        return (
            f"{len(seen.ops)} operations, {len(seen.backwards)} backward passes, {len(seen.hooks)} hooks registered, "
            f"{len(seen.firings)} hook calls on {seen.engine}"
        )

    def tables(self) -> list[Table]:
        found = []
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

    def notes(self) -> list[str]:
        return [] if self.trace.complete else ["the limit was reached: what came later was not watched"]
