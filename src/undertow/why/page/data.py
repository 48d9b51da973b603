"""The data of the page as one JSON document, described in docs/why_page.md."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from undertow.why.causes import CODES
from undertow.why.facts.facts import Facts
from undertow.why.finding import Finding
from undertow.why.gradient_flow import Sample
from undertow.why.page.graph_data import PassGraph
from undertow.why.page.recorder import MOST_PARAMETERS, Recorder, StepSamples
from undertow.why.page.values import SourceFiles, length, number, tensor_name
from undertow.why.show import HEALTHY, verdict, was_judged
from undertow.why.trace import FiringRecord, HookRecord, Trace

FORMAT = "undertow why page"
VERSION = 1
FIRST_FIRINGS, LAST_FIRINGS = 500, 1500  # the hook calls that are kept from a longer list
MOST_NODES = 20_000  # of one pass


def page_data(
    trace: Trace, findings: Sequence[Finding], recorder: Recorder, title: str | None = None, engine: str | None = None
) -> dict[str, Any]:
    """Return the data of a run for the page. engine: the name to show instead of the trace's engine."""
    facts = Facts(trace)
    files = SourceFiles(trace.script)
    limits: list[str] = []
    if not trace.complete:
        limits.append(f"Recording ended early, after {len(trace.ops)} operations: later events are not shown.")
    passes = _passes(facts, recorder, findings, files, limits)
    data = {
        "format": FORMAT,
        "version": VERSION,
        "program": {
            "title": title or (os.path.basename(trace.script) if trace.script else "a watched block"),
            "script": trace.script, "engine": engine or trace.engine, "undertow": _version(),
            "made": datetime.datetime.now().isoformat(" ", "minutes"), "operations": len(trace.ops),
            "passes": len(trace.backwards), "error": _error(trace, files),
            "judged": was_judged(trace), "verdict": verdict(trace),
            "healthy": not findings and verdict(trace) == HEALTHY,
        },
        "findings": [_finding(finding, files) for finding in findings],
        "passes": passes,
        "hooks": _hooks(facts, files, limits),
        "flow": _flow(facts, recorder, files, limits),
        "limits": limits,
    }  # fmt: skip
    data["files"] = files.data()
    return data


def _version() -> str:
    try:
        return version("undertow")
    except PackageNotFoundError:  # run from a source folder
        return ""


def _error(trace: Trace, files: SourceFiles) -> dict[str, Any] | None:
    error = trace.error
    if error is None:
        return None
    return {"type": error.type, "message": error.message, "at": files.place(error.place)}


def _finding(finding: Finding, files: SourceFiles) -> dict[str, Any]:
    data = finding.as_data()
    data["file"] = files.number(finding.file)
    data["meaning"] = CODES[finding.code].meaning
    for fact in data["evidence"]:
        fact["file"] = files.number(fact["file"])
    return data


# --- passes


def _passes(
    facts: Facts, recorder: Recorder, findings: Sequence[Finding], files: SourceFiles, limits: list[str]
) -> list[dict[str, Any]]:
    trace = facts.trace
    graphs = []
    for picture in sorted(recorder.pictures.values(), key=lambda picture: picture.backward):
        if len(picture.nodes) > MOST_NODES:
            at = trace.backwards[picture.backward].place
            limits.append(f"The pass of line {at and at.line} has {len(picture.nodes)} nodes and is not drawn.")
            continue
        graphs.append(PassGraph(facts, picture, files))
    for place, finding in enumerate(findings):
        drawn = [graph.add_lost(place, finding, anyhow=False) for graph in graphs]
        if graphs and not any(drawn):
            graphs[-1].add_lost(place, finding, anyhow=True)
        causes = [graph.cause(place, finding) for graph in graphs]
        for graph, cause in zip(graphs, causes):
            if cause or not any(causes):
                graph.point(place, finding, cause)
    if recorder.dropped_lines:
        limits.append(f"Passes of {len(recorder.pictures)} lines are shown; {recorder.dropped_lines} others are not.")
    calls: dict[Any, list[int]] = {}
    for record in trace.backwards:
        calls.setdefault(None if record.place is None else record.place.key, []).append(record.id)
    shown = []
    for graph in graphs:
        record = graph.record
        own = calls[None if record.place is None else record.place.key]
        nth = f", pass {own.index(record.id) + 1} of {len(own)}" if len(own) > 1 else ""
        call = "backward()" if record.kind == "backward" else "autograd.grad()"
        where = "" if record.place is None else f" at line {record.place.line}"
        shown.append(graph.data(f"{call}{where}{nth}"))
    return shown


# --- hooks


