"""`TwoTensor`: a pair of tensors; every operator runs on both."""

from __future__ import annotations

from typing import Any

from undertow._src.base.tree import leaves, map_leaves
from undertow._src.overrides.torch_function import disabled
from undertow._tensor import Tensor
from undertow.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing


class TwoTensor(Tensor):
    """A pair of tensors of one shape, dtype and layout, with the metadata of the first."""

    @staticmethod
    def __new__(
        cls: Any, a: Any, b: Any, outer_size: Any = None, outer_stride: Any = None, *, requires_grad: Any = None
    ) -> Any:
        if outer_size is None:
            outer_size = a.size()
        if outer_stride is None:
            outer_stride = a.stride()
        for same in ("device", "layout", "dtype"):
            if getattr(a, same) != getattr(b, same):
                raise AssertionError(f"{same}: {getattr(a, same)} is not {getattr(b, same)}")
        required = a.requires_grad if requires_grad is None else requires_grad
        made = Tensor._make_wrapper_subclass(
            cls, outer_size, strides=outer_stride, storage_offset=a.storage_offset(), device=a.device, layout=a.layout,
            dtype=a.dtype, requires_grad=required,
        )  # fmt: skip
        if a.shape != b.shape or a.stride() != b.stride():
            raise AssertionError(f"shapes and strides differ: {a.shape}, {a.stride()} and {b.shape}, {b.stride()}")
        return made

    def __init__(
        self, a: Any, b: Any, outer_size: Any = None, outer_stride: Any = None, *, requires_grad: Any = None
    ) -> None:
        self.a, self.b = a, b

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        return f"TwoTensor({self.a!r}, {self.b!r})"

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(inner_tensors: dict[str, Any], meta: Any, outer_size: Any, outer_stride: Any) -> TwoTensor:
        return TwoTensor(inner_tensors["a"], inner_tensors["b"], outer_size, outer_stride)

    __torch_function__ = disabled  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        first, first_named = map_leaves(lambda value: value.a if isinstance(value, cls) else value, (args, kwargs))
        second, second_named = map_leaves(lambda value: value.b if isinstance(value, cls) else value, (args, kwargs))
        result = func(*first, **first_named)
        others = leaves(func(*second, **second_named))
        out = map_leaves(lambda a: cls(a, b) if isinstance(b := next(others), Tensor) else a, result)
        return return_and_correct_aliasing(func, args, kwargs, out)

    def get_elem_a(self) -> Any:
        return self.a


class TwoTensorMode(TorchDispatchMode):
    """Make new tensors inside the block pairs of equal tensors."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        made_anew = not any(isinstance(value, Tensor) for value in leaves((args, kwargs)))
        return TwoTensor(out, out.clone()) if made_anew and isinstance(out, Tensor) else out
