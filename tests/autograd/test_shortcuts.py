"""Every shortcut against the general path: the code written out for a rule is never a second behaviour.

The samples of `tests/oracle` run twice on undertow, once as they are and once with a rare mode counted as on, which sends
every op down the general path. Results and graphs must be the same: nodes, edges, saved values, statics. Then each graph
is run backward with the `run` that was written out for its rules and with the general one, and what each node sends on
must have the shape and dtype of the tensor it belongs to.
"""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import undertow
from tests.oracle.sampling import Sample, Table
from tests.oracle.test_functions import TABLES, direction, tensors_in
from undertow._src.base.modes import slow_path
from undertow._src.engine import record, writes
from undertow._src.engine.node import AccumulateGrad, Node
from undertow._src.engine.rule_node import RuleNode
from undertow._src.engine.saved import SavedInput, SavedOutput
from undertow._src.rules.rule import Spec


def samples_of(table: Table) -> list[Sample]:
    plain = ("function", "method", "inplace")
    return [
        sample for sample in table.samples_for(undertow)
        if sample.raises is not True and sample.form in plain
    ]  # fmt: skip


def outputs_of(sample: Sample) -> tuple[list[Any], list[Any]] | None:
    """The inputs and outputs of a sample, or None if it is refused."""
    undertow.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = sample.environment(undertow, grad=sample.first)
        inputs = [names[name] for name in sample.inputs]
        try:
            result = eval(sample.program, names)
        except Exception:
            return None
    return inputs, tensors_in(undertow, result)


def generally(sample: Sample) -> tuple[list[Any], list[Any]] | None:
    slow_path.enter()
    try:
        return outputs_of(sample)
    finally:
        slow_path.leave()


def nodes_of(outputs: list[Any]) -> list[Node]:
    """The nodes behind tensors, in an order that depends on the graph alone."""
    found = [tensor.grad_fn for tensor in outputs if tensor.grad_fn is not None]
    found = list(dict.fromkeys(found))
    for node in found:
        found.extend({edge[0]: None for edge in node._edges if edge is not None and edge[0] not in found})
    return found


def described(value: Any, places: dict[Node, int]) -> Any:
    """A value kept by a node as facts that can be compared."""
    if isinstance(value, SavedInput):
        edge = value.edge
        return ("input", described(value.tensor._array, places), edge and (places.get(edge[0]), edge[1]), value.version)
    if isinstance(value, SavedOutput):
        return ("output", described(value.array, places), value.output_nr, value.version)
    if isinstance(value, np.ndarray):
        return ("array", value.shape, str(value.dtype), value.tolist())
    if isinstance(value, Spec):
        return ("spec", value.shape, str(value.dtype))
    if isinstance(value, (tuple, list)):
        return [described(part, places) for part in value]
    if isinstance(value, slice):
        return ("slice", value.start, value.stop, value.step)
    return re.sub(" at 0x[0-9a-f]+", "", repr(value))


def statics_of(node: RuleNode) -> tuple[Any, ...]:
    """A node's statics, and the number among the operands that is shown in the place of a saved value."""
    return node.statics if node.saved else node.statics[: len(node.rule.statics)]


def specs_of(node: RuleNode) -> list[Any]:
    """The specs that the rule's gradients ask for."""
    rule = node.rule
    asked = {name for gradient in (rule.joint, *rule.gradients) if gradient is not None for name in gradient.names}
    return [spec for name, spec in zip(rule.inputs, node.specs, strict=False) if f"{name}_spec" in asked]


def facts(outputs: list[Any]) -> list[Any]:
    """Values and graph of some tensors."""
    nodes = nodes_of(outputs)
    places = {node: place for place, node in enumerate(nodes)}
    told: list[Any] = [
        (described(tensor._array, places), tensor._array.strides, tensor.requires_grad, tensor._is_view(),
         tensor._edge and (places[tensor._edge[0]], tensor._edge[1]), tensor._version)
        for tensor in outputs
    ]  # fmt: skip
    for node in nodes:
        edges = [edge and (places[edge[0]], edge[1]) for edge in node._edges]
        kept = []
        if isinstance(node, RuleNode):
            kept = [
                described(node.saved, places),
                described(statics_of(node), places),
                described(specs_of(node), places),
            ]
        told.append((node.name(), node._n_outputs, edges, kept))
    return told


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.family)
def test_forward(table: Table) -> None:
    different = []
    for sample in samples_of(table):
        shortcut, general = outputs_of(sample), generally(sample)
        if (shortcut is None) != (general is None):
            different.append(f"{sample.name}: refused by one path only")
        elif shortcut is not None and general is not None:
            one, other = facts(shortcut[1]), facts(general[1])
            if repr(one) != repr(other):  # NaN is NaN here
                pairs = [f"{a}\n      {b}" for a, b in zip(one, other) if repr(a) != repr(b)]
                different.append(f"{sample.name}: {sample.program}\n      " + "\n      ".join(pairs or ["other nodes"]))
    assert not different, f"{len(different)} samples\n" + "\n".join(different[:20])


