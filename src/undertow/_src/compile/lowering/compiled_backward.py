"""The backward pass of a compiled function whose result has a graph: one more program, made when it is needed.

The forward program also returns what the trace saved for the backward pass. All of the graph becomes one node that holds
those values; when a backward pass reaches it, the recorded graph is run once with unknown values and becomes the backward
program. Hooks inside are treated as in a compiled step; those on parameters and arguments belong to the outer pass and
fire there.

A pass that is itself recorded (create_graph=True) records the run of the graph. The gradients then have a
graph like the first one, with a backward program of its own, and so on to any order.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from heapq import heappop
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from undertow._src.arrays.device.array import DeviceArray, lying
from undertow._src.arrays.device.memory import Buffer, Compiling, Deferred, NeedsValue
from undertow._src.arrays.device.placement import jax_device
from undertow._src.arrays.namespaces import DeviceNamespace
from undertow._src.arrays.precision import Precision
from undertow._src.arrays.target import options_for
from undertow._src.base import errors, tracer
from undertow._src.base.modes import local
from undertow._src.compile.callbacks.hook_placement import HookPlacer
from undertow._src.compile.callbacks.registrations import Registrations
from undertow._src.compile.errors import CompileError, explained
from undertow._src.compile.lowering.segments import Segment, segments_of
from undertow._src.compile.plan import Plan, Retrace
from undertow._src.compile.tracing.results import is_spent, nodes_behind, scalars_in, tensors_in
from undertow._src.compile.tracing.symbolic_scalars import NumbersOfCall, ScalarGuard, SymbolicScalar, all_hold
from undertow._src.compile.tracing.trace_state import Trace
from undertow._src.engine import engine
from undertow._src.engine.node import AccumulateGrad, Edge, Node, edge_of, keep_gradient
from undertow._src.engine.saved import Freed
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.devices import device as Device

if TYPE_CHECKING:
    from undertow._src.compile.tracing.capture import Capture


_Strides = tuple[int, ...] | None  # of an array that is not contiguous
_Found = tuple[list[Any], list[_Strides], list[Any]]  # gradients, their strides, and other kept values


class Graph:
    """A graph recorded during a trace: its ends, and the buffers that hold what it saved."""

    device: Device
    roots: list[Edge]
    leaf_edges: list[Edge]
    leaves: list[Any]
    kept: list[Buffer]  # buffers of its own
    read: list[Buffer]  # buffers of the tensors that it was recorded with
    held: list[tuple[Any, DeviceArray]]  # those tensors, and the buffers that stand for theirs
    versions: list[tuple[Any, int]]  # their storages and versions
    registrations: Registrations
    scalars: list[tuple[SymbolicScalar, DeviceArray]]  # numbers of a call, and buffers that keep them
    ends: dict[Edge, Edge]  # by edges into other parts of a graph, at which this part ends; see `segments`
    other_nodes: set[Node]  # the nodes of all parts

    def __init__(self) -> None:
        self.programs: dict[Any, tuple[Callable[..., Any], HookPlacer, list[ScalarGuard], list[_Strides]]] = {}
        self.further: dict[Any, GraphOfGradients] = {}
        self.plan = Plan()
        self.plan.all_inside = True

    def run(self, call: CompiledBackward, grads: Sequence[Any]) -> tuple[Any, ...]:
        """Return the gradients of the leaves, for a call of the function."""
        return tuple(self._run(tuple([g is not None for g in grads]), self._backward, call, grads)[0])

    def go_back_recorded(self, call: CompiledBackward, grads: Sequence[Any]) -> tuple[Any, ...]:
        """Return the gradients of the leaves, recorded: they can be differentiated again."""
        defined = tuple([g is not None for g in grads])
        found, more = self._run(defined, self._recorded, call, grads)
        graph = self.further[defined]
        before = tuple([edge_of(g) if g._requires_grad else None for g in grads if g is not None])
        node = CompiledBackward(graph, (*before, *call._edges), [*call.kept, *more], call.read, call.numbers)
        results: list[Any] = [None if array is None else wrap(array) for array in found]
        for number, place in enumerate(graph.places):
            results[place]._edge, results[place]._requires_grad = (node, number), True
        return tuple(results)

    def _run(
        self, defined: tuple[bool, ...], body: Callable[..., Any], call: CompiledBackward, grads: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        Deferred.run()  # before the program keeps the device busy
        given = [_raw(g) for g in grads if g is not None]
        strides = tuple([_strides_of(g) for g in grads if g is not None])
        key = body.__name__, defined, strides, Precision.float32_products
        known = self.programs.get(key)
        if (
            known is None
            or any(each.changed() for each in known[1].in_program.reads)
            or not all_hold(known[2], call.numbers)
        ):
            placer, asked = HookPlacer(self.plan, self.registrations), list[ScalarGuard]()
            options = options_for(jax_device(self.device).platform)
            numbers, layouts = NumbersOfCall(self.scalars, call.numbers, asked), list[Any]()
            traced = self._traced(defined, strides, placer, body, numbers, layouts)
            known = self.programs[key] = (jax.jit(traced, compiler_options=options), placer, asked, layouts)
        program, placer, _, layouts = known
        placer.mirrors.begin(())
        try:
            found, more = program(call.kept, call.read, given)
        except Retrace:  # the plan knows more about the hooks now
            del self.programs[key]
            return self._run(defined, body, call, grads)
        except (NeedsValue, jax.errors.ConcretizationTypeError) as error:
            raise explained(error) from None
        if placer.calls.has_inside:
            jax.block_until_ready(found)
            jax.effects_barrier()
            if placer.calls.raised:
                raise placer.calls.raised.pop()
        arrays = [None if value is None else DeviceArray(value, self.device) for value in found]
        for array, laid in zip(arrays, layouts, strict=True):
            if array is not None:
                array.buffer.strides = laid
        return arrays, more

    def _traced(
        self,
        defined: tuple[bool, ...],
        strides: Sequence[_Strides],
        placer: HookPlacer,
        body: Callable[..., Any],
        numbers: NumbersOfCall,
        layouts: list[_Strides],
    ) -> Callable[..., Any]:
        """Return the function that is jitted; a trace of it notes the strides of the gradients in `layouts`."""

        def traced(kept: list[Any], read: list[Any], grads: list[Any]) -> Any:
            trace = Trace(self.device)
            trace.placer = placer
            buffers = [*self.kept, *self.read]
            before = [(buffer, buffer.value, buffer.host) for buffer in buffers]
            arrays = [(tensor, tensor._array) for tensor, _ in self.held]
            versions = [(storage, storage.version) for storage, _ in self.versions]
            hidden = [(leaf._meta, leaf._meta.hooks) for leaf in self.leaves]
            try:
                with trace, nullcontext() if self.plan.splitter is None else self.plan.splitter.code:
                    for buffer, value in zip(buffers, [*kept, *read], strict=True):
                        buffer.value, buffer.host, buffer.writes = value, None, buffer.writes + 1
                        trace.memory.buffers[id(buffer)] = (buffer, value, buffer.writes)
                    for tensor, held in self.held:
                        tensor._array = held
                    for storage, version in self.versions:  # every call saves these values
                        storage.version = version
                    for meta, _ in hidden:
                        meta.hooks = None
                    numbers.show()
                    seeds = [DeviceArray(value) for value in grads]
                    for seed, laid in zip(seeds, strides, strict=True):
                        seed.lie_with(laid)
                    found, layouts[:], more = body(defined, seeds, trace)
                    placer.finish()
                    if trace.host_inputs:
                        raise CompileError(
                            "undertow.compile: the backward pass of a compiled function draws random numbers, which is "
                            "only supported inside a compiled step. Compile the whole step, with its backward()."
                        )
                    return found, more
            finally:
                numbers.take_back()
                for meta, own in hidden:
                    meta.hooks = own
                for storage, version in versions:
                    storage.version = version
                for tensor, array in arrays:
                    tensor._array = array
                for buffer, value, host in before:
                    buffer.value, buffer.host, buffer.writes = value, host, buffer.writes + 1

        def program(kept: list[Any], read: list[Any], grads: list[Any]) -> Any:
            with Compiling() as compiling:
                compiling.take([tensor for tensor, _ in self.held])
                return traced(kept, read, grads)

        return program

    def _backward(self, defined: tuple[bool, ...], seeds: list[Any], trace: Trace) -> _Found:
        roots = [edge for edge, is_defined in zip(self.roots, defined) if is_defined]
        found = engine.run(roots, seeds, True, False, self.leaf_edges, accumulates=False)
        return [None if g is None else _raw(g) for g in found], [*map(_strides_of, found)], []

    def _recorded(self, defined: tuple[bool, ...], seeds: list[Any], trace: Trace) -> _Found:
        roots = [edge for edge, is_defined in zip(self.roots, defined) if is_defined]
        tensors = [wrap(seed) for seed in seeds]
        for tensor in tensors:
            tensor._requires_grad = True
        found = engine.run(roots, tensors, True, True, self.leaf_edges, accumulates=False)
        graph = self.further[defined] = GraphOfGradients(self, tensors, found)
        known = {id(scalar) for scalar, _ in self.scalars}
        new = [scalar for scalar, _ in scalars_in(nodes_behind(graph.roots)) if id(scalar) not in known]
        graph.scalars = [*self.scalars, *[(scalar, DeviceArray(scalar.traced)) for scalar in new]]
        values, layouts = [None if g is None else _raw(g) for g in found], [*map(_strides_of, found)]
        del found, tensors, seeds
        gc.collect()
        graph.kept += trace.living()
        return values, layouts, [buffer.value for buffer in graph.kept[len(self.kept) :]]


class GraphOfGradients(Graph):
    """The graph of the gradients that a recorded backward pass computed."""

    def __init__(self, before: Graph, seeds: list[Any], found: list[Any]) -> None:
        super().__init__()
        self.device, self.read, self.held, self.versions = before.device, before.read, before.held, before.versions
        self.registrations, self.kept, self.scalars = before.registrations, list(before.kept), before.scalars
        self.places = [place for place, g in enumerate(found) if g is not None and g._edge is not None]
        self.roots = [found[place]._edge for place in self.places]
        self.leaf_edges = [*[edge_of(seed) for seed in seeds], *before.leaf_edges]
        self.leaves = before.leaves
        self.plan.splitter = before.plan.splitter
        self.ends, self.other_nodes = before.ends, before.other_nodes
        for node in nodes_behind(self.roots) if self.ends else ():
            if node not in self.other_nodes:  # it uses the saved values of this part, and results of other parts
                node._edges = tuple([edge if edge is None else self.ends.get(edge, edge) for edge in node._edges])


class PartOfGraph(Graph):
    """A part of the graph of a program's results; see `segments`."""

    def __init__(self, whole: WayBack, segment: Segment) -> None:
        super().__init__()
        self.device, self.held, self.versions = whole.device, whole.held, whole.versions
        self.leaves, self.kept, self.read = whole.leaves, whole.kept, whole.read
        self.registrations, self.scalars, self.plan.splitter = whole.registrations, whole.scalars, whole.splitter
        self.roots, self.ways_on = segment.roots, segment.ways_on
        self.leaf_edges = [*whole.leaf_edges, *segment.ends.values()]
        self.ends, self.other_nodes = segment.ends, segment.everything


