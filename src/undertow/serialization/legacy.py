"""The format before PyTorch 1.6: several pickles (a magic number, the objects, the keys), then the storages."""

from __future__ import annotations

import io
import pickle
import struct
import sys
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from undertow.serialization.archive import write_all
from undertow.serialization.limits import reason
from undertow.serialization.storages import StorageType, StoredMemory, TypedStorage, check_pid
from undertow.serialization.unpickling import TRIPS, Source
from undertow.storage import UntypedStorage, flat_memory

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001


def write(out: Any, pickled: bytes, memories: dict[str, StoredMemory], protocol: int) -> None:
    """Write an object's pickle and its storages."""
    system = {
        "protocol_version": PROTOCOL_VERSION,
        "little_endian": sys.byteorder == "little",
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    for value in (MAGIC_NUMBER, PROTOCOL_VERSION, system):
        write_all(out, pickle.dumps(value, protocol))
    write_all(out, pickled)
    write_all(out, pickle.dumps(sorted(memories), protocol))
    for key in sorted(memories):
        write_all(out, struct.pack("<q", memories[key].size))
        write_all(out, flat_memory(memories[key].root).data)


def load(source: Source, file: IO[bytes], restore: Callable[[Any, str], Any]) -> Any:
    """Return the object in a legacy file."""
    return _LegacyFile(source, file, restore).load()


def _no_storage(pid: Any) -> Any:
    raise pickle.UnpicklingError("the pickle refers to a storage where none is allowed")


class _LegacyFile:
    """A legacy file being read: first the pickles, which give the sizes of the storages that follow."""

    def __init__(self, source: Source, file: IO[bytes], restore: Callable[[Any, str], Any]) -> None:
        self.source, self.file, self.restore = source, file, restore
        start = file.tell()
        self.length = file.seek(0, io.SEEK_END) - start
        file.seek(start)
        self.made: dict[str, tuple[StorageType, Any]] = {}  # the memory of each storage
        self.claimed = 0  # bytes of all storages
        self.restored: dict[str, Any] = {}  # the storage after map_location

    def load(self) -> Any:
        label = self.source.label
        start = self.file.tell()
        try:
            magic = self.read_plain()
        except pickle.UnpicklingError:
            raise pickle.UnpicklingError(f"{label} is not a checkpoint. {self.guess(start)}") from None
        if type(magic) is not int or magic != MAGIC_NUMBER:
            raise RuntimeError(f"Invalid magic number; corrupt file? {label} is not a checkpoint.")
        version, system = self.read_plain(), self.read_plain()
        if type(version) is not int or version != PROTOCOL_VERSION:
            raise RuntimeError(f"Invalid protocol version in {label}, which should be {PROTOCOL_VERSION}")
        result = self.source.unpickle(self.file, self.length, self.persistent_load)
        keys = self.read_plain()
        try:
            self.check_keys(keys)
            self.fill(keys, "little" if system["little_endian"] else "big")
        except (struct.error, *TRIPS) as error:
            raise RuntimeError(
                f"unexpected EOF, expected more bytes. The file might be corrupted: {label} ({reason(error)})."
            ) from None
        return result

    def check_keys(self, keys: Any) -> None:
        """Refuse a list of storages with missing or repeated keys, which would assign the wrong bytes."""
        if type(keys) is not list or not all(type(key) is str for key in keys) or len(set(keys)) != len(keys):
            raise TypeError("the keys of the storages are not a list of names")
        if self.made.keys() != set(keys):
            raise ValueError("the keys of the storages do not match those of the objects")

    def read_plain(self) -> Any:
        """Return the next pickle, which may hold only numbers, strings and containers."""
        return self.source.read_safely(self.file, self.length, _no_storage)

    def guess(self, start: int) -> str:
        """Guess what kind of file this is instead."""
        self.file.seek(start)
        head = self.file.read(512)
        if head.startswith(b"version https://git-lfs"):
            return "It is git-lfs's note about a file that was not fetched: run `git lfs pull`."
        if head[257:262] == b"ustar":
            return "It is a tar file of a PyTorch older than 0.2: load and save it again with PyTorch 1.x."
        if head.lstrip()[:1] == b"<":
            return "It looks like a web page, perhaps the message of a failed download."
        return f"It begins with {head[:16]!r}; checkpoints begin with {b'PK'!r}, or with a pickle before PyTorch 1.6."

    def persistent_load(self, pid: Any) -> Any:
        view = pid[5] if isinstance(pid, tuple) and len(pid) == 6 else None
        kind, key, location, count = check_pid(pid[:5] if isinstance(pid, tuple) else pid)
        if key not in self.made:
            nbytes = count * kind.itemsize
            self.claimed += nbytes
            if self.claimed > self.length:
                raise RuntimeError(
                    f"unexpected EOF, expected {self.claimed - self.length} more bytes. The file might be corrupted: "
                    f"{self.source.label} is shorter than its storages up to {key}."
                )
            memory = UntypedStorage(np.zeros(nbytes, np.uint8))
            self.made[key] = kind, memory
            self.restored[key] = self.source.restored(self.restore, memory, location)
        memory = self.restored[key]
        if view is not None:
            _, offset, size = view if type(view) is tuple and len(view) == 3 else (None, None, None)
            if type(offset) is not int or type(size) is not int or not 0 <= offset <= offset + size <= count:
                raise pickle.UnpicklingError(f"a view of storage {key} exceeds it")
            begin = offset * kind.itemsize
            memory = UntypedStorage(flat_memory(memory.root)[begin : begin + size * kind.itemsize])
        return memory if kind.dtype is None else TypedStorage.over(memory, kind.dtype)

    def fill(self, keys: Any, byteorder: str) -> None:
        """Read the storages, in the order of `keys`."""
        order = "<" if byteorder == "little" else ">"
        for key in keys:
            kind, memory = self.made[key]
            count = struct.unpack(f"{order}q", self.file.read(8))[0]
            content = memory.root
            data = self.file.read(content.size)
            if count * kind.itemsize != content.size or len(data) != content.size:
                raise RuntimeError(
                    f"unexpected EOF, expected {content.size - len(data)} more bytes. The file might be corrupted: "
                    f"{self.source.label} ends in storage {key}."
                )
            content[:] = np.frombuffer(data, np.uint8)
            if byteorder != sys.byteorder:
                content[:] = kind.swapped(content)
            if self.restored[key] is not memory:
                flat_memory(self.restored[key].root)[:] = content
