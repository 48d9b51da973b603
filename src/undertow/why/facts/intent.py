"""The intent of a program, as far as it is evident: tensors that it freezes, networks that follow others or stay fixed."""

from __future__ import annotations

from undertow.why.facts.facts import Facts
from undertow.why.trace import GradEvent, OpRecord, OptimizerRecord

_DEPTH = 8  # ops between a trained tensor and the write that copies it: `tp.data.mul_(0.99).add_(0.01 * p.data)`


def is_frozen_on_purpose(facts: Facts, tensor: int, consumers: list[GradEvent]) -> bool:
    """Whether the program froze a tensor and only steps over it: `Adam(model.parameters())` with frozen layers.

    It is not on purpose if the program reads the gradient or has a hook on it, or if the optimizer was given frozen tensors
    only.
    """
    if any(event.kind != "step" for event in consumers) or any(hook.tensor == tensor for hook in facts.hooks):
        return False
    for event in consumers:
        flag = facts.flag(tensor, event.time)
        if flag is None or flag.value or flag.place is None or event.optimizer is None:
            return False
        holder = facts.trace.optimizers[event.optimizer]
        given = [other for other, place in holder.tensors.items() if place == holder.tensors[tensor]]
        if not any(facts.requires_grad(other, event.time) for other in given):
            return False
    return True


def follows(facts: Facts, tensor: int) -> bool:
    """Whether a tensor follows a trained one: a target network, a moving average, a copy of what is trained."""
    trained = facts.once(trained_tensors) - {tensor}
    record = facts.trace.tensors[tensor]
    writers = facts.writers.get(record.memory, ())
    return record.copied_from in trained or any(_comes_from(facts, op, record.memory, trained) for op in writers)


def trained_tensors(facts: Facts) -> set[int]:
    """Return the tensors that an optimizer steps with gradients, or that the program updates by hand."""
    return {event.tensor for event in facts.trace.grads if event.kind == "step" and event.found}.union(facts.updates)


def _comes_from(facts: Facts, write: OpRecord, memory: int, held: set[int]) -> bool:
    """Whether a write copies values of trained tensors of the same shape."""
    tensors = facts.trace.tensors
    shape = tensors[memory].shape
    waiting = [(number, write.time, 0) for number in write.inputs if tensors[number].memory != memory]
    while waiting:
        number, before, depth = waiting.pop()
        if tensors[number].shape != shape:
            continue
        if number in held:
            return True
        made = facts.maker(number, before)
        if made is not None and depth < _DEPTH and made.kind != "grad" and tensors[number].gradient_of is None:
            waiting += [(taken, made.time, depth + 1) for taken in made.inputs]
    return False


def is_a_repeat(facts: Facts, optimizer: OptimizerRecord) -> bool:
    """Whether an earlier optimizer holds all tensors of this one, which was probably meant for others."""
    earlier = facts.trace.optimizers[: optimizer.id]
    return any(optimizer.tensors.keys() <= other.tensors.keys() for other in earlier)


def stays_fixed(facts: Facts, tensor: int) -> bool:
    """Whether a parameter's module runs in evaluation mode only: a fixed network that gradients pass through."""
    module = facts.trace.tensors[tensor].module
    calls = [] if module is None else facts.calls.get(module, [])
    return bool(calls) and not any(call.training for call in calls)
