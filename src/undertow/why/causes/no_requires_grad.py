"""no-requires-grad: a leaf that does not require gradients."""

from __future__ import annotations

from collections.abc import Iterable

from undertow.why.causes.base import Cause, consumer_fact
from undertow.why.facts.facts import Facts
from undertow.why.facts.failure import plain_input, root_without_graph
from undertow.why.facts.graph_cuts import Origin, origin
from undertow.why.facts.missing_gradients import Miss
from undertow.why.facts.terms import dead_terms
from undertow.why.finding import Fact, Finding, fact
from undertow.why.trace import ErrorRecord


class NoRequiresGrad(Cause):
    """A plain tensor where a Parameter was meant, or a tensor that was frozen."""

    code = "no-requires-grad"
    meaning = "a leaf that never required grad, or was frozen"
    needs = "where tensors are made, and every change of requires_grad"

    def miss(self, facts: Facts, miss: Miss) -> Finding | None:
        record = facts.trace.tensors[miss.tensor]
        times = [event.time for event in miss.consumers]
        if miss.kind != "none" or record.node is not None:
            return None
        if any(facts.requires_grad(miss.tensor, time) for time in times):
            return self._too_late(facts, miss)
        flag = facts.flag(miss.tensor, times[-1])
        if flag is not None and not flag.value:
            found = Origin(self.code, flag.place, leaf=miss.tensor, frozen=True)
        else:
            found_origin = origin(facts, miss.tensor, times[0])
            if found_origin is not None and found_origin.code != self.code:
                return None  # it was cut from a tensor that requires gradients: a different cause
            found = Origin(self.code, facts.made_at(miss.tensor), leaf=miss.tensor)
        return self._finding(facts, found, [consumer_fact(facts, miss)])

    def _too_late(self, facts: Facts, miss: Miss) -> Finding | None:
        """Explain a tensor that requires grad now but did not when it was used."""
        uses = [facts.trace.ops[number] for number in facts.uses.get(miss.tensor, ())]
        taken = [op for op in uses if op.kind in ("op", "function", "module") and op.grad_mode and not op.writes]
        asked = [
            asked for op in taken for number, asked in zip(op.inputs, op.inputs_require_grad) if number == miss.tensor
        ]
        flag = facts.flag(miss.tensor)
        if not asked or any(asked) or flag is None or not any(op.id in facts.paths.differentiated for op in taken):
            return None
        name, before = facts.name(miss.tensor), facts.flag(miss.tensor, taken[0].time)
        place = facts.made_at(miss.tensor) if before is None else before.place
        return Finding(
            self.code,
            place,
            name,
            f"{name} did not require grad when {taken[0].shown} used it: requires_grad was set only afterwards.",
            [fact(f"{taken[0].shown} uses it", taken[0].place), fact("requires_grad is set", flag.place),
             consumer_fact(facts, miss)],
            f"{name}.requires_grad_()  # before the forward pass",
            [flag.place],
            miss.tensor,
        )  # fmt: skip

    def run(self, facts: Facts) -> Iterable[Finding]:
        """Find optimizers that step over frozen tensors only, and terms of a loss that would train a frozen tensor."""
        for dead in facts.once(dead_terms):
            flag = None if dead.frozen is None else facts.flag(dead.frozen, dead.record.time)
            place = None if dead.frozen is None else flag.place if flag is not None else facts.made_at(dead.frozen)
            if dead.frozen is not None:
                seen = fact("a term that it alone could train is added to the loss", dead.place)
                yield self._finding(facts, Origin(self.code, place, leaf=dead.frozen, frozen=flag is not None), [seen])
        for optimizer in facts.trace.optimizers:
            looks = [event for event in facts.trace.grads if event.kind == "step" and event.optimizer == optimizer.id]
            latest = max((event.time for event in looks if event.found), default=facts.trace.time)
            in_vain = [event for event in looks if event.time > latest]
            if len(in_vain) < 2 * len(optimizer.tensors):
                continue
            flags = [(tensor, facts.flag(tensor, in_vain[0].time)) for tensor in optimizer.tensors]
            frozen = [(tensor, flag.place) for tensor, flag in flags if flag is not None and not flag.value]
            for tensor, place in frozen if len(frozen) == len(flags) else ():
                seen = consumer_fact(
                    facts, Miss(tensor, "none", [event for event in in_vain if event.tensor == tensor])
                )
                yield self._finding(facts, Origin(self.code, place, leaf=tensor, frozen=True), [seen])

    def failure(self, facts: Facts, error: ErrorRecord) -> Finding | None:
        tensor = plain_input(facts, error)
        if tensor is not None:
            flag = facts.flag(tensor, error.time)
            place = facts.made_at(tensor) if flag is None else flag.place
            asked = fact(f"autograd.grad() is called for the gradient of {facts.name(tensor)}", error.place)
            return self._finding(facts, Origin(self.code, place, leaf=tensor, frozen=flag is not None), [asked])
        found = root_without_graph(facts, error)
        if found is None or found.origin.code != self.code:
            return None
        return self._finding(facts, found.origin, [fact("backward() finds that its root has no graph", error.place)])

    def _finding(self, facts: Facts, found: Origin, seen: list[Fact]) -> Finding:
        assert found.leaf is not None
        name = facts.name(found.leaf)
        if found.frozen:
            message = f"{name} was frozen here (requires_grad = False), so no backward computes its gradient."
            plain = next((one for one in found.others if facts.trace.tensors[one].names), None)
            cure = (
                "leave out of the freezing what the optimizer is to train" if _all_frozen(facts, found.leaf) else
                f"{facts.name(plain)}.requires_grad_()  # if the network is to stay frozen; else {name}.requires_grad_()"
                if plain is not None and not facts.trace.optimizers else
                f"{name}.requires_grad_(True)  # a module's own method is module.requires_grad_(True)"
            )  # fmt: skip
            first = fact(f"requires_grad of {name} is set to False", found.place)
        else:
            message = f"{name} is a plain tensor: it was made without requires_grad and never required a gradient."
            cure = f"{name} = nn.Parameter(...)  # or {name}.requires_grad_() right after it is made"
            first = fact(f"{name} is made here, without requires_grad", found.place)
        return Finding(self.code, found.place, name, message, [first, *seen], cure, tensor=found.leaf)


def _all_frozen(facts: Facts, tensor: int) -> bool:
    """Whether an optimizer of a tensor was given frozen tensors only."""
    flags = [[facts.flag(other) for other in holder.tensors] for holder in facts.holders(tensor)]
    return any(len(one) > 1 and all(flag is not None and not flag.value for flag in one) for one in flags)
