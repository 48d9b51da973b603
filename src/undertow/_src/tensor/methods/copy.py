"""Copies, pickles and further tensor objects over the same storage: deepcopy, `.data`, subclasses."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray, shared_memory
from undertow._src.base import hooks, tracer
from undertow._src.base.hooks import warn_if_has_hooks
from undertow._src.base.modes import local, slow_path
from undertow._src.engine.arguments import must_be
from undertow._src.engine.node import tensor_hooks_of
from undertow._src.engine.outputs import bump
from undertow._src.ops.convert import alias
from undertow._src.ops.public import public, public_method
from undertow._src.overrides.torch_function import DisableTorchFunctionSubclass, dispatch_disabled
from undertow._src.tensor.core import InferenceStorage, TensorCore, tensor_class, wrap
from undertow._src.tensor.factory_arguments import check_options, has_no_values, made, parse_kind, without_values
from undertow._src.tensor.from_data import copied, legacy_tensor, warn_of_copy_construction
from undertow._src.tensor.lazy_conj import origin, reflect, reflections
from undertow._src.types.devices import cpu
from undertow._src.types.dtypes import DTYPE_OF
from undertow.storage import Array, contiguous_strides, extent_of, flat_memory, offset_of, over_memory, root_of
from undertow.storage import empty_strided as empty_strided_array

_NOT_A_TENSOR_CLASS = (
    "Creating a Tensor subclass from a class that does not inherit from Tensor cannot be done. Derive it "
    "from torch.Tensor."
)


def shell(array: Any, cls: Any, requires_grad: bool = False) -> Any:
    """Return a new leaf of a class over an array."""
    result = wrap(array, cls)
    result._requires_grad = requires_grad
    return result


@public
def detach(input: Any) -> Any:
    """Return an alias outside the graph."""
    return input.detach()


@public
def detach_(input: Any) -> Any:
    """Detach a tensor itself from the graph."""
    return input.detach_()


class _FitsGradient:
    """A hook on a tensor whose data was replaced: its node expects a gradient of the original shape."""

    fits_gradient = True

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def __call__(self, gradient: Any) -> Any:
        if gradient is None or gradient._array.shape == self.shape:
            return None
        if len(self.shape) <= gradient._array.ndim and all(
            n in (1, m) for n, m in zip(self.shape[::-1], gradient._array.shape[::-1])
        ):
            return gradient.sum_to_size(self.shape)
        raise RuntimeError(
            f"Function returned an invalid gradient - got {list(gradient.shape)} but expected shape compatible with "
            f"{list(self.shape)}: the tensor was given data of a different shape after it was computed"
        )


class CopyMethods(TensorCore):
    """Copies, pickles, and further tensors over the same storage."""

    __slots__ = ()

    # --- the values without the history

    @property
    def data(self) -> Any:
        """An alias outside the graph; writes to it are not counted, so gradients may silently be wrong."""
        if slow_path.dispatcher is not None and slow_path.dispatcher.takes((self,)):
            return self.detach()
        data = wrap(self._array)
        if type(self._storage) is InferenceStorage:
            data._storage = InferenceStorage()
        return data

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, TensorCore):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if value.is_meta != self.is_meta or value._is_strided != self._is_strided:
            raise RuntimeError(
                "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type."
            )
        if local.modes.transforms and self._edge is not None:
            raise RuntimeError("mutating directly with `.data` inside functorch transform is not allowed.")
        if self._requires_grad and not DTYPE_OF[value._array.dtype].is_inexact:
            raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex")
        if self._edge is not None and value._array.shape != self._array.shape:
            hooks.add(tensor_hooks_of(*self._edge), _FitsGradient(self._array.shape), prepend=True)
        self._array = value._array
        if type(value._storage) is InferenceStorage and type(self._storage) is not InferenceStorage:
            self._storage = InferenceStorage()

    @data.deleter
    def data(self) -> None:
        raise RuntimeError("Deleting tensor data is not allowed. Delete tensor instead!")

    # --- classes

    def as_subclass(self, cls: Any) -> Any:
        """Return a view of this tensor as an instance of a tensor class, still part of the graph."""
        if not (isinstance(cls, type) and issubclass(cls, TensorCore)):
            raise TypeError(_NOT_A_TENSOR_CLASS)
        with DisableTorchFunctionSubclass():
            view: Any = alias(self)
        if cls is not type(view):
            view.__class__ = cls
        return view

    @staticmethod
    def _make_subclass(cls: Any, data: Any, require_grad: bool = False, **options: Any) -> Any:
        """Return a leaf of a tensor class over the buffer of a tensor."""
        if not (isinstance(cls, type) and issubclass(cls, TensorCore)):
            raise TypeError(_NOT_A_TENSOR_CLASS)
        if not isinstance(data, TensorCore):
            raise must_be("Tensor", data, "_make_subclass", "data", 2)
        if not isinstance(require_grad, bool):
            raise must_be("bool", require_grad, "_make_subclass", "require_grad", 3)
        if require_grad and not DTYPE_OF[data._array.dtype].is_inexact:
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        if require_grad and type(data._storage) is InferenceStorage and not local.modes.inference:
            raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
        result = shell(data._array, cls, bool(require_grad))
        result._storage = data._get_storage()
        return result

    @staticmethod
    def _make_wrapper_subclass(
        cls: Any, size: Any, *, strides: Any = None, storage_offset: Any = None, memory_format: Any = None,
        dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: bool = False,
        **options: Any,
    ) -> Any:  # fmt: skip
        """Return a leaf of a tensor class with a shape and no buffer: its `__torch_dispatch__` acts for it."""
        if not (isinstance(cls, type) and issubclass(cls, TensorCore)):
            raise TypeError(_NOT_A_TENSOR_CLASS)
        if getattr(cls, "__torch_dispatch__", dispatch_disabled) is dispatch_disabled:
            raise TypeError(
                f"{cls.__name__} must define __torch_dispatch__ to be a wrapper: it has no buffer to operate on"
            )
        if options.get("dispatch_sizes_strides_policy") not in (None, "strides", "sizes"):
            policy = options["dispatch_sizes_strides_policy"]
            raise ValueError(f"Unknown sizes_strides_policy: {policy}; expected 'strides' or 'sizes'")
        kind, sizes = parse_kind(dtype, "_make_wrapper_subclass"), tuple(size)
        steps = contiguous_strides(sizes) if strides is None else tuple(strides)
        if has_no_values(device):
            return shell(empty_strided_array(sizes, steps, kind.numpy, without_values), cls, bool(requires_grad))
        # Only read by checks of indices, which zero passes. The system gives pages of zeros when they are first used.
        return shell(empty_strided_array(sizes, steps, kind.numpy, np.zeros), cls, bool(requires_grad))

    # --- new tensors from data

    @public
    def new_tensor(
        self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: Any = False, pin_memory: Any = False
    ) -> Any:
        """Return a copy of data in the dtype of this tensor."""
        kind = parse_kind(dtype, "new_tensor", DTYPE_OF[self._array.dtype])
        check_options("new_tensor", device, None, pin_memory)
        if isinstance(data, TensorCore):
            warn_of_copy_construction("tensor.new_tensor(sourceTensor)")
        return made(copied(data, kind), "new_tensor", requires_grad, device or self.device)

    @public
    def new(self, *args: Any, **kwargs: Any) -> Any:
        """Return a tensor from a size or data in the dtype of this one: the legacy constructor."""
        return legacy_tensor(args, kwargs, DTYPE_OF[self._array.dtype], strict=True)

    # --- copy and pickle

    @public_method
    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol."
                "  Copy detach() of it, or rebuild what computed it on the copied leaves."
            )
        if id(self) in memo:
            return memo[id(self)]
        if slow_path.dispatcher is not None and slow_path.dispatcher.is_class(type(self)):
            result = memo[id(self)] = self.detach().clone().requires_grad_(self.requires_grad)
            if type(result) is not type(self):
                raise RuntimeError(
                    "The default implementation of __deepcopy__() for wrapper subclasses only works for subclass types "
                    "that properly implement clone() and for which that function returns another instance of the same "
                    f"subclass; {type(self).__name__}'s returns a {type(result).__name__}. Fix its clone() or add a "
                    "__deepcopy__()."
                )
            return result
        with DisableTorchFunctionSubclass():
            if type(self) is not tensor_class() and type(self.new_empty([])) is not type(self):
                raise RuntimeError(
                    "The default implementation of __deepcopy__() for non-wrapper subclasses calls new_empty(), "
                    "which must return a tensor of the same "
                    f"subclass. Have {type(self).__name__}'s new_empty() do so, or give the class a __deepcopy__()."
                )
            result = memo[id(self)] = shell(deep_copied_array(self._array, memo), type(self), self.requires_grad)
            bump(result)  # PyTorch first makes a tensor, then puts the copied storage into it
            if self._meta is not None and self._meta.grad is not None:
                result._get_meta().grad = copy.deepcopy(self._meta.grad, memo)
            if self.__dict__:
                result.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return result

    @public
    def __reduce_ex__(self, protocol: Any) -> Any:
        cls = type(self)
        warn_if_has_hooks(self)
        if reflected := reflections(self._array):
            return rebuild_reflected, (shell(origin(self._array), cls, self._requires_grad), tuple(reflected))
        array = shared_memory(self._array)
        root = root_of(array)
        if array.flags.c_contiguous and array.nbytes == extent_of(root):
            plain: Any = (array, self._requires_grad)
        else:  # the whole storage is pickled, so that strides and offset stay
            layout = (array.dtype, array.shape, array.strides, offset_of(array))
            plain = (flat_memory(root), self._requires_grad, layout)
        if cls is tensor_class() and not self.__dict__:
            return rebuild_tensor, plain
        return rebuild_from_type, (None if cls is tensor_class() else cls, plain, self.__dict__)

    def __setstate__(self, state: Any) -> None:
        """Restore a subclass whose state Python's own machinery saved: attributes, or (data, requires_grad, hooks)."""
        if isinstance(state, dict):
            self.__dict__.update(state)
        else:
            self._array, self._requires_grad = state[0]._array, state[-2]


