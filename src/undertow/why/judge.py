"""Turn a trace into findings: try the causes in order on every symptom, then drop findings that follow from others."""

from __future__ import annotations

from undertow.why.causes import CAUSES
from undertow.why.causes.base import hook_name
from undertow.why.facts.facts import Facts
from undertow.why.facts.failure import errors
from undertow.why.facts.flow import COPIES
from undertow.why.facts.graph_cuts import place_of_cut
from undertow.why.facts.lost import lost
from undertow.why.facts.missing_gradients import Miss, misses
from undertow.why.facts.passes import is_silent, wired
from undertow.why.facts.paths import weight
from undertow.why.facts.terms import dead_terms, is_prediction
from undertow.why.facts.unreached import unreached
from undertow.why.finding import Finding
from undertow.why.places import Place
from undertow.why.trace import ErrorRecord, HookRecord, Trace


def judge(trace: Trace) -> list[Finding]:
    """Return the findings of a run, then its notes, each sorted by line, the script's own file first.

    A healthy run has none.

    If an exception can be explained, that finding is the only one: whatever failed to happen after it is a consequence.
    """
    facts = Facts(trace)
    for error in errors(facts):
        explained = _explained(facts, error)
        if explained is not None:
            return [explained]
    silent = [finding for hook in facts.hooks if not _stopped_short(trace, hook) for finding in _silence(facts, hook)]
    found = merged(without_consequences(facts, [*_missed(facts), *_of_the_run(facts), *silent]))
    return sorted(found, key=lambda one: (one.is_note, one.file != trace.script, one.file or "", one.line or 0))


_OWN_ERRORS = frozenset(
    {"AssertionError", "IndexError", "KeyError", "TypeError", "AttributeError", "ZeroDivisionError"}
)


def _stopped_short(trace: Trace, hook: HookRecord) -> bool:
    """Whether an unexplained error ended the run before a pass in which the hook would have fired.

    Once such a pass has run, errors of the types in `_OWN_ERRORS` do not count: programs raise them themselves when a
    hook has collected nothing.
    """
    errors = [*([] if trace.error is None else [trace.error]), *trace.thread_errors]
    passes = trace.calls if hook.kind.startswith("forward") else trace.backwards
    return any(error.type not in _OWN_ERRORS or not passes for error in errors)


def _explained(facts: Facts, error: ErrorRecord) -> Finding | None:
    """Return the finding that explains an exception."""
    found = next((found for cause in CAUSES if (found := cause.failure(facts, error)) is not None), None)
    if found is None:
        miss = unreached(facts, error)
        return None if miss is None else _reason(facts, miss)
    return found


def _reason(facts: Facts, miss: Miss) -> Finding | None:
    return next((found for cause in CAUSES if (found := cause.miss(facts, miss)) is not None), None)


def _missed(facts: Facts) -> list[Finding]:
    answers = [_reason(facts, miss) for miss in facts.once(misses)]
    return [answer for answer in answers if answer is not None]


def _of_the_run(facts: Facts) -> list[Finding]:
    return [finding for cause in CAUSES for finding in cause.run(facts)]


def _silence(facts: Facts, hook: HookRecord) -> list[Finding]:
    """Explain why a hook never fired. Return no finding if it fired or no cause fits."""
    if not is_silent(facts, hook):
        return []
    answer = next((found for cause in CAUSES if (found := cause.silence(facts, hook)) is not None), None)
    return [] if answer is None else [answer]


_LOSSES = frozenset({"detached", "no-grad-mode", "not-differentiable", "dead-branch", "no-backward", "unused"})


