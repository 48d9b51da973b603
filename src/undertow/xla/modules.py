"""`compile(model)`: a module whose forward runs as one program, and whose backward does too when it comes.

The forward program also returns what the trace saved for the backward pass. All of the module's graph becomes one node that
holds those values; when a backward pass reaches it, the recorded graph is run once with unknown values and becomes the
backward program. Hooks inside the module are treated as in a compiled step; those on its parameters belong to the pass
around it and fire there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from undertow import errors
from undertow._core import TensorCore, wrap
from undertow.autograd import engine
from undertow.autograd.node import AccumulateGrad, Edge, Node, edge_of
from undertow.autograd.saved import Freed
from undertow.modes import local
from undertow.nn.modules.module import Module
from undertow.tree import leaves, map_leaves
from undertow.xla.compiled import Compiled
from undertow.xla.firing import Firing
from undertow.xla.program import Program
from undertow.xla.trace import Trace
from undertow.xp.device import Cell, DeviceArray, DeviceNamespace


class CompiledModule(Module):
    """A module that runs as a program. The original is `_orig_mod`; parameters and state dicts are its own."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        self._orig_mod = module
        self._forward = CompiledForward(module.__call__)
        self._forward.name = type(module).__qualname__
        self.training = module.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._forward(*args, **kwargs)

    def train(self, mode: bool = True) -> CompiledModule:
        super().train(mode)
        return self

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_orig_mod"), name)


def compile(function: Any) -> Any:
    """Makes one XLA program of a step, or two of a module: forward and backward."""
    if isinstance(function, Module):
        return CompiledModule(function)
    return function if isinstance(function, Compiled) else Compiled(function)


def _as_leaf(value: Any) -> Any:
    """An argument as the beginning of a graph of its own."""
    if not isinstance(value, TensorCore):
        return value
    leaf = wrap(value._array)
    leaf._requires_grad = value._requires_grad
    return leaf


class ForwardProgram(Program):
    """A forward pass, and the way back through it."""

    def _assemble(self, closed: Any, outputs: list[Cell], trace: Trace) -> None:
        super()._assemble(closed, outputs, trace)
        results = [leaf for leaf in leaves(self.result) if isinstance(leaf, TensorCore)]
        self.roots: list[Edge] = [leaf._edge for leaf in results if leaf._edge is not None]
        self.specs = [(leaf._array.shape, leaf._array.dtype) for leaf in results if leaf._edge is not None]
        own = {id(leaf): place for place, leaf in enumerate(self.arguments)}
        self.leaf_edges = _leaves_of(self.roots)
        self.leaf_arguments = [own.get(id(node.variable)) for node, _ in self.leaf_edges]
        shown = {id(leaf._array.cell) for leaf in results if type(leaf._array) is DeviceArray}
        known = {id(cell) for cell, _, _ in trace.cells.values()}
        self.kept = [cell for cell in outputs if id(cell) not in known]  # what the way back reads
        self.only_kept = [cell for cell in self.kept if id(cell) not in shown]
        self.read = [cell for cell, _, _ in trace.cells.values()]
        given = {id(held.cell): (tensor, held) for tensor, held in trace.adopted if id(tensor) in own}
        self.read_from = [own[id(given[id(cell)][0])] if id(cell) in given else None for cell in self.read]
        for tensor, held in given.values():  # the graph goes on showing what stands for them
            tensor._array = held
        self.backward: Callable[..., Any] | None = None

    def run(self, arguments: list[Any]) -> Any:
        result = super().run(arguments)
        if not self.roots:
            return result
        edges = tuple([
            edge if place is None else (arguments[place]._edge or edge_of(arguments[place]))
            for edge, place in zip(self.leaf_edges, self.leaf_arguments)
        ])
        read = [
            _present(cell) if place is None else _raw(arguments[place]) for cell, place in zip(self.read, self.read_from)
        ]
        node = CompiledBackward(self, edges, [cell.value for cell in self.kept], read)
        for cell in self.only_kept:
            cell.value = None
        number = iter(range(len(self.roots)))
        return map_leaves(
            lambda leaf: _claim(leaf, node, number) if isinstance(leaf, TensorCore) and leaf._edge is not None else leaf,
            result,
        )

    def go_back(self, kept: list[Any], read: list[Any], grads: Sequence[Any]) -> tuple[Any, ...]:
        """The gradients of the leaves."""
        given = [None if g is None else g.value if type(g) is DeviceArray else g for g in grads]
        if self.backward is None:
            self.backward = self._trace_backward([g is not None for g in given])
        found = self.backward(kept, read, [g for g in given if g is not None])
        return tuple([None if value is None else DeviceArray(value) for value in found])

    def _trace_backward(self, defined: list[bool]) -> Callable[..., Any]:
        def backward(kept: list[Any], read: list[Any], grads: list[Any]) -> list[Any]:
            trace, firing = Trace(), Firing()
            trace.firing = firing
            cells = [*self.kept, *self.read]
            before = [(cell, cell.value) for cell in cells]
            hidden = [(node.variable._meta, node.variable._meta.hooks) for node, _ in self.leaf_edges]
            try:
                with trace:
                    for cell, value in zip(cells, [*kept, *read], strict=True):
                        cell.value, cell.writes = value, cell.writes + 1
                    for meta, _ in hidden:
                        meta.hooks = None
                    values = iter(grads)
                    seeds = [DeviceArray(next(values)) for is_defined in defined if is_defined]
                    roots = [edge for edge, is_defined in zip(self.roots, defined) if is_defined]
                    found = engine.run(roots, seeds, True, False, self.leaf_edges, accumulates=False)
                    return [None if g is None else _raw(g) for g in found]
            finally:
                for (meta, own) in hidden:
                    meta.hooks = own
                for cell, value in before:
                    cell.value, cell.writes = value, cell.writes + 1

        return jax.jit(backward)


