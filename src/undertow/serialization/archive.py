"""The zip archive of a checkpoint: written without compression and aligned, read with every byte checked.

A checkpoint holds `data.pkl` (the objects, storages named by number), `data/0`, `data/1` … (the storages' bytes) and a
few one-line records, all under one folder. The bytes of each record begin at a multiple of 64 (which can be set), so that
a file can be mapped into memory as it is.
"""

from __future__ import annotations

import io
import mmap
import os
import struct
import zipfile
import zlib
from typing import IO, Any

import numpy as np

from undertow.utils.serialization import config

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_UTF8_NAMES = 1 << 11
_LONGEST = _ELSEWHERE = 0xFFFFFFFF  # a 32-bit field with this value sends the reader to the zip64 fields
_MOST_ENTRIES = _COUNTED_ELSEWHERE = 0xFFFF
_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_END64 = struct.Struct("<4sQ2H2I4Q")
_END64_PLACE = struct.Struct("<4sIQI")
_PADDING_ID = b"FB"
_CORRUPT = "The file was cut short, damaged or changed after it was saved: save it, copy it or download it again."


class ArchiveWriter:
    """Writes records one after the other; `out` needs `write` only."""

    def __init__(self, out: IO[bytes], folder: str) -> None:
        self.out = out
        self.folder = folder
        self.position = 0
        self.directory: list[bytes] = []
        self.fingerprint = 0

    def write(self, name: str, content: Any) -> None:
        """Adds a record: bytes, or an array of bytes."""
        view = memoryview(content).cast("B") if len(content) else memoryview(b"")
        path = f"{self.folder}/{name}".encode()
        checksum = zlib.crc32(view) if config.save.compute_crc32 else 0
        self.fingerprint = zlib.crc32(path, zlib.crc32(checksum.to_bytes(4, "little"), self.fingerprint))
        start, size = self.position, len(view)
        sizes64 = struct.pack("<2H2Q", 1, 16, size, size) if size >= _LONGEST else b""
        shown_size = _ELSEWHERE if sizes64 else size
        begin = start + _LOCAL.size + len(path) + len(sizes64) + 4
        pad = -begin % config.save.storage_alignment
        extra = sizes64 + _PADDING_ID + struct.pack("<H", pad) + b"Z" * pad
        self._put(
            _LOCAL.pack(b"PK\3\4", 45, _UTF8_NAMES, 0, 0, 0x21, checksum, shown_size, shown_size, len(path), len(extra))
        )
        self._put(path + extra)
        self._put(view)
        fields64 = [size, size] if sizes64 else []
        if start >= _LONGEST:
            fields64.append(start)
        extra64 = struct.pack(f"<2H{len(fields64)}Q", 1, 8 * len(fields64), *fields64) if fields64 else b""
        entry = _CENTRAL.pack(
            b"PK\1\2", 45, 45, _UTF8_NAMES, 0, 0, 0x21, checksum, shown_size, shown_size, len(path), len(extra64),
            0, 0, 0, 0, _ELSEWHERE if start >= _LONGEST else start,
        )  # fmt: skip
        self.directory.append(entry + path + extra64)

    def finish(self) -> None:
        """Writes the directory; without it the archive cannot be read."""
        start, count = self.position, len(self.directory)
        for entry in self.directory:
            self._put(entry)
        end = self.position
        large = count >= _MOST_ENTRIES or end >= _LONGEST
        if large:
            self._put(_END64.pack(b"PK\6\6", _END64.size - 12, 45, 45, 0, 0, count, count, end - start, start))
            self._put(_END64_PLACE.pack(b"PK\6\7", 0, end, 1))
        shown = _COUNTED_ELSEWHERE if large else count
        place = (_ELSEWHERE, _ELSEWHERE) if large else (end - start, start)
        self._put(_END.pack(b"PK\5\6", 0, 0, shown, shown, *place, 0))

    def _put(self, data: Any) -> None:
        self.out.write(data)
        self.position += len(data)


