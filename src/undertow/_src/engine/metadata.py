"""The gradients that a node expects in backward: `grad_fn._input_metadata`.

Most nodes do not know the shape of what they computed, because no gradient needs it and storing it would cost at every
op. It is noted when a program reaches the node: from a tensor (`grad_fn`), or from the node of a later op.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from undertow._src.rules.rule import Spec
from undertow._src.types.devices import cpu
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._src.engine.node import Node
    from undertow._src.rules.array import Array

_noted: weakref.WeakKeyDictionary[Any, Spec] = weakref.WeakKeyDictionary()


class InputMetadata:
    """Shape, dtype and device of one gradient that a node takes."""

    __slots__ = ("shape", "dtype", "device")

    is_nested_tensor = is_cpp_nested_tensor = False

    def __init__(self, spec: Spec) -> None:
        self.shape = list(spec.shape)
        self.dtype = None if spec.dtype is None else DTYPE_OF[spec.dtype]  # an output that was no tensor
        self.device = cpu

    def __repr__(self) -> str:
        return f"<torch._C._autograd._InputMetadata object at {id(self):#x}>"


def note_output(node: Node, array: Array) -> Node:
    """Record what a node with one output computed, and return the node."""
    if node._output_specs() is None:
        _noted[node] = Spec(array.shape, array.dtype)
    return node


def note_ahead(node: Node) -> None:
    """Record the outputs of the nodes that a node's edges lead to: they are its inputs."""
    for edge, spec in zip(node._edges, node._input_specs(output_specs(node))):
        if edge is not None and spec is not None and edge[0]._output_specs() is None:
            _noted[edge[0]] = spec


def output_specs(node: Node) -> list[Spec]:
    """Return the specs of a node's outputs, as far as they are known."""
    specs = node._output_specs()
    if specs is None:
        noted = _noted.get(node)
        specs = [] if noted is None else [noted]
    return specs