def without_consequences(facts: Facts, findings: list[Finding]) -> list[Finding]:
    """Leave out findings that only follow from other findings."""
    leaves = [finding.tensor for finding in findings if finding.code in _LOSSES and finding.tensor is not None]
    repeated = {(finding.file, finding.line) for finding in findings if finding.code == "duplicate-hook"}
    spoilt = {(finding.file, finding.line) for finding in findings if finding.code == "nan-born"}
    flat = {(finding.file, finding.line) for finding in findings if finding.code == "zero-by-math"}
    codes = {finding.code for finding in findings}
    cut = [finding for finding in findings if finding.code in _LOSSES and _is_cut_by_mistake(facts, finding)]
    starved = {place.key for finding in cut for place in _starved(facts, finding.tensor)}
    frozen = {finding.tensor for finding in findings if finding.code == "no-requires-grad"}
    unheld = {
        finding.tensor for finding in findings if finding.code == "not-in-optimizer" and finding.tensor is not None
    }
    sided, wrong_side = _on_the_wrong_side(facts, unheld)
    lines = {
        (finding.file, finding.line) for finding in findings
        if finding.code in _LOSSES and not _is_of_the_wrong_list(finding, codes, sided)
    }  # fmt: skip
    short = {dead.record.place.key for dead in facts.once(dead_terms) if dead.record.place is not None}
    kept = []
    for finding in findings:
        if finding.code in ("hook-on-dead-end", "no-grad-output") and _is_on(facts, finding, frozen):
            continue  # its tensors never required grad, which no-requires-grad reports already
        if finding.code == "graph-leak" and any(_is_recorded(facts, tensor, finding.tensor) for tensor in leaves):
            continue  # kept for a gradient that was lost
        if finding.code in _LOSSES and "not-in-optimizer" in codes and finding.tensor is not None:
            missing = [other.tensor for other in findings if other.code == "not-in-optimizer"]
            if any(_is_computed_from(facts, other, finding.tensor) for other in missing):
                kept.append(finding)
                continue
            if _is_displaced(facts, finding, findings):
                continue  # an old parameter that only the optimizer still holds
            if finding not in cut and _is_the_wrong_list(facts, finding.tensor, findings):
                continue  # its optimizer was given the wrong parameters, which not-in-optimizer reports
        if finding.code == "zero-by-math" and _is_never_stepped(facts, finding, findings):
            continue  # zero weights that no optimizer updates
        if finding.code == "needless-retain-graph" and (finding.file, finding.line) in lines:
            continue  # the same call, which should have been given create_graph
        if finding.code == "needless-retain-graph" and _LOSSES & codes and (finding.file, finding.line) in short:
            continue  # a term of its root was cut off: without that cut it may share its graph
        if finding.code == "no-grad-output" and (finding.file, finding.line) in lines:
            continue  # the line that cuts off the hook also loses gradients
        if finding.code == "hook-on-dead-end" and _is_cut_off_too(facts, finding, leaves):
            continue  # the silent hook and a missing gradient have one cause
        if finding.code == "hook-on-dead-end" and _waits_for_a_backward(facts, finding, findings):
            continue  # no-backward reports its loss
        if finding.code == "hook-after-backward" and (finding.file, finding.line) in repeated:
            continue  # the last of the repeated registrations
        if finding.code in _LOSSES and _is_of_the_wrong_list(finding, codes, sided):
            continue
        if finding.code == "not-in-optimizer" and finding.tensor in wrong_side:
            continue  # only that term gives it a gradient
        if finding.code == "left-over-grad" and "accumulated-grad" in codes:
            continue  # the same gradients
        if finding.code == "probabilities-as-logits" and (finding.file, finding.line) in flat:
            continue  # its slope is zero there
        if finding.code == "zero-by-math" and (finding.file, finding.line) in spoilt:
            continue  # the zeros come from NaN or Inf
        if finding.code == "not-in-optimizer" and (finding.file, finding.line) in starved:
            continue  # the optimizer's parameters are cut off, so its steps find no gradient
        if finding.code == "not-in-optimizer" and (finding.file, finding.line) in lines:
            continue  # the line that cuts the graph makes a new leaf each time
        if finding.code == "not-in-optimizer" and any(
            _is_computed_from(facts, finding.tensor, leaf) for leaf in leaves
        ):
            continue  # values computed from trained tensors were written into it without their graph
        kept.append(finding)
    return kept


def _is_of_the_wrong_list(finding: Finding, codes: set[str], sided: set[tuple[str, int]]) -> bool:
    """Whether a finding is about a dead term, which is judged by what the optimizer holds, and that is wrong."""
    return finding.tensor is None and "not-in-optimizer" in codes and (finding.file, finding.line) not in sided


def _on_the_wrong_side(facts: Facts, missing: set[int]) -> tuple[set[tuple[str, int]], set[int]]:
    """Return the lines of cuts on the wrong side of a comparison, and the tensors that get gradients only through it.

    A loss function compares a prediction that was detached from the optimizer's parameters with a target from a network
    that no optimizer holds: `mse(s.detach(), t)`.
    """
    lines: set[tuple[str, int]] = set()
    tensors: set[int] = set()
    for dead in facts.once(dead_terms) if missing else ():
        place = place_of_cut(dead.cut)
        graph = facts.below(facts.nodes_of(dead.term)) if dead.term is not None else set()
        fed = missing & {leaf for node in graph if (leaf := facts.trace.nodes[node].leaf) is not None}
        if fed and place is not None and is_prediction(facts, dead, fed):
            lines.add(place.key)
            tensors |= fed
    return lines, tensors


def _is_recorded(facts: Facts, leaf: int, kept: int | None) -> bool:
    """Whether the graph of a kept tensor leads back to a leaf."""
    stop = None if kept is None else facts.flow(leaf).stops.get(kept)
    return stop is not None and stop.cut is None


