"""`MetaTensor`: a tensor on the device `meta`, which has a shape and a dtype and no values.

A model can be built there in no time and receive its weights afterwards. Every public function is overridden
(`__torch_function__`) and runs on arrays without values (`arrays/unvalued.py`) to compute shapes; its results have no
values either. Writes are left out, unless a gradient leads through them.
"""

from __future__ import annotations

from typing import Any

from undertow._src.arrays.unvalued import Unvalued
from undertow._src.base import tree
from undertow._src.base.modes import is_grad_enabled
from undertow._src.overrides import torch_function
from undertow._src.tensor.core import TensorCore, ndarray
from undertow._src.tensor.factory_arguments import without_values
from undertow._src.tensor.methods.convert import _parse_to, converted, device_named
from undertow._src.types.devices import meta
from undertow._src.types.dtypes import DTYPE_OF
from undertow._tensor import Tensor
from undertow.nn.parameter import Parameter
from undertow.storage import UntypedStorage, root_of

_NO_DATA = "Cannot copy out of meta tensor; no data!"
_RESHAPING = frozenset(
    "t_ transpose_ swapaxes_ swapdims_ squeeze_ unsqueeze_ resize_ resize_as_ as_strided_ set_".split()
)


# Functions whose tensors must all be on one device; 0-dim tensors may be on a different one.
_ON_ONE_DEVICE = frozenset(
    "add addcdiv addcmul addmm atan2 batch_norm bitwise_and bitwise_or bitwise_xor cat clamp clamp_max clamp_min concat "
    "copysign dist div dot eq floor_divide fmax fmin fmod ge group_norm gt huber_loss hypot l1_loss layer_norm le lerp "
    "linear logaddexp logical_and logical_or logical_xor lt masked_fill maximum minimum mse_loss mul ne outer pow "
    "remainder rms_norm smooth_l1_loss stack sub true_divide where xlogy __eq__ __ne__ __lt__ __le__ __gt__ __ge__".split()
)


# Functions whose result has a shape, or is a number, that depends on values.
_DATA_DEPENDENT = {
    "unique": "_unique2", "unique_consecutive": "unique_consecutive", "equal": "equal", "masked_select": "masked_select",
    "bincount": "bincount", "lstsq": "linalg_lstsq", "ctc_loss": "_ctc_loss", "combinations": "masked_select",
}  # fmt: skip


def _refuse_data_dependent(name: str, args: Any, options: dict[str, Any]) -> None:
    """Refuse a function whose result depends on values, with PyTorch's error class and opening words."""
    if name in _DATA_DEPENDENT:
        raise NotImplementedError(
            f"aten::{_DATA_DEPENDENT[name]}: attempted to run this operator with Meta arguments, whose values it would "
            "have to read. Run it on tensors on a different device."
        )
    picks = args[1] if name in ("__getitem__", "_getitem") and len(args) > 1 else ()
    masks = [pick for pick in (picks if isinstance(picks, tuple) else (picks,)) if isinstance(pick, MetaTensor)]
    if name in ("nonzero", "argwhere") or (name == "where" and len(args) + len(options) == 1) or any(
        DTYPE_OF[mask._array.dtype].name in ("bool", "uint8") for mask in masks
    ):  # fmt: skip
        raise NotImplementedError(
            "The register_meta function for torch.nonzero() raises unimplemented by its nature: how many elements are not "
            "zero depends on values, which a meta tensor has not. Use torch.where, which keeps the shape."
        )
    if name == "allclose" or (name == "one_hot" and options.get("num_classes", (*args, -1, -1)[1]) == -1):
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    repeats = (*args, *options.values())[-1] if args or options else None
    if name == "repeat_interleave" and "output_size" not in options and isinstance(repeats, MetaTensor):
        raise RuntimeError("cannot repeat_interleave a meta tensor without output_size")


_OF_THE_FIRST = frozenset("expand_as view_as reshape_as is_same_size".split())


def _check_one_device(name: str, given: Any) -> None:
    kinds = [value.device.type for value in tree.leaves(given) if isinstance(value, TensorCore) and value._array.ndim]
    if name == "masked_fill":  # its mask is checked first
        kinds = kinds[::-1]
    for kind in kinds:
        if kind != kinds[0]:
            raise RuntimeError(f"Tensor on device {kind} is not on the expected device {kinds[0]}!")


def _no_item(self: Any, *args: Any, **kwargs: Any) -> Any:
    if self.numel() != 1:
        raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
    raise RuntimeError("Tensor.item() cannot be called on meta tensors")