def deep_copied_array(array: Array, memo: dict[int, Any]) -> Array:
    """Return a copy of an array and its whole storage: tensors that share a storage share its copy."""
    if type(array) is DeviceArray and (tracer.current is not None or array.device is not cpu):
        return array.copied_whole(memo)
    array = shared_memory(array)
    root = root_of(array)
    key: Any = ("memory of", id(root))  # the root itself may be a user's array, to be copied as such
    entry = memo.get(key)
    if entry is None:
        entry = memo[key] = flat_memory(root).copy()
        memo.setdefault(id(memo), []).append(root)  # ids stay unique only while their objects live
    return over_memory(entry, array, offset_of(array))


def rebuild_tensor(array: Array, requires_grad: bool, layout: Any = None, cls: Any = None) -> Any:
    """Return a pickled or copied tensor, from an array or from a storage's bytes and a tensor's layout."""
    if layout is not None:
        dtype, shape, strides, offset = layout
        array = np.ndarray(shape, dtype, array, offset * dtype.itemsize, strides)
    result = shell(array, cls or tensor_class(), requires_grad)
    bump(result)
    return result


def rebuild_reflected(source: Any, functions: tuple[Any, ...]) -> Any:
    """Return a tensor that mirrors a storage through functions, the outermost first (`conj`)."""
    for function in reversed(functions):
        source._array = reflect(source._array, function)
    return source


def rebuild_from_type(cls: Any, plain: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """Return the rebuilt tensor with its attributes, as an instance of its subclass."""
    result = rebuild_tensor(*plain, **{} if cls is None else {"cls": cls})
    result.__dict__.update(attributes)
    return result