def _is_computed_from(facts: Facts, tensor: int | None, leaf: int) -> bool:
    """Whether a tensor holds values computed from a leaf, not only copied from it."""
    if tensor is None or tensor == leaf:
        return False
    flow = facts.flow(leaf)
    return tensor in flow.stops and any(facts.trace.ops[number].name not in COPIES for number in flow.path(tensor))


def _is_cut_by_mistake(facts: Facts, finding: Finding) -> bool:
    """Whether a loss of gradients is surely a mistake for a trained tensor.

    It is if the loss is never differentiated, or if the values pass through Python or integers.
    """
    if finding.tensor is None or not facts.holders(finding.tensor):
        return False
    found = lost(facts, finding.tensor).cut
    return finding.code == "no-backward" or (found is not None and weight(found) > 2)


def _starved(facts: Facts, tensor: int | None) -> list[Place]:
    """Return where those optimizers of a tensor that never found any gradient were made."""
    fed = {event.optimizer for event in facts.trace.grads if event.kind == "step" and event.found}
    holders = [] if tensor is None else facts.holders(tensor)
    return [holder.place for holder in holders if holder.id not in fed and holder.place is not None]


def _is_never_stepped(facts: Facts, finding: Finding, findings: list[Finding]) -> bool:
    """Whether the operation with zero slope takes a parameter that no step ever changes."""
    missing = {other.tensor for other in findings if other.code in ("not-in-optimizer", "cleared")}
    here = (finding.file, finding.line)
    return bool(missing) and any(
        op.place is not None and op.place.key == here and not missing.isdisjoint(op.inputs) for op in facts.trace.ops
    )


def _hooked(facts: Facts, finding: Finding) -> tuple[list[HookRecord], list[int]]:
    """Return the hooks that a finding is about, and the tensors whose gradients fire them."""
    hooks = [hook for hook in facts.hooks if hook_name(hook) in finding.subjects]
    calls = [call for hook in hooks if hook.module is not None for call in wired(facts, hook)]
    tensors = [hook.tensor for hook in hooks if hook.tensor is not None]
    return hooks, [*tensors, *(output for call in calls for output in call.outputs)]


def _is_on(facts: Facts, finding: Finding, tensors: set[int | None]) -> bool:
    """Whether all hooks of a finding that never fired are on some of these tensors."""
    hooks = [hook for hook in _hooked(facts, finding)[0] if not hook.firings]
    return bool(hooks) and all(hook.tensor is not None and hook.tensor in tensors for hook in hooks)


def _is_cut_off_too(facts: Facts, finding: Finding, leaves: list[int]) -> bool:
    """Whether a hook is on a leaf whose gradient was lost, or on the path from the leaf to the cut."""
    _, tensors = _hooked(facts, finding)
    return any(
        tensor in leaves or any(_was_cut(facts, leaf) and _is_recorded(facts, leaf, tensor) for leaf in leaves)
        for tensor in tensors
    )


def _was_cut(facts: Facts, leaf: int) -> bool:
    return lost(facts, leaf).cut is not None


def _waits_for_a_backward(facts: Facts, finding: Finding, findings: list[Finding]) -> bool:
    """Whether a hook is on the graph of a loss for which another finding reports no-backward."""
    hooks, tensors = _hooked(facts, finding)
    nodes = {hook.node for hook in hooks} | {node for tensor in tensors for node in facts.nodes_of(tensor)}
    for other in findings:
        if other.code == "no-backward" and other.tensor is not None:
            sink = lost(facts, other.tensor).sink
            if sink is not None and not nodes.isdisjoint(facts.below(facts.nodes_of(sink))):
                return True
    return False


def _is_displaced(facts: Facts, finding: Finding, findings: list[Finding]) -> bool:
    """Whether the finding's tensor has no name any more, or shares one with a tensor that no optimizer holds."""
    tensors = facts.trace.tensors
    names = set() if finding.tensor is None else set(tensors[finding.tensor].names)
    missing = [tensors[other.tensor].names for other in findings if other.code == "not-in-optimizer" and other.tensor]
    return not names or (finding.code == "unused" and any(names.intersection(other) for other in missing))


def _is_the_wrong_list(facts: Facts, tensor: int, findings: list[Finding]) -> bool:
    """Whether no optimizer of a tensor ever found a gradient, and not-in-optimizer reports each of them."""
    missing = {
        (finding.file, line)
        for finding in findings if finding.code == "not-in-optimizer"
        for line in (finding.line, *finding.also_lines)
    }  # fmt: skip
    places = _starved(facts, tensor)
    return bool(places) and len(places) == len(facts.holders(tensor)) and all(place.key in missing for place in places)


def merged(findings: list[Finding]) -> list[Finding]:
    """Merge findings with one cause on one line, and those about one subject."""
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
