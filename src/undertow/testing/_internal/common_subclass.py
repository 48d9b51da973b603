"""Classes derived from Tensor, for tests that try whether functions take and keep them."""

from __future__ import annotations

from typing import Any

from undertow._core import TensorCore
from undertow._tensor import Tensor
from undertow.asking import disabled
from undertow.creation import empty
from undertow.nn import Parameter


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

    def new_empty(self, shape: Any) -> Any:
        """A new one of a shape."""
        return type(self)(empty(shape))


class WrapperTensor(Tensor):
    """A tensor without numbers of its own: a subclass says what it looks like, and its operators compute with others."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        like, options = cls.get_wrapper_properties(*args, **kwargs)
        size = options.pop("size", like.size())
        for name in ("dtype", "layout", "device", "requires_grad"):
            options.setdefault(name, getattr(like, name))
        made = Tensor._make_wrapper_subclass(cls, size, **options)
        made._validate_methods()
        return made

    @classmethod
    def get_wrapper_properties(cls, *args: Any, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """From the arguments that one is made of: a tensor to look like, and in which ways to look different."""
        raise NotImplementedError("You need to implement get_wrapper_properties")

    def _validate_methods(self) -> None:
        """Operators decide what it does, so it must not change methods."""
        if type(self).__torch_function__ is not WrapperTensor.__torch_function__:
            raise RuntimeError(f"{type(self).__name__} must not define __torch_function__: its operators are dispatched")

    __torch_function__: Any = disabled


class SubclassInfo:
    """A class derived from Tensor, how to make one of a shape, and whether functions of it return it."""

    __slots__ = ("name", "create_fn", "closed_under_ops")

    def __init__(self, name: str, create_fn: Any, closed_under_ops: bool = True) -> None:
        self.name, self.create_fn, self.closed_under_ops = name, create_fn, closed_under_ops


def _create_and_access_shape(cls: Any, shape: Any) -> Any:
    made = cls(empty(shape).normal_())
    assert made.shape == tuple(shape)
    return made


subclass_db = {
    Tensor: SubclassInfo("base_tensor", create_fn=lambda shape: empty(shape).normal_()),
    NonWrapperTensor: SubclassInfo("non_wrapper_tensor", create_fn=lambda shape: NonWrapperTensor(empty(shape).normal_())),
    Parameter: SubclassInfo(
        "parameter", create_fn=lambda shape: Parameter(empty(shape).normal_()), closed_under_ops=False
    ),
}