def _raw(g: Any) -> Any:
    array = g._array if isinstance(g, TensorCore) else g
    return array.value if type(array) is DeviceArray else array


def _present(cell: Cell) -> Any:
    return cell.value if cell.host is None else cell.host


def _claim(leaf: Any, node: CompiledBackward, number: Any) -> Any:
    leaf._edge = (node, next(number))
    return leaf


def _leaves_of(roots: list[Edge]) -> list[tuple[AccumulateGrad, int]]:
    """The accumulators at the ends of a graph."""
    found: dict[AccumulateGrad, None] = {}
    stack, seen = [node for node, _ in roots], set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, AccumulateGrad):
            found[node] = None
        stack += [edge[0] for edge in node.edges if edge is not None]
    return [(node, 0) for node in found]


class CompiledBackward(Node):
    """A compiled module in the graph."""

    __slots__ = ("program", "kept", "read", "freed", "n_outputs")

    def __init__(self, program: ForwardProgram, edges: tuple[Edge, ...], kept: list[Any], read: list[Any]) -> None:
        self.edges = edges
        self.sequence_nr = next(local.modes.sequence)
        self.extras = None
        self.tensor_hooks = None
        self.program, self.kept, self.read = program, kept, read
        self.freed: Freed | None = None
        self.n_outputs = len(program.roots)

    def run(self, xp: Any, g: Any, needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        if self.freed is not None:
            raise errors.freed_graph(self.name(), self.freed.at)
        if xp.RECORDED:
            raise RuntimeError(
                "a compiled module does not support double backward. Compile the whole step that calls "
                "backward(create_graph=True), or leave the module as it is."
            )
        results = self.program.go_back(self.kept, self.read, [g] if self.n_outputs == 1 else list(g))
        return results if isinstance(xp, DeviceNamespace) else tuple([None if r is None else r.numpy() for r in results])

    def release(self, freed: Freed) -> None:
        self.freed = freed
        self.kept, self.read = [], []


class CompiledForward(Compiled):
    """The forward of a module: its programs know how to go back."""

    program_class = ForwardProgram

    def _compile(self, programs: list[Program], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Program:
        args, kwargs = map_leaves(_as_leaf, (args, kwargs))
        return super()._compile(programs, args, kwargs)
