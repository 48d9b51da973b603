"""`save`: write objects to a file that PyTorch and undertow both read. A path is replaced atomically."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import sys
from collections import OrderedDict
from pathlib import Path
from types import FunctionType
from typing import IO, Any

import numpy as np

from undertow._src.random.generators import Generator
from undertow._src.tensor.core import TensorCore
from undertow._src.types.devices import device
from undertow._src.types.dtypes import dtype
from undertow._src.types.layouts import layout
from undertow._src.types.sizes import Size
from undertow.serialization import legacy
from undertow.serialization.archive import ArchiveWriter
from undertow.serialization.atomic import replacing
from undertow.serialization.deep_pickler import DeepPickler
from undertow.serialization.names import torch_name
from undertow.serialization.rebuild import TorchFunction, has_own_reduction, reduced
from undertow.serialization.settings import settings
from undertow.serialization.storages import TYPED, UNTYPED, StorageType, StoredMemory, TypedStorage
from undertow.storage import UntypedStorage, extent_of, flat_memory
from undertow.utils.serialization import config

FileLike = str | os.PathLike[str] | IO[bytes]

DEFAULT_PROTOCOL = 2
_FORMAT_VERSION = b"3\n"

_DEVICE = TorchFunction("torch", "device")
_SIZE = TorchFunction("torch", "Size")
_GET_LAYOUT = TorchFunction("torch.serialization", "_get_layout")
_GENERATOR = TorchFunction("torch._C", "Generator")


def save(
    obj: object, f: FileLike, pickle_module: Any = pickle, pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True, _disable_byteorder_record: bool = False,
) -> None:  # fmt: skip
    """Save an object to a path or to anything with a `write` method, in PyTorch's format.

    A path is replaced atomically: an interrupted save leaves the old file as it was.
    """
    path = os.fspath(f) if isinstance(f, (str, os.PathLike)) else None
    if path is None and not hasattr(f, "write"):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
    if settings.skips_data and not _use_new_zipfile_serialization:
        raise RuntimeError("Cannot use skip_data=True with _use_new_zipfile_serialization=False")
    pickled, memories = _pickled(
        obj, pickle_module, pickle_protocol, in_legacy_format=not _use_new_zipfile_serialization
    )
    with contextlib.nullcontext(f) if path is None else replacing(path) as out:
        if _use_new_zipfile_serialization:
            _write_archive(out, _folder(path), pickled, memories, not _disable_byteorder_record)
        else:
            legacy.write(out, pickled, memories, pickle_protocol)
        if path is None and hasattr(out, "flush"):
            out.flush()


def _write_archive(
    out: Any, folder: str, pickled: bytes, memories: OrderedDict[str, StoredMemory], say_byteorder: bool
) -> None:
    archive = ArchiveWriter(out, folder)
    archive.write("data.pkl", pickled)
    archive.write(".format_version", b"1")
    archive.write(".storage_alignment", str(config.save.storage_alignment).encode())
    if say_byteorder:
        archive.write("byteorder", sys.byteorder.encode())
    for key, memory in memories.items():
        content = flat_memory(memory.root)
        archive.write(f"data/{key}", np.zeros_like(content) if settings.skips_data else content)
    archive.write("version", _FORMAT_VERSION)
    archive.write(".data/serialization_id", f"{archive.position:020}{archive.fingerprint:020}".encode())
    archive.finish()


# --- the pickle


def _pickled(
    obj: object, pickle_module: Any, protocol: int, in_legacy_format: bool
) -> tuple[bytes, OrderedDict[str, StoredMemory]]:
    """Return the object as a pickle that refers to storages by number, and the storages."""
    buffer = io.BytesIO()
    numbers: dict[int, str] = {}  # by the identity of the memory
    memories: OrderedDict[str, StoredMemory] = OrderedDict()

    def persistent_id(item: Any) -> Any:
        if not isinstance(item, (StoredMemory, UntypedStorage, TypedStorage)):
            return None
        memory = _as_stored(item)
        key = numbers.get(id(memory.root))
        if key is None:
            key = numbers[id(memory.root)] = str(len(memories))
            memories[key] = memory  # keeps the memory alive, so that its id is not reused
        elif memories[key].kind is not memory.kind and extent_of(memory.root):
            raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")
        pid = ("storage", memory.kind, key, memory.location, memory.size)
        return (*pid, None) if in_legacy_format else pid

    pickler = _pickler_class(pickle_module)(buffer, protocol=protocol)
    pickler.persistent_id = persistent_id
    pickler.dump(obj)
    return buffer.getvalue(), memories


def _as_stored(item: StoredMemory | UntypedStorage | TypedStorage) -> StoredMemory:
    if isinstance(item, StoredMemory):
        return item
    if isinstance(item, TypedStorage):
        return StoredMemory(item.untyped().root, TYPED[item.dtype], str(item.untyped().device))
    return StoredMemory(item.root, UNTYPED, str(item.device))


def _pickler_class(pickle_module: Any) -> Any:
    """Return a pickler class that writes tensors as rebuild calls and undertow's names as PyTorch's.

    Names can only be changed in a pickler written in Python; one written in C keeps undertow's.
    """
    base: Any = DeepPickler if pickle_module is pickle else pickle_module.Pickler
    theirs = getattr(base, "reducer_override", None)

    class TorchPickler(base):
        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, TensorCore):
                return NotImplemented if has_own_reduction(obj) else reduced(obj)
            if isinstance(obj, (type, FunctionType, StorageType, TorchFunction)):
                known = torch_name(obj)
                if known is not None:
                    return known[1]
            if isinstance(obj, dtype):
                return obj.name
            if isinstance(obj, device):
                return _DEVICE, (obj.type,) if obj.index is None else (obj.type, obj.index)
            if isinstance(obj, Size):
                return _SIZE, (tuple(obj),)
            if isinstance(obj, layout):
                return _GET_LAYOUT, (repr(obj),)
            if isinstance(obj, Generator):
                return _GENERATOR, (device("cpu"),), (obj.initial_seed(), None, obj.get_state())
            return NotImplemented if theirs is None else theirs(self, obj)

        if issubclass(base, pickle._Pickler):

            def save_global(self, obj: Any, name: str | None = None) -> None:
                known = torch_name(obj, name)
                if known is None or "." in known[1]:
                    _in_words_of_c(super().save_global, obj, name)
                    return
                if self.proto >= 4:
                    self.save(known[0])
                    self.save(known[1])
                    self.write(pickle.STACK_GLOBAL)
                else:
                    self.write(pickle.GLOBAL + "{}\n{}\n".format(*known).encode())
                self.memoize(obj)

            if pickle_module is pickle:
                dispatch = {**base.dispatch, FunctionType: save_global}

    return TorchPickler


def _in_words_of_c(save_global: Any, obj: Any, name: str | None) -> None:
    """Save a name; if that fails, raise the C pickler's error, which users know."""
    try:
        save_global(obj, name)
    except pickle.PicklingError:
        pickle.dumps(obj)
        raise


def _folder(path: str | None) -> str:
    """Return the name of the archive's folder: the file's name without its extension."""
    stem = Path(path).name.rpartition(".") if path is not None else ("", "", "")
    name = stem[0] or stem[2]
    return name if name and name.isascii() and not name.startswith(".") else "archive"
