"""`why.memory`: the memory that a graph holds until its backward pass, by operation and by source line."""

from __future__ import annotations

import re
from typing import Any

from undertow.why.objects import freed, places, roots_of, saved_tensors, short_name, storage_key, walk
from undertow.why.places import Place
from undertow.why.report import Report, Table, bytes_text

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


class Held:
    """A saved tensor, counted for the first node that holds its memory."""

    __slots__ = ("bytes", "name", "op", "place", "shape")

    def __init__(self, op: str, name: str, shape: tuple[int, ...], size: int, place: Place | None) -> None:
        self.op = op
        self.name = name
        self.shape = shape
        self.bytes = size
        self.place = place


class memory(Report):
    """Count the bytes that the graph of some tensors holds. Shared memory counts once, for the node nearest to a root.

    Leaves (parameters) are kept by the program itself and are counted separately. Source lines are known for graphs
    that were made inside `torch.autograd.set_detect_anomaly(True)`.

    >>> from undertow import why
    >>> x = torch.ones(256, requires_grad=True)
    >>> report = why.memory(x.exp().sum())
    >>> report.bytes, report.by_op()
    (1024, {'ExpBackward0': 1024})
    """

    def __init__(self, *roots: Any) -> None:
        self.held: list[Held] = []
        self.leaf_bytes = 0
        self.nodes = 0
        self.freed = False
        nodes = list(walk(roots_of(list(roots))))
        leaves = {storage_key(node.variable) for node in nodes if getattr(node, "variable", None) is not None}
        counted: set[Any] = {None}
        for node in nodes:
            self.nodes += 1
            place = _made_at(node)
            if not self.freed and freed(node):
                self.freed = True
            for name, tensor in saved_tensors(node):
                key = storage_key(tensor)
                if key in counted:
                    continue
                counted.add(key)
                size = tensor.untyped_storage().nbytes()
                if key in leaves:
                    self.leaf_bytes += size
                else:
                    self.held.append(Held(short_name(node), name, tuple(tensor.shape), size, place))

    @property
    def bytes(self) -> int:
        """The bytes that freeing the graph would free; leaves are not counted."""
        return sum(held.bytes for held in self.held)

    def by_op(self) -> dict[str, int]:
        """Return the bytes per kind of node, largest first."""
        return self._by(lambda held: held.op)

    def by_line(self) -> dict[tuple[str, int] | None, int]:
        """Return the bytes per (file, line) that made the nodes, largest first. The key None means unknown."""
        return self._by(lambda held: None if held.place is None else held.place.key)

    def _by(self, key: Any) -> dict[Any, int]:
        total: dict[Any, int] = {}
        for held in self.held:
            total[key(held)] = total.get(key(held), 0) + held.bytes
        return dict(sorted(total.items(), key=lambda item: -item[1]))

    def title(self) -> str:
        leaves = f" and {bytes_text(self.leaf_bytes)} of leaves" if self.leaf_bytes else ""
        return f"{bytes_text(self.bytes)}{leaves} held by {self.nodes} nodes"

    def tables(self) -> list[Table]:
        found = []
        ops: list[tuple[Any, ...]] = []
        for op, size in self.by_op().items():
            own = [held for held in self.held if held.op == op]
            largest = max(own, key=lambda held: held.bytes)
            ops.append((op, len(own), size, bytes_text(size), f"{largest.name} {list(largest.shape)}"))
        if ops:
            found.append(Table(("op", "tensors", "bytes", "size", "largest"), ops, "operations"))
        known: dict[tuple[str, int], Place] = {
            held.place.key: held.place for held in self.held if held.place is not None
        }
        lines: list[tuple[Any, ...]] = [
            (known[key] if key is not None else "not known", size, bytes_text(size))
            for key, size in self.by_line().items()
        ]
        if known:
            found.append(Table(("line", "bytes", "size"), lines, "lines"))
        return found

    def notes(self) -> list[str]:
        notes = []
        if self.freed:
            notes.append("a backward pass has freed part of the graph; the memory that part held is not counted")
        if self.held and all(held.place is None for held in self.held):
            notes.append("source lines are known for graphs made inside torch.autograd.set_detect_anomaly(True)")
        return notes


def _made_at(node: Any) -> Place | None:
    """Return the user's line that made a node, from the stack that anomaly mode stores with the node."""
    stack = getattr(node, "metadata", {}).get("traceback_")
    if not stack:
        return None
    finder = places()
    for file, line in reversed(_FRAME.findall("".join(stack))):
        if finder.is_user_file(file):
            return finder.of_line(file, int(line))
    return None
