"""Tensors in a folder of files: each storage is stored once, under a hash of its bytes."""

from __future__ import annotations

import hashlib
import os
import os.path
from typing import Any
from weakref import WeakValueDictionary

from undertow._src.tensor.creation import empty_strided
from undertow._src.types.devices import device as Device
from undertow.serialization import load, save
from undertow.storage import UntypedStorage, flat_memory

__all__ = ["ContentStoreReader", "ContentStoreWriter", "hash_storage"]


def hash_storage(storage: UntypedStorage, *, stable_hash: bool = False) -> str:
    """Return a hash of a storage's bytes, forty hexadecimal digits."""
    return hashlib.sha1(flat_memory(storage.root).tobytes()).hexdigest()


class ContentStoreWriter:
    """Writes tensors to a folder: metadata to `tensors/NAME`, bytes to `storages/HASH`."""

    def __init__(self, loc: str, stable_hash: bool = False) -> None:
        self.loc, self.stable_hash = loc, stable_hash
        self.seen_storage_hashes: set[str] = set()

    def write_storage(self, storage: UntypedStorage) -> str:
        """Write a storage, if it is not stored yet; return its name."""
        name = hash_storage(storage, stable_hash=self.stable_hash)
        if name not in self.seen_storage_hashes:
            os.makedirs(os.path.join(self.loc, "storages"), exist_ok=True)
            path = os.path.join(self.loc, "storages", name)
            if not os.path.exists(path):
                save(storage, path)
            self.seen_storage_hashes.add(name)
        return name

    def compute_tensor_metadata(self, t: Any, h: str | None = None) -> tuple[Any, ...]:
        """Return the metadata of a tensor."""
        name = hash_storage(t.untyped_storage(), stable_hash=self.stable_hash) if h is None else h
        return t.dtype, name, t.storage_offset(), tuple(t.shape), t.stride(), {}

    def write_tensor(self, name: str, t: Any) -> None:
        """Write a tensor under a name, which may have folders in it."""
        metadata = self.compute_tensor_metadata(t, self.write_storage(t.untyped_storage()))
        folder, last = os.path.split(name)
        os.makedirs(os.path.join(self.loc, "tensors", folder), exist_ok=True)
        save(metadata, os.path.join(self.loc, "tensors", folder, last))


class ContentStoreReader:
    """Reads the tensors of a folder; those that shared memory share it again."""

    def __init__(self, loc: str, *, cache: bool = True) -> None:
        self.loc = loc
        self.storage_cache: Any = WeakValueDictionary() if cache else None

    def read_storage(self, h: str, *, device: Any = None) -> UntypedStorage:
        """Return the storage of a name."""
        where = str(Device(device if device is not None else "cpu"))
        root = self.storage_cache.get((where, h)) if self.storage_cache is not None else None
        if root is not None:
            return UntypedStorage(root)
        storage: UntypedStorage = load(os.path.join(self.loc, "storages", h), weights_only=True, map_location=where)
        if self.storage_cache is not None:
            self.storage_cache[where, h] = storage.root
        return storage

    def read_tensor_metadata(self, name: str) -> tuple[Any, ...]:
        """Return the stored metadata of a tensor."""
        path = os.path.join(self.loc, "tensors", name)
        if not os.path.exists(path):
            raise FileNotFoundError(path)
        metadata: tuple[Any, ...] = load(path, weights_only=True)
        return metadata

    def read_tensor(self, name: str, *, device: Any = None) -> Any:
        """Return the tensor of a name."""
        dtype, h, offset, size, stride, _ = self.read_tensor_metadata(name)
        if str(device) == "meta":
            return empty_strided(size, stride, dtype=dtype, device="meta")
        storage = self.read_storage(h, device=device)
        return empty_strided((0,), (1,), dtype=dtype).set_(storage, offset, size, stride)
