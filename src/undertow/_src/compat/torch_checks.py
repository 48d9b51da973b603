"""`torch._check` and its relatives: a condition that must hold, and the message if it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from undertow._src.ops.reduce import all as all_of
from undertow._src.overrides import torch_function
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types import dtypes
from undertow._src.types.dtypes import DTYPE_OF
from undertow._tensor import Tensor

Message = Callable[[], Any] | None


def _assert(condition: Any, message: str) -> Any:
    """Assert a condition."""
    if torch_function.has_override((condition,)):
        return torch_function.dispatch(_assert, (condition, message), {})
    assert condition, message
    return None


def _assert_async(condition: Any, message: str | None = None) -> None:
    """Assert that a tensor of one element is not zero."""
    if not bool(condition):
        raise RuntimeError(message or "Expected Tensor with single nonzero value, but got zero")


def _check_with(error: type[Exception], cond: Any, message: Message = None) -> None:
    """Raise an error of a given class unless a condition holds."""
    if not isinstance(cond, bool):
        if isinstance(cond, TensorCore):
            raise TypeError(
                "cond must be a bool, but got a Tensor. torch._check_tensor_all() takes tensors, and requires "
                "every element true."
            )
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is None:
        raise error("Expected cond to be True, but got False.")
    if not callable(message):
        raise TypeError("message must be a callable")
    raise error(str(message()))


def _check(cond: Any, message: Message = None) -> None:
    """Raise RuntimeError unless a condition holds; `message` is a function of no arguments.

    >>> torch._check(1 < 2, lambda: "numbers are in disorder")
    """
    _check_with(RuntimeError, cond, message)


def _check_index(cond: Any, message: Message = None) -> None:
    """Raise IndexError unless a condition holds."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Message = None) -> None:
    """Raise ValueError unless a condition holds."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Message = None) -> None:
    """Raise TypeError unless a condition holds."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Message = None) -> None:
    """Raise NotImplementedError unless a condition holds."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: Any, message: Message = None, *, max: int | None = None) -> None:
    """Raise RuntimeError unless a number can be a size."""
    _check(bool(i >= 0), message)


def _check_tensor_all_with(error: type[Exception], cond: Any, message: Message = None) -> None:
    """Raise an error of a given class unless every element of a tensor of bools is true."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if DTYPE_OF[cond._array.dtype] is not dtypes.bool:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {DTYPE_OF[cond._array.dtype]}")
    _check_with(error, bool(all_of(cond)), message)


def _check_tensor_all(cond: Any, message: Message = None) -> None:
    """Raise RuntimeError unless every element of a tensor of bools is true."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _shape_as_tensor(input: Any) -> Any:
    """Return a tensor's shape as a tensor."""
    return wrap(np.array(input._array.shape, np.int64))


def _has_compatible_shallow_copy_type(input: Any, from_: Any) -> bool:
    """Whether one tensor can take over another's storage: any two of undertow's tensors can, they are of one kind."""
    return isinstance(input, TensorCore) and isinstance(from_, TensorCore)


def _running_with_deploy() -> bool:
    return False


def set_vital(*words: str) -> None:
    """Do nothing: no report of the program is written."""