def _hooks(facts: Facts, files: SourceFiles, limits: list[str]) -> dict[str, Any]:
    trace = facts.trace
    registered = [_hook(facts, hook, files) for hook in trace.hooks]
    firings = [_firing(firing, files) | {"order": nth} for nth, firing in enumerate(trace.firings, 1)]
    total = len(firings)
    if len(firings) > FIRST_FIRINGS + LAST_FIRINGS:
        limits.append(f"Of {total} hook calls the first {FIRST_FIRINGS} and the last {LAST_FIRINGS} are listed.")
        firings = [*firings[:FIRST_FIRINGS], *firings[-LAST_FIRINGS:]]
    return {"registered": registered, "total": total, "fired": firings}


def _hook(facts: Facts, hook: HookRecord, files: SourceFiles) -> dict[str, Any]:
    return {
        "id": hook.id, "kind": hook.kind, "name": hook.name, "on": _owner(facts, hook),
        "at": files.place(hook.place), "defined": files.place(hook.defined), "fired": len(hook.firings),
        "removed": None if hook.removed is None else files.place(hook.removed_at) or {}, "user": hook.user,
        "error": hook.error,
    }  # fmt: skip


def _owner(facts: Facts, hook: HookRecord) -> str:
    """Return the name of the hooked object: its name in the model, since a loop that registers calls each one `p`."""
    if hook.tensor is not None:
        known = facts.trace.tensors[hook.tensor]
        named = bool(known.names) or known.module is not None
        return tensor_name(facts, hook.tensor) if named or not hook.expression else hook.expression
    module = None if hook.module is None else facts.trace.modules[hook.module]
    return hook.expression if module is None else module.names[0] if module.names else hook.expression or module.type


def _firing(firing: FiringRecord, files: SourceFiles) -> dict[str, Any]:
    return {
        "hook": firing.hook, "pass": firing.backward, "before": length(firing.before_norms),
        "after": length(firing.after_norms), "shapes": [list(shape) for shape in firing.shapes], "answer": firing.answer,
        "changed": firing.changed or (firing.answer == "new" and firing.refused is None and _differs(firing)),
        "returned": files.place(firing.returned), "refused": firing.refused, "error": firing.error,
    }  # fmt: skip


def _differs(firing: FiringRecord) -> bool:
    return firing.before_norms != firing.after_norms or firing.before != firing.after


# --- gradients over steps


def _flow(facts: Facts, recorder: Recorder, files: SourceFiles, limits: list[str]) -> dict[str, Any]:
    unit, samples = ("step", recorder.steps) if recorder.steps.total else ("pass", recorder.passes)
    if samples.stride > 1:
        limits.append(f"Of {samples.total} {unit}s every {_ordinal(samples.stride)} is shown in the gradient flow.")
    if recorder.dropped_parameters:
        limits.append(f"Gradients of the first {MOST_PARAMETERS} parameters are shown.")
    kept = samples.kept
    tensors = sorted({tensor for step in kept for tensor in step.samples})
    return {
        "unit": unit,
        "total": samples.total,
        "stride": samples.stride,
        "steps": [
            {"step": step.step, "at": files.place(step.place), "value": number(step.value), "optimizer": step.optimizer}
            for step in kept
        ],
        "optimizers": [
            {"id": one.id, "type": one.type, "name": one.names[0] if one.names else None, "at": files.place(one.place)}
            for one in facts.trace.optimizers
        ],
        "rows": [_row(facts, kept, tensor, files) for tensor in tensors],
    }


def _ordinal(count: int) -> str:
    """Return 2nd, 4th, 8th and so on; strides are powers of two."""
    return f"{count}nd" if count % 10 == 2 and count % 100 != 12 else f"{count}th"


def _row(facts: Facts, steps: list[StepSamples], tensor: int, files: SourceFiles) -> dict[str, Any]:
    record = facts.trace.tensors[tensor]
    name = tensor_name(facts, tensor)
    module = None if record.module is None else facts.trace.modules[record.module]
    owner = name.rpartition(".")[0]
    if module is not None and owner not in module.names:  # shared: another module registered it last
        module = None
    return {
        "id": tensor, "name": name, "owner": owner, "type": None if module is None else module.type,
        "shape": list(record.shape), "at": files.place(facts.made_at(tensor)),
        "held": [optimizer.id for optimizer in facts.holders(tensor)],
        "samples": [_cell(step.samples.get(tensor)) for step in steps],
    }  # fmt: skip


def _cell(sample: Sample | None) -> list[Any] | None:
    """Return [state, norm, share of zeros, edited by a hook]; None if the step did not sample the parameter."""
    if sample is None:
        return None
    zeros = None if sample.zeros is None else round(sample.zeros, 3)
    return [sample.state, number(sample.norm, 4), zeros, int(sample.edited)]
