"""Tensors to and from the rebuild calls in a checkpoint, under PyTorch's names.

`reduced(tensor)` is what the pickler writes: one of PyTorch's rebuild functions and its arguments. The functions here
implement these calls when a file is read, and check their arguments, because a file may contain anything. The argument
`hooks` is always an empty dict: hooks are not saved and cannot come from a file.
"""

from __future__ import annotations

from collections import OrderedDict
from operator import mul
from typing import Any

import numpy as np

from undertow._src.arrays.device.placement import placed
from undertow._src.base.hooks import warn_if_has_hooks
from undertow._src.ops.complex import is_conj, is_neg
from undertow._src.tensor.core import Storage, TensorCore, tensor_class, wrap
from undertow._src.tensor.creation import empty_strided
from undertow._src.tensor.lazy_conj import origin, reflect, reflections
from undertow._src.types import dtypes
from undertow._src.types.layouts import layout as Layout
from undertow._src.types.layouts import sparse_coo
from undertow.nn.parameter import Parameter
from undertow.serialization.locations import BoundStorage
from undertow.serialization.storages import UNTYPED, TypedStorage, stored
from undertow.sparse.coo import SparseTensor, sparse_coo_tensor
from undertow.storage import UntypedStorage, flat_memory

Call = tuple[Any, tuple[Any, ...]]
_MOST_DIMS = 64
_LARGEST = 2**63 - 1


# --- to the file


class TorchFunction:
    """A PyTorch function, of which only the name is written to the file."""

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __call__(self, *args: Any) -> Any:
        """Raise; defined because picklers require a callable."""
        raise TypeError(f"{self.module}.{self.name} is only a name to write to a file, and cannot be called")


_TENSOR = TorchFunction("torch._utils", "_rebuild_tensor_v2")
_TENSOR_OF_DTYPE = TorchFunction("torch._utils", "_rebuild_tensor_v3")
_PARAMETER = TorchFunction("torch._utils", "_rebuild_parameter")
_PARAMETER_WITH_STATE = TorchFunction("torch._utils", "_rebuild_parameter_with_state")
_SPARSE = TorchFunction("torch._utils", "_rebuild_sparse_tensor")
_META = TorchFunction("torch._utils", "_rebuild_meta_tensor_no_storage")
_FROM_TYPE = TorchFunction("torch._tensor", "_rebuild_from_type_v2")


def reduced(tensor: Any) -> Call:
    """Return the call that rebuilds a tensor: plain, a parameter, or a subclass with its attributes."""
    if type(tensor) is SparseTensor:
        parts = (tensor._indices(), tensor._values().detach(), tensor.size(), tensor.is_coalesced())
        return _SPARSE, (tensor.layout, parts)
    state = dict(tensor.__dict__)
    if tensor.is_meta:
        return _reduced_meta(tensor, state)
    if type(tensor).__reduce_ex__ is Parameter.__reduce_ex__:
        content: tuple[Any, ...] = (wrap(tensor._array), tensor.requires_grad, OrderedDict())
        return (_PARAMETER_WITH_STATE, (*content, state)) if state else (_PARAMETER, content)
    warn_if_has_hooks(tensor)
    function, args = _plain(tensor)
    if type(tensor) is tensor_class() and not state:
        return function, args
    return _FROM_TYPE, (function, type(tensor), args, state)


def _reduced_meta(tensor: Any, state: dict[str, Any]) -> Call:
    """Return the call that rebuilds a tensor without values, which may be a parameter."""
    if state.pop("_is_param", False):
        content: tuple[Any, ...] = (tensor.detach(), tensor.requires_grad, OrderedDict())
        return (_PARAMETER_WITH_STATE, (*content, state)) if state else (_PARAMETER, content)
    args = (tensor.dtype, tuple(tensor.shape), tensor.stride(), bool(tensor.requires_grad))
    return (_FROM_TYPE, (_META, tensor_class(), args, state)) if state else (_META, args)


def has_own_reduction(tensor: Any) -> bool:
    """Whether a subclass defines how it is pickled."""
    if tensor.is_meta:
        return False
    known = (tensor_class().__reduce_ex__, Parameter.__reduce_ex__, SparseTensor.__reduce_ex__)
    return type(tensor).__reduce_ex__ not in known


