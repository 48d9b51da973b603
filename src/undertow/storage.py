"""The storages of tensors: a tensor's offset in one, and the object that `untyped_storage()` returns."""

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

    NumPy lets a view refer to the array that owns the memory, however many views lie between. A tensor made from a part
    of an array must count its offset from that part on, so this object stands between the two.
    """

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, array: Array) -> None:
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)  # PyTorch's tensors may always be written to
        interface["strides"] = array.strides
        self.__array_interface__ = interface
        self.owner = array


def adopt(array: Array) -> Array:
    """Return an alias that undertow owns, so that no other code can reshape it."""
    if array.base is None and array.flags.writeable and array.size and type(array) is np.ndarray:
        return array.view()
    adopted = np.asarray(Foreign(array))
    return adopted if adopted.dtype == array.dtype else adopted.view(array.dtype)  # bfloat16 is unknown to NumPy


def is_foreign(array: Array) -> bool:
    """Whether the buffer came from a different library, wrapped in its own object."""
    return type(root_of(array).base) is Foreign


def address(array: Array) -> int:
    """Return the address of the first element."""
    return array.__array_interface__["data"][0]


def root_of(array: Array) -> Array:
    """Return the array that stands for the whole memory."""
    root, base = array, array.base
    while base is not None:
        if isinstance(base, np.ndarray):
            root = base
        base = getattr(base, "base", None)  # as_strided puts its own object between
    return root


def memories_behind(array: Any) -> Iterator[Any]:
    """Yield an array, what it is a view of, and so on down to the owner of the buffer."""
    while array is not None:
        yield array
        array = array.owner if type(array) is Foreign else getattr(array, "base", None)


def offset_of(array: Array) -> int:
    """How many elements into its memory an array begins."""
    root = root_of(array)
    return 0 if root is array else (address(array) - address(root)) // array.itemsize


def layout_of(array: Array) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Sizes, strides and offset of an array in its memory, counted in elements."""
    return array.shape, tuple([step // array.itemsize for step in array.strides]), offset_of(array)


def extent_of(root: Array) -> int:
    """How many bytes a root array spans."""
    if not root.size:
        return 0
    return root.itemsize + sum([(n - 1) * stride for n, stride in zip(root.shape, root.strides, strict=True)])


def share_storage(one: Any, other: Any) -> bool:
    """Whether two tensors are aliases, as far as autograd knows. A tensor without aliases may have no storage yet."""
    return one is other or (one._storage is not None and one._storage is other._storage)


def check_overlap(written: Array, read: Array, apart: bool = False) -> None:
    """Refuse to read from a partly overwritten buffer: dense arrays that overlap, or are equal in a different order.

    `apart`: they may share nothing, not even all of it.
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
    """Return the strides that matter."""
    return [stride for stride, n in zip(array.strides, array.shape, strict=True) if n != 1]


def is_dense(array: Array) -> bool:
    """Whether an array's elements fill their memory without gaps, in whatever order."""
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
        root = root.view(np.uint8)  # NumPy does not find float8 by its code
    row = np.lib.stride_tricks.as_strided(root.view(), (extent_of(root) // root.itemsize,), (root.itemsize,))
    return row.view(np.uint8)


def over_memory(memory: Array, like: Array, offset: int) -> Array:
    """Return an array with the shape, strides and dtype of `like`, that many elements into a row of bytes."""
    if not like.size:
        return empty_strided(like.shape, [stride // like.itemsize for stride in like.strides], like.dtype)
    return np.ndarray(like.shape, like.dtype, memory, offset * like.itemsize, like.strides)


def unset(array: Array) -> Array:
    """Return uninitialised memory: unchanged, or filled with a conspicuous value if runs must be repeatable."""
    if Deterministic.wanted and Deterministic.fills_memory:
        kind = array.dtype
        array[...] = np.iinfo(kind).max if kind.kind in "iu" else True if kind.kind == "b" else np.nan
    return array


def empty_strided(shape: Any, strides: Any, dtype: np.dtype[Any], empty: Callable[..., Array] = np.empty) -> Array:
    """Return an uninitialised array whose strides are counted in elements; `empty` makes the memory for it."""
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
        """Over an array's memory; programs also ask for so many bytes, or for a list of them."""
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
        """How many bytes the memory holds."""
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
        """Return the bytes as numbers."""
        return flat_memory(self.root).tolist()

    def untyped(self) -> UntypedStorage:
        """Return the storage itself, which has no dtype."""
        return self

    cpu = untyped

    def element_size(self) -> int:
        """Bytes per element: elements are bytes."""
        return 1

    def type(self) -> str:
        return "torch.storage.UntypedStorage"

    def clone(self) -> UntypedStorage:
        """Return the same bytes in memory of their own."""
        return UntypedStorage(flat_memory(self.root).copy())

    def fill_(self, value: int) -> UntypedStorage:
        """Write one byte everywhere."""
        flat_memory(self.root)[...] = value
        return self

    def copy_(self, source: UntypedStorage, non_blocking: bool = False) -> UntypedStorage:
        """Write another storage's bytes."""
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
        """Return a file in memory, read where it is used; writes reach the file if it is `shared`."""
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
        """Count the memory that is stored: tools add up `sys.getsizeof(tensor.untyped_storage())`."""
        return object.__sizeof__(self) + self.nbytes()

    def __repr__(self) -> str:
        lines = "...\n" if self.device is not cpu else "".join(f" {value}\n" for value in self.tolist())
        return f"{lines}[torch.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"


def is_storage(obj: Any, /) -> bool:
    """Whether an object is what `untyped_storage()` or `storage()` returns."""
    return isinstance(getattr(obj, "_untyped_storage", obj), UntypedStorage)


_StorageBase = UntypedStorage  # PyTorch's base of it
__getattr__, __dir__ = lazy_names(
    __name__,
    {"TypedStorage": "undertow._src.tensor.typed_storage", "_load_from_bytes": "undertow.serialization.plain_pickle"}
    | dict.fromkeys(
        "_LegacyStorage _LegacyStorageMeta _dtype_to_storage_type_map _get_dtype_from_pickle_storage_type _isint "
        "_storage_type_to_dtype_map _warn_typed_storage_removal".split(),
        "undertow._src.tensor.storage_kinds",
    ),
)
