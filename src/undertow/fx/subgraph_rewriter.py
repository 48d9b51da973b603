"""`replace_pattern`: replace every match of a pattern in a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from undertow.fx._symbolic_trace import symbolic_trace
from undertow.fx.graph import Graph
from undertow.fx.graph_module import GraphModule
from undertow.fx.node import Node

__all__ = ["Match", "replace_pattern"]


class Match(NamedTuple):
    """A match that was replaced: its last node, and the pattern's nodes mapped to the graph's."""

    anchor: Node
    nodes_map: dict[Node, Node]


def _graph_of(program: Any) -> Graph:
    return program.graph if isinstance(program, GraphModule) else symbolic_trace(program).graph


def _matches(pattern: Any, found: Any, pairs: dict[Node, Node]) -> bool:
    """Whether an argument of the graph matches the pattern's; `pairs` records the matching nodes."""
    if isinstance(pattern, Node):
        if not isinstance(found, Node):
            return False
        if pattern in pairs:
            return pairs[pattern] is found
        if pattern.op == "placeholder":
            pairs[pattern] = found
            return True
        if (pattern.op, pattern.target) != (found.op, found.target):
            return False
        pairs[pattern] = found
        return _matches(pattern.args, found.args, pairs) and _matches(pattern.kwargs, found.kwargs, pairs)
    if isinstance(pattern, (list, tuple)):
        same = isinstance(found, (list, tuple)) and len(pattern) == len(found)
        return same and all(_matches(p, f, pairs) for p, f in zip(pattern, found, strict=True))
    if isinstance(pattern, dict):
        same = isinstance(found, dict) and pattern.keys() == found.keys()
        return same and all(_matches(pattern[key], found[key], pairs) for key in pattern)
    return type(pattern) is type(found) and pattern == found


def _is_closed(pairs: dict[Node, Node], last: Node) -> bool:
    """Whether no node outside the match uses its inner nodes, which will be removed."""
    inside = {found for pattern, found in pairs.items() if pattern.op != "placeholder"}
    return all(user in inside for found in inside if found is not last for user in found.users)


def replace_pattern(
    gm: GraphModule, pattern: Callable[..., Any] | GraphModule, replacement: Callable[..., Any] | GraphModule
) -> list[Match]:
    """Replace all matches that do not overlap, recompile the module, and return the matches.

    Pattern and replacement must have the same inputs and one output.
    """
    shape, new = _graph_of(pattern), _graph_of(replacement)
    end = shape.output_node().args[0]
    if not isinstance(end, Node):
        raise NotImplementedError("undertow replaces only patterns that return one value")
    matches: list[Match] = []
    gone: set[Node] = set()
    for node in list(gm.graph.nodes):
        pairs: dict[Node, Node] = {}
        if node.op in ("placeholder", "output") or not _matches(end, node, pairs) or not _is_closed(pairs, node):
            continue
        inside = {found for inner, found in pairs.items() if inner.op != "placeholder"}
        if inside & gone:
            continue
        gone |= inside
        matches.append(Match(node, pairs))
    inputs = [node for node in shape.nodes if node.op == "placeholder"]
    replaced: dict[Node, Node] = {}
    for anchor, pairs in matches:
        given = [replaced.get(pairs[node], pairs[node]) for node in inputs if node in pairs]
        values = dict(zip([node for node in new.nodes if node.op == "placeholder"], given, strict=False))
        with gm.graph.inserting_before(anchor):
            result = gm.graph.graph_copy(new, values)
        anchor.replace_all_uses_with(result)
        replaced[anchor] = result
        for found in sorted((f for p, f in pairs.items() if p.op != "placeholder"), reverse=True):
            gm.graph.erase_node(found)
    gm.recompile()
    return matches