def _plain(tensor: Any) -> Call:
    array = tensor._array
    metadata: tuple[Any, ...] = ()
    if reflections(array):  # the memory is saved, with its conj and neg bits
        metadata = ({name: True for name, put_off in (("conj", is_conj), ("neg", is_neg)) if put_off(tensor)},)
        array = origin(array)
    memory, offset, strides = stored(array, str(tensor.device))
    args: tuple[Any, ...] = (memory, offset, tuple(array.shape), strides, bool(tensor.requires_grad), OrderedDict())
    if memory.kind is UNTYPED:  # a dtype that is newer than PyTorch's storage classes
        return _TENSOR_OF_DTYPE, (*args, tensor.dtype)
    return _TENSOR, args + metadata


# --- from the file


def rebuild_tensor(storage: Any, storage_offset: Any, size: Any, stride: Any) -> Any:
    """Return a tensor over a storage."""
    if not isinstance(storage, TypedStorage):
        raise TypeError(f"a tensor needs a storage, not a {type(storage).__name__}")
    return _over(storage.untyped(), storage.dtype, storage_offset, size, stride)


def rebuild_tensor_v2(
    storage: Any, storage_offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, metadata: Any = None
) -> Any:
    """Return a tensor over a storage, with requires_grad."""
    return _finished(rebuild_tensor(storage, storage_offset, size, stride), requires_grad, metadata)


def rebuild_tensor_v3(
    storage: Any, storage_offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, dtype: Any,
    metadata: Any = None,
) -> Any:  # fmt: skip
    """Return a tensor over a storage, with requires_grad and a separate dtype."""
    memory = storage.untyped() if isinstance(storage, TypedStorage) else storage
    if not isinstance(memory, UntypedStorage) or not isinstance(dtype, dtypes.dtype):
        raise TypeError("a tensor needs a storage and a dtype")
    return _finished(_over(memory, dtype, storage_offset, size, stride), requires_grad, metadata)


def rebuild_meta_tensor(dtype: Any, size: Any, stride: Any, requires_grad: Any) -> Any:
    """Return a tensor without values."""
    check_layout(size, stride, 0)
    if not isinstance(dtype, dtypes.dtype):
        raise TypeError(f"a tensor needs a dtype, not a {type(dtype).__name__}")
    if sum(map(mul, size, stride)) * dtype.itemsize > _LARGEST:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(size)} and strides={list(stride)}")
    return _finished(empty_strided(size, stride, dtype=dtype, device="meta"), requires_grad, None)


def rebuild_parameter(data: Any, requires_grad: Any, hooks: Any) -> Any:
    """Return a parameter around a tensor."""
    return rebuild_parameter_with_state(data, requires_grad, hooks, {})


def rebuild_parameter_with_state(data: Any, requires_grad: Any, hooks: Any, state: Any) -> Any:
    """Return a parameter with attributes."""
    if not isinstance(data, TensorCore):
        raise TypeError(f"a parameter must be made of a tensor, not of a {type(data).__name__}")
    param = Parameter(data, bool(requires_grad))
    set_attributes(param, state)
    return param


def rebuild_sparse_tensor(layout: Any, data: Any) -> Any:
    """Return a sparse tensor from its parts, after checking the indices."""
    if layout is not sparse_coo:
        name = layout if isinstance(layout, Layout) else type(layout).__name__
        raise NotImplementedError(f"rebuilding sparse tensor for layout {name}")
    indices, values, size, coalesced = data if len(data) == 4 else (*data, None)
    if not (isinstance(indices, TensorCore) and isinstance(values, TensorCore)):
        raise TypeError("a sparse tensor must be made of tensors")
    check_layout(size, size, 0)
    return sparse_coo_tensor(indices, values, size, check_invariants=True, is_coalesced=coalesced)


def rebuild_from_type(function: Any, cls: Any, args: Any, state: Any) -> Any:
    """Return a tensor of a subclass, or with attributes."""
    return as_type(function(*args), cls, state, "__setstate__" in vars(cls))