class WayBack:
    """The graph of a step's results, as the trace left it."""

    @staticmethod
    def of(capture: Capture, kept: list[Buffer]) -> WayBack | None:
        """Return the graph of a step's results; None if they have none, or backward passes have freed it."""
        left = tensors_in(capture.left.parts(), capture.left.known)
        for tensor in left:
            if tensor._edge is not None:
                tensor._edge = _unless_spent(tensor._edge)
        roots = [tensor._edge for tensor in left if tensor._edge is not None and not is_spent(tensor._edge[0])]
        return WayBack(capture, kept, left, nodes_behind(roots)) if roots else None

    def __init__(self, capture: Capture, kept: list[Buffer], left: list[Any], nodes: list[Node]) -> None:
        trace, its = capture.trace, capture.inputs
        self.device, self.held = its.device, list(trace.memory.adopted)
        self.known = its.known
        self.versions = [(storage, storage.version) for storage in [tensor._get_storage() for tensor, _ in self.held]]
        self.edges = [None if tensor._edge is None or is_spent(tensor._edge[0]) else tensor._edge for tensor in left]
        own = its.given.own()
        in_turn = _in_turn(nodes)
        leaf_nodes = _delivered([node for node in in_turn if id(node.variable) not in own])
        leaf_nodes += [node for node in in_turn if id(node.variable) in own]
        self.leaf_edges = [(node, 0) for node in leaf_nodes]
        self.leaves = [node.variable for node in leaf_nodes]
        self.leaf_arguments = [own.get(id(leaf)) for leaf in self.leaves]
        self.kept = kept  # the values that the backward pass reads
        shown = {id(array.buffer) for array in _arrays_left(capture)}
        self.only_kept = [buffer for buffer in self.kept if id(buffer) not in shown]
        self.read = [buffer for buffer, _, _ in trace.memory.buffers.values()]
        given = {id(held.buffer): (tensor, held) for tensor, held in trace.memory.adopted if id(tensor) in own}
        self.read_from = [own[id(given[id(buffer)][0])] if id(buffer) in given else None for buffer in self.read]
        self.stand_ins = [pair for pair in given.values() if its.given.stands_in(own[id(pair[0])])]
        self.registrations, self.scalars = its.registrations, capture.left.scalars
        self.splitter = capture.splitter
        for tensor in left:
            if tensor._edge is not None and tensor._edge[0]._extras is not None:
                tensor._edge[0]._extras.retained.clear()  # the results of this call will keep the gradients
        self.parts = [
            PartOfGraph(self, each) for each in segments_of([edge for edge in self.edges if edge is not None])
        ]
        self.places = [None if edge is None else self._place(edge) for edge in self.edges]

    def _place(self, edge: Edge) -> tuple[int, int]:
        return next((number, part.roots.index(edge)) for number, part in enumerate(self.parts) if edge in part.roots)

    def claim(self, left: list[Any], arguments: list[Any], numbers: list[float]) -> None:
        """Give nodes with this call's values to the results of a call, and to tensors that it left elsewhere."""
        for tensor, held in self.stand_ins:  # the graph keeps its stand-ins
            tensor._array = held
        places = zip(self.leaf_edges, self.leaf_arguments)
        edges = tuple([edge if place is None else edge_of(arguments[place]) for edge, place in places])
        read = [
            _at_present(_present(buffer) if place is None else _raw(arguments[place]))
            for buffer, place in zip(self.read, self.read_from)
        ]
        kept = [buffer.value for buffer in self.kept]
        nodes: dict[int, CompiledBackward] = {}
        for number, part in reversed([*enumerate(self.parts)]):
            ways_on = [(nodes[way.segment], way.root) for way in part.ways_on]
            nodes[number] = CompiledBackward(part, (*edges, *ways_on), list(kept), list(read), numbers)
        for buffer in self.only_kept:
            buffer.value = None
        for tensor, place in zip(tensors_in(left, self.known), self.places, strict=True):
            if place is not None:
                tensor._edge = (nodes[place[0]], place[1])
                if tensor._meta is not None and tensor._meta.retains:
                    keep_gradient(tensor._edge, tensor)