def _no_copy(self: Any, *args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError(_NO_DATA)


class MetaTensor(Tensor):
    """A tensor without values; `torch.empty(2, 3, device="meta")` makes one."""

    __slots__ = ()
    __module__ = "torch"

    def __new__(cls, data: Any = None, requires_grad: bool = True, **attributes: Any) -> Any:
        """Let `type(p)(values)` work for a meta parameter `p`: return an ordinary parameter with these values."""
        if not isinstance(data, MetaTensor):
            return Parameter(data, requires_grad)
        made = as_meta(without_values(data._array.shape, data._array.dtype))
        made._requires_grad = requires_grad
        made.__dict__.update(attributes, _is_param=True)
        return made

    data = Tensor.data.getter(lambda self: self.detach())  # type: ignore[attr-defined]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, options = getattr(func, "__name__", ""), kwargs or {}
        first = args[0] if args else options.get("tensor")  # initialisers are called with keywords
        if name == "copy_" and not isinstance(first, MetaTensor):
            raise NotImplementedError(_NO_DATA)
        if _is_write(name) and isinstance(first, MetaTensor) and not _is_recorded(args, options):
            return first
        _refuse_data_dependent(name, args, options)
        if name in _ON_ONE_DEVICE:
            _check_one_device(name, (args, options))
        where = options.get("device")
        with torch_function.DisableTorchFunctionSubclass():
            result = func(*args, **options)
        if name in _OF_THE_FIRST and not isinstance(first, MetaTensor):
            return result  # it keeps its values: only the shape of the other one was used
        if name in ("backward", "__set__") or (where is not None and device_named(where).type != "meta"):
            return result
        return first if _is_write(name) else _without_values(result)

    def to(self, *args: Any, **kwargs: Any) -> Any:
        given = _parse_to(args, kwargs)
        where = given.get("device")
        if where is not None and device_named(where).type != "meta":
            raise NotImplementedError(_NO_DATA)
        kind = given.get("dtype")
        with torch_function.DisableTorchFunctionSubclass():
            return self if kind is None or kind is self.dtype else as_meta(converted(self, kind))

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        facts = ["...", "device='meta'", f"size={tuple(self.shape)}"]
        if str(self.dtype) not in ("torch.float32", "torch.bool"):
            facts.append(f"dtype={self.dtype}")
        if self.grad_fn is not None:
            facts.append(f"grad_fn=<{self.grad_fn.name()}>")
        elif self.requires_grad:
            facts.append("requires_grad=True")
        text = f"tensor({', '.join(facts)})"
        return f"Parameter containing:\n{text}" if "_is_param" in self.__dict__ else text

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __hash__(self) -> int:
        return id(self)

    def data_ptr(self) -> int:
        return 0

    def untyped_storage(self) -> UntypedStorage:
        return UntypedStorage(root_of(self._array), device=meta)

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError(
            "can't convert meta device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
        )

    def __deepcopy__(self, memo: Any) -> Any:
        copy = as_meta(without_values(self._array.shape, self._array.dtype))
        copy._requires_grad = self._requires_grad
        copy.__dict__.update(self.__dict__)
        memo[id(self)] = copy
        return copy

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuilt, (tuple(self.shape), self.dtype, self.requires_grad, dict(self.__dict__))

    item = __float__ = __int__ = __bool__ = __index__ = __complex__ = _no_item
    cpu = tolist = _no_copy
    __array__ = numpy  # type: ignore[assignment]


def _without_values(result: Any) -> Any:
    """Return a function's result with its tensors on the device `meta`."""
    if isinstance(result, TensorCore):
        return as_meta(result)
    if isinstance(result, (tuple, list)) and any(isinstance(part, TensorCore) for part in result):
        parts = [_without_values(part) for part in result]
        return tuple.__new__(type(result), parts) if isinstance(result, tuple) else parts
    return result


def _is_recorded(args: Any, options: dict[str, Any]) -> bool:
    """Whether a write must be recorded or refused because a gradient leads through it; initialisers record nothing."""
    return (
        is_grad_enabled()
        and bool(args)
        and any(isinstance(value, TensorCore) and value.requires_grad for value in tree.leaves((args, options)))
    )


def _is_write(name: str) -> bool:
    if name in ("__setitem__", "_setitem") or (name.startswith("__i") and name.endswith("__") and name != "__index__"):
        return True
    return name.endswith("_") and not name.endswith("__") and name not in ("requires_grad_", "detach_", *_RESHAPING)


def as_meta(given: Any) -> Any:
    """Return a tensor, or an array's shape and dtype, on the device `meta`."""
    if isinstance(given, MetaTensor):
        return given
    made = object.__new__(MetaTensor)
    made._edge = made._storage = made._view = made._meta = None
    made._requires_grad = False
    if isinstance(given, TensorCore):
        made._edge, made._requires_grad = given._edge, given._requires_grad
        made._view, made._storage = given._view, given._storage
    array = given._array if isinstance(given, TensorCore) else given
    made._array = array.view(Unvalued) if type(array) is ndarray else array
    return made


def _rebuilt(shape: tuple[int, ...], dtype: Any, requires_grad: bool, attributes: dict[str, Any]) -> Any:
    made = as_meta(without_values(shape, dtype.numpy))
    made._requires_grad = requires_grad
    made.__dict__.update(attributes)
    return made


def moved_to_meta(tensor: Any, dtype: Any = None) -> Any:
    """Return a meta tensor with a tensor's shape and dtype. A backward pass through the move raises: it has no values."""
    kind = DTYPE_OF[tensor._array.dtype] if dtype is None else dtype
    if tensor._requires_grad and is_grad_enabled():
        moved = as_meta(converted(tensor, kind, copy=True))
        if moved.grad_fn is not None:  # recorded only for a forward-mode derivative, it has none
            moved.grad_fn.register_prehook(_no_copy)
        return moved
    return as_meta(without_values(tensor._array.shape, kind.numpy))