class ArchiveReader:
    """Reads the records of a checkpoint that is open in `file`, called `label` in errors."""

    def __init__(self, file: IO[bytes], label: str, mapped: Any = None) -> None:
        self.file = file
        self.label = label
        self.mapped = mapped
        try:
            entries = zipfile.ZipFile(file).infolist()
        except (zipfile.BadZipFile, struct.error, NotImplementedError, OverflowError, OSError, ValueError) as error:
            raise RuntimeError(
                f"PytorchStreamReader failed reading zip archive: failed finding central directory. {label}: {error}. "
                f"{_CORRUPT}"
            ) from None
        self.entries = {entry.filename: entry for entry in entries}
        folders = [name[: -len("data.pkl")] for name in self.entries if name.endswith("/data.pkl")]
        if len(folders) != 1:
            raise RuntimeError(
                f"PytorchStreamReader failed locating file data.pkl: file not found. {label} is a zip archive with "
                f"{len(folders) or 'no'} data.pkl in it, not a checkpoint."
            )
        self.folder = folders[0]

    def __contains__(self, name: str) -> bool:
        return self.folder + name in self.entries

    def size(self, name: str) -> int:
        """How many bytes a record holds."""
        return self._entry(name).file_size

    def read(self, name: str) -> Bytes:
        """A record's bytes in memory of their own."""
        entry = self._entry(name)
        begin = self._begin(entry)
        if entry.compress_type == zipfile.ZIP_STORED:
            content = self._read_stored(entry, begin)
        else:
            content = self._read_compressed(entry)
        if entry.CRC and zlib.crc32(content.data) != entry.CRC:  # 0 where the writer left checksums out
            raise self._broken(entry, "its checksum does not fit its bytes (mmap=True does not look at it)")
        return content

    def map(self, name: str) -> Bytes:
        """A record's bytes where the file is mapped into memory; nothing is read before it is used."""
        entry = self._entry(name)
        if entry.compress_type != zipfile.ZIP_STORED or not entry.file_size:
            return self.read(name)
        return np.frombuffer(self.mapped, np.uint8, entry.file_size, self._begin(entry))

    def _entry(self, name: str) -> zipfile.ZipInfo:
        entry = self.entries.get(self.folder + name)
        if entry is None:
            raise RuntimeError(f"PytorchStreamReader failed locating file {name}: file not found in {self.label}.")
        return entry

    def _begin(self, entry: zipfile.ZipInfo) -> int:
        """Where a record's bytes begin."""
        header = b""
        if 0 <= entry.header_offset < self._length():
            self.file.seek(entry.header_offset)
            header = self.file.read(_LOCAL.size)
        if len(header) < _LOCAL.size or header[:4] != b"PK\3\4":
            raise self._broken(entry, "it has no header")
        *_, name_length, extra_length = _LOCAL.unpack(header)
        begin = entry.header_offset + _LOCAL.size + name_length + extra_length
        stored = entry.compress_type == zipfile.ZIP_STORED
        if (stored and entry.file_size != entry.compress_size) or begin + entry.compress_size > self._length():
            raise self._broken(entry, "it reaches beyond the end of the file")
        return begin

    def _length(self) -> int:
        return self.file.seek(0, io.SEEK_END)

    def _read_stored(self, entry: zipfile.ZipInfo, begin: int) -> Bytes:
        content = np.empty(entry.file_size, np.uint8)
        self.file.seek(begin)
        if hasattr(self.file, "readinto"):
            rest = content.data
            while rest:
                count = self.file.readinto(rest)
                if not count:
                    break
                rest = rest[count:]
            missing = len(rest)
        else:
            data = self.file.read(entry.file_size)
            missing = entry.file_size - len(data)
            content[: len(data)] = np.frombuffer(data, np.uint8)
        if missing:
            raise self._broken(entry, f"{missing} of its bytes are missing")
        return content

    def _read_compressed(self, entry: zipfile.ZipInfo) -> Bytes:
        """A record that some other program compressed; never more than its directory entry says."""
        try:
            with zipfile.ZipFile(self.file).open(entry) as record:
                data = record.read(entry.file_size + 1)
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError) as error:
            raise self._broken(entry, str(error)) from None
        if len(data) != entry.file_size:
            raise self._broken(entry, "its size is not what the directory says")
        return np.frombuffer(bytearray(data), np.uint8)

    def _broken(self, entry: zipfile.ZipInfo, reason: str) -> RuntimeError:
        name = entry.filename[len(self.folder) :]
        return RuntimeError(f"PytorchStreamReader failed reading file {name}: {reason} in {self.label}. {_CORRUPT}")


def map_file(path: str | os.PathLike[str]) -> mmap.mmap:
    """A file in memory; writes go to private pages unless MAP_SHARED was asked for."""
    shared = config.load.mmap_flags == getattr(mmap, "MAP_SHARED", None)
    with open(path, "r+b" if shared else "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
