"""The passes in which a hook could have fired: before it was registered, while it was, and after it was removed."""

from __future__ import annotations

from dataclasses import dataclass

from undertow.why.facts.facts import Facts
from undertow.why.trace import BackwardRecord, BindingRecord, CallRecord, HookRecord

BACKWARD_KINDS = ("full-backward", "full-backward-pre", "backward")


@dataclass(slots=True)
class Passes:
    """Backward passes through the hooked tensor or node, relative to the hook's lifetime."""

    before: list[BackwardRecord]
    during: list[BackwardRecord]
    after: list[BackwardRecord]


@dataclass(slots=True)
class Runs:
    """Runs of the hooked module, by when they began relative to the hook's lifetime."""

    before: list[CallRecord]
    during: list[CallRecord]
    after: list[CallRecord]

    @property
    def any(self) -> bool:
        return bool(self.before or self.during or self.after)


def _split(hook: HookRecord, records: list) -> tuple[list, list, list]:
    end = float("inf") if hook.removed is None else hook.removed
    before = [record for record in records if record.time < hook.time]
    during = [record for record in records if hook.time < record.time < end]
    return before, during, [record for record in records if record.time > end]


def passes(facts: Facts, hook: HookRecord) -> Passes:
    """Return the backward passes that could reach the tensors or node of a hook, as they were at its registration."""
    backwards = facts.trace.backwards
    found: set[int] = set()
    for tensor, node in ((hook.tensor, hook.node), *hook.others):
        if node is not None:
            found.update(facts.trace.nodes[node].reached)
            found.update(record.id for record in backwards if tensor in record.roots)
        elif tensor is not None:
            found.update(record.id for record in facts.reaching(tensor))
    return Passes(*_split(hook, [backwards[number] for number in sorted(found)]))


def runs(facts: Facts, hook: HookRecord) -> Runs:
    """Return the runs of a hook's module; for a global hook, of every module."""
    calls = facts.trace.calls if hook.module is None else facts.calls.get(hook.module, [])
    return Runs(*_split(hook, calls))


def wired(facts: Facts, hook: HookRecord) -> list[CallRecord]:
    """Return the module calls that wired a module's backward hook into a graph."""
    return [call for call in runs(facts, hook).during if not call.direct and call.error is None]


def reaching_outputs(facts: Facts, calls: list[CallRecord]) -> list[BackwardRecord]:
    """Return the backward passes that could reach a result of some module calls."""
    records = {record.id: record for call in calls for output in call.outputs for record in facts.reaching(output)}
    return [records[number] for number in sorted(records)]


def overtaken(facts: Facts, hook: HookRecord) -> list[CallRecord]:
    """Return calls from before a module's backward hook was registered whose graph was differentiated afterwards.

    The pass went through the module, but the forward call that wires such hooks into the graph had run before.
    """
    if hook.kind not in BACKWARD_KINDS:
        return []
    end = facts.trace.time if hook.removed is None else hook.removed
    calls = [call for call in runs(facts, hook).before if not call.direct]
    return [call for call in calls if any(hook.time < r.time <= end for r in reaching_outputs(facts, [call]))]


def displaced(facts: Facts, hook: HookRecord) -> BindingRecord | None:
    """Return where a hooked module was replaced by a different one that ran after the hook was registered."""
    owners = facts.ancestors(hook.module)
    for binding in facts.trace.bindings:
        if binding.old_child in owners and binding.child not in (None, binding.old_child):
            if any(call.time > hook.time for call in facts.calls.get(binding.child or 0, ())):
                return binding
    return None


def is_silent(facts: Facts, hook: HookRecord) -> bool:
    """Whether a hook never fired and that is worth a finding.

    A line may register hooks on many results or modules. It is not silent if one of the results was not used, or if
    some of the modules are containers, which are never called.
    """
    if hook.firings or hook.copied_from is not None:
        return False
    twins = [other for other in facts.hooks if hook.place and other.place and other.place.key == hook.place.key]
    if hook.module is not None:
        modules = facts.trace.modules
        alone = {other.module for other in twins if other.module is not None} == {hook.module}
        return modules[hook.module].callable or (alone and not facts.calls.get(hook.module))
    return hook.node is None or not any(other.firings for other in twins)