def as_type(tensor: Any, cls: Any, state: Any, by_its_own_method: bool) -> Any:
    """Return the tensor as a subclass instance with attributes, which the class may set itself."""
    result = tensor if type(tensor) is cls or tensor.is_meta else tensor.as_subclass(cls)
    if by_its_own_method:
        result.__setstate__(state)
    else:
        set_attributes(result, state)
    return result


def set_attributes(target: Any, state: Any) -> None:
    """Restore an object's attributes: a dict, or a pair of dicts for attributes and slots."""
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    for attributes in (state, slots):
        if attributes is not None and not (
            isinstance(attributes, dict) and all(isinstance(name, str) for name in attributes)
        ):
            raise TypeError(f"attributes must be a dict of names, not a {type(attributes).__name__}")
    target.__dict__.update(state or {})
    for name, value in (slots or {}).items():
        if hasattr(TensorCore, name) and isinstance(target, TensorCore):
            raise TypeError(f"a file may not set {name} of a tensor")
        setattr(target, name, value)


def _over(memory: UntypedStorage, kind: dtypes.dtype, offset: Any, size: Any, stride: Any) -> Any:
    """Return a tensor at an offset in a storage, after a bounds check."""
    check_layout(size, stride, offset)
    itemsize = kind.itemsize
    last = -1 if 0 in size else offset + sum([(n - 1) * step for n, step in zip(size, stride)])
    nbytes = memory.nbytes()
    if (last + 1) * itemsize > nbytes:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and items of {itemsize} "
            f"bytes require {(last + 1) * itemsize} and are out of bounds for storage of size {nbytes}"
        )
    strides = [step * itemsize for step in stride]
    begin = 0 if last < 0 else offset * itemsize
    root = memory.root
    row = root if root.ndim == 1 and root.itemsize == 1 and root.flags.c_contiguous else flat_memory(root)
    array = np.ndarray(size, kind.numpy, row, begin, strides)
    if isinstance(memory, BoundStorage) and memory.destination.type == "meta":
        return empty_strided(size, stride, dtype=kind, device="meta")
    if isinstance(memory, BoundStorage):
        return wrap(placed(array, memory.destination))
    tensor = wrap(array)
    tensor._storage = counted = Storage()
    counted.version = 1  # PyTorch counts setting the storage as a write
    return tensor


def check_layout(size: Any, stride: Any, offset: Any) -> None:
    """Refuse invalid sizes, strides and offsets."""
    for name, numbers in (("size", size), ("stride", stride), ("storage_offset", (offset,))):
        if not isinstance(numbers, tuple) or len(numbers) > _MOST_DIMS:
            raise TypeError(f"{name} must be a tuple of at most {_MOST_DIMS} numbers, not a {type(numbers).__name__}")
        if not all(type(n) is int and 0 <= n <= _LARGEST for n in numbers):
            raise TypeError(f"{name} must be whole numbers from 0 to {_LARGEST}")
    if len(size) != len(stride):
        raise ValueError(f"there are {len(size)} sizes, but {len(stride)} strides")


def _finished(tensor: Any, requires_grad: Any, metadata: Any) -> Any:
    if metadata:
        if not isinstance(metadata, dict):
            raise TypeError(f"a tensor's metadata must be a dict, not a {type(metadata).__name__}")
        for name, function in (("conj", np.conjugate), ("neg", np.negative)):
            if metadata.get(name):
                tensor._array = reflect(tensor._array, function)
    if type(requires_grad) is not bool:
        raise TypeError(f"requires_grad must be True or False, not a {type(requires_grad).__name__}")
    if requires_grad:
        tensor.requires_grad = True
    return tensor


REBUILD = {
    "torch._utils._rebuild_tensor": rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": rebuild_tensor_v2,
    "torch._utils._rebuild_tensor_v3": rebuild_tensor_v3,
    "torch._utils._rebuild_meta_tensor_no_storage": rebuild_meta_tensor,
    "torch._utils._rebuild_parameter": rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": rebuild_parameter_with_state,
    "torch._utils._rebuild_sparse_tensor": rebuild_sparse_tensor,
    "torch._tensor._rebuild_from_type_v2": rebuild_from_type,
}
