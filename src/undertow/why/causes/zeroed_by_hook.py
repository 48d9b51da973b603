"""zeroed-by-hook: a hook received a gradient and returned zeros."""

from __future__ import annotations

from collections.abc import Iterable

from undertow.why.causes.base import Cause, grad_of, hook_name, registered
from undertow.why.facts.facts import Facts
from undertow.why.finding import Finding, fact
from undertow.why.trace import FiringRecord, HookRecord

_KINDS = ("tensor", "post-accumulate", "full-backward", "full-backward-pre", "backward", "node", "node-pre")


class ZeroedByHook(Cause):
    """A hook that returns all zeros for a non-zero gradient."""

    code = "zeroed-by-hook"
    meaning = "a hook got a non-zero gradient and returned all zeros"
    needs = "the gradient before and after every hook"

    def run(self, facts: Facts) -> Iterable[Finding]:
        for hook in facts.hooks:
            if hook.kind not in _KINDS:
                continue
            firings = [facts.trace.firings[number] for number in hook.firings]
            got = [firing for firing in firings if any(firing.before)]
            zeroed = [firing for firing in got if firing.after and not any(firing.after)]
            if not zeroed or 2 * len(zeroed) < len(got):
                continue
            subject = _wanted_below(facts, hook)
            if subject is not None:
                yield self._finding(facts, hook, zeroed[0], subject, len(zeroed), len(got))

    def _finding(
        self, facts: Facts, hook: HookRecord, firing: FiringRecord, tensor: int, zeroed: int, got: int
    ) -> Finding:
        name = facts.name(tensor)
        norm = next((norm for norm in firing.before_norms if norm), 0.0)
        place = firing.returned or hook.defined or hook.place
        return Finding(
            self.code,
            place,
            name,
            f"The {hook_name(hook)} got a gradient of norm {norm:.4g} and returned all zeros ({zeroed} of {got} times).",
            [registered(hook), fact("it returns all zeros", place), fact(f"so {grad_of(name)} is all zeros")],
            "print what the hook multiplies by: its mask or factor is zero where it should not be",
            [hook.defined, hook.place],
            tensor,
        )


def _wanted_below(facts: Facts, hook: HookRecord) -> int | None:
    """Return a tensor whose gradient the program uses and that passes through the hook."""
    if hook.tensor is not None:
        if any(event.kind in ("read", "step") for event in facts.grads.get(hook.tensor, ())):
            return hook.tensor
        starts = facts.nodes_of(hook.tensor) if hook.node is None else [hook.node]
    elif hook.node is not None:
        starts = [hook.node]
    elif hook.module is not None:
        outputs = [output for call in facts.calls.get(hook.module, ()) for output in call.outputs]
        starts = [node for output in outputs for node in facts.nodes_of(output)]
    else:
        return None
    for node in sorted(facts.below(starts)):
        leaf = facts.trace.nodes[node].leaf
        if leaf is not None and any(event.kind in ("read", "step") for event in facts.grads.get(leaf, ())):
            writes = [event for event in facts.grads[leaf] if event.kind == "write"]
            if writes and any(event.peak == 0 for event in writes):
                return leaf
    return None
