"""The graph of one backward pass for the page: nodes, edges, boxes, and the paths of lost gradients."""

from __future__ import annotations

import re
from typing import Any

from undertow.why.facts.facts import Facts
from undertow.why.facts.lost import lost
from undertow.why.finding import Finding
from undertow.why.page.groups import ROOT, Groups
from undertow.why.page.recorder import NodeSample, PassPicture
from undertow.why.page.values import SourceFiles, number, tensor_name
from undertow.why.source import assigned, is_whole_value
from undertow.why.trace import OpRecord
from undertow.why.watch.graph import PASSES_ON

# Findings about a tensor that no gradient reaches: the path that the gradient would have taken is drawn, too.
LOSSES = frozenset({
    "detached", "no-grad-mode", "not-differentiable", "dead-branch", "no-backward", "unused", "no-requires-grad",
})  # fmt: skip
MOST_SUBJECTS = 24  # the subjects of one finding whose lost paths are drawn
MOST_BEHIND = 60  # the ops that are drawn for a root without a graph


class PassGraph:
    """Builds the data of one pass."""

    def __init__(self, facts: Facts, picture: PassPicture, files: SourceFiles) -> None:
        self.facts = facts
        self.trace = facts.trace
        self.picture = picture
        self.files = files
        self.record = self.trace.backwards[picture.backward]
        self.groups = Groups(facts)
        self.nodes: dict[str, dict[str, Any]] = {}
        self.edges: list[dict[str, Any]] = []
        self.times: dict[str, float] = {}  # when the op of a node ran
        self.focus: dict[int, list[str | int]] = {}  # finding -> nodes and boxes
        self._outputs: dict[int, int] = {}  # node -> the tensor it is the grad_fn of
        self._add_nodes()
        self._add_edges()
        if not self.nodes:
            self._draw_without_graph()

    # --- the recorded graph

    def _op(self, node: int) -> OpRecord | None:
        made_by = self.trace.nodes[node].op
        return None if made_by is None or made_by >= len(self.trace.ops) else self.trace.ops[made_by]

    def _call(self, op: OpRecord) -> int | None:
        """Return the module call that an op belongs to; for the ops around a module with backward hooks, that module's."""
        if op.call is not None or not op.name.startswith(PASSES_ON):
            return op.call
        given, made = set(op.inputs), set(op.outputs)
        begun = (call for call in reversed(self.trace.calls) if call.time < op.time)
        return next((c.id for c in begun if given.intersection(c.inputs) or made.intersection(c.outputs)), None)

    def _add_nodes(self) -> None:
        for node in self.picture.nodes:
            op = self._op(node)
            if op is not None:
                for output, made in zip(op.outputs, op.output_nodes):
                    if made is not None:
                        self._outputs.setdefault(made, output)
        record = self.record
        births, stops, damaged = set(record.births), set(record.stops), set(record.damaged)
        for node, sample in self.picture.nodes.items():
            known = self.trace.nodes[node]
            is_leaf = known.leaf is not None
            tensor = known.leaf if is_leaf else self._outputs.get(node)
            op = None if is_leaf else self._op(node)  # leaves are placed near their users
            data = {
                "id": f"n{node}", "name": known.name, "group": self.groups.of_call(None if op is None else self._call(op)),
                "kind": "leaf" if is_leaf else "op", "op": None if op is None else op.name, **self._where(op),
                **self._tensor(tensor, known.leaf),
                "order": sample.order, "received": number(sample.received), "saved": sample.saved,
                "state": _state(sample, node in births, node in stops, node in damaged),
            }  # fmt: skip
            self.nodes[data["id"]] = data
            self.times[data["id"]] = float(op.time) if op is not None else -1.0

    def _where(self, op: OpRecord | None) -> dict[str, Any]:
        if op is None or op.place is None:
            return {"file": None, "line": None}
        return {"file": self.files.number(op.place.file), "line": op.place.line}

    def _tensor(self, tensor: int | None, leaf: int | None) -> dict[str, Any]:
        if tensor is None:
            return {"tensor": None, "shape": None, "dtype": None}
        record = self.trace.tensors[tensor]
        name = tensor_name(self.facts, tensor) if leaf is not None else self._variable(tensor)
        found: dict[str, Any] = {"tensor": name, "shape": list(record.shape), "dtype": record.dtype}
        if leaf is not None:
            found["row"] = leaf
            found |= self.files.place(self.facts.made_at(leaf)) or {}
        return found

    def _variable(self, tensor: int) -> str | None:
        """Return the program's variable for a computed tensor, if it has one."""
        record = self.trace.tensors[tensor]
        if record.names and record.names[0] != "_":
            return record.names[0]
        if record.maker is None:
            return None
        op = self.trace.ops[record.maker]
        call = None if op.call is None else self.trace.calls[op.call]
        if call is not None and call.place is op.place:  # the line is a module call, and the op is inside it
            while call.parent is not None and self.trace.calls[call.parent].place is op.place:
                call = self.trace.calls[call.parent]
            if tensor not in call.outputs:
                return None
        name = assigned(op.place) if is_whole_value(op.place) else ""
        return None if name in ("", "_") else name

    def _add_edges(self) -> None:
        for node, sample in self.picture.nodes.items():
            sent = [*sample.sent, *[None] * len(sample.edges)]
            for child, place, norm in zip(self.trace.nodes[node].next, sample.edges, sent):
                if child in self.picture.nodes:
                    if place is None:
                        norm = self.picture.nodes[child].received
                    state = "idle" if sample.order is None else _value_state(norm)
                    self.edges.append({"from": f"n{node}", "to": f"n{child}", "norm": number(norm), "state": state})

    def _place_leaves(self) -> None:
        """Put a leaf into the innermost box that contains all its users, or without users into its module's box."""
        users: dict[str, list[str]] = {}
        for edge in self.edges:
            users.setdefault(edge["to"], []).append(edge["from"])
        for node in self.nodes.values():
            if "row" not in node:
                continue
            by = users.get(node["id"])
            if by:
                node["group"] = self.groups.common(self.nodes[user]["group"] for user in by)
                self.times[node["id"]] = min(self.times[user] for user in by) - 0.5
            else:
                node["group"] = self.groups.of_module(self.trace.tensors[node["row"]].module)

    # --- lost gradients

    def add_lost(self, place: int, finding: Finding, anyhow: bool) -> bool:
        """Draw the paths on which a finding's gradients were lost. Return whether any was drawn.

        anyhow: draw also paths that do not lead to a root of this pass, because no other pass draws them.
        """
        if finding.code not in LOSSES:
            return False
        drawn = False
        for tensor in self._subjects(finding):
            flow = self.facts.flow(tensor)
            roots = [root for root in self.record.roots if root in flow.stops]
            if roots and flow.stops[roots[0]].cut is None:
                continue  # this pass reaches it
            if roots:
                self._draw(place, tensor, flow.path(roots[0]), flow.stops[roots[0]].cut, "the gradient stops here")
            elif anyhow:
                found = lost(self.facts, tensor)
                if found.cut is not None:
                    source = found.cut.inputs[0] if found.cut.inputs else tensor
                    way = flow.path(source) if source in flow.stops else []
                    self._draw(place, tensor, [*way, found.cut.id], found.cut.id, "the gradient stops here")
                elif found.sink is not None:
                    way = flow.path(found.sink)
                    self._draw(place, tensor, way, way[-1] if way else None, "nothing calls backward() from here")
                else:
                    self._draw(place, tensor, [], None, "no loss uses it")
            else:
                continue
            drawn = True
        return drawn

    def _subjects(self, finding: Finding) -> list[int]:
        """Return the tensors that a finding is about, in the order in which it names them."""
        found = dict.fromkeys([] if finding.tensor is None else [finding.tensor])
        named: dict[str, list[int]] = {subject: [] for subject in finding.subjects[:MOST_SUBJECTS]}
        for record in self.trace.tensors:
            if record.names and record.names[0] in named and record.floating:
                named[record.names[0]].append(record.id)
        found.update(dict.fromkeys(tensor for same in named.values() for tensor in same))
        return list(found)[:MOST_SUBJECTS]

    def _draw(self, place: int, tensor: int, way: list[int], cut: int | None, said: str) -> None:
        """Draw a leaf and the ops that used it, up to one in the graph, as nodes without gradients."""
        focus = self.focus.setdefault(place, [])
        if cut is not None and cut not in way:  # the value was passed to Python and came back as a number
            later = next((at for at, step in enumerate(way) if step > cut), len(way))
            way = [*way[:later], cut, *way[later:]]
        before = self._ghost_leaf(tensor, said if cut is None else None)
        if cut is None:
            focus.append(before)
        for step in way:
            op = self.trace.ops[step]
            real = next((f"n{node}" for node in (*op.output_nodes, *op.nodes) if node in self.picture.nodes), None)
            here = real or self._ghost(op)
            if real is None and step == cut:
                self.nodes[here]["cut"] = said
                focus.append(here)
            if {"from": here, "to": before, "norm": None, "state": "lost"} not in self.edges and here != before:
                self.edges.append({"from": here, "to": before, "norm": None, "state": "lost"})
            if real is not None:
                if step == cut:
                    focus.append(here)
                break
            before = here

    def _draw_without_graph(self) -> None:
        """Draw a pass without a graph: the ops that made its roots, back to the cut."""
        seen: set[int] = set()
        waiting = [(root, self.record.time, "") for root in self.record.roots if root not in self.record.leaves]
        while waiting and len(self.nodes) < MOST_BEHIND:
            tensor, before, user = waiting.pop(0)
            op = self.facts.maker(tensor, before)
            here = self._ghost_leaf(tensor, None) if op is None else self._ghost(op)
            if user and user != here:
                self.edges.append({"from": user, "to": here, "norm": None, "state": "lost"})
            if op is None or op.id in seen:
                continue
            seen.add(op.id)
            if any(op.inputs_require_grad):
                self.nodes[here]["cut"] = "the gradient would stop here"
            else:
                waiting += [(source, op.time, here) for source in op.inputs]

    def _ghost(self, op: OpRecord) -> str:
        id = f"g{op.id}"
        if id not in self.nodes:
            tensor = op.outputs[0] if op.outputs else None
            self.nodes[id] = {
                "id": id, "name": op.name, "group": self.groups.of_call(op.call), "kind": "lost", "op": op.name,
                **self._where(op), **self._tensor(tensor, None), "order": None, "received": None, "saved": 0,
                "state": "lost",
            }  # fmt: skip
            self.times[id] = float(op.time)
        return id

    def _ghost_leaf(self, tensor: int, said: str | None) -> str:
        accumulator = next((f"n{n}" for n in self.facts.accumulators.get(tensor, ()) if n in self.picture.nodes), None)
        node = self.trace.tensors[tensor].node
        known = accumulator or (f"n{node}" if node is not None and node in self.picture.nodes else None)
        if known is not None:
            return known
        id = f"t{tensor}"
        if id not in self.nodes:
            self.nodes[id] = {
                "id": id, "name": "leaf", "group": ROOT, "kind": "lost-leaf", "op": None, "order": None,
                "received": None, "saved": 0, "state": "lost", "file": None, "line": None, **self._tensor(tensor, tensor),
            }  # fmt: skip
            self.times[id] = 0.0
        if said is not None:
            self.nodes[id]["cut"] = said
        return id

    def cause(self, place: int, finding: Finding) -> list[str | int]:
        """Return the nodes and boxes where a finding's gradient goes wrong; for a hook, those that have it."""
        if place in self.focus:
            return self.focus[place]
        if finding.file is None:
            return []
        if finding.code == "inplace-modified":
            return [f"n{node}" for node in self.record.damaged]
        if finding.code in LOSSES and not self.picture.nodes:  # backward() on a tensor without a graph
            return [node["id"] for node in self.nodes.values() if "cut" in node]
        file = self.files.number(finding.file)
        here = [node for node in self.nodes.values() if node["file"] == file]
        state = {"nan-born": "born", "zero-by-math": "stop"}.get(finding.code)
        return self._hooked(finding) or [
            node["id"] for node in here if node["line"] == finding.line and node["state"] == state
        ]

    def point(self, place: int, finding: Finding, cause: list[str | int]) -> None:
        """Mark what a finding is about: its own tensor first, then the cause, then its other subjects."""
        subjects = self._subjects(finding)
        own = [node for tensor in subjects for node in self._leaf(tensor)]
        if not own and not cause:
            own = self._guessed(finding, subjects)
        focus = list(dict.fromkeys([*own[:1], *cause, *own[1:]]))
        if focus:
            self.focus[place] = focus[:MOST_SUBJECTS]

    def _leaf(self, tensor: int) -> list[str | int]:
        """Return the node of a leaf, drawn with or without a gradient."""
        known = [f"n{node}" for node in self.facts.accumulators.get(tensor, ())]
        return [id for id in (*known, f"t{tensor}") if id in self.nodes]

    def _made(self, tensor: int) -> list[str | int]:
        """Return the nodes of a computed tensor; if another pass had it, those that were made in the same way."""
        found: list[str | int] = [f"n{node}" for node in self.facts.nodes_of(tensor) if node in self.picture.nodes]
        maker = self.trace.tensors[tensor].maker
        if found or maker is None:
            return found
        way = self._way(self.trace.ops[maker])
        made = ((node, self._op(node)) for node in self._outputs if node in self.picture.nodes)
        return [f"n{node}" for node, op in made if op is not None and self._way(op) == way]

    def _way(self, op: OpRecord) -> tuple[Any, ...]:
        """Return the name of an op, its line and its module: what repeats from step to step."""
        module = None if op.call is None else self.trace.calls[op.call].module
        return op.name, op.place and op.place.key, module

    def _guessed(self, finding: Finding, subjects: list[int]) -> list[str | int]:
        """Return the ops of the finding's line, of those its subjects' own if there are any; else those of its subjects."""
        made = [node for tensor in subjects for node in self._made(tensor)]
        named = [node["id"] for node in self.nodes.values() if node["tensor"] in finding.subjects]
        file = None if finding.file is None else self.files.number(finding.file)
        ops = [node for node in self.nodes.values() if file is not None and node["file"] == file and "row" not in node]
        here: list[str | int] = [node["id"] for node in ops if node["line"] == finding.line]
        also = [node["id"] for node in ops if node["line"] in finding.also_lines]
        both = [id for id in here if id in made or id in named]
        return next((found for found in (both, here, made, named, also) if found), [])

    def _hooked(self, finding: Finding) -> list[str | int]:
        """Return the nodes and boxes with the hooks that a finding names."""
        found: list[str | int] = []
        named = {int(text) for text in re.findall(r"hook at line (\d+)", " ".join(finding.subjects))}
        for hook in self.trace.hooks:
            if hook.place is None or hook.place.file != finding.file or hook.place.line not in named:
                continue
            if hook.module is not None:
                found += [box["id"] for box in self.groups.boxes[1:] if box["module"] == hook.module]
            elif f"n{hook.node}" in self.nodes:
                found.append(f"n{hook.node}")
            else:
                found += [node["id"] for node in self.nodes.values() if "row" in node and node["row"] == hook.tensor]
        return list(dict.fromkeys(found))

    # --- the result

    def data(self, title: str) -> dict[str, Any]:
        self._place_leaves()
        self._add_hooks()
        self.groups.number_repeats()
        nodes = list(self.nodes.values())
        self.groups.split_levels(nodes, self.times)
        record = self.record
        return {
            "id": record.id, "title": title, "kind": record.kind, "at": self.files.place(record.place),
            "error": record.error, "value": number(self.picture.value),
            "roots": [f"n{self._root(root)}" for root in record.roots if self._root(root) is not None],
            "saved": sum(node["saved"] for node in nodes),
            "nodes": nodes, "edges": self.edges, "groups": self.groups.boxes,
            "findings": {str(place): list(dict.fromkeys(ids)) for place, ids in self.focus.items() if ids},
        }  # fmt: skip

    def _root(self, tensor: int) -> int | None:
        """Return the node at which the pass began."""
        if self.trace.tensors[tensor].node in self.picture.nodes:
            return self.trace.tensors[tensor].node
        return next((node for node in self.facts.nodes_of(tensor) if node in self.picture.nodes), None)

    def _add_hooks(self) -> None:
        """List the hooks of each node and box."""
        boxes: dict[int, list[dict[str, Any]]] = {}
        for box in self.groups.boxes[1:]:
            boxes.setdefault(box["module"], []).append(box)
        leaves = {node["row"]: node for node in self.nodes.values() if "row" in node}
        for hook in self.trace.hooks:
            on: list[dict[str, Any]] = []
            if hook.module is not None:
                on = boxes.get(hook.module, [])
            elif hook.node is not None and f"n{hook.node}" in self.nodes:
                on = [self.nodes[f"n{hook.node}"]]
            elif hook.tensor in leaves:
                on = [leaves[hook.tensor]]
            for owner in on:
                owner.setdefault("hooks", []).append(hook.id)


def _value_state(norm: float | None) -> str:
    if norm is None:
        return "none"
    return "nan" if norm != norm or norm in (float("inf"), float("-inf")) else "zero" if norm == 0 else "ok"


def _state(sample: NodeSample, born: bool, stops: bool, damaged: bool) -> str:
    """Return the state of a node.

    born: NaN or Inf first appeared here; stop: the gradient became zero here; damaged: a saved value was overwritten.
    """
    if damaged:
        return "damaged"
    if sample.order is None:
        return "idle"
    if born:
        return "born"
    return "stop" if stops else _value_state(sample.received)
