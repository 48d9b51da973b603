"""output-not-a-tensor: full backward hooks only see tensors and tuples."""

from __future__ import annotations

from undertow.why.causes.base import Cause, hook_name, registered
from undertow.why.facts.facts import Facts
from undertow.why.facts.passes import BACKWARD_KINDS, wired
from undertow.why.finding import Finding, fact
from undertow.why.trace import HookRecord


class OutputNotATensor(Cause):
    """The module returns a dict, a list or an object, which full backward hooks do not unpack."""

    code = "output-not-a-tensor"
    meaning = "the module returns a dict, list or dataclass, which full backward hooks do not unpack"
    needs = "what each module call returned"

    def silence(self, facts: Facts, hook: HookRecord) -> Finding | None:
        if hook.kind not in BACKWARD_KINDS:
            return None
        loose = [call for call in wired(facts, hook) if call.loose]
        if not loose:
            return None
        call = loose[0]
        kind = {"tuple": "a tuple with its tensors inside other containers"}.get(call.result, f"a {call.result}")
        place = call.returned or call.place
        return Finding(
            self.code,
            place,
            hook_name(hook),
            f"The module returns {kind}, and full backward hooks are wired to tensors and tuples of tensors only.",
            [registered(hook), fact("the module is called", call.place), fact(f"it returns {kind}", place)],
            "return a tensor or a (named) tuple; or put tensor hooks on the values: out['hidden'].register_hook(...)",
            [call.place],
        )
