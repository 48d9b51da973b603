"""Classes of tensors that hold others: a diagonal, a list of values and places, a tensor that says its own sizes."""

from __future__ import annotations

from typing import Any

from undertow._src.base.tree import map_leaves
from undertow._src.overrides.torch_function import disabled
from undertow._src.tensor.creation import zeros
from undertow._tensor import Tensor
from undertow.utils._python_dispatch import return_and_correct_aliasing


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
            raise RuntimeError(
                f"{type(self).__name__} must not define __torch_function__: its operators are dispatched"
            )

    __torch_function__: Any = disabled


class _Holding(WrapperTensor):
    """Holds one tensor, which its operators compute with; what they make is held again."""

    t: Any

    def __init__(self, t: Any, requires_grad: bool = False) -> None:
        self.t = t

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = map_leaves(lambda x: x.t if isinstance(x, cls) else x, (args, kwargs or {}))
        return map_leaves(lambda x: cls(x) if isinstance(x, Tensor) else x, func(*args, **kwargs))

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        return f"{type(self).__name__}(t={self.t!r})"


class WrapperTensorWithCustomSizes(_Holding):
    """Says its sizes itself."""

    @classmethod
    def get_wrapper_properties(cls, t: Any, requires_grad: bool = False) -> tuple[Any, dict[str, Any]]:
        return t, {"requires_grad": requires_grad, "dispatch_sizes_strides_policy": "sizes"}


class WrapperTensorWithCustomStrides(_Holding):
    """Says its strides itself."""

    @classmethod
    def get_wrapper_properties(cls, t: Any, requires_grad: bool = False) -> tuple[Any, dict[str, Any]]:
        return t, {"requires_grad": requires_grad, "dispatch_sizes_strides_policy": "strides"}


class DiagTensorBelow(WrapperTensor):
    """A square matrix with zeros beside its diagonal, which is all it holds; operators make a plain matrix of it."""

    diag: Any
    handled_ops: dict[str, Any] = {}

    @classmethod
    def get_wrapper_properties(cls, diag: Any, requires_grad: bool = False) -> tuple[Any, dict[str, Any]]:
        if diag.ndim != 1:
            raise AssertionError(f"a diagonal has one dim, not {diag.ndim}")
        return diag, {"size": diag.size() + diag.size(), "requires_grad": requires_grad}

    def __init__(self, diag: Any, requires_grad: bool = False) -> None:
        self.diag = diag

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        own = cls.handled_ops.get(func.__name__)
        if own is not None:
            return own(*args, **kwargs or {})
        args, kwargs = map_leaves(lambda x: x.diag.diag() if isinstance(x, cls) else x, (args, kwargs or {}))
        return func(*args, **kwargs)

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        return f"DiagTensorBelow(diag={self.diag!r})"


class SparseTensor(WrapperTensor):
    """Values and where they lie; the rest is zero. Operators compute with all the elements and keep what is not zero."""

    values: Any
    indices: Any
    _SPECIAL_IMPLS: dict[Any, Any] = {}

    @classmethod
    def get_wrapper_properties(
        cls, size: Any, values: Any, indices: Any, requires_grad: bool = False
    ) -> tuple[Any, dict[str, Any]]:
        if values.device != indices.device:
            raise AssertionError(f"values and indices lie on {values.device} and {indices.device}")
        return values, {"size": size, "requires_grad": requires_grad}

    def __init__(self, size: Any, values: Any, indices: Any, requires_grad: bool = False) -> None:
        self.values, self.indices = values, indices

    def sparse_to_dense(self) -> Any:
        """All the elements."""
        whole = zeros(self.size(), dtype=self.values.dtype)
        whole[self.indices.unbind(1)] = self.values
        return whole

    @staticmethod
    def from_dense(t: Any) -> SparseTensor:
        """Keep the elements that are not zero."""
        indices = t.nonzero()
        return SparseTensor(t.shape, t[indices.unbind(1)], indices)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        own = cls._SPECIAL_IMPLS.get(func)
        if own is not None:
            return own(*args, **kwargs or {})
        args, kwargs = map_leaves(lambda x: x.sparse_to_dense() if isinstance(x, cls) else x, (args, kwargs or {}))
        return map_leaves(lambda x: cls.from_dense(x) if isinstance(x, Tensor) else x, func(*args, **kwargs))

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        return f"SparseTensor(values={self.values!r}, indices={self.indices!r})"


