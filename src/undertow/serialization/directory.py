"""The directory of a zip archive, read strictly: one folder with unique records that do not overlap.

Zip readers differ in how they read an inconsistent archive (two records of one name, overlapping records, a wrong
count), so a scanner may see a different file than the loader. Here every inconsistency is refused, without unpacking
anything.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from typing import IO, NamedTuple

LOCAL = struct.Struct("<4s5H3I2H")
CENTRAL = struct.Struct("<4s6H3I5H2I")
END = struct.Struct("<4s4H2IH")
END64 = struct.Struct("<4sQ2H2I4Q")
END64_PLACE = struct.Struct("<4sIQI")
ELSEWHERE = 0xFFFFFFFF  # a 32-bit field with this value refers to the zip64 fields
COUNTED_ELSEWHERE = 0xFFFF

_LONGEST_COMMENT = 0xFFFF
_ENCRYPTED = 1 << 0 | 1 << 6 | 1 << 13
_PATCHED = 1 << 5
_STORED, _DEFLATED = 0, 8


class BadArchive(ValueError):
    """An archive is refused, with the reason."""


class Record(NamedTuple):
    """A record's directory entry. Offsets count from the beginning of the archive."""

    name: str
    compressed: bool
    checksum: int
    packed: int  # bytes in the archive
    size: int  # bytes when unpacked
    start: int  # where its header begins
    limit: int  # where the next record begins, or the directory


class _End(NamedTuple):
    entries: int
    size: int
    start: int


def read_directory(file: IO[bytes], base: int, length: int) -> dict[str, Record]:
    """Return the records, by name, of the archive of `length` bytes that begins at `base`, without folders."""
    end = _end_of(file, base, length)
    file.seek(base + end.start)
    content = file.read(end.size)
    entries = list(_entries(content, end.entries))
    entries.sort(key=lambda entry: entry.start)
    records: dict[str, Record] = {}
    for entry, after in itertools.zip_longest(entries, entries[1:]):
        limit = end.start if after is None else after.start
        if entry.start + LOCAL.size + len(entry.name.encode()) + entry.packed > limit:
            raise BadArchive(f"record {_short(entry.name)} overlaps the next record or the directory")
        if entry.name in records:
            raise BadArchive(f"it has two records named {_short(entry.name)}")
        records[entry.name] = entry._replace(limit=limit)
    _check_folder(records)
    return {name: record for name, record in records.items() if not name.endswith("/")}


def _end_of(file: IO[bytes], base: int, length: int) -> _End:
    """Find the end record, and check that the directory ends right before it."""
    size = min(length, END.size + _LONGEST_COMMENT)
    file.seek(base + length - size)
    tail = file.read(size)
    found = tail.rfind(b"PK\5\6")
    if found < 0 or len(tail) - found < END.size:
        raise BadArchive("it has no end record")
    _, disk, first_disk, here, count, dir_size, dir_start, _ = END.unpack_from(tail, found)
    if disk or first_disk or here != count:
        raise BadArchive("it is one part of several")
    end = _End(count, dir_size, dir_start)
    place = length - size + found
    if place >= END64_PLACE.size:
        file.seek(base + place - END64_PLACE.size)
        mark, disk, place64, _ = END64_PLACE.unpack(file.read(END64_PLACE.size))
        if mark == b"PK\6\7":
            end = _end64(file, base, place64, place - END64_PLACE.size, end)
            place = place64
    if end.start + end.size != place:
        raise BadArchive("its directory is not at the position in its end record")
    return end


def _end64(file: IO[bytes], base: int, place: int, limit: int, short: _End) -> _End:
    if place + END64.size > limit:
        raise BadArchive("its zip64 end record is missing")
    file.seek(base + place)
    mark, size, _, _, disk, first_disk, here, count, dir_size, dir_start = END64.unpack(file.read(END64.size))
    if mark != b"PK\6\6" or place + size + 12 != limit or disk or first_disk or here != count:
        raise BadArchive("its zip64 end record is damaged")
    end = _End(count, dir_size, dir_start)
    for told, whole, elsewhere in zip(short, end, (COUNTED_ELSEWHERE, ELSEWHERE, ELSEWHERE), strict=True):
        if told not in (whole, elsewhere):
            raise BadArchive("its two end records contradict each other")
    return end


def _entries(content: bytes, count: int) -> Iterator[Record]:
    place = 0
    for _ in range(count):
        if place + CENTRAL.size > len(content):
            raise BadArchive("its directory has fewer records than its end record states")
        fields = CENTRAL.unpack_from(content, place)
        mark, _, _, flags, method, _, _, checksum, packed, size, name_size, extra_size, comment_size = fields[:13]
        disk, _, _, start = fields[13:]
        name_end = place + CENTRAL.size + name_size
        extra = content[name_end : name_end + extra_size]
        name = _name(content[place + CENTRAL.size : name_end])
        place = name_end + extra_size + comment_size
        if mark != b"PK\1\2" or place > len(content) or disk:
            raise BadArchive("its directory is damaged")
        if flags & _ENCRYPTED:
            raise BadArchive(f"record {_short(name)} is encrypted")
        if flags & _PATCHED or method not in (_STORED, _DEFLATED):
            raise BadArchive(f"unsupported method {method} of packing record {_short(name)}")
        size, packed, start = _wide(extra, size, packed, start)
        if method == _STORED and size != packed:
            raise BadArchive(f"record {_short(name)} has two sizes")
        yield Record(name, method == _DEFLATED, checksum, packed, size, start, 0)
    if place != len(content):
        raise BadArchive("its directory has more records than its end record states")


def _wide(extra: bytes, *fields: int) -> Iterator[int]:
    """Replace the marked 32-bit fields of an entry by the values in its zip64 field."""
    wide = b""
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<2H", extra)
        if kind == 1:
            if wide:
                raise BadArchive("a record has two zip64 fields")
            wide = extra[4 : 4 + size]
        extra = extra[4 + size :]
    for field in fields:
        if field == ELSEWHERE:
            if len(wide) < 8:
                raise BadArchive("a record lacks its zip64 field")
            (field,) = struct.unpack_from("<Q", wide)
            wide = wide[8:]
        yield field


def _name(raw: bytes) -> str:
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        raise BadArchive("a record's name is not text") from None
    parts = name.removesuffix("/").split("/")
    if any(part in ("", ".", "..") for part in parts) or "\\" in name or "\0" in name:
        raise BadArchive(f"{_short(name)} is not a valid record name")
    return name


def _check_folder(records: dict[str, Record]) -> None:
    if not any(name.endswith("/data.pkl") for name in records):
        return  # a different kind of zip file, for which the caller has its own message
    folder = next(iter(records)).partition("/")[0] + "/"
    for name in records:
        if not name.startswith(folder):
            raise BadArchive(f"file in archive is not in a subdirectory {_short(folder)}: {_short(name)}")


def _short(text: str) -> str:
    return ascii(text if len(text) <= 80 else f"{text[:80]}…")