def gradients(sample: Sample, inputs: list[Any], outputs: list[Any]) -> list[Any]:
    leaves = [tensor for tensor in inputs if tensor.requires_grad]
    live = [tensor for tensor in outputs if tensor.requires_grad]
    along = [direction(undertow, tensor, seed) for seed, tensor in enumerate(live)]
    found = undertow.autograd.grad(live, leaves, along, retain_graph=True, allow_unused=True)
    return [
        None if gradient is None else (gradient._array.tolist(), gradient.dtype, gradient.shape) for gradient in found
    ]


def differentiable(table: Table) -> Iterator[tuple[Sample, list[Any], list[Any]]]:
    for sample in samples_of(table):
        made = outputs_of(sample) if sample.first else None
        if made is None or not any(tensor.requires_grad for tensor in made[1]):
            continue
        yield sample, *made


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.family)
def test_backward(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    different = []
    for sample, inputs, outputs in differentiable(table):
        try:
            shortcut = gradients(sample, inputs, outputs)
        except (RuntimeError, NotImplementedError):  # no derivative
            continue
        with monkeypatch.context() as patches:
            for node in nodes_of(outputs):
                if isinstance(node, RuleNode) and "_run" in vars(type(node)):
                    patches.delattr(type(node), "_run")
            general = gradients(sample, inputs, outputs)
        if repr(shortcut) != repr(general):
            different.append(f"{sample.name}: {shortcut} {general}")
    assert not different, f"{len(different)} samples\n" + "\n".join(different[:20])


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.family)
def test_gradients_fit(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a node sends on has the shape and dtype of the tensor that it is the gradient of."""
    wanted: dict[Any, Spec] = {}
    make = record.make_node

    def noting(rule: Any, edges: Any, inputs: Any, *rest: Any) -> Any:
        node = make(rule, edges, inputs, *rest)
        flat = [given for given in inputs if given is None or isinstance(given, undertow.Tensor)]
        for edge, given in zip(edges, inputs if len(flat) == len(inputs) else (), strict=False):
            if edge is not None:
                wanted[edge] = Spec(given._array.shape, given._array.dtype)
        return node

    monkeypatch.setattr(record, "make_node", noting)
    monkeypatch.setattr(writes, "make_node", noting)
    wrong: list[str] = []
    for sample in samples_of(table):
        wanted.clear()
        made = generally(sample) if sample.first else None
        if made is None or not any(tensor.requires_grad for tensor in made[1]):
            continue
        for node in nodes_of(made[1]):
            if type(node) is not AccumulateGrad:
                node.register_hook(_checker(sample, node, wanted, wrong))
        try:
            gradients(sample, *made)
        except (RuntimeError, NotImplementedError):
            continue
    assert not wrong, f"{len(wrong)} gradients\n" + "\n".join(wrong[:20])


def _checker(sample: Sample, node: Node, wanted: dict[Any, Spec], wrong: list[str]) -> Any:
    def check(incoming: tuple[Any, ...], outgoing: tuple[Any, ...]) -> None:
        if len(incoming) != len(node._edges):
            wrong.append(f"{sample.name}: {node.name()} has {len(node._edges)} edges and {len(incoming)} gradients")
        for edge, gradient in zip(node._edges, incoming, strict=False):
            if edge is None or gradient is None or edge not in wanted:
                continue
            spec, array = wanted[edge], gradient._array
            if (array.shape, array.dtype) != (spec.shape, spec.dtype):
                found, expected = f"{array.dtype}{array.shape}", f"{spec.dtype}{spec.shape}"
                wrong.append(f"{sample.name}: {node.name()} sends {found} for {expected}")

    return check


def test_tracebacks_show_the_lines_of_written_code() -> None:
    x = undertow.ones(2, requires_grad=True)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError) as caught:
        y.backward()
    frames = [frame for frame in traceback.extract_tb(caught.value.__traceback__) if "written out" in frame.filename]
    assert [frame.line for frame in frames] == ["raise freed(node)"]