class RedispatchTensor(Tensor):
    """Notes each function that it is given to, and lets it run."""

    call_log: list[Any]

    def __new__(cls, data: Any, call_log: Any = None) -> Any:
        made = data.as_subclass(cls)
        made.call_log = [] if call_log is None else call_log
        return made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        logs = [each.call_log for each in args if isinstance(each, cls) and hasattr(each, "call_log")]
        result = super().__torch_function__(func, types, args, kwargs or {})
        if logs:
            logs[0].append((getattr(func, "__qualname__", func.__name__), tuple(types)))
        return map_leaves(lambda x: cls(x, logs[0] if logs else None) if isinstance(x, cls) else x, result)


class WrapperSubclass(Tensor):
    """Holds one tensor, and can be taken apart and put together again."""

    a: Any

    @staticmethod
    def __new__(cls: Any, a: Any, outer_size: Any = None, outer_stride: Any = None) -> Any:
        return Tensor._make_wrapper_subclass(
            cls, a.size() if outer_size is None else outer_size,
            strides=a.stride() if outer_stride is None else outer_stride, storage_offset=a.storage_offset(),
            device=a.device, layout=a.layout, dtype=a.dtype, requires_grad=a.requires_grad,
        )  # fmt: skip

    def __init__(self, a: Any, outer_size: Any = None, outer_stride: Any = None) -> None:
        self.a = a

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        return f"WrapperSubclass({self.a!r})"

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["a"], None

    @staticmethod
    def __tensor_unflatten__(inner_tensors: dict[str, Any], meta: Any, outer_size: Any, outer_stride: Any) -> Any:
        if meta is not None:
            raise AssertionError("it has no other facts")
        return WrapperSubclass(inner_tensors["a"], outer_size, outer_stride)

    __torch_function__ = disabled  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inner, named = map_leaves(lambda x: x.a if isinstance(x, cls) else x, (args, kwargs or {}))
        out = map_leaves(lambda x: cls(x) if isinstance(x, Tensor) else x, func(*inner, **named))
        return return_and_correct_aliasing(func, args, kwargs or {}, out)


class ConstantExtraMetadataTensor(Tensor):
    """Holds one tensor and a number that is not one of its own."""

    elem: Any
    constant_attribute: int

    @staticmethod
    def __new__(cls: Any, elem: Any) -> Any:
        return Tensor._make_wrapper_subclass(
            cls, elem.shape, strides=elem.stride(), storage_offset=elem.storage_offset(), device=elem.device,
            layout=elem.layout, dtype=elem.dtype, requires_grad=elem.requires_grad,
        )  # fmt: skip

    def __init__(self, elem: Any) -> None:
        self.elem, self.constant_attribute = elem, 4

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        return f"CustomTensor({self.elem!r})"

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["elem"], self.constant_attribute

    def add_constant(self, a: int) -> None:
        """Add to the number."""
        self.constant_attribute += a

    @staticmethod
    def __tensor_unflatten__(inner_tensors: dict[str, Any], meta: Any, outer_size: Any, outer_stride: Any) -> Any:
        made = ConstantExtraMetadataTensor(inner_tensors["elem"])
        made.constant_attribute = meta
        return made

    __torch_function__ = disabled  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inner, named = map_leaves(lambda x: x.elem if isinstance(x, cls) else x, (args, kwargs or {}))
        out = map_leaves(lambda x: cls(x) if isinstance(x, Tensor) else x, func(*inner, **named))
        return return_and_correct_aliasing(func, args, kwargs or {}, out)


class CustomTensorPlainOut(Tensor):
    """Holds two tensors; operators compute with both and return a plain one."""

    elem1: Any
    elem2: Any

    @staticmethod
    def __new__(cls: Any, elem1: Any, elem2: Any) -> Any:
        return ConstantExtraMetadataTensor.__new__(cls, elem1)

    def __init__(self, elem1: Any, elem2: Any) -> None:
        self.elem1, self.elem2 = elem1, elem2

    def get_elem(self) -> Any:
        return self.elem1

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        return f"CustomTensorPlainOut({self.elem1!r}, {self.elem2!r})"

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["elem1", "elem2"], None

    @staticmethod
    def __tensor_unflatten__(inner_tensors: dict[str, Any], meta: Any, outer_size: Any, outer_stride: Any) -> Any:
        return CustomTensorPlainOut(inner_tensors["elem1"], inner_tensors["elem2"])

    __torch_function__ = disabled  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        one, named = map_leaves(lambda x: x.elem1 if isinstance(x, cls) else x, (args, kwargs))
        two, more = map_leaves(lambda x: x.elem2 if isinstance(x, cls) else x, (args, kwargs))
        out, other = func(*one, **named), func(*two, **more)
        both = out + other if isinstance(out, Tensor) and isinstance(other, Tensor) else out
        return return_and_correct_aliasing(func, args, kwargs, both)
