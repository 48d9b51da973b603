"""The autograd graph: nodes are numbered as they appear, and the numbers go when they do."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from undertow.why.places import Place
from undertow.why.trace import NodeRecord, OpRecord, TensorRecord

if TYPE_CHECKING:
    from undertow.why.watch.watcher import Watcher

_watches = itertools.count()
PASSES_ON = "BackwardHookFunction"  # around a module with backward hooks: each output is the input of the same place


class Graph:
    """Tags nodes, and keeps the edges between them."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.engine = watcher.engine
        self.nodes = watcher.trace.nodes
        self.tag = f"undertow.why.{next(_watches)}"

    def number(self, node: Any) -> int | None:
        """Return the number of a node, if it has one."""
        return self.engine.number(node, self.tag)

    def take(self, node: Any, op: int | None) -> tuple[int, list[int]]:
        """Numbers a node and what lies behind it up to what is known: (its number, the new numbers)."""
        tag, nodes, engine = self.tag, self.nodes, self.engine
        known = engine.number(node, tag)
        if known is not None:
            return known, []
        fresh: list[tuple[NodeRecord, list[Any]]] = []
        stack = [node]
        while stack:
            current = stack.pop()
            if engine.number(current, tag) is not None:
                continue
            record = NodeRecord(len(nodes), engine.node_name(current), op, ())
            engine.set_number(current, tag, record.id)
            nodes.append(record)
            children = engine.children(current)
            fresh.append((record, children))
            if children:
                stack.extend(children)
            elif record.name == "AccumulateGrad":
                record.leaf = self._leaf(current.variable)
        for record, children in fresh:
            record.next = tuple([engine.number(child, tag) for child in children])  # type: ignore[misc]
        return fresh[0][0].id, [record.id for record, _ in fresh]

    def _leaf(self, variable: Any) -> int:
        tensors = self.watcher.tensors
        record = tensors.find(variable)
        if record is None:
            record = tensors.make(variable, self.watcher.here())
        return record.id

    def adopt(self, tensor: Any, record: TensorRecord, place: Place | None) -> None:
        """Take in a computed tensor whose making was not seen: an op is made up from the graph behind it."""
        node = self.watcher.engine.node(tensor)
        if node is None:
            return
        trace = self.watcher.trace
        known = self.number(node)
        passes_on = self.watcher.engine.node_name(node).startswith(PASSES_ON)
        if known is not None and not passes_on:
            record.node = known
            record.op = record.maker = self.nodes[known].op
            return
        number, fresh = self.take(node, len(trace.ops))
        record.node = number
        inputs = self._before(node, tensor.output_nr) if passes_on else self._behind(fresh)
        self.watcher.calls.add(
            OpRecord(
                id=len(trace.ops),
                time=trace.tick(),
                name=self.nodes[number].name,
                kind="unseen",
                place=place,
                inputs=inputs,
                asked=(True,) * len(inputs),
                outputs=(record.id,),
                gave=(True,),
                grad_mode=True,
                nodes=tuple(fresh),
                output_nodes=(number,),
            )
        )
        record.op = record.maker = len(trace.ops) - 1

    def _before(self, node: Any, place: int) -> tuple[int, ...]:
        """Return the tensor that a node got as the one of its inputs."""
        child = node.next_functions[place][0]
        number = None if child is None else self.number(child)
        if number is None:
            return ()
        record, ops = self.nodes[number], self.watcher.trace.ops
        if record.leaf is not None:
            return (record.leaf,)
        if record.op is None or record.op >= len(ops):
            return ()
        made = ops[record.op]
        return tuple([output for output, by in zip(made.outputs, made.output_nodes) if by == number])

    def _behind(self, fresh: list[int]) -> tuple[int, ...]:
        """Return the tensors from which new nodes go out: leaves, and results of ops that were known before."""
        trace, inside = self.watcher.trace, set(fresh)
        found: dict[int, None] = {}
        for number in fresh:
            leaf = self.nodes[number].leaf
            if leaf is not None:
                found[leaf] = None
            for child in self.nodes[number].next:
                if child not in inside:
                    behind = self.nodes[child]
                    if behind.leaf is not None:
                        found[behind.leaf] = None
                    elif behind.op is not None and behind.op < len(trace.ops):
                        found.update(dict.fromkeys(trace.ops[behind.op].outputs))
        return tuple(found)

    def walk(self, roots: Iterable[Any]) -> list[tuple[Any, int]]:
        """All nodes that can be reached, as objects, with their numbers."""
        seen: set[int] = set()
        found: list[tuple[Any, int]] = []
        stack = list(roots)
        for root in stack:
            self.take(root, None)
        while stack:
            node = stack.pop()
            number = self.engine.number(node, self.tag)
            if number is None or number in seen:
                continue
            seen.add(number)
            found.append((node, number))
            stack.extend(self.engine.children(node))
        return found
