"""hook-wrong-return: the engine refuses a hook's result."""

from __future__ import annotations

from undertow.why.causes.base import Cause, hook_name, registered
from undertow.why.facts.facts import Facts
from undertow.why.finding import Finding, fact
from undertow.why.statements import return_lines
from undertow.why.trace import ErrorRecord, FiringRecord, HookRecord

_CURES = {
    "tensor": "return a tensor with the shape and dtype of the gradient, or nothing",
    "post-accumulate": "return nothing; to change the gradient write it: param.grad.clamp_(-1, 1)",
    "full-backward": "return a tuple with one gradient (or None) per input: return (new_grad,)",
    "full-backward-pre": "return a tuple with one gradient (or None) per output: return (new_grad,)",
    "backward": "return a tuple with one gradient (or None) per input",
    "node": "return a tuple with one gradient (or None) per input of the node, or nothing",
    "node-pre": "return a tuple with one gradient (or None) per output of the node, or nothing",
    "forward": "return a new output of the same kind, or nothing",
    "forward-pre": "return the new arguments as a tuple, or nothing",
}


class HookWrongReturn(Cause):
    """Wrong shape, type or count, or a return where none is allowed."""

    code = "hook-wrong-return"
    meaning = "the return value of a hook is refused: wrong shape, type or count"
    needs = "what each hook returned, and the exception after it"

    def failure(self, facts: Facts, error: ErrorRecord) -> Finding | None:
        firings = [facts.trace.firings[error.firing]] if error.firing is not None else facts.trace.firings[-1:]
        for firing in firings:
            hook = facts.trace.hooks[firing.hook]
            if firing.refused is not None and firing.error is None and _about(error, hook):
                return self._finding(hook, firing, error)
        return None

    def _finding(self, hook: HookRecord, firing: FiringRecord, error: ErrorRecord) -> Finding:
        place = firing.returned
        if place is None and hook.defined is not None:
            lines = return_lines(hook.defined.file, hook.defined.line)
            if lines:
                place = hook.defined
        place = place or hook.defined or hook.place
        return Finding(
            self.code,
            place,
            hook_name(hook),
            f"What {hook.name} returns is refused: {firing.refused}.",
            [registered(hook), fact(str(firing.refused), place), fact(error.message.splitlines()[0], error.place)],
            _CURES[hook.kind],
            [hook.defined],
        )


def _about(error: ErrorRecord, hook: HookRecord) -> bool:
    """Whether an exception is the engine's refusal of a hook's result, or a consequence of a wrong one."""
    if hook.kind in ("forward", "forward-pre"):
        return error.type in ("TypeError", "AttributeError", "RuntimeError", "ValueError", "IndexError")
    return "hook" in error.message.lower() or error.backward is not None
