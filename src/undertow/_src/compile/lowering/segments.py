"""Segments: the graph of a step's results, cut so that every result is the root of a part.

User code outside of the step may use a result's gradient (in a hook, by `retain_grad`, as a derivative with respect to it),
and must do so before the graph below it runs. So a result from which others were computed begins a separate part. Graphs
that are not connected are separate parts, too, because backward passes free them separately.
"""

from __future__ import annotations

from typing import NamedTuple

from undertow._src.compile.tracing.results import nodes_behind
from undertow._src.engine.node import AccumulateGrad, Edge, Node


class Way(NamedTuple):
    """Where a gradient continues at the end of a part: the next part, and its root."""

    segment: int
    root: int


class Segment:
    """A part of the graph: the roots at which gradients come in, and the ends at which they leave for other parts."""

    def __init__(self) -> None:
        self.roots: list[Edge] = []
        self.ends: dict[Edge, Edge] = {}  # by the edge that is cut
        self.ways_on: list[Way] = []  # of each end
        self.everything: set[Node] = set()  # the nodes of all parts

    def root_at(self, edge: Edge) -> int:
        """Return the number of a root, added if it is new."""
        if edge not in self.roots:
            self.roots.append(edge)
        return self.roots.index(edge)


class Cut(Node):
    """Stands for a node of another part."""

    __slots__ = ()

    def __init__(self, node: Node) -> None:
        self._edges = ()
        self._order = node._order
        self._extras = self._tensor_hooks = None


def segments_of(roots: list[Edge]) -> list[Segment]:
    """Cut a graph and return its parts, in the order in which gradients reach them."""
    behind = {edge: _inner(edge) for edge in dict.fromkeys(roots)}
    depths = _depths(behind)
    everything = set().union(*behind.values())
    depth_of = {node: max(depths[edge] for edge in behind if node in behind[edge]) for node in everything}
    segments: list[Segment] = []
    home: dict[Node, int] = {}
    for edge in sorted(behind, key=lambda edge: (depths[edge], -edge[0]._order)):
        own = {node for node in behind[edge] if depth_of[node] == depths[edge]}
        joined = {home[node] for node in own if node in home}
        segments.append(Segment())
        for number in joined:
            segments[-1].roots += segments[number].roots
            segments[number].roots.clear()
            home.update({node: len(segments) - 1 for node, where in home.items() if where == number})
        segments[-1].root_at(edge)
        home.update(dict.fromkeys(own, len(segments) - 1))
    used = [number for number, segment in enumerate(segments) if segment.roots]
    segments = [segments[number] for number in used]
    for segment in segments:
        segment.everything = everything
        segment.roots.sort(key=lambda edge: -edge[0]._order)  # in sequence, for hooks on them
    home = {node: used.index(where) for node, where in home.items()}
    for node, number in sorted(home.items(), key=lambda pair: -pair[0]._order):
        node._edges = tuple([_apart(edge, number, home, segments) for edge in node._edges])
    return segments


def _apart(edge: Edge | None, number: int, home: dict[Node, int], segments: list[Segment]) -> Edge | None:
    """Return an edge of a node in a segment or, if it leads into another segment, an edge to an end."""
    there = None if edge is None else home.get(edge[0])
    if edge is None or there is None or there == number:
        return edge
    segment = segments[number]
    if edge not in segment.ends:
        segment.ways_on.append(Way(there, segments[there].root_at(edge)))
        segment.ends[edge] = (Cut(edge[0]), 0)
    return segment.ends[edge]


def _inner(edge: Edge) -> set[Node]:
    """Return the nodes reached from an edge, without those of leaves."""
    return {node for node in nodes_behind([edge]) if not isinstance(node, AccumulateGrad)}


def _depths(behind: dict[Edge, set[Node]]) -> dict[Edge, int]:
    """Return, for each root, the largest number of roots that a gradient passes on its way there."""
    depths = dict.fromkeys(behind, 0)
    for edge in sorted(behind, key=lambda edge: -edge[0]._order):  # nodes below a node are older
        before = [depths[other] for other in behind if other[0] is not edge[0] and edge[0] in behind[other]]
        depths[edge] = max(before, default=-1) + 1
    return depths
