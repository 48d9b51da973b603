"""not-in-optimizer: it gets gradients, and nobody steps it."""

from __future__ import annotations

from collections.abc import Iterable

from undertow.why.causes.base import Cause
from undertow.why.facts.facts import Facts
from undertow.why.finding import Finding, fact
from undertow.why.places import Place
from undertow.why.trace import OptimizerRecord


class NotInOptimizer(Cause):
    """A parameter that was replaced after the optimizer took its list, hidden from parameters(), or forgotten."""

    code = "not-in-optimizer"
    meaning = "gets gradients, an optimizer steps, and none holds it"
    needs = "what each optimizer holds, and where parameters were made and bound"

    def run(self, facts: Facts) -> Iterable[Finding]:
        stepping = [optimizer for optimizer in facts.trace.optimizers if optimizer.steps]
        if not stepping:
            return
        held = {tensor for optimizer in facts.trace.optimizers for tensor in optimizer.tensors}
        trains_parameters = any(facts.trace.tensors[tensor].parameter for opt in stepping for tensor in opt.tensors)
        for tensor, events in facts.grads.items():
            if tensor in held or tensor in facts.updates:
                continue
            writes = [event for event in events if event.kind == "write" and event.peak]
            last_step = max(optimizer.steps[-1].time for optimizer in stepping)
            if not writes or writes[0].time > last_step:
                continue
            parameter = facts.trace.tensors[tensor].parameter
            if parameter and trains_parameters:
                yield self._finding(facts, tensor, stepping)
            elif not parameter and not trains_parameters and _looks_trained(facts, tensor, len(writes)):
                yield self._finding(facts, tensor, stepping)

    def _finding(self, facts: Facts, tensor: int, stepping: list[OptimizerRecord]) -> Finding:
        name = facts.name(tensor)
        optimizer = min(stepping, key=lambda record: (not _is_near(facts, tensor, record), record.id))
        place, how, cure = _where(facts, tensor, optimizer)
        return Finding(
            self.code,
            place,
            name,
            f"{name} gets gradients, and no optimizer holds it: {how}.",
            [
                fact("the optimizer takes its list of parameters", optimizer.place),
                fact(f"{name}: {how}", place),
                fact("the optimizer steps", optimizer.steps[0].place),
            ],
            cure,
            [optimizer.place],
            tensor,
        )


def _looks_trained(facts: Facts, tensor: int, writes: int) -> bool:
    """A plain leaf among plain leaves that are trained, not an input whose gradient is only looked at."""
    if any(event.kind == "read" for event in facts.grads[tensor]):
        return False
    backwards = [record for record in facts.trace.backwards if record.kind == "backward"]
    return writes == len(backwards)


def _is_near(facts: Facts, tensor: int, optimizer: OptimizerRecord) -> bool:
    """Whether an optimizer holds a parameter of the same module tree."""
    module = facts.trace.tensors[tensor].module
    tree = facts.tree(module) if module is not None else set()
    return any(facts.trace.tensors[other].module in tree for other in optimizer.tensors)


def _where(facts: Facts, tensor: int, optimizer: OptimizerRecord) -> tuple[Place | None, str, str]:
    """(the line, what happened, the cure)."""
    trace = facts.trace
    record = trace.tensors[tensor]
    copied = [copy for copy in trace.copies if tensor in copy.tensors.values() and copy.time > optimizer.time]
    if copied:
        return copied[-1].place, "it is a copy made after the optimizer took the original", (
            "build the optimizer after the copy, from the copy's parameters()"
        )  # fmt: skip
    owners = facts.ancestors(record.module)
    for binding in reversed(trace.bindings):
        is_it = binding.tensor == tensor or (binding.child is not None and binding.child in owners)
        if is_it and binding.time > optimizer.time:  # the outermost comes last
            return binding.place, "it was put here after the optimizer took its list", (
                "build the optimizer after the model is complete, or opt.add_param_group({'params': new.parameters()})"
            )  # fmt: skip
    if record.time > optimizer.time:
        return facts.made_at(tensor), "it was made after the optimizer took its list", (
            "make it before the optimizer, or opt.add_param_group({'params': [it]})"
        )  # fmt: skip
    if _is_hidden(facts, tensor):
        return facts.made_at(tensor), "it lies in a plain container, where parameters() does not look", (
            "nn.ModuleList([...]) or nn.ParameterList([...]) in place of the plain list; nn.ModuleDict for a dict"
        )  # fmt: skip
    return optimizer.place, "it was not given to it", "give the optimizer these parameters too"


def _is_hidden(facts: Facts, tensor: int) -> bool:
    """Whether a module uses it without it being registered there or in one of its children."""
    trace = facts.trace
    top = facts.ancestors(trace.tensors[tensor].module)
    held = {other for optimizer in trace.optimizers for other in optimizer.tensors}
    for number in facts.uses.get(tensor, ()):
        call = trace.ops[number].call
        while call is not None:
            module = trace.calls[call].module
            if module not in top and held.intersection(_own(facts, module)):
                return True
            call = trace.calls[call].parent
    return False


def _own(facts: Facts, module: int) -> list[int]:
    """The parameters of a module and its children."""
    return [tensor for number in facts.descendants(module) for tensor in facts.trace.modules[number].parameters.values()]
