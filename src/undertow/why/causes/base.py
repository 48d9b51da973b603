"""The base class of causes, and helpers to write findings."""

from __future__ import annotations

from collections.abc import Iterable

from undertow.why.facts.facts import Facts
from undertow.why.facts.flow import Flow
from undertow.why.facts.missing_gradients import Miss
from undertow.why.finding import Fact, Finding, fact
from undertow.why.trace import BackwardRecord, ErrorRecord, HookRecord


class Cause:
    """One kind of mistake. Each of the four methods may explain a symptom with a finding, or return None.

    Causes are tried in the order of `causes.CAUSES`, and the first finding counts. `code` is its name, `meaning` one
    line for tables, `needs` what must have been observed to decide.
    """

    code: str
    meaning: str
    needs: str

    def failure(self, facts: Facts, error: ErrorRecord) -> Finding | None:
        """Explain why the program, or a backward pass whose error was caught, raised."""
        return None

    def miss(self, facts: Facts, miss: Miss) -> Finding | None:
        """Explain why a gradient that the program uses is missing or zero."""
        return None

    def silence(self, facts: Facts, hook: HookRecord) -> Finding | None:
        """Explain why a hook never fired."""
        return None

    def run(self, facts: Facts) -> Iterable[Finding]:
        """Find this mistake in the run, without a symptom to explain."""
        return ()


def has_no_name(name: str) -> bool:
    """Whether a tensor's name is a phrase, or an expression that makes a new tensor: `net(x)`, `0.1 * reg`."""
    return not name[:1].isidentifier() or " " in name or "(" in name


def grad_of(name: str) -> str:
    """Return `w.grad`, or a phrase for a tensor without a name."""
    return f"the gradient of {name}" if has_no_name(name) else f"{name}.grad"


def asking(facts: Facts, miss: Miss) -> BackwardRecord | None:
    """Return the autograd.grad() that asks for a missing gradient, if that is how the program uses it."""
    time = miss.consumers[0].time
    records = (record for record in facts.trace.backwards if record.kind == "grad" and 0 <= time - record.time <= 1)
    return next((record for record in records if miss.tensor in (record.inputs or ())), None)


def consumer_fact(facts: Facts, miss: Miss) -> Fact:
    """Return the read or step that used the gradient."""
    event = miss.read or miss.consumers[0]
    gradient = grad_of(facts.name(miss.tensor))
    found = "None" if miss.kind == "none" else "all zeros"
    if asking(facts, miss) is not None:
        return fact(f"autograd.grad() is asked for {gradient} and finds {found}", event.place)
    if event.kind == "read":
        return fact(f"{gradient} is read here and is {found}", event.place)
    return fact(f"the optimizer steps here and finds {gradient} {found}", event.place)


def path(facts: Facts, flow: Flow, tensor: int) -> list[Fact]:
    """Return the ops on the path to a tensor, one line each."""
    steps: list[Fact] = []
    for number in flow.path(tensor):
        op = facts.trace.ops[number]
        here = fact(f"{op.shown} uses it", op.place)
        if not steps or steps[-1].line != here.line:
            steps.append(here)
    return steps[:12]


def hook_name(hook: HookRecord) -> str:
    """Return the name of a hook in findings."""
    return "a hook" if hook.place is None else f"hook at line {hook.place.line}"


def registered(hook: HookRecord) -> Fact:
    """Return where a hook was registered."""
    on = f" on {hook.expression}" if hook.expression else ""
    return fact(f"{hook.name} is registered{on} as a {hook.kind} hook", hook.place)
