"""Storages in checkpoints: a type name with the dtype (`FloatStorage`), and the location of the bytes."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from undertow._src.arrays.device.array import shared_memory
from undertow._src.tensor.typed_storage import TypedStorage as TypedStorage
from undertow._src.types import dtypes
from undertow.storage import extent_of, root_of

Array = np.ndarray[Any, Any]
_LONGEST_NAME = 200


class StorageType:
    """One of PyTorch's storage classes; files contain only its name."""

    __slots__ = ("dtype", "module", "name")

    def __init__(self, name: str, dtype: dtypes.dtype | None, module: str = "torch") -> None:
        self.name, self.dtype, self.module = name, dtype, module

    @property
    def itemsize(self) -> int:
        return 1 if self.dtype is None else self.dtype.itemsize

    def swapped(self, content: Array) -> Array:
        """Return bytes of this type in the opposite byte order."""
        parts = 2 if self.dtype is not None and self.dtype.is_complex else 1
        return content.reshape(-1, self.itemsize // parts)[:, ::-1].reshape(-1)

    def __repr__(self) -> str:
        return f"<class '{self.module}.{self.name}'>"


UNTYPED = StorageType("UntypedStorage", None, "torch.storage")
TYPED = {
    kind: StorageType(f"{kind.scalar_name}Storage", kind)
    for kind in dtypes.ALL
    if kind not in (dtypes.uint16, dtypes.uint32, dtypes.uint64, dtypes.complex32)  # newer than the storage classes
}
BY_NAME = {f"{each.module}.{each.name}": each for each in (UNTYPED, *TYPED.values())}
BY_NAME["torch.UntypedStorage"] = UNTYPED


class StoredMemory:
    """A tensor's storage to be saved: the pickler writes its number, the archive its bytes."""

    __slots__ = ("kind", "location", "root")

    def __init__(self, root: Array, kind: StorageType, location: str) -> None:
        self.root, self.kind, self.location = root, kind, location

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return extent_of(self.root) // self.kind.itemsize


def stored(array: Any, location: str) -> tuple[StoredMemory, int, tuple[int, ...]]:
    """Return the memory of an array, and the array's offset and strides in elements."""
    kind = dtypes.DTYPE_OF[np.dtype(array.dtype)]
    array = shared_memory(array)
    if not isinstance(array, np.ndarray) or not _is_plain(array):
        array = np.array(array, order="C")
    storage_type = TYPED.get(kind, UNTYPED)
    root = root_of(array)
    if not array.size:
        return StoredMemory(root, storage_type, location), 0, _empty_strides(array.shape)
    offset = (_address(array) - _address(root)) // array.itemsize
    return StoredMemory(root, storage_type, location), offset, tuple([step // array.itemsize for step in array.strides])


def _is_plain(array: Array) -> bool:
    """Whether PyTorch supports the array's layout: non-negative strides of whole elements, within its memory."""
    if not array.size:
        return True
    size = array.itemsize
    root = root_of(array)
    begin = _address(array) - _address(root)
    return (
        all(step >= 0 and not step % size for step in array.strides)
        and all(step >= 0 for step in root.strides)
        and begin >= 0
        and not begin % size
        and begin + extent_of(array) <= extent_of(root)
    )


def _address(array: Array) -> int:
    return array.__array_interface__["data"][0]


def _empty_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= max(length, 1)
    return tuple(reversed(strides))


def check_pid(pid: Any) -> tuple[StorageType, str, str, int]:
    """Check a file's reference to a storage and return it as (type, key, location, number of elements)."""
    if not isinstance(pid, tuple) or len(pid) != 5 or type(pid[0]) is not str or pid[0] != "storage":
        raise pickle.UnpicklingError(f"a reference to a storage was expected, not a {type(pid).__name__}")
    _, kind, key, location, count = pid
    if isinstance(location, bytes):
        location = location[: _LONGEST_NAME + 1].decode("ascii")
    if (
        not isinstance(kind, StorageType)
        or not (isinstance(key, str) and len(key) <= _LONGEST_NAME)
        or not (isinstance(location, str) and len(location) <= _LONGEST_NAME)
        or type(count) is not int
        or not 0 <= count < 2**60
    ):
        raise pickle.UnpicklingError("a reference to a storage does not say its type, key, location and size")
    return kind, key, location, count
