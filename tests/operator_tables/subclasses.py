"""Classes derived from Tensor, for tests that try whether functions take and keep them."""

from __future__ import annotations

from typing import Any

from tests.operator_tables.wrapper_tensors import (
    DiagTensorBelow,
    RedispatchTensor,
    SparseTensor,
    WrapperTensorWithCustomSizes,
    WrapperTensorWithCustomStrides,
)
from tests.operator_tables.wrapper_tensors import WrapperTensor as WrapperTensor
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.creation import empty
from undertow._tensor import Tensor
from undertow.nn import Parameter
from undertow.testing._internal.logging_tensor import LoggingTensor


class NonWrapperTensor(Tensor):
    """A tensor of another class that holds its own numbers, and the name of the function that made it."""

    extra_state: dict[str, Any]

    def __new__(cls, data: Any) -> Any:
        made = data.as_subclass(cls) if isinstance(data, TensorCore) else Tensor._make_subclass(cls, data)
        made.extra_state = {"last_func_called": None}
        return made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(result, cls):
            result.extra_state = {"last_func_called": getattr(func, "__name__", None)}
        return result

    def new_empty(self, shape: Any) -> Any:  # type: ignore[override]
        """Return a new one of a shape."""
        return type(self)(empty(shape))


class SubclassInfo:
    """A class derived from Tensor, how to make one of a shape, and whether functions of it return it."""

    __slots__ = ("name", "create_fn", "closed_under_ops")

    def __init__(self, name: str, create_fn: Any, closed_under_ops: bool = True) -> None:
        self.name, self.create_fn, self.closed_under_ops = name, create_fn, closed_under_ops


def _create_and_access_shape(cls: Any, shape: Any) -> Any:
    made = cls(empty(shape).normal_())
    assert made.shape == tuple(shape)
    return made


def _row(cls: Any, name: str, closed_under_ops: bool = True, make: Any = None) -> SubclassInfo:
    return SubclassInfo(name, lambda shape: (make or cls)(empty(shape).normal_()), closed_under_ops)


subclass_db = {
    Tensor: _row(Tensor, "base_tensor", make=lambda tensor: tensor),
    NonWrapperTensor: _row(NonWrapperTensor, "non_wrapper_tensor"),
    LoggingTensor: _row(LoggingTensor, "logging_tensor"),
    SparseTensor: _row(SparseTensor, "sparse_tensor", make=SparseTensor.from_dense),
    DiagTensorBelow: _row(DiagTensorBelow, "diag_tensor_below", False, lambda tensor: DiagTensorBelow(tensor.view(-1))),
    WrapperTensorWithCustomSizes: _row(WrapperTensorWithCustomSizes, "wrapper_with_custom_sizes", False),
    WrapperTensorWithCustomStrides: _row(WrapperTensorWithCustomStrides, "wrapper_with_custom_strides", False),
    RedispatchTensor: _row(RedispatchTensor, "redispatch_tensor"),
    Parameter: _row(Parameter, "parameter", False),
}
