"""What the gradient of each step consists of: the backward passes that wrote it, and passes that no step used."""

from __future__ import annotations

from dataclasses import dataclass, field

from undertow.why.facts.facts import Facts
from undertow.why.trace import BackwardRecord, GradEvent


@dataclass(slots=True)
class Portion:
    """Backward passes that wrote one tensor's gradient until a step used it, or a clear dropped it."""

    tensor: int
    end: GradEvent  # the step or the clear
    writes: list[GradEvent] = field(default_factory=list)
    edited: bool = False  # the program changed the gradient in between

    def passes(self, facts: Facts) -> list[BackwardRecord]:
        return [facts.trace.backwards[write.backward] for write in self.writes if write.backward is not None]


def portions(facts: Facts) -> list[Portion]:
    """Return the portions of all tensors that optimizers hold, in order."""
    found: list[Portion] = []
    for tensor in {tensor: None for optimizer in facts.trace.optimizers for tensor in optimizer.tensors}:
        writes: list[GradEvent] = []
        edited = False
        for event in facts.grads.get(tensor, ()):
            if event.kind == "write":
                writes.append(event)
            elif event.kind in ("edit", "read"):
                edited = edited or event.kind == "edit"
            elif event.kind in ("step", "clear", "set"):
                if writes:
                    found.append(Portion(tensor, event, writes, edited))
                writes, edited = [], False
    return found
