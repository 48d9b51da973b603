"""The storages of tensors: offsets and strides in memory, and the object that `untyped_storage()` returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from undertow._src.base.lazy import lazy_names
from undertow._src.base.modes import Deterministic
from undertow._src.types.devices import cpu
from undertow._src.types.devices import device as Device

Array = np.ndarray[Any, Any]


class Foreign:
    """Memory that another library owns, as the root of undertow's views of it.

    A NumPy view refers to the array that owns the memory, even through several views. A tensor made from a part of an
    array must count its offset from the start of that part, so this object separates the two.
    """

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, array: Array) -> None:
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)  # not read-only: PyTorch's tensors are always writable
        interface["strides"] = array.strides
        self.__array_interface__ = interface
        self.owner = array


def adopt(array: Array) -> Array:
    """Return an alias of an array that belongs to undertow, so that other code cannot reshape it."""
    if array.base is None and array.flags.writeable and array.size and type(array) is np.ndarray:
        return array.view()
    adopted = np.asarray(Foreign(array))
    return adopted if adopted.dtype == array.dtype else adopted.view(array.dtype)  # bfloat16 is unknown to NumPy


def is_foreign(array: Array) -> bool:
    """Whether another library owns the memory of an array."""
    return type(root_of(array).base) is Foreign


def address(array: Array) -> int:
    """Return the address of the first element."""
    return array.__array_interface__["data"][0]


def root_of(array: Array) -> Array:
    """Return the array that spans the whole memory."""
    root, base = array, array.base
    while base is not None:
        if isinstance(base, np.ndarray):
            root = base
        base = getattr(base, "base", None)  # as_strided inserts an object of its own
    return root


def memories_behind(array: Any) -> Iterator[Any]:
    """Yield an array, its base, and so on down to the owner of the memory."""
    while array is not None:
        yield array
        array = array.owner if type(array) is Foreign else getattr(array, "base", None)


def offset_of(array: Array) -> int:
    """Return the offset of an array in its memory, in elements."""
    root = root_of(array)
    return 0 if root is array else (address(array) - address(root)) // array.itemsize


def layout_of(array: Array) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Return the sizes, strides and offset of an array in its memory, in elements."""
    return array.shape, tuple([step // array.itemsize for step in array.strides]), offset_of(array)


def extent_of(root: Array) -> int:
    """Return the number of bytes that a root array spans."""
    if not root.size:
        return 0
    return root.itemsize + sum([(n - 1) * stride for n, stride in zip(root.shape, root.strides, strict=True)])


def share_storage(one: Any, other: Any) -> bool:
    """Whether two tensors are aliases, as far as autograd knows. A tensor without aliases may have no storage yet."""
    return one is other or (one._storage is not None and one._storage is other._storage)


def check_overlap(written: Array, read: Array, apart: bool = False) -> None:
    """Raise if a write would change memory while it is read: for dense arrays that overlap, unless they are identical.

    `apart`: raise for identical arrays, too.
    """
    if (written is read and not apart) or type(written) is not np.ndarray or not (is_dense(written) and is_dense(read)):
        return
    first, second = [array.__array_interface__["data"][0] for array in (written, read)]
    if first == second and written.nbytes == read.nbytes and _steps(written) == _steps(read) and not apart:
        return
    if first < second + read.nbytes and second < first + written.nbytes:
        raise RuntimeError(
            "unsupported operation: some elements of the input tensor and the written-to tensor share a single "
            "memory location. Write to a clone()."
        )


def _steps(array: Array) -> list[int]:
    """Return the strides of dims longer than 1."""
    return [stride for stride, n in zip(array.strides, array.shape, strict=True) if n != 1]


def is_dense(array: Array) -> bool:
    """Whether an array's elements fill their memory without gaps, in any order."""
    step = array.itemsize
    for stride, n in sorted([(stride, n) for stride, n in zip(array.strides, array.shape, strict=True) if n != 1]):
        if stride != step:
            return False
        step *= n
    return True


def flat_memory(root: Array) -> Array:
    """Return a root array's memory as one row of bytes."""
    if not root.size:
        return np.empty(0, np.uint8)
    if root.itemsize == 1:
        root = root.view(np.uint8)  # as_strided does not support float8
    row = np.lib.stride_tricks.as_strided(root.view(), (extent_of(root) // root.itemsize,), (root.itemsize,))
    return row.view(np.uint8)


def over_memory(memory: Array, like: Array, offset: int) -> Array:
    """Return an array with the shape, strides and dtype of `like`, at an offset (in elements) into a row of bytes."""
    if not like.size:
        return empty_strided(like.shape, [stride // like.itemsize for stride in like.strides], like.dtype)
    return np.ndarray(like.shape, like.dtype, memory, offset * like.itemsize, like.strides)


def unset(array: Array) -> Array:
    """Return uninitialised memory: unchanged, or filled with NaN or the maximum in deterministic mode."""
    if Deterministic.wanted and Deterministic.fills_memory:
        kind = array.dtype
        array[...] = np.iinfo(kind).max if kind.kind in "iu" else True if kind.kind == "b" else np.nan
    return array


def empty_strided(shape: Any, strides: Any, dtype: np.dtype[Any], empty: Callable[..., Array] = np.empty) -> Array:
    """Return an uninitialised array with strides given in elements; `empty` allocates its memory."""
    last = -1 if 0 in shape else sum([(n - 1) * stride for n, stride in zip(shape, strides, strict=True)])
    row = empty((last + 1,), dtype)
    return type(row)(shape, dtype, row, 0, [stride * dtype.itemsize for stride in strides])


def contiguous_strides(shape: tuple[int, ...]) -> list[int]:
    """Return the contiguous strides of a shape, in elements."""
    steps, step = [], 1
    for n in reversed(shape):
        steps.append(step)
        step *= max(n, 1)
    return steps[::-1]


def with_strides(array: Array) -> Array:
    """Return an empty array with the strides that PyTorch gives it; NumPy's own are all zero."""
    steps = [step * array.itemsize for step in contiguous_strides(array.shape)]
    return np.ndarray(array.shape, array.dtype, np.empty(0, array.dtype), 0, steps)


class UntypedStorage:
    """A tensor's whole memory, in bytes. Equal for all tensors that share it."""

    __slots__ = ("device", "root")
    is_sparse = False

    def __init__(self, root: Any = 0, *, device: Any = None) -> None:
        """Make a storage from an array's memory, a number of bytes, or a list of bytes."""
        if not isinstance(root, np.ndarray):
            root = np.zeros(root, np.uint8) if isinstance(root, int) else np.array(list(root), np.uint8)
        self.root = root
        self.device = cpu if device is None else Device(device)

    def data_ptr(self) -> int:
        """Return the address of the first byte."""
        return address(self.root) if self.root.size and self.device is cpu else 0

    @property
    def _cdata(self) -> int:
        return self.data_ptr() or id(self.root)

    def nbytes(self) -> int:
        """Return the size of the memory in bytes."""
        return extent_of(self.root)

    size = __len__ = nbytes

    @property
    def is_cuda(self) -> bool:
        return False

    def is_shared(self) -> bool:
        return False

    def is_pinned(self) -> bool:
        return False

    def tolist(self) -> list[int]:
        """Return the bytes as a list of integers."""
        return flat_memory(self.root).tolist()

    def untyped(self) -> UntypedStorage:
        """Return the storage itself, which has no dtype."""
        return self

    cpu = untyped

    def element_size(self) -> int:
        """Return 1: the elements are bytes."""
        return 1

    def type(self) -> str:
        return "torch.storage.UntypedStorage"

    def clone(self) -> UntypedStorage:
        """Return a copy of the bytes."""
        return UntypedStorage(flat_memory(self.root).copy())

    def fill_(self, value: int) -> UntypedStorage:
        """Set every byte to a value."""
        flat_memory(self.root)[...] = value
        return self

    def copy_(self, source: UntypedStorage, non_blocking: bool = False) -> UntypedStorage:
        """Copy the bytes of another storage."""
        if source.nbytes() != self.nbytes():
            raise RuntimeError(
                f"size does not match, self was {self.nbytes()} bytes but src was {source.nbytes()} bytes"
            )
        flat_memory(self.root)[...] = flat_memory(source.root)
        return self

    def __setitem__(self, index: Any, value: int) -> None:
        flat_memory(self.root)[index] = value

    @staticmethod
    def from_file(filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """Map a file into memory; it is read on use, and writes reach the file if `shared`."""
        mapped = np.memmap(filename, np.uint8, "r+" if shared else "c", shape=nbytes or None)
        return UntypedStorage(mapped.view(np.ndarray))

    def __getitem__(self, index: Any) -> Any:
        """Return a byte, or a slice as a new storage."""
        found = flat_memory(self.root)[index]
        return UntypedStorage(adopt(found)) if isinstance(index, slice) else int(found)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and other.root is self.root

    def __hash__(self) -> int:
        return id(self.root)

    def __sizeof__(self) -> int:
        """Include the memory itself: tools sum `sys.getsizeof(tensor.untyped_storage())`."""
        return object.__sizeof__(self) + self.nbytes()

    def __repr__(self) -> str:
        lines = "...\n" if self.device is not cpu else "".join(f" {value}\n" for value in self.tolist())
        return f"{lines}[torch.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"


def is_storage(obj: Any, /) -> bool:
    """Whether an object is what `untyped_storage()` or `storage()` returns."""
    return isinstance(getattr(obj, "_untyped_storage", obj), UntypedStorage)


_StorageBase = UntypedStorage  # in PyTorch, its base class
__getattr__, __dir__ = lazy_names(
    __name__,
    {"TypedStorage": "undertow._src.tensor.typed_storage", "_load_from_bytes": "undertow.serialization.plain_pickle"}
    | dict.fromkeys(
        "_LegacyStorage _LegacyStorageMeta _dtype_to_storage_type_map _get_dtype_from_pickle_storage_type _isint "
        "_storage_type_to_dtype_map _warn_typed_storage_removal".split(),
        "undertow._src.tensor.typed_storage",
    ),
)
