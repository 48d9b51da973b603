"""module-not-called: the hooked module never runs."""

from __future__ import annotations

from undertow.why.causes.base import Cause, hook_name, registered
from undertow.why.facts.facts import Facts
from undertow.why.facts.passes import displaced, runs
from undertow.why.finding import Finding, fact
from undertow.why.trace import BindingRecord, HookRecord


class ModuleNotCalled(Cause):
    """Neither `__call__` nor `forward` of the module ran; a functional form or its weights may have been used."""

    code = "module-not-called"
    meaning = "neither __call__ nor forward of the hooked module ran"
    needs = "every run of every module"

    def silence(self, facts: Facts, hook: HookRecord) -> Finding | None:
        if hook.module is None or not facts.trace.complete:
            return None
        ran, successor = runs(facts, hook), displaced(facts, hook)
        if ran.during or ran.after or (ran.before and successor is None):
            return None
        module = facts.trace.modules[hook.module]
        what = hook.expression or module.type
        if what.isidentifier() and module.names:
            what = module.names[0]  # `layer` in a loop or a function stands for many
        if successor is not None:
            return self._displaced(hook, successor, what)
        uses = [
            facts.trace.ops[number] for tensor in module.parameters.values() for number in facts.uses.get(tensor, ())
            if facts.trace.ops[number].time > hook.time
        ]  # fmt: skip
        seen = [fact(f"{uses[0].shown} uses its parameters without calling it", uses[0].place)] if uses else []
        return Finding(
            self.code,
            hook.place,
            hook_name(hook),
            f"{what} is never called, so its hooks cannot fire.",
            [fact(f"{module.type} is made", module.place), registered(hook), *seen],
            f"call the module in forward: {what}(x), not its functional form"
            if module.callable
            else f"register the hooks on the modules inside it, which are called: for layer in {what}: ...",
            [module.place, uses[0].place if uses else None],
        )

    def _displaced(self, hook: HookRecord, successor: BindingRecord, what: str) -> Finding:
        seen = [registered(hook), fact("a different module replaces it", successor.place)]
        return Finding(
            self.code,
            hook.place,
            hook_name(hook),
            f"The module that had this hook, {what}, does not run any more: a different module replaced it.",
            seen if hook.time < successor.time else seen[::-1],
            "register the hook on the new module, after the replacement",
            [successor.place],
        )
