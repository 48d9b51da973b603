"""Parameters and buffers: tensors that a module registers by being assigned."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self

from undertow._src.overrides import torch_function
from undertow._src.tensor.creation import empty
from undertow._tensor import Tensor, _TensorMeta

if TYPE_CHECKING:
    from undertow._src.tensor.core import TensorCore
    from undertow._src.types.aliases import Device
    from undertow._src.types.dtypes import dtype


class _ParameterMeta(_TensorMeta):
    """Makes tensors of other classes that were made parameters (`_is_param`) count as instances."""

    def __instancecheck__(cls, instance: object) -> bool:
        if super().__instancecheck__(instance):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that requires gradients and is registered as a parameter when assigned to a module."""

    __slots__ = ()
    __module__ = "torch.nn.parameter"
    __torch_function__ = torch_function.disabled  # type: ignore[assignment]
    _repr_prefix = "tensor("

    def __new__(cls, data: TensorCore | None = None, requires_grad: bool = True) -> Self:
        held = empty(0) if data is None else data
        if type(held) in (Tensor, Parameter):
            return Tensor._make_subclass(cls, held, requires_grad)
        return _marked_as_parameter(held, requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        if id(self) in memo:
            return memo[id(self)]
        result = type(self)(self.data.clone(), self.requires_grad)
        memo[id(self)] = result
        return result

    def __repr__(self) -> str:  # type: ignore[override]
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        state = dict(self.__dict__)
        return _rebuild_parameter, (self.data, self.requires_grad, None, state)


def _marked_as_parameter(data: Any, requires_grad: bool) -> Any:
    """Return a tensor that keeps its user-defined class and counts as a Parameter."""
    own, result = type(data), data.detach().requires_grad_(requires_grad)
    if type(result) is not own:
        raise RuntimeError(
            f"Creating a Parameter from an instance of type {own.__name__} keeps that class, but its detach() "
            f"returns {type(result).__name__}. Let detach() return {own.__name__}."
        )
    result._is_param = True
    return result


def _parameter_class() -> type[Parameter]:
    return Parameter


# Parameter's __module__ is torch.nn.parameter, where pickle by name must not look for it.
copyreg.pickle(_ParameterMeta, lambda cls: (_parameter_class, ()) if cls is Parameter else cls.__qualname__)


def _rebuild_parameter(
    data: Tensor, requires_grad: bool, backward_hooks: dict[int, Any] | None, state: Any = None
) -> Parameter:
    param = Parameter(data, requires_grad)
    if state:
        param.__dict__.update(state)
    return param


class _BufferMeta(_TensorMeta):
    """Makes tensors that were made buffers (`_is_buffer`) count as instances."""

    def __instancecheck__(cls, instance: object) -> bool:
        if super().__instancecheck__(instance):
            return True
        return cls is Buffer and isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that is registered as a buffer when assigned to a module."""

    __slots__ = ()
    __torch_function__ = torch_function.disabled  # type: ignore[assignment]
    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Self:
        if data is None:
            data = empty(0)
        tensor = data.detach().requires_grad_(data.requires_grad)
        tensor.persistent = persistent
        tensor._is_buffer = True
        return tensor


# --- tensors without a shape yet

_ALLOWED = frozenset(
    "__hash__ size copy_ is_complex is_floating_point half float double char short int long cuda cpu to get_device".split()
)


class UninitializedTensorMixin:
    """A parameter or buffer whose shape is not known yet: it can only be cast, moved and loaded."""

    __torch_function__ = torch_function.disabled  # set below
    cls_to_become: Any

    def materialize(self, shape: Sequence[int], device: Device = None, dtype: dtype | None = None) -> None:
        """Allocate memory of this shape and turn the object into a parameter or buffer proper."""
        this: Any = self
        here = this.data
        this.data = empty(tuple(shape), device=device or here.device, dtype=dtype or here.dtype)
        this.__class__ = this.cls_to_become

    @property
    def shape(self) -> NoReturn:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. It has one from the first "
            "`forward` on: run one on a small batch. In `load_state_dict` it means that the file holds a lazy parameter "
            "whose module here has a shape already."
        )

    def share_memory_(self) -> NoReturn:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. It has memory from the first `forward` on: run "
            "one before `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        this: Any = self
        return type(self), (this.requires_grad, this.device, this.dtype)


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[misc]
    """A parameter of a lazy module before the first call."""

    __slots__ = ()
    __module__ = "undertow.nn.parameter"  # the name that pickle looks up
    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Device = None, dtype: dtype | None = None) -> Self:
        return Tensor._make_subclass(cls, empty(0, device=device, dtype=dtype), requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        return memo[id(self)]


class UninitializedBuffer(UninitializedTensorMixin, Tensor):  # type: ignore[misc]
    """A buffer of a lazy module before the first call."""

    __slots__ = ()
    __module__ = "undertow.nn.parameter"
    cls_to_become = Tensor

    def __new__(
        cls, requires_grad: bool = False, device: Device = None, dtype: dtype | None = None, persistent: bool = True
    ) -> Any:
        tensor = Tensor._make_subclass(cls, empty(0, device=device, dtype=dtype), requires_grad)
        tensor.persistent = persistent
        tensor._is_buffer = True
        return tensor


def _refuse(
    cls: Any, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """Refuse an operation on a tensor without a shape, as its `__torch_function__`."""
    if getattr(func, "__name__", "") in _ALLOWED or type(func).__name__ == "method-wrapper":
        with torch_function.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        if cls is UninitializedBuffer and type(result) is Tensor:  # a cast or moved buffer stays uninitialized
            result.__class__ = cls
            result.__dict__.update(args[0].__dict__)
        return result
    raise ValueError(
        f"Attempted to use an uninitialized parameter in {func}. A {cls.__name__}, such as a lazy "
        "module has, gets its shape from the first `forward`: run one on a small batch before anything else."
    )


# Set late: a class defined with its own `__torch_function__` would slow down every property of every tensor.
UninitializedTensorMixin.__torch_function__ = classmethod(_refuse)  # type: ignore[assignment]
for _late in (UninitializedParameter, UninitializedBuffer):
    torch_function.PLAIN.discard(_late)
    torch_function.QUIET.discard(_late)


def is_lazy(param: object) -> bool:
    """Whether a parameter or buffer has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)
