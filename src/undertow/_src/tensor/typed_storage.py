"""A tensor's storage with the dtype of its elements: `tensor.storage()`, and the legacy classes (`FloatStorage`…)."""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from undertow._src.base.sites import warn
from undertow._src.base.torch_named import TorchNamed, pickled_class
from undertow._src.types import dtypes
from undertow._src.types.devices import cpu, device
from undertow.storage import Array, UntypedStorage, flat_memory

_warned: list[bool] = []


def warn_of_removal() -> None:
    """Warn, once, that typed storages are deprecated."""
    if not _warned:
        _warned.append(True)
        warn(
            "TypedStorage is deprecated. It will be removed: UntypedStorage is the storage "
            "class, and tensor.untyped_storage() returns one."
        )


class TypedStorage(metaclass=TorchNamed):
    """A row of elements, shared with all tensors over the same storage."""

    __slots__ = ("_untyped_storage", "dtype")
    __module__ = "torch.storage"

    _untyped_storage: UntypedStorage
    dtype: dtypes.dtype
    is_sparse = False

    def __init__(self, *args: Any, wrap_storage: Any = None, dtype: Any = None, device: Any = None) -> None:
        warn_of_removal()
        if wrap_storage is not None:
            if args or dtype is None:
                raise RuntimeError(
                    "TypedStorage.__init__ received an invalid combination of arguments. Expected one of: (*, "
                    "UntypedStorage wrap_storage, torch.dtype dtype)"
                )
            if not isinstance(wrap_storage, UntypedStorage):
                raise TypeError(f"Argument 'wrap_storage' must be UntypedStorage, but got {type(wrap_storage)}")
        kind = dtype or dtypes.get_default_dtype()
        self.dtype = kind
        self._untyped_storage = wrap_storage or UntypedStorage(_row(args, kind))

    @classmethod
    def over(cls, memory: UntypedStorage, dtype: dtypes.dtype) -> TypedStorage:
        """Return a typed storage over an existing one."""
        storage = object.__new__(TypedStorage)
        storage._untyped_storage, storage.dtype = memory, dtype
        return storage

    @classmethod
    def from_buffer(cls, buffer: Any, byte_order: str | None = None, dtype: dtypes.dtype | None = None) -> TypedStorage:
        """Return a storage with a copy of a buffer's bytes."""
        found = getattr(cls, "dtype", None)
        own = found if isinstance(found, dtypes.dtype) else dtypes.get_default_dtype()
        kind = own if dtype is None else dtype
        row = np.frombuffer(buffer, kind.numpy).copy()
        if byte_order is not None and byte_order != "native" and byte_order != sys.byteorder:
            row = row.byteswap()
        return cls.over(UntypedStorage(row), kind)

    @property
    def _row(self) -> Array:
        return flat_memory(self._untyped_storage.root).view(self.dtype.numpy)

    # --- a sequence

    def __len__(self) -> int:
        return self.nbytes() // self.dtype.itemsize

    size = __len__

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __bool__(self) -> bool:
        return len(self) > 0

    def _place(self, index: Any) -> int:
        if not isinstance(index, int):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} out of range for storage of size {len(self)}")
        return index

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return _number(self._row[self._place(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        row = self._row
        row[index if isinstance(index, slice) else self._place(index)] = value

    def tolist(self) -> list[Any]:
        """Return the elements as Python numbers."""
        return [_number(value) for value in self._row]

    # --- description

    def untyped(self) -> UntypedStorage:
        """Return the same storage as bytes."""
        return self._untyped_storage

    @property
    def device(self) -> device:
        return cpu

    @property
    def is_cuda(self) -> bool:
        return False

    @property
    def filename(self) -> None:
        return None

    @property
    def _cdata(self) -> int:
        return self._untyped_storage._cdata

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return self._untyped_storage.data_ptr()

    def nbytes(self) -> int:
        """Return the number of bytes in the storage."""
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        """Return the number of bytes per element."""
        return self.dtype.itemsize

    def is_shared(self) -> bool:
        return False

    def is_pinned(self, device: Any = None) -> bool:
        return False

    def share_memory_(self) -> TypedStorage:
        """Return the storage unchanged."""
        return self

    def pickle_storage_type(self) -> str:
        """Return the name of the legacy class that has this dtype."""
        return f"{self.dtype.scalar_name}Storage"

    def type(self, dtype: Any = None) -> Any:
        """Return the name of the legacy class, or a copy converted to a different one."""
        if dtype is None:
            return f"torch.{self.pickle_storage_type()}"
        wanted = BY_NAME[dtype] if isinstance(dtype, str) else dtype
        return self._converted(wanted.dtype)

    def __repr__(self) -> str:
        lines = "".join(f" {value}\n" for value in self.tolist()) or " \n"
        return f"{lines}[torch.storage.TypedStorage(dtype={self.dtype}, device=cpu) of size {len(self)}]"

    # --- copies and writes

    def _converted(self, kind: dtypes.dtype) -> TypedStorage:
        return self if kind is self.dtype else TypedStorage.over(UntypedStorage(self._row.astype(kind.numpy)), kind)

    def clone(self) -> TypedStorage:
        """Return a copy of the elements in a new storage."""
        return TypedStorage.over(UntypedStorage(self._row.copy()), self.dtype)

    __copy__ = clone

    def __deepcopy__(self, memo: dict[int, Any]) -> TypedStorage:
        copy = memo[id(self)] = self.clone()
        return copy

    def __reduce__(self) -> Any:
        return _unpickled, (self.dtype, self._row.tobytes())

    def fill_(self, value: Any) -> TypedStorage:
        """Fill the storage with one value."""
        self._row[...] = value
        return self

    def copy_(self, source: TypedStorage, non_blocking: bool | None = None) -> TypedStorage:
        """Copy the elements of a given storage into this one."""
        if len(source) != len(self):
            raise RuntimeError(
                f"size does not match, self was {self.nbytes()} bytes but src was {source.nbytes()} bytes"
            )
        self._row[...] = source._row
        return self

    def cpu(self) -> TypedStorage:
        return self


def _row(args: tuple[Any, ...], kind: dtypes.dtype) -> Array:
    """Return the elements from a constructor's arguments: nothing, a size or data."""
    if not args:
        return np.empty(0, kind.numpy)
    if len(args) > 1:
        raise RuntimeError("Too many positional arguments")
    given = args[0]
    if isinstance(given, int):
        return np.zeros(given, kind.numpy)
    return np.asarray(list(given)).astype(kind.numpy)


def _number(value: Any) -> Any:
    return value.item() if value.dtype.kind != "V" else float(value)


def _unpickled(kind: dtypes.dtype, content: bytes) -> TypedStorage:
    return TypedStorage.over(UntypedStorage(np.frombuffer(content, kind.numpy).copy()), kind)


def _conversion(name: str) -> Any:
    def convert(self: TypedStorage) -> TypedStorage:
        return self._converted(getattr(dtypes, name))

    convert.__name__ = name
    convert.__doc__ = f"A copy of the elements as {name}; the storage itself if they are."
    return convert


for _name in "double float half long int short bool bfloat16 complex64 complex128".split():
    setattr(TypedStorage, _name, _conversion(_name))
for _name, _kind in (("char", dtypes.int8), ("byte", dtypes.uint8), ("complex_float", dtypes.complex64),
                     ("complex_double", dtypes.complex128)):  # fmt: skip
    setattr(TypedStorage, _name, _conversion(_kind.name))


class _LegacyStorageMeta(TorchNamed):
    """The metaclass of the legacy storage classes: storages of their dtype are their instances."""

    __module__ = "undertow.storage"  # where PyTorch has it

    dtype: dtypes.dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        return type(instance) is TypedStorage and instance.dtype is cls.dtype


copyreg.pickle(_LegacyStorageMeta, pickled_class)


class _LegacyStorage(TypedStorage, metaclass=_LegacyStorageMeta):
    """`FloatStorage` and its relatives: they make storages of one dtype and recognise them."""

    __slots__ = ()
    __module__ = "torch.storage"

    def __new__(cls, *args: Any, wrap_storage: Any = None, **options: Any) -> Any:
        for argument in ("dtype", "device"):
            if argument in options:
                raise RuntimeError(
                    f"{cls}.__new__ received an invalid combination of arguments. It takes nothing, or one of\n * "
                    "(int size)\n * (Sequence data)\n * (*, UntypedStorage wrap_storage)\nKeyword argument "
                    f"'{argument}' cannot be specified"
                )
        warn_of_removal()
        return TypedStorage.over(wrap_storage or UntypedStorage(_row(args, cls.dtype)), cls.dtype)


BY_DTYPE: dict[dtypes.dtype, Any] = {}
for _kind in dtypes.ALL:
    if _kind not in (dtypes.uint16, dtypes.uint32, dtypes.uint64, dtypes.complex32):  # newer than these classes
        _body = {"dtype": _kind, "__module__": "torch", "__slots__": ()}
        BY_DTYPE[_kind] = _LegacyStorageMeta(f"{_kind.scalar_name}Storage", (_LegacyStorage,), _body)
BY_NAME = {f"torch.{cls.__name__}": cls for cls in BY_DTYPE.values()}
globals().update({cls.__name__: cls for cls in BY_DTYPE.values()})
Storage = BY_DTYPE[dtypes.float32]


# --- methods of tensors


def storage(self: Any) -> TypedStorage:
    """Return the storage that the tensor is a view of, with its dtype."""
    warn_of_removal()
    return _typed_storage(self)


def _typed_storage(self: Any) -> TypedStorage:
    return TypedStorage.over(self.untyped_storage(), dtypes.DTYPE_OF[self._array.dtype])


def class_of_old(self: Any) -> Any:
    """Return the legacy class for storages of the tensor's dtype."""
    warn_of_removal()
    return BY_DTYPE.get(dtypes.DTYPE_OF[self._array.dtype])


# --- private names


def _warn_typed_storage_removal(stacklevel: int = 2) -> None:
    """Warn, once, that typed storages will be removed."""
    warn_of_removal()


def _dtype_to_storage_type_map() -> dict[dtypes.dtype, str]:
    return {kind: cls.__name__ for kind, cls in BY_DTYPE.items()}


def _storage_type_to_dtype_map() -> dict[str, dtypes.dtype]:
    return {cls.__name__: kind for kind, cls in BY_DTYPE.items()}


def _get_dtype_from_pickle_storage_type(pickle_storage_type: str) -> dtypes.dtype:
    """Return the dtype of a storage class by its name."""
    try:
        return _storage_type_to_dtype_map()[pickle_storage_type]
    except KeyError:
        raise KeyError(f'pickle storage type "{pickle_storage_type}" is not recognized') from None


def _isint(x: Any) -> bool:
    return isinstance(x, int)
