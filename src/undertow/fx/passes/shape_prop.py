"""`torch.fx.passes.shape_prop`: record the shape of each node's value by running the graph on example inputs."""

from __future__ import annotations

from typing import Any, NamedTuple

from undertow._src.base.tree import map_leaves
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import dtype as Dtype
from undertow._src.types.layouts import channels_last, channels_last_3d, contiguous_format, memory_format
from undertow._src.types.sizes import Size
from undertow.fx.interpreter import Interpreter
from undertow.fx.node import Node

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """The metadata of a tensor in `node.meta["tensor_meta"]`."""

    shape: Size
    dtype: Dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Any, include_contiguity: bool = True) -> TensorMetadata:
    """Return the metadata of a tensor."""
    formats = (contiguous_format, channels_last, channels_last_3d) if include_contiguity else ()
    lying = next((order for order in formats if _lies_in(result, order)), None)
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, result.stride(), lying, result.is_quantized, {}
    )


def _lies_in(tensor: Any, order: memory_format) -> bool:
    dims = {channels_last: 4, channels_last_3d: 5}.get(order, tensor.ndim)
    return tensor.ndim == dims and bool(tensor.is_contiguous(memory_format=order))


class ShapeProp(Interpreter):
    """Runs a graph, and stores in each node's `meta` the type of its value and, for tensors, its `TensorMetadata`."""

    def __init__(self, gm: Any, fake_mode: Any = None) -> None:
        super().__init__(gm)
        if fake_mode is not None:
            raise NotImplementedError(
                "ShapeProp: undertow has no fake tensors. Run it on tensors of the device `meta`."
            )

    def run_node(self, n: Node) -> Any:
        """Run one node, store the metadata of its value, and return the value."""
        result = super().run_node(n)
        found = []

        def note(value: Any) -> Any:
            if not isinstance(value, TensorCore):
                return value
            found.append(value)
            return _extract_tensor_metadata(value)

        facts = map_leaves(note, result)
        if found:
            n.meta["tensor_meta"] = facts
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph on these inputs, and return its result."""
        return super().run(*args)
