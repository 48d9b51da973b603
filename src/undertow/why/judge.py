"""From a trace to findings: every question is asked of the causes in their order, and consequences are left out."""

from __future__ import annotations

from undertow.why.causes import CAUSES
from undertow.why.facts.facts import Facts
from undertow.why.facts.failure import errors
from undertow.why.facts.passes import is_silent
from undertow.why.facts.wants import misses
from undertow.why.finding import Finding
from undertow.why.trace import Trace


def judge(trace: Trace) -> list[Finding]:
    """The findings of a run, the most telling first; none for a healthy one.

    An exception that is explained stands alone: what did not happen after it is its consequence.
    """
    facts = Facts(trace)
    for error in errors(facts):
        for cause in CAUSES:
            found = cause.failure(facts, error)
            if found is not None:
                return [found]
    return merged(without_consequences(facts, [*_missed(facts), *_of_the_run(facts), *_silent(facts)]))


def _missed(facts: Facts) -> list[Finding]:
    found = []
    for miss in misses(facts):
        answer = next((answer for cause in CAUSES if (answer := cause.miss(facts, miss)) is not None), None)
        if answer is not None:
            found.append(answer)
    return found


def _of_the_run(facts: Facts) -> list[Finding]:
    return [finding for cause in CAUSES for finding in cause.run(facts)]


def _silent(facts: Facts) -> list[Finding]:
    found = []
    for hook in facts.hooks:
        if is_silent(facts, hook):
            answer = next((answer for cause in CAUSES if (answer := cause.silence(facts, hook)) is not None), None)
            if answer is not None:
                found.append(answer)
    return found


_LOSSES = frozenset({"detached", "no-grad-mode", "not-differentiable", "dead-branch", "no-backward", "unused"})


def without_consequences(facts: Facts, findings: list[Finding]) -> list[Finding]:
    """Leaves out what only follows from another finding."""
    lost = [finding.tensor for finding in findings if finding.code in _LOSSES and finding.tensor is not None]
    codes = {finding.code for finding in findings}
    kept = []
    for finding in findings:
        if finding.code == "graph-leak" and any(finding.tensor in facts.flow(tensor).stops for tensor in lost):
            continue  # kept because its gradient was to be used
        if finding.code in _LOSSES and "not-in-optimizer" in codes and finding.tensor is not None:
            if not facts.trace.tensors[finding.tensor].names:
                continue  # an old parameter, which only the optimizer still knows
        kept.append(finding)
    return kept


def merged(findings: list[Finding]) -> list[Finding]:
    """Findings with one cause on one line are one finding about several subjects, and those about one subject too."""
    kept: list[Finding] = []
    for finding in findings:
        twin = next((other for other in kept if _is_the_same(finding, other)), None)
        if twin is None:
            kept.append(finding)
            continue
        twin.subjects += [subject for subject in finding.subjects if subject not in twin.subjects]
        if finding.file == twin.file and finding.line is not None:
            twin.also_lines = sorted({*twin.also_lines, finding.line, *finding.also_lines} - {twin.line})
    return kept


def _is_the_same(one: Finding, other: Finding) -> bool:
    if one.code != other.code or one.file != other.file:
        return False
    return one.line == other.line or one.subject == other.subject
