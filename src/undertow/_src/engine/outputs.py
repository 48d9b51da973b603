"""Results written into an existing tensor: `out=`, what forbids it, and the version counter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.placement import empty_beside
from undertow._src.arrays.quiet import quietly
from undertow._src.base import tracer
from undertow._src.base.lazy import late_function
from undertow._src.base.modes import local, slow_path
from undertow._src.base.sites import user_stack, warn
from undertow._src.engine.arguments import type_name
from undertow._src.engine.node import Node, edge_of
from undertow._src.tensor import lazy_conj
from undertow._src.tensor.core import InferenceStorage, TensorCore, wrap
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._src.rules.array import Namespace
    from undertow._tensor import Tensor

_WORDS = "undertow._src.ops.out_errors"
warn_of_real = late_function(__name__, "undertow._src.ops.convert", "warn_of_real")
manner_of = late_function(__name__, _WORDS, "manner_of")
refuse_dtype = late_function(__name__, _WORDS, "refuse_dtype")
refuse_shared = late_function(__name__, _WORDS, "refuse_shared")
step_inside = late_function(__name__, _WORDS, "step_inside")


def into(out: Any, compute: Callable[[], Any], inputs: Sequence[Any], name: str, casts: bool = False) -> Tensor:
    """Compute a function unrecorded and write the result into `out`, which is resized to its shape.

    `casts`: an elementwise function, which casts its result to the dtype of `out`.
    """
    if not isinstance(out, TensorCore):
        if not isinstance(out, (bool, int, float, complex)):
            raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type_name(out)}")
        out = wrap(out)
    manner = manner_of(name)
    if manner == "copied":
        return copied_into(out, compute(), name)
    if manner == "dtype first":
        refuse_dtype(name, DTYPE_OF[unrecorded(compute)._array.dtype], DTYPE_OF[out._array.dtype], casts)
    if manner == "undifferentiated":
        refuse_recording("aten::" + name, (out,))
    else:
        refuse_recording(name, (*inputs, out))
    refuse_shared(name, out, inputs)
    write_out(out, unrecorded(compute), name, casts)
    if manner == "undifferentiated":
        record_without_derivative(out, inputs, "aten::" + name)
    return out


def refuse_recording(name: str, tensors: Sequence[Any]) -> None:
    """Refuse `out=` while gradients are recorded and a tensor of the call requires one."""
    if slow_path.duals is not None:
        slow_path.duals.refuse_out(name, tensors)
    if local.modes.grad_enabled:
        for given in tensors:
            if isinstance(given, TensorCore) and given._requires_grad:
                raise RuntimeError(
                    f"{step_inside(name)}(): functions with out=... arguments don't support automatic differentiation. "
                    "Call it without out=, or under torch.no_grad()."
                )


def unrecorded(compute: Callable[[], Any]) -> Any:
    modes = local.modes
    before, modes.grad_enabled = modes.grad_enabled, False
    try:
        return compute()
    finally:
        modes.grad_enabled = before


class NotImplemented(Node):
    """The node of a step without derivative, which says so in the backward pass."""

    __slots__ = ("operator",)

    operator: str

    def _run(self, xp: Namespace, g: Any, needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        raise RuntimeError(f"derivative for {self.operator} is not implemented")


def record_without_derivative(out: Tensor, inputs: Sequence[Any], name: str) -> None:
    """Give `out` a node that refuses to be differentiated, if one of the inputs requires a gradient."""
    tensors = [given for given in inputs if isinstance(given, TensorCore)]
    if not local.modes.grad_enabled or not any(given._requires_grad for given in tensors):
        return
    node = object.__new__(NotImplemented)
    node._edges = tuple([edge_of(given) if given._requires_grad else None for given in tensors])
    node._order = next(local.modes.sequence)
    node._extras = node._tensor_hooks = None
    node.operator = name
    out._edge, out._requires_grad = (node, 0), True


def copied_into(out: Tensor, result: Tensor, name: str) -> Tensor:
    """Copy a result into `out` as the last step of a function; the copy is recorded if the result is."""
    if not local.modes.grad_enabled or not (result._requires_grad or out._requires_grad):
        write_out(out, result, name)
        return out
    refuse_dtype(name, DTYPE_OF[result._array.dtype], DTYPE_OF[out._array.dtype], True)
    if out._array.shape != result._array.shape:
        out._array = empty_beside(out._array, result._array.shape)
    return out.copy_(result)


def write_out(out: TensorCore, result: TensorCore, name: str, casts: bool = False) -> None:
    """Write a result into the tensor given as `out=` to the function of that name."""
    refuse_inference(out)
    refuse_overlap(out._array)
    refuse_dtype(name, DTYPE_OF[result._array.dtype], DTYPE_OF[out._array.dtype], casts)
    if out._array.shape != result._array.shape:
        if out._array.size:
            warn(
                f"An output with one or more elements was resized since it had shape {list(out._array.shape)} "
                f"and not that of the result, {list(result._array.shape)}. Pass an empty tensor, or one of that shape."
            )
        out._array = empty_beside(out._array, result._array.shape, result._array)
    value = result._array
    if value.dtype.kind == "c" and out._array.dtype.kind not in "cb":
        warn_of_real(value, out._array.dtype)
        value = value.real
    quietly(np.copyto, out._array, value, casting="unsafe")
    bump(out)


def refuse_inference(target: TensorCore) -> None:
    """Refuse to write to an inference tensor outside inference mode."""
    if type(target._storage) is InferenceStorage and not local.modes.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed here. You can make a clone to "
            "get a normal tensor, or write in inference mode."
        )


def refuse_overlap(array: np.ndarray) -> None:
    """Refuse to write to a buffer that shows one location as several elements."""
    if (0 in array.strides or tracer.current is not None) and overlaps(array):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to one single memory location. "
            "Write to a clone() of it."
        )


def overlaps(array: np.ndarray) -> bool:
    """Whether a broadcast array shows one memory location in several places."""
    if type(array) is DeviceArray:
        return tracer.current is not None and array.size > 1 and array.repeats()
    return array.size > 1 and any(step == 0 and n > 1 for step, n in zip(array.strides, array.shape, strict=True))


def bump(tensor: TensorCore) -> None:
    """Count a write to a tensor's storage."""
    storage = tensor._get_storage()
    if lazy_conj.known:
        lazy_conj.sync(tensor._array)
    if type(storage) is InferenceStorage:
        return
    storage.version += 1
    if slow_path.anomaly:
        lines = storage.writes = storage.writes or []
        lines += [None] * (storage.version - 1 - len(lines))  # writes made while anomaly mode was off
        stack = user_stack()
        lines.append(stack[-1] if stack else None)
