"""The state of a parameter: buffers of its shape, and numbers such as step counts, which are 0-dim tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.namespaces import namespace_of
from undertow._src.base import tracer
from undertow._src.base.modes import slow_path
from undertow._src.tensor.core import TensorCore, ndarray, wrap
from undertow._src.tensor.creation import full_like
from undertow._src.types.devices import cpu
from undertow.optim._helpers import _get_scalar_dtype

State = dict[str, Any]


def count_from(value: float) -> Any:
    """Return a new step count, or another number of the state, as a 0-dim tensor."""
    count = wrap(np.array(value, _get_scalar_dtype().numpy))
    if type(count._array) is DeviceArray:
        count._array.buffer.live_on(cpu)
    return count


def next_count(state: State, name: str = "step") -> Any:
    """Count one step; return the new count as a number, or as a tensor if it is not known while tracing."""
    counter = state[name]
    if tracer.current is not None and (traced := tracer.current.next_count(counter)) is not None:
        return traced
    array = counter._array
    if type(array) is ndarray or (type(array) is DeviceArray and array.is_known()):  # state created while tracing
        count = array.item() + 1
        array[...] = np.array(count, array.dtype)
        return count
    counter.add_(1)
    return counter.double()  # PyTorch computes with it in Python floats


def number_in(state: State, name: str) -> Any:
    """Return a number of the state: plain, or a tensor while tracing."""
    tensor = state[name]
    return tensor._array.item() if type(tensor._array) is ndarray else tensor


def put_number(state: State, name: str, value: Any) -> None:
    """Set a number of the state."""
    tensor = state[name]
    if type(tensor._array) is ndarray and not isinstance(value, TensorCore):
        tensor._array[...] = value
    else:
        tensor.copy_(wrap(value.as_array(tensor._array.dtype)) if hasattr(value, "as_array") else value)


def multiply_number(state: State, name: str, by: Any) -> None:
    """Multiply a number of the state, in its own precision."""
    tensor = state[name]
    if type(tensor._array) is ndarray:
        tensor._array[...] = tensor._array * by
    else:
        tensor.mul_(by)


def has_own_dispatch(*tensors: Any) -> bool:
    """Whether the class of any of the tensors has a `__torch_dispatch__`, which must see every op."""
    dispatcher = slow_path.dispatcher
    return dispatcher is not None and any(dispatcher.is_class(type(tensor)) for tensor in tensors)


def zeros_for(param: Any) -> Any:
    """Return a buffer of zeros with a parameter's shape, dtype and memory order."""
    return full_for(param, 0)


def full_for(param: Any, value: Any) -> Any:
    """Return a buffer filled with a value, with a parameter's shape, dtype and memory order."""
    array = param._array
    if has_own_dispatch(param) or (type(array) is ndarray and not array.flags.c_contiguous):
        return full_like(param.detach(), value)
    if type(array) is ndarray:
        return wrap(np.full(array.shape, value, array.dtype) if value else np.zeros(array.shape, array.dtype))
    return wrap(namespace_of([array]).full_like(array, value))
