"""hook-on-old-version: the tensor was changed, or its name rebound, after the hook was registered."""

from __future__ import annotations

from collections.abc import Iterable

from undertow.why.causes.base import Cause, hook_name, registered
from undertow.why.facts.facts import Facts
from undertow.why.facts.passes import passes
from undertow.why.finding import Finding, fact
from undertow.why.places import Place
from undertow.why.source import assigned
from undertow.why.trace import HookRecord


class HookOnOldVersion(Cause):
    """A hook belongs to the value that a tensor had when it was registered."""

    code = "hook-on-old-version"
    meaning = "after registration the tensor was changed in place, or its name was bound to a new tensor"
    needs = "in-place writes, bindings of parameters, and registrations, in order"

    def silence(self, facts: Facts, hook: HookRecord) -> Finding | None:
        if hook.tensor is None or hook.error is not None:
            return None
        found = passes(facts, hook)
        if found.before or found.during or found.after:
            return None
        place = _changed(facts, hook)
        if place is not None:
            return self._finding(hook, place, "is changed in place")
        place = _rebound(facts, hook)
        return None if place is None else self._finding(hook, place, "is bound to a new tensor")

    def run(self, facts: Facts) -> Iterable[Finding]:
        """Find hooks that fire with the gradient of an older value."""
        for hook in facts.hooks:
            if hook.tensor is not None and hook.firings and hook.kind == "tensor":
                place = _changed(facts, hook)
                if place is not None:
                    yield self._finding(hook, place, "is changed in place")

    def _finding(self, hook: HookRecord, place: Place, what: str) -> Finding:
        on = hook.expression or "the tensor"
        return Finding(
            self.code,
            place,
            hook_name(hook),
            f"{on} {what} after the hook was registered: the hook stays with the older value and gets only its gradient.",
            [registered(hook), fact(f"{on} {what}", place)],
            "register the hook after this line",
            [],
        )


def _changed(facts: Facts, hook: HookRecord) -> Place | None:
    """Return a recorded in-place change of the tensor after the registration, before the pass."""
    if hook.node is None or hook.tensor is None:
        return None
    trace = facts.trace
    memory = trace.tensors[hook.tensor].memory
    end = min((trace.backwards[n].time for n in trace.nodes[hook.node].reached if trace.backwards[n].time > hook.time),
              default=trace.time)  # fmt: skip
    for write in trace.writes:
        if hook.time < write.time < end and trace.tensors[write.tensor].memory == memory and write.op is not None:
            op = trace.ops[write.op]
            if op.grad_mode and any(op.outputs_require_grad):
                return write.place
    return None


def _rebound(facts: Facts, hook: HookRecord) -> Place | None:
    """Return where the hooked tensor's name was rebound to a tensor that is differentiated."""
    trace = facts.trace
    for binding in trace.bindings:
        if binding.time < hook.time or (
            binding.child is not None and trace.modules[binding.child].copied_from == binding.old_child is not None
        ):
            continue  # a copy in the original's place is a separate cause
        if binding.old_tensor == hook.tensor and binding.tensor != hook.tensor:
            return binding.place
        if binding.old_child not in (None, binding.child) and hook.tensor in facts.parameters_in(binding.old_child):
            return binding.place
    if not hook.expression or hook.place is None:
        return None
    for tensor in trace.tensors:
        made = None if tensor.maker is None else trace.ops[tensor.maker].place
        if tensor.time <= hook.time or made is None or tensor.id == hook.tensor:
            continue
        for place in made.chain():  # by an operation or by a function
            if place.function == hook.place.function and assigned(place) == hook.expression:
                if facts.reaching(tensor.id):
                    return place
    return None
