"""The tree of boxes that a graph is collapsed into: module calls, and parts of crowded levels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from undertow.why.facts.facts import Facts

ROOT = 0
MOST_ON_A_LEVEL = 48  # boxes and nodes on one level; above that they are split into parts
PART = 24  # members of one part


class Groups:
    """Boxes by number. Box 0 is the whole program; a module call is a box inside the box of the call around it."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.boxes: list[dict[str, Any]] = [{"id": ROOT, "parent": None, "kind": "program", "label": "program"}]
        self.times: list[float] = [-1.0]
        self._of_call: dict[int, int] = {}

    def of_call(self, call: int | None) -> int:
        """Return the box of a module call."""
        if call is None:
            return ROOT
        known = self._of_call.get(call)
        if known is not None:
            return known
        record = self.facts.trace.calls[call]
        module = self.facts.trace.modules[record.module]
        parent = self.of_call(record.parent)
        box: dict[str, Any] = {
            "id": len(self.boxes), "parent": parent, "kind": "module", "label": self._label(call), "type": module.type,
            "module": record.module, "name": module.names[0] if module.names else None, "call": call,
        }  # fmt: skip
        self._of_call[call] = box["id"]
        self.boxes.append(box)
        self.times.append(record.time)
        return box["id"]

    def _label(self, call: int) -> str:
        """Return a module's name relative to the module whose call contains it: `blocks.0`, not `net.blocks[0]`."""
        trace = self.facts.trace
        record = trace.calls[call]
        module = trace.modules[record.module]
        around = None if record.parent is None else trace.calls[record.parent].module
        inner = None if around is None else self._path(around, record.module)
        return inner or (module.names[0] if module.names else module.type)

    def _path(self, outer: int, inner: int) -> str | None:
        """Return the shortest attribute path from a module to one inside it."""
        modules = self.facts.trace.modules
        seen = {outer}
        level = [("", outer)]
        while level:
            following = []
            for path, current in level:
                for name, child in modules[current].children.items():
                    if child == inner:
                        return path + name
                    if child not in seen:
                        seen.add(child)
                        following.append((f"{path}{name}.", child))
            level = following
        return None

    def of_module(self, module: int | None) -> int:
        """Return the first box of a module's calls, or of the nearest module around it that was called."""
        boxes = {box["module"]: box["id"] for box in reversed(self.boxes[1:])}
        level = [] if module is None else [module]
        while level:
            found = next((boxes[one] for one in level if one in boxes), None)
            if found is not None:
                return found
            level = [outer for one in level for outer in self.facts.module_parents.get(one, ())]
        return ROOT

    def around(self, box: int) -> list[int]:
        """Return a box and the boxes that contain it, outermost first."""
        found: list[int] = []
        current: int | None = box
        while current is not None:
            found.append(current)
            current = self.boxes[current]["parent"]
        return found[::-1]

    def common(self, boxes: Iterable[int]) -> int:
        """Return the innermost box that contains all of these."""
        paths = [self.around(box) for box in boxes]
        if not paths:
            return ROOT
        shared = ROOT
        for level in zip(*paths):
            if len(set(level)) > 1:
                break
            shared = level[0]
        return shared

    def number_repeats(self) -> None:
        """Add a number to the labels of a module that is called several times in one box."""
        repeats: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
        for box in self.boxes[1:]:
            repeats[box["parent"], box["module"]].append(box)
        for boxes in repeats.values():
            if len(boxes) > 1:
                for nth, box in enumerate(boxes, 1):
                    box["label"] += f" #{nth}"

    def split_levels(self, nodes: list[dict[str, Any]], times: dict[str, float]) -> None:
        """Split crowded levels into parts, in the order of the backward pass (latest first).

        On one level, gradients flow from later members to earlier ones. So between parts, too, they flow in one
        direction only.
        """
        for box in range(len(self.boxes)):
            self._split(box, nodes, times)

    def _split(self, box: int, nodes: list[dict[str, Any]], times: dict[str, float]) -> None:
        inside: list[tuple[float, dict[str, Any], str]] = [
            (self.times[other["id"]], other, "parent") for other in self.boxes[1:] if other["parent"] == box
        ]
        inside += [(times[node["id"]], node, "group") for node in nodes if node["group"] == box]
        inside.sort(key=lambda entry: -entry[0])
        while len(inside) > MOST_ON_A_LEVEL:
            parts: list[tuple[float, dict[str, Any], str]] = []
            count = -(-len(inside) // PART)
            for nth in range(count):
                members = inside[nth * PART : (nth + 1) * PART]
                lines = _lines(members)
                label = f"{_span(members, lines)} ({nth + 1}/{count})"
                part = {"id": len(self.boxes), "parent": box, "kind": "part", "label": label, "lines": lines}
                self.boxes.append(part)
                self.times.append(members[0][0])
                for _, member, key in members:
                    member[key] = part["id"]
                parts.append((members[0][0], part, "parent"))
            inside = parts


def _lines(members: list[tuple[float, dict[str, Any], str]]) -> list[int]:
    """Return the first and last line of a part's members; empty if none is known."""
    lines = [member["line"] for _, member, key in members if key == "group" and member["line"] is not None]
    lines += [line for _, member, _ in members for line in member.get("lines", ())]
    return [min(lines), max(lines)] if lines else []


def _span(members: list[tuple[float, dict[str, Any], str]], lines: list[int]) -> str:
    """Return a part's label: its first and last modules (`blocks.23 … blocks.0`), or its lines without modules."""
    modules = [member["label"] for _, member, _ in members if member.get("kind") == "module"]
    if modules:
        return modules[0] if len(modules) == 1 else f"{modules[0]} … {modules[-1]}"
    if lines:
        return f"line {lines[0]}" if lines[0] == lines[1] else f"lines {lines[0]}–{lines[1]}"
    return "part"