class Spent(Node):
    """A node in front of a graph of which a backward pass inside the step has freed a part."""

    __slots__ = ("saved",)
    _hides_inputs = True

    def __init__(self, node: Node, freed: Freed) -> None:
        self._edges = ()
        self._order = node._order
        self._extras = self._tensor_hooks = None
        self.saved = freed

    def _run(self, xp: Any, g: Any, needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        raise errors.freed_graph(self._node_name(), self.saved.at)


def _unless_spent(edge: Edge) -> Edge:
    """Return an edge into a graph or, if it is freed, to a node of the same name that raises the error."""
    freed = next((node for node in nodes_behind([edge]) if is_spent(node)), None)
    if freed is None or freed is edge[0]:
        return edge
    return type(type(edge[0]).__name__, (Spent,), {"__slots__": ()})(edge[0], freed.saved), 0  # type: ignore[attr-defined]


class CompiledBackward(Node):
    """A compiled function in the graph, or a part of one."""

    _tells_absence = False  # in eager mode its results have nodes of their own

    __slots__ = ("graph", "kept", "read", "numbers", "freed", "_n_outputs")

    def __init__(
        self, graph: Graph, edges: tuple[Edge | None, ...], kept: list[Any], read: list[Any], numbers: list[float]
    ) -> None:
        self._edges = edges
        self._order = next(local.modes.sequence)
        self._extras = None
        self._tensor_hooks = None
        self.graph, self.kept, self.read, self.numbers = graph, kept, read, numbers
        self.freed: Freed | None = None
        self._n_outputs = len(graph.roots)

    def _run(self, xp: Any, g: Any, needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        if self.freed is not None:
            raise errors.freed_graph(self._node_name(), self.freed.at)
        if tracer.current is not None:
            raise CompileError(
                "undertow.compile: a backward pass inside the step reaches the graph of an earlier call. Use detach() on "
                "what is carried from call to call, or call backward() outside of the step."
            )
        grads = [g] if self._n_outputs == 1 else list(g)
        if xp.RECORDED:
            return self.graph.go_back_recorded(self, grads)
        results = self.graph.run(self, grads)
        return (
            results if isinstance(xp, DeviceNamespace) else tuple([None if r is None else r.on_host() for r in results])
        )

    def _release(self, freed: Freed) -> None:
        self.freed = freed
        self.kept, self.read = [], []


def _raw(g: Any) -> Any:
    array = g._array if isinstance(g, TensorCore) else g
    return array.value if type(array) is DeviceArray else array


def _strides_of(g: Any) -> _Strides:
    """Return a gradient's strides; None if it is contiguous or absent."""
    if g is None:
        return None
    array = lying(g._array if isinstance(g, TensorCore) else g)
    return None if array.flags.c_contiguous or min(array.strides) < 0 else array.strides


def _at_present(value: Any) -> Any:
    """Return a copy of a value, so that later writes to NumPy's memory do not reach the backward pass."""
    return value.copy() if isinstance(value, np.ndarray) else value


def _present(buffer: Buffer) -> Any:
    return buffer.value if buffer.host is None else buffer.host


def _arrays_left(capture: Capture) -> list[DeviceArray]:
    """Return the arrays of a program's results and of tensors that it left elsewhere."""
    tensors = tensors_in(capture.left.parts(), capture.left.known)
    tensors += [each._meta.grad for each in tensors if each._meta is not None and each._meta.grad is not None]
    arrays = [tensor._array for tensor in tensors] + [
        array for later in capture.callbacks.after for array in later.view.captured
    ]
    return [array for array in arrays if type(array) is DeviceArray]


def _in_turn(nodes: list[Node]) -> list[AccumulateGrad]:
    """Return the leaves' nodes in the order in which a backward pass finishes them."""
    turns: dict[Any, tuple[int, int]] = {}
    for node in nodes:
        for place, edge in enumerate(node._edges):
            if edge is not None and isinstance(edge[0], AccumulateGrad):
                turn = (-node._order, place)  # nodes run from the latest to the first
                turns[edge[0]] = max(turn, turns.get(edge[0], turn))
    return sorted(turns, key=turns.__getitem__)


def _delivered(nodes: list[AccumulateGrad]) -> list[AccumulateGrad]:
    """Return the order in which a node has to pass on gradients, so that the engine runs the next nodes in this order.

    These nodes become ready together with equal numbers, and a heap does not keep the order of equal entries.
    """
    heap = [_Place(place) for place in range(len(nodes))]
    found = [heappop(heap).place for _ in nodes]
    return [node for _, node in sorted(zip(found, nodes), key=lambda pair: pair[0])]


class _Place:
    """Something on a heap that is no smaller than others, as a node is."""

    def __init__(self, place: int) -> None:
        self.place = place

    def __lt__(self, other: _Place) -> bool:
        return False
