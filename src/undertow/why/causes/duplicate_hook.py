"""duplicate-hook: registered repeatedly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from undertow.why.causes.base import Cause, hook_name
from undertow.why.facts.facts import Facts
from undertow.why.finding import Finding, fact
from undertow.why.trace import HookRecord


class DuplicateHook(Cause):
    """The same hook is on the same object twice, and every copy fires."""

    code = "duplicate-hook"
    meaning = "the same hook was registered again on the same object, and every copy fires"
    needs = "registrations with the identity of the hook, and firings"

    def run(self, facts: Facts) -> Iterable[Finding]:
        groups: dict[object, list[HookRecord]] = defaultdict(list)
        for hook in facts.hooks:
            if hook.error is None and hook.copied_from is None:
                code = hook.same[0] if isinstance(hook.same, tuple) else hook.same
                on = hook.tensor, hook.others, hook.module, hook.node if hook.tensor is None else None
                groups[hook.kind, on, code].append(hook)
        for hooks in groups.values():
            for earlier, later in pairwise(hooks):
                if _is_again(facts, earlier, later) and _fire_together(facts, earlier, later):
                    yield self._finding(hooks, earlier, later)
                    break

    def _finding(self, hooks: list[HookRecord], earlier: HookRecord, later: HookRecord) -> Finding:
        on = f" on {later.expression}" if later.expression else ""
        return Finding(
            self.code,
            later.place,
            hook_name(later),
            f"{later.name} is registered{on} {len(hooks)} times and never removed in between: every copy fires.",
            [fact("registered first", earlier.place), fact("registered again", later.place)],
            "register it once, before the loop; or keep the handle and handle.remove() before registering again",
            [earlier.place],
        )


def _is_again(facts: Facts, earlier: HookRecord, later: HookRecord) -> bool:
    """Whether a registration repeats another: the same hook, or the same line after its hook has fired."""
    if earlier.removed is not None and earlier.removed < later.time:
        return False
    if earlier.same == later.same:
        return True
    if earlier.place is None or later.place is None or earlier.place.key != later.place.key:
        return False
    return any(facts.trace.firings[number].time < later.time for number in earlier.firings)


def _fire_together(facts: Facts, earlier: HookRecord, later: HookRecord) -> bool:
    firings = facts.trace.firings
    passes = {(firings[number].backward, firings[number].call) for number in earlier.firings}
    return any((firings[number].backward, firings[number].call) in passes for number in later.firings)
