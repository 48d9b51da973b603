"""Record the autograd graph: number its nodes as they appear. A number lives as long as its node."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from undertow.why.places import Place
from undertow.why.trace import NodeRecord, OpRecord, TensorRecord

if TYPE_CHECKING:
    from undertow.why.watch.watcher import Watcher

_watches = itertools.count()
PASSES_ON = "BackwardHookFunction"  # wraps a module with backward hooks; output i is input i


class Graph:
    """Numbers nodes, and records the edges between them."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.engine = watcher.engine
        self.nodes = watcher.trace.nodes
        self.tag = f"undertow.why.{next(_watches)}"

    def number(self, node: Any) -> int | None:
        """Return the number of a node, if it has one."""
        return self.engine.number(node, self.tag)

    def take(self, node: Any, op: int | None) -> tuple[int, list[int]]:
        """Give numbers to a node and the nodes it leads to, up to known ones. Return (its number, all new numbers)."""
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
        """Record a computed tensor whose creation was not observed: add an op that is inferred from its graph."""
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
        inputs = self._before(node, tensor.output_nr) if passes_on else self._inputs_of(fresh)
        self.watcher.calls.add(
            OpRecord(
                id=len(trace.ops),
                time=trace.tick(),
                name=self.nodes[number].name,
                kind="unseen",
                place=place,
                inputs=inputs,
                inputs_require_grad=(True,) * len(inputs),
                outputs=(record.id,),
                outputs_require_grad=(True,),
                grad_mode=True,
                nodes=tuple(fresh),
                output_nodes=(number,),
            )
        )
        record.op = record.maker = len(trace.ops) - 1

    def _before(self, node: Any, place: int) -> tuple[int, ...]:
        """Return the tensor that is the input of a node at this position."""
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

    def _inputs_of(self, fresh: list[int]) -> tuple[int, ...]:
        """Return the tensors that new nodes start from: leaves, and results of ops recorded before."""
        trace, inside = self.watcher.trace, set(fresh)
        found: dict[int, None] = {}
        for number in fresh:
            leaf = self.nodes[number].leaf
            if leaf is not None:
                found[leaf] = None
            for child in self.nodes[number].next:
                if child not in inside:
                    before = self.nodes[child]
                    if before.leaf is not None:
                        found[before.leaf] = None
                    elif before.op is not None and before.op < len(trace.ops):
                        found.update(dict.fromkeys(trace.ops[before.op].outputs))
        return tuple(found)

    def walk(self, roots: Iterable[Any]) -> list[tuple[Any, int]]:
        """Return all nodes that can be reached, with their numbers."""
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
