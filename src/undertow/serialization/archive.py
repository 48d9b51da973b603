"""The zip archive of a checkpoint: written uncompressed and aligned, read with all checks.

A checkpoint holds `data.pkl` (the objects, storages named by number), `data/0`, `data/1` … (the storages' bytes) and a
few one-line records, all in one folder. Each record's bytes are aligned to 64 (or as set), so that a file can be mapped
into memory.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from typing import IO, Any

import numpy as np

from undertow.serialization.directory import (
    CENTRAL,
    COUNTED_ELSEWHERE,
    ELSEWHERE,
    END,
    END64,
    END64_PLACE,
    LOCAL,
    BadArchive,
    Record,
    read_directory,
)  # fmt: skip
from undertow.utils.serialization import config

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_UTF8_NAMES = 1 << 11
_LONGEST = ELSEWHERE
_MOST_ENTRIES = COUNTED_ELSEWHERE
_PADDING_ID = b"FB"
_EXPANSION = 16  # the largest expansion of a compressed file, beyond the free allowance
_FREE_PICKLE, _FREE_DATA = 64 << 10, 16 << 20
_PIECE = 1 << 20  # bytes unpacked at once
_CORRUPT = "The file was cut short, damaged or changed after it was saved: save it, copy it or download it again."


class ArchiveWriter:
    """Writes records one after the other; `out` needs only `write`."""

    def __init__(self, out: IO[bytes], folder: str) -> None:
        self.out = out
        self.folder = folder
        self.position = 0
        self.directory: list[bytes] = []
        self.fingerprint = 0

    def write(self, name: str, content: Any) -> None:
        """Add a record: bytes, or an array of bytes."""
        view = memoryview(content).cast("B") if len(content) else memoryview(b"")
        path = f"{self.folder}/{name}".encode()
        checksum = zlib.crc32(view) if config.save.compute_crc32 else 0
        self.fingerprint = zlib.crc32(path, zlib.crc32(checksum.to_bytes(4, "little"), self.fingerprint))
        start, size = self.position, len(view)
        sizes64 = struct.pack("<2H2Q", 1, 16, size, size) if size >= _LONGEST else b""
        shown_size = ELSEWHERE if sizes64 else size
        begin = start + LOCAL.size + len(path) + len(sizes64) + 4
        pad = -begin % config.save.storage_alignment
        extra = sizes64 + _PADDING_ID + struct.pack("<H", pad) + b"Z" * pad
        self._put(
            LOCAL.pack(b"PK\3\4", 45, _UTF8_NAMES, 0, 0, 0x21, checksum, shown_size, shown_size, len(path), len(extra))
        )
        self._put(path + extra)
        self._put(view)
        fields64 = [size, size] if sizes64 else []
        if start >= _LONGEST:
            fields64.append(start)
        extra64 = struct.pack(f"<2H{len(fields64)}Q", 1, 8 * len(fields64), *fields64) if fields64 else b""
        entry = CENTRAL.pack(
            b"PK\1\2", 45, 45, _UTF8_NAMES, 0, 0, 0x21, checksum, shown_size, shown_size, len(path), len(extra64),
            0, 0, 0, 0, ELSEWHERE if start >= _LONGEST else start,
        )  # fmt: skip
        self.directory.append(entry + path + extra64)

    def finish(self) -> None:
        """Write the directory; without it the archive cannot be read."""
        start, count = self.position, len(self.directory)
        for entry in self.directory:
            self._put(entry)
        end = self.position
        large = count >= _MOST_ENTRIES or end >= _LONGEST
        if large:
            self._put(END64.pack(b"PK\6\6", END64.size - 12, 45, 45, 0, 0, count, count, end - start, start))
            self._put(END64_PLACE.pack(b"PK\6\7", 0, end, 1))
        shown = COUNTED_ELSEWHERE if large else count
        place = (ELSEWHERE, ELSEWHERE) if large else (end - start, start)
        self._put(END.pack(b"PK\5\6", 0, 0, shown, shown, *place, 0))

    def _put(self, data: Any) -> None:
        write_all(self.out, data)
        self.position += len(data)


def write_all(out: Any, data: Any) -> None:
    """Write all bytes: an unbuffered file may write only a part of them per call."""
    count = out.write(data)
    while type(count) is int and count < len(data):
        if count <= 0:
            raise OSError(f"{type(out).__name__}.write wrote {count} of {len(data)} bytes")
        data = memoryview(data)[count:]
        count = out.write(data)


class ArchiveReader:
    """Reads the records of the checkpoint at the current position of `file`; errors call it `label`."""

    def __init__(self, file: IO[bytes], label: str, mapped: Any = None) -> None:
        self.file, self.label, self.mapped = file, label, mapped
        self.unpacked = 0  # bytes unpacked from compressed records so far
        self.base = file.tell()
        self.length = file.seek(0, os.SEEK_END) - self.base
        try:
            self.records = read_directory(file, self.base, self.length)
        except (BadArchive, struct.error, OverflowError, OSError, ValueError) as error:
            raise RuntimeError(
                f"PytorchStreamReader failed reading zip archive: failed finding central directory. {label}: {error}. "
                f"{_CORRUPT}"
            ) from None
        self.folder = next(iter(self.records), "").partition("/")[0] + "/"
        if "data.pkl" not in self:
            raise RuntimeError(
                f"PytorchStreamReader failed locating file data.pkl: file not found. {label} is a zip archive with "
                "no data.pkl in it, not a checkpoint."
            )

    def __contains__(self, name: str) -> bool:
        return self.folder + name in self.records

    def size(self, name: str) -> int:
        """Return the size of a record in bytes."""
        return self.record(name).size

    def read(self, name: str) -> Bytes:
        """Return a copy of a record's bytes."""
        record = self.record(name)
        begin = self.begin(record)
        content = self._unpack(record, begin) if record.compressed else self._read_stored(record, begin)
        if record.checksum and zlib.crc32(content.data) != record.checksum:  # 0 if the writer left checksums out
            raise self._broken(record, "its checksum does not match its bytes (mmap=True does not check it)")
        return content

    def map(self, name: str) -> Bytes:
        """Return a record's bytes from the mapped file; they are read when used."""
        record = self.record(name)
        if record.compressed or not record.size:
            return self.read(name)
        return np.frombuffer(self.mapped, np.uint8, record.size, self.begin(record))

    def blank(self, name: str) -> Bytes:
        """Return memory of a record's size, without reading its bytes."""
        record = self.record(name)
        if record.compressed:
            self._check_expansion(record)
        return np.empty(record.size, np.uint8)

    def record(self, name: str) -> Record:
        """Return the directory entry of a record."""
        found = self.records.get(self.folder + name)
        if found is None:
            raise RuntimeError(f"PytorchStreamReader failed locating file {name[:80]}: file not found in {self.label}.")
        return found

    def begin(self, record: Record) -> int:
        """Return the file offset of a record's bytes."""
        self.file.seek(self.base + record.start)
        header = self.file.read(LOCAL.size)
        if len(header) < LOCAL.size or header[:4] != b"PK\3\4":
            raise self._broken(record, "it has no header")
        _, _, _, method, *_, name_length, extra_length = LOCAL.unpack(header)
        if bool(method) != record.compressed or self.file.read(name_length) != record.name.encode():
            raise self._broken(record, "its header does not match the directory")
        begin = record.start + LOCAL.size + name_length + extra_length
        if begin + record.packed > record.limit:
            raise self._broken(record, "it reaches beyond its end")
        return self.base + begin

    def _read_stored(self, record: Record, begin: int) -> Bytes:
        content = np.empty(record.size, np.uint8)
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
            data = self.file.read(record.size)
            missing = record.size - len(data)
            content[: len(data)] = np.frombuffer(data, np.uint8)
        if missing:
            raise self._broken(record, f"{missing} of its bytes are missing")
        return content

    def _unpack(self, record: Record, begin: int) -> Bytes:
        """Unpack a compressed record, to at most the size in its directory entry."""
        self._check_expansion(record)
        self.file.seek(begin)
        content = np.empty(record.size, np.uint8)
        place, left, unpacker = 0, record.packed, zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            while not unpacker.eof and (unpacker.unconsumed_tail or left):
                packed = unpacker.unconsumed_tail or self.file.read(min(left, _PIECE))
                left -= 0 if unpacker.unconsumed_tail else max(len(packed), 1)
                piece = np.frombuffer(unpacker.decompress(packed, _PIECE), np.uint8)
                content[place : place + len(piece)] = piece
                place += len(piece)
        except (zlib.error, ValueError) as error:  # raises ValueError if a piece is longer than the rest
            raise self._broken(record, str(error)) from None
        if place != record.size or not unpacker.eof:
            raise self._broken(record, "its size does not match the directory")
        return content

    def _check_expansion(self, record: Record) -> None:
        """Refuse a small file that unpacks to a large one; stricter for a pickle, whose objects are larger still."""
        self.unpacked += record.size
        of_pickle = record.name == f"{self.folder}data.pkl"
        within = _FREE_PICKLE + _EXPANSION * record.packed if of_pickle else _FREE_DATA + _EXPANSION * self.length
        if (record.size if of_pickle else self.unpacked) > within:
            raise self._broken(record, f"the file unpacks to more than {within} bytes, {_EXPANSION} times its size")

    def _broken(self, record: Record, reason: str) -> RuntimeError:
        name = record.name[len(self.folder) :][:80]
        return RuntimeError(f"PytorchStreamReader failed reading file {name}: {reason} in {self.label}. {_CORRUPT}")


def map_file(path: str | os.PathLike[str]) -> mmap.mmap:
    """Map a file into memory; writes go to private pages unless MAP_SHARED is set."""
    shared = config.load.mmap_flags == getattr(mmap, "MAP_SHARED", None)
    with open(path, "r+b" if shared else "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
