"""The steps before a backward pass under PyTorch's private names.

`backward` and `grad` do the same in `differentiate.py`; packages with their own entry points use these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from undertow._src.base.modes import local
from undertow._src.engine.differentiate import GradientEdge, as_edges, backward, grad
from undertow._src.engine.metadata import output_specs
from undertow._src.engine.pass_log import log_nodes
from undertow._src.tensor import creation
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import DTYPE_OF
from undertow._src.types.sizes import size_of


def _spec_of(output: Any) -> tuple[Any, Any]:
    """Return the shape and dtype of a tensor, or of a gradient edge's tensor."""
    if isinstance(output, GradientEdge):
        spec = output_specs(output.node)[output.output_nr]
        return size_of(spec.shape), DTYPE_OF[spec.dtype]
    return output.shape, output.dtype


def _calculate_shape(output: Any, grad: Any, is_grads_batched: bool) -> tuple[Any, Any]:
    """Return the shapes of an output and of its gradient, which must agree; for a batch of gradients, without the batch."""
    shape = _spec_of(output)[0]
    return shape, grad.shape[1:] if is_grads_batched else grad.shape


def _tensor_or_tensors_to_tuple(tensors: Any, length: int) -> tuple[Any, ...]:
    """Return gradients as a tuple: of Nones, of one tensor, or as given."""
    if tensors is None:
        return (None,) * length
    return (tensors,) if isinstance(tensors, TensorCore) else tuple(tensors)


def _make_grads(outputs: Sequence[Any], grads: Sequence[Any], is_grads_batched: bool) -> tuple[Any, ...]:
    """Return the initial gradients of a backward pass: ones for scalars without one, the others checked."""
    return tuple(
        [
            _made(place, output, given, is_grads_batched)
            for place, (output, given) in enumerate(zip(outputs, grads, strict=False))
        ]
    )


def _made(place: int, output: Any, given: Any, batched: bool) -> Any:
    if given is None:
        if not isinstance(output, GradientEdge) and not output.requires_grad:
            return None
        shape, dtype = _spec_of(output)
        if shape.numel() != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if not dtype.is_floating_point:
            raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {dtype}")
        return creation.ones(shape, dtype=dtype)
    is_tensor: bool = isinstance(given, TensorCore)
    if not is_tensor:
        raise TypeError(f"gradients can be either Tensors or None, but got {type(given).__name__}")
    wanted, got = _calculate_shape(output, given, batched)
    if wanted != got:
        about = (
            f"grad_output[{place}] has a shape of {given.shape if not batched else given[0].shape} and output[{place}] "
        )
        about += f"has a shape of {wanted}."
        if batched:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch; "
                f"the others must be the output's: {about} Where only some gradients are batched, take vmap of grad."
            )
        raise RuntimeError(f"Mismatch in shape: {about}")
    dtype = _spec_of(output)[1]
    if dtype.is_complex != given.is_complex():
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to be of one dtype: "
            f"grad_output[{place}] has a dtype of {given.dtype} and output[{place}] has a dtype of {dtype}."
        )
    return given


def _is_checkpoint_valid() -> bool:
    """Whether a reentrant checkpoint may run: not in a backward pass for selected inputs."""
    task = local.modes.backward_pass
    return task is None or task.executed is None


def run_backward(
    tensors: Sequence[Any], grad_tensors: Sequence[Any], keep_graph: bool, create_graph: bool, inputs: Sequence[Any],
    allow_unreachable: bool = False, accumulate_grad: bool = False,
) -> tuple[Any, ...] | None:  # fmt: skip
    """Run a backward pass with the engine's own arguments; return the inputs' gradients unless they are accumulated."""
    if accumulate_grad:
        backward(tensors, grad_tensors, keep_graph, create_graph, inputs=tuple(inputs) or None)
        return None
    return grad(tensors, tuple(inputs), grad_tensors, keep_graph, create_graph, allow_unused=allow_unreachable)


_engine_run_backward = run_backward


def _register_logging_hooks_on_whole_graph(t_outputs: Sequence[Any]) -> Callable[[], None]:
    """Log every node that the outputs depend on when it runs; return a function that ends the logging."""
    return log_nodes(as_edges(t_outputs))


def _get_sid(tensor: Any) -> tuple[int, int]:
    """Return an identifier of a tensor's storage and version: its address, and the writes to it so far."""
    return tensor.data_ptr(), tensor._version


def _get_tid(tensor: Any) -> tuple[int, int, int]:
    """Return an identifier of a tensor at its current version."""
    return id(tensor), tensor.data_ptr(), tensor._version
