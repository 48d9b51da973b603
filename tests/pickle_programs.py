"""Pickles and checkpoints put together by hand: instructions, objects made of them, and archives around them."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
import zlib

MARK, STOP, REDUCE, NONE, POP = b"(", b".", b"R", b"N", b"0"
THREE = {"data/0": struct.pack("<3f", 0, 1, 2)}

# --- instructions


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def raw(value: bytes) -> bytes:
    return b"B" + struct.pack("<I", len(value)) + value


def number(value: int) -> bytes:
    content = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8b" + struct.pack("<i", len(content)) + content


def real(value: float) -> bytes:
    return b"G" + struct.pack(">d", value)


def numbers(*values: int) -> bytes:
    return MARK + b"".join(map(number, values)) + b"t"


def listed(*items: bytes) -> bytes:
    return b"](" + b"".join(items) + b"e"


def mapped(*items: bytes) -> bytes:
    return b"}(" + b"".join(items) + b"u"


def several(*items: bytes) -> bytes:
    return MARK + b"".join(items) + b"t"


def name(module: str, attribute: str) -> bytes:
    return f"c{module}\n{attribute}\n".encode()


def call(module: str, attribute: str, *arguments: bytes) -> bytes:
    return name(module, attribute) + several(*arguments) + REDUCE


def kept(place: int, value: bytes) -> bytes:
    """Make a value and keep it for `again`."""
    return value + b"r" + struct.pack("<I", place) + POP


def again(place: int) -> bytes:
    return b"j" + struct.pack("<I", place)


def nested(depth: int) -> bytes:
    """A tuple in a tuple in a tuple …"""
    return b")" + b"\x85" * depth


def doubled(times: int = 60) -> bytes:
    """A tuple of two of a tuple of two …: little to write, endless to hash, compare or format."""
    return b")" + b"".join(b"q\x00h\x00\x86" for _ in range(times))


def endless_list() -> bytes:
    """A list that holds itself, next to what is endless without it."""
    return b"]q\x07h\x07a" + doubled() + b"a"


def storage(
    count: int = 3, key: bytes = text("0"), kind: bytes = name("torch", "FloatStorage"), location: bytes = text("cpu")
) -> bytes:
    return several(text("storage"), kind, key, location, number(count)) + b"Q"


def tensor(
    offset: bytes = b"K\x00", size: bytes = numbers(3), stride: bytes = numbers(1), memory: bytes = b"",
    needs_grad: bytes = b"\x89", *more: bytes,
) -> bytes:  # fmt: skip
    arguments = (memory or storage(), offset, size, stride, needs_grad, b"}", *more)
    return call("torch._utils", "_rebuild_tensor_v2", *arguments)


def expanded(count: int = 1 << 40) -> bytes:
    """One element shown any number of times."""
    return tensor(size=numbers(count), stride=numbers(0))


def from_type(function: bytes, arguments: bytes, cls: bytes = name("torch", "Tensor"), state: bytes = b"}") -> bytes:
    return call("torch._tensor", "_rebuild_from_type_v2", function, cls, arguments, state)


# --- files


def archive(program: bytes, records: dict[str, bytes] | None = None, compress: int = zipfile.ZIP_STORED) -> bytes:
    """A checkpoint whose pickle is `program`."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compress) as target:
        target.writestr("archive/data.pkl", program)
        target.writestr("archive/version", b"3\n")
        for key, content in (records or {}).items():
            target.writestr(f"archive/{key}", content)
    return file.getvalue()


def legacy(program: bytes, keys: bytes = pickle.dumps([], 2), rest: bytes = b"") -> bytes:
    """The same in the format before PyTorch 1.6."""
    opening = [0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {}}]
    return b"".join(pickle.dumps(value, 2) for value in opening) + program + keys + rest


class Entry:
    """A record of an archive that is put together by hand; what the directory says of it can be anything."""

    def __init__(self, path: str | bytes, content: bytes = b"", **said: int | bytes) -> None:
        self.path = path.encode() if isinstance(path, str) else path
        self.content = content
        self.said = said

    def header(self) -> bytes:
        path = self.said.get("local_path", self.path)
        fields = (
            self.said.get("local_flags", self.said.get("flags", 0)),
            self.said.get("local_method", self.said.get("method", 0)), 0, 0x21,
            self.said.get("local_checksum", zlib.crc32(self.content)), len(self.content), len(self.content), len(path),  # type: ignore[arg-type]
        )  # fmt: skip
        return struct.pack("<4s5H3I2H", b"PK\3\4", 20, *fields, 0) + path  # type: ignore[operator]

    def listed(self, start: int) -> bytes:
        said = {"size": len(self.content), "packed": len(self.content), "start": start, **self.said}
        extra = said.get("extra", b"")
        checksum = said.get("checksum", zlib.crc32(self.content))
        fields = (said.get("flags", 0), said.get("method", 0), 0, 0x21, checksum, said["packed"], said["size"])
        lengths = (len(self.path), len(extra), 0, said.get("disk", 0), 0, 0, said["start"])  # type: ignore[arg-type]
        return struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, *fields, *lengths) + self.path + extra  # type: ignore[operator]


def by_hand(*entries: Entry, end: bytes = b"", count: int | None = None, shift: int = 0, disk: int = 0) -> bytes:
    """An archive of entries; `end` goes between its directory and its end record."""
    content, directory = b"", b""
    for entry in entries:
        directory += entry.listed(len(content))
        content += entry.header() + entry.content
    count = len(entries) if count is None else count
    place = (len(directory), len(content) + shift)
    return content + directory + end + struct.pack("<4s4H2IH", b"PK\5\6", disk, disk, count, count, *place, 0)


GOOD = tensor() + STOP
USUAL = (Entry("a/data.pkl", GOOD), Entry("a/version", b"3\n"), Entry("a/data/0", THREE["data/0"]))
