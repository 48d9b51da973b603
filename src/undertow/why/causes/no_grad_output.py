"""no-grad-output: the hooked tensor does not require a gradient."""

from __future__ import annotations

from undertow.why.causes.base import Cause, hook_name, registered
from undertow.why.causes.cuts import words_of_cut
from undertow.why.facts.facts import Facts
from undertow.why.facts.graph_cuts import Origin, origin
from undertow.why.facts.passes import BACKWARD_KINDS, overtaken, wired
from undertow.why.finding import Fact, Finding, fact
from undertow.why.places import Place
from undertow.why.trace import ErrorRecord, HookRecord

_LEAF = "let its parameters or its input require grad; or use a forward hook, which needs no gradient"


class NoGradOutput(Cause):
    """The hooked module's output, or the hooked tensor, does not require grad."""

    code = "no-grad-output"
    meaning = "the hooked module's output (or the hooked tensor) does not require grad"
    needs = "outputs of module calls, and why they do not require grad"

    def silence(self, facts: Facts, hook: HookRecord) -> Finding | None:
        if hook.tensor is not None:
            if hook.error is None or "require" not in hook.error:
                return None
            return self._finding(facts, hook, hook.tensor, hook.time, None)
        calls = wired(facts, hook) if hook.kind in BACKWARD_KINDS else []
        if not calls or any(any(call.outputs_require_grad) for call in calls) or overtaken(facts, hook):
            return None  # an earlier call counts, if it was differentiated after the hook was registered
        call = calls[0]
        return self._finding(facts, hook, call.outputs[0], call.end, call.place) if call.outputs else None

    def failure(self, facts: Facts, error: ErrorRecord) -> Finding | None:
        for hook in facts.hooks:
            if hook.tensor is not None and hook.error == f"{error.type}: {error.message}":
                return self.silence(facts, hook)
        return None

    def _finding(self, facts: Facts, hook: HookRecord, tensor: int, time: int, call: Place | None) -> Finding:
        found = origin(facts, tensor, time) or Origin("no-requires-grad", facts.made_at(tensor), leaf=tensor)
        if found.op is not None:
            how, cure = words_of_cut(found.op)
        else:
            how, cure = "it is frozen" if found.frozen else "nothing that it is made from requires grad", _LEAF
        place = found.place or hook.place
        seen: list[Fact] = [] if call is None else [fact("the module is called", call)]
        made = facts.made_at(tensor)
        what = "The output" if call is not None else hook.expression or "The tensor"
        return Finding(
            self.code,
            place,
            hook_name(hook),
            f"{what} does not require grad, so no gradient reaches the hook: {how}.",
            [registered(hook), *seen, fact(how, place)],
            cure,
            [call, made, hook.place if hook.error else None],
        )
