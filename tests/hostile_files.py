"""Checkpoints that attack their reader.

`corpus()` yields (name, content) of files which all must be refused in no time and no memory, with nothing run.
"""

from __future__ import annotations

import bz2
import lzma
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator

from tests.pickle_programs import (
    GOOD,
    MARK,
    NONE,
    REDUCE,
    STOP,
    THREE,
    USUAL,
    Entry,
    again,
    archive,
    by_hand,
    call,
    doubled,
    endless_list,
    expanded,
    from_type,
    kept,
    legacy,
    listed,
    mapped,
    name,
    nested,
    number,
    numbers,
    raw,
    real,
    several,
    storage,
    tensor,
    text,
)  # fmt: skip

MODULUS = (1 << 61) - 1  # of the hashes of numbers: its multiples all have the hash 0
TOUCH = "touched"
BYTES = THREE["data/0"]
FLOATS = name("torch", "FloatStorage")

# --- programs that want to run something

SHELL = text(f"touch {TOUCH}")
ATTACKS: dict[str, bytes] = {
    "os.system": call("os", "system", SHELL),
    "posix.system": call("posix", "system", SHELL),
    "subprocess": call("subprocess", "Popen", SHELL),
    "eval": call("builtins", "eval", text(f"open('{TOUCH}', 'w')")),
    "exec": call("__builtin__", "exec", text(f"open('{TOUCH}', 'w')")),
    "open": call("builtins", "open", text(TOUCH), text("w")),
    "io.open": call("io", "open", text(TOUCH), text("w")),
    "pathlib": call("pathlib", "Path", text(TOUCH)),
    "import": call("builtins", "__import__", text("antigravity")),
    "getattr": call("builtins", "getattr", name("torch", "Tensor"), text("__subclasses__")),
    "a module of undertow": call("torch.serialization", "save", text("x"), text(TOUCH)),
    "undertow by its own name": call("undertow.serialization", "save", text("x"), text(TOUCH)),
    "load again": call("torch", "load", text(TOUCH)),
    "a dotted name": call("torch", "Tensor.__init__", text("x")),
    "codecs": call("_codecs", "encode", text("x"), text("rot13")),
    "stack global": text("os") + text("system") + b"\x93" + several(SHELL) + REDUCE,
    "a kept name": kept(1, text("os")) + kept(2, text("system")) + again(1) + again(2) + b"\x93" + several(SHELL) + REDUCE,
    "inst": MARK + SHELL + b"ios\nsystem\n",
    "obj": MARK + name("os", "system") + SHELL + b"o",
    "newobj": name("subprocess", "Popen") + several(SHELL) + b"\x81",
    "newobj with keywords": name("subprocess", "Popen") + several(SHELL) + b"}\x92",
    "extension registry": b"\x82\x01",
    "build a class": name("collections", "OrderedDict") + mapped(text("x"), b"K\x01") + b"b",
    "build a dtype": name("torch", "float32") + mapped(text("itemsize"), b"K\x01") + b"b",
    "call a value": text("x") + several() + REDUCE,
    "call a tensor": tensor() + several() + REDUCE,
    "call the tensor class": name("torch", "Tensor") + numbers(1 << 40) + REDUCE,
    "new tensor class": name("torch", "Tensor") + numbers(1 << 40) + b"\x81",
    "much memory": call("builtins", "bytearray", number(1 << 40)),
    "another reference": text("file:///etc/passwd") + b"Q",
    "text reference": b"P0\n",
    "slots of a tensor": from_type(
        name("torch._utils", "_rebuild_tensor"), several(storage(), b"K\x00", numbers(3), numbers(1)),
        state=several(NONE, mapped(text("_array"), text("x"))),
    ),
}  # fmt: skip

# --- programs that want to break something

BREAKAGE: dict[str, bytes] = {
    "a key too deep to hash": b"}" + nested(50_000) + b"K\x01s",
    "a key too wide to hash": b"}" + doubled() + b"K\x01s",
    "an item too wide to hash": call("builtins", "set", listed(doubled())),
    "a pair too wide to hash": call("collections", "OrderedDict", listed(several(doubled(), b"K\x01"))),
    "a count too wide to hash": call("collections", "Counter", listed(several(doubled(), b"K\x01"))),
    "a list as a key": b"}]K\x01s",
    "an odd number of items": b"}(K\x01K\x02K\x03u",
    "no key": b"}K\x01s",
    "items without a mark": b"}K\x01K\x02u",
    "append to a dict": b"}K\x01a",
    "an empty stack": b"",
    "an unknown instruction": b"\xff",
    "an object never made": b"h\x05",
    "a protocol of the future": b"\x80\x09}",
    "text that is cut": b"X\xff\xff\xff\xff" + b"abc",
    "text of negative length": b"\x8b" + struct.pack("<i", -5),
    "text of endless length": b"\x8d" + struct.pack("<Q", 1 << 63),
    "text that is no text": b"X\x02\x00\x00\x00\xff\xfe",
    "a number that is cut": b"J\x00",
    "beyond the end": tensor(offset=b"K\x01"),
    "far beyond the end": tensor(size=numbers(1 << 40)),
    "more than can be counted": tensor(size=numbers(1 << 62, 1 << 62), stride=numbers(0, 0)),
    "before the beginning": tensor(stride=numbers(-1)),
    "a negative offset": tensor(offset=b"J" + struct.pack("<i", -1)),
    "a negative size": tensor(size=numbers(-3)),
    "too many dims": tensor(size=numbers(*[1] * 5000), stride=numbers(*[1] * 5000)),
    "a stride that overflows": tensor(size=numbers(3), stride=numbers((1 << 63) - 1)),
    "a size that wraps around": tensor(size=numbers((1 << 64) + 3)),
    "sizes without strides": tensor(stride=numbers()),
    "text as a size": tensor(size=text("3")),
    "no storage": call("torch._utils", "_rebuild_tensor_v2", NONE, b"K\x00", numbers(3), numbers(1), b"\x89", b"}"),
    "integers that want gradients": tensor(memory=storage(3, kind=name("torch", "IntStorage")), needs_grad=b"\x88"),
    "a parameter of text": call("torch._utils", "_rebuild_parameter", text("x"), b"\x88", b"}"),
    "attributes that are no names": call(
        "torch._utils", "_rebuild_parameter_with_state", tensor(), b"\x88", b"}", mapped(b"K\x01", b"K\x02")
    ),
    "too long a storage": storage(4),
    "too short a storage": storage(2),
    "a storage of negative size": storage(-1),
    "a storage larger than all memory": storage(1 << 62),
    "a storage that is not there": storage(key=text("1")),
    "a storage in another folder": storage(key=text("../data.pkl")),
    "a storage of no type": storage(kind=text("FloatStorage")),
    "a storage on no device": storage(location=text("nowhere")),
    "a device of no kind": call("torch", "device", text("nonsense")),
    "a device of a large number": call("torch", "device", text("cpu"), number(1 << 4000)),
    "a size of text": call("torch", "Size", text("abc")),
    "a complex number of text": call("builtins", "complex", text("1" * 100_000)),
    "a layout that is none": call("torch.serialization", "_get_layout", text("torch.__loader__")),
    "quantised": call("torch._utils", "_rebuild_qtensor", NONE),
    "sparse": call("torch._utils", "_rebuild_sparse_tensor", NONE),
    "eight bits of exponent": name("torch", "float8_e8m0fnu"),
    "call a dtype": call("torch", "float32"),
    "call a storage type": call("torch", "FloatStorage", number(1 << 40)),
    "new dtype": name("torch", "float32") + b")\x81",
    "new function": name("torch._utils", "_rebuild_tensor_v2") + b")\x81",
    "a bytearray by its length": name("builtins", "bytearray") + numbers(3 << 30) + b"\x81",
    "bytes by their length": name("builtins", "bytes") + numbers(3 << 30) + b"\x81",
    "bytes of a codec": call("_codecs", "encode", text("x" * 1000), text("zlib_codec")),
    "a bytearray of a codec": call("builtins", "bytearray", text("x"), text("punycode")),
}  # fmt: skip

_LAYOUT = call("torch.serialization", "_get_layout", text("torch.sparse_coo"))
_BY = name("torch._utils", "_rebuild_tensor_v2")
_FROM_TYPE = name("torch._tensor", "_rebuild_from_type_v2")
_PLACE = storage() + b"K\x00" + numbers(3) + numbers(1)
_PLAIN_ARGUMENTS = several(_PLACE, b"\x89", b"}")
PAST_THE_GUARDS: dict[str, bytes] = {
    "a bytearray of 3 GiB": from_type(name("builtins", "bytearray"), numbers(3 << 30)),
    "a codec": from_type(name("_codecs", "encode"), several(text("x"), text("rot13"))),
    "an endless hash": from_type(name("builtins", "set"), several(listed(doubled()))),
    "an endless dict": from_type(name("collections", "OrderedDict"), several(listed(several(doubled(), NONE)))),
    "a tensor of any size": from_type(name("torch", "Tensor"), numbers(1 << 40)),
    "itself": from_type(_FROM_TYPE, several(_BY, name("torch", "Tensor"), _PLAIN_ARGUMENTS, b"}")),
    "a class that is none": from_type(_BY, _PLAIN_ARGUMENTS, cls=doubled()),
    "a class of no tensors": from_type(_BY, _PLAIN_ARGUMENTS, cls=name("builtins", "bytearray")),
    "no arguments": from_type(_BY, doubled()),
    "a value": from_type(doubled(), _PLAIN_ARGUMENTS),
    "a device": from_type(name("torch", "device"), several(text("cpu"))),
    "a complex number": from_type(name("builtins", "complex"), several(text("1" * 100_000))),
    "state of another kind": from_type(_BY, _PLAIN_ARGUMENTS, state=doubled()),
    "state of old": from_type(_BY, _PLAIN_ARGUMENTS, state=several(tensor(), b"\x88", b"}")),
}  # fmt: skip


def sparse(parts: bytes, layout: bytes = _LAYOUT) -> bytes:
    return call("torch._utils", "_rebuild_sparse_tensor", layout, parts)


# Values that never end, are very large, or are not what is expected, at every place where a value is looked at.
_VALUES: dict[str, bytes] = {
    "a doubled tuple": doubled(),
    "a deep tuple": nested(20_000),
    "a list of itself": endless_list(),
    "a huge number": number(1 << 400_000),
    "a long text": text("x" * 200_000),
    "an expanded tensor": expanded(),
}
_PLACES: dict[str, Callable[[bytes], bytes]] = {
    "a function": lambda value: value + b")" + REDUCE,
    "arguments": lambda value: name("collections", "OrderedDict") + value + REDUCE,
    "a class": lambda value: value + b")\x81",
    "a reference": lambda value: value + b"Q",
    "a reference's kind": lambda value: several(value, text("x")) + b"Q",
    "a storage's type": lambda value: storage(kind=value),
    "a storage's key": lambda value: storage(key=value),
    "a storage's location": lambda value: storage(location=value),
    "a storage's size": lambda value: several(text("storage"), FLOATS, text("0"), text("cpu"), value) + b"Q",
    "an offset": lambda value: tensor(offset=value),
    "a size": lambda value: tensor(size=value),
    "a length": lambda value: tensor(size=several(value)),
    "a stride": lambda value: tensor(stride=several(value)),
    "a memory": lambda value: tensor(memory=value),
    "wanting gradients": lambda value: tensor(needs_grad=value),
    "metadata": lambda value: tensor(b"K\x00", numbers(3), numbers(1), b"", b"\x89", value),
    "a dtype": lambda value: call("torch._utils", "_rebuild_tensor_v3", _PLACE, b"\x89", b"}", value),
    "a parameter": lambda value: call("torch._utils", "_rebuild_parameter", several(value), b"\x88", b"}"),
    "attributes": lambda value: call(
        "torch._utils", "_rebuild_parameter_with_state", tensor(), b"\x88", b"}", several(value)
    ),
    "a layout": lambda value: sparse(several(tensor(), tensor(), numbers(3)), value),
    "places": lambda value: sparse(several(value, tensor(), numbers(3), b"\x88")),
    "values": lambda value: sparse(several(tensor(), value, numbers(3), b"\x88")),
    "sparse sizes": lambda value: sparse(several(tensor(), tensor(), several(value), b"\x88")),
    "a codec's text": lambda value: call("_codecs", "encode", several(value)),
    "a codec": lambda value: call("_codecs", "encode", text("x"), value),
    "a complex number": lambda value: call("builtins", "complex", value),
    "a device": lambda value: call("torch", "device", value),
    "a device's number": lambda value: call("torch", "device", text("cpu"), value),
    "a Size": lambda value: call("torch", "Size", several(text("x"), value)),
    "a layout's name": lambda value: call("torch.serialization", "_get_layout", value),
    "pairs": lambda value: call("collections", "OrderedDict", listed(value)),
    "a global's name": lambda value: text("os") + value + b"\x93",
    "a global's module": lambda value: value + text("system") + b"\x93",
    "what is built": lambda value: several(value) + mapped(text("x"), b"K\x01") + b"b",
    "state": lambda value: tensor() + several(value) + b"b",
    "what is appended to": lambda value: several(value) + b"K\x01a",
    "what is set": lambda value: several(value) + b"K\x01K\x02s",
}  # fmt: skip


def _floods() -> Iterator[tuple[str, bytes]]:
    """Keys that are all different and have one hash."""
    many = 3000
    wholes = [number(MODULUS * k) for k in range(1, many)]
    families = {
        "whole numbers": wholes,
        "negative numbers": [number(-MODULUS * k) for k in range(1, many)],
        "tuples": [each + b"\x85" for each in wholes],
        "pairs": [b"K\x01" + each + b"\x86" for each in wholes],
        "tuples in tuples": [each + b"\x85\x85" for each in wholes],
        "sizes": [name("torch", "Size") + each + b"\x85\x85" + REDUCE for each in wholes],
        "complex numbers": [
            call("builtins", "complex", real(5e15 - 1000003 * k), real(k)) for k in range(1, many)
        ],
    }  # fmt: skip
    for family, keys in families.items():
        pairs = [key + NONE for key in keys]
        yield f"dict of {family}", mapped(*pairs)
        yield f"dict of {family}, one by one", b"}" + b"".join(pair + b"s" for pair in pairs)
        yield f"set of {family}", b"\x8f(" + b"".join(keys) + b"\x90"
        yield f"set from a list of {family}", call("builtins", "set", listed(*keys))
        yield f"OrderedDict of {family}", call("collections", "OrderedDict", listed(*[several(pair) for pair in pairs]))
        yield f"Counter of {family}", call("collections", "Counter", listed(*[several(pair) for pair in pairs]))


def _repetitions() -> Iterator[tuple[str, bytes]]:
    """Much work for each of many short instructions."""
    rounds = 12_000

    def repeated(function: bytes, arguments: bytes, rounds: int = rounds) -> bytes:
        return kept(1, function) + kept(2, arguments) + b"](" + (again(1) + again(2) + REDUCE) * rounds + b"e"

    names = [text(f"n{k}") + NONE for k in range(20_000)]
    yield "copies of a bytearray", repeated(name("builtins", "bytearray"), several(raw(b"x" * 100_000)))
    yield "copies of bytes", repeated(name("_codecs", "encode"), several(text("x" * 100_000), text("latin1")))
    yield "copies of a dict", repeated(name("collections", "OrderedDict"), several(mapped(*names)))
    yield "copies of a counter", repeated(name("collections", "Counter"), several(mapped(*names)))
    yield "copies of a set", repeated(name("builtins", "set"), several(listed(*names)))
    yield "copies of a size", repeated(name("torch", "Size"), several(numbers(*[1] * 10_000)))
    yield "tensors", repeated(name("torch._utils", "_rebuild_tensor_v2"), _PLAIN_ARGUMENTS, 30_000)
    yield "parameters", repeated(name("torch._utils", "_rebuild_parameter"), several(tensor(), b"\x88", b"}"), 30_000)
    yield "attributes", kept(1, mapped(*names)) + tensor() + (again(1) + b"b") * rounds
    yield (
        "tensors with attributes",
        repeated(_FROM_TYPE, several(_BY, name("torch", "Tensor"), _PLAIN_ARGUMENTS, mapped(*names))),
    )
    yield "hashes of one huge number", kept(1, number(1 << 600_000)) + b"](" + (b"}" + again(1) + b"Ns") * rounds + b"e"
    yield "hashes of one wide tuple", kept(1, numbers(*range(5000))) + b"](" + (b"}" + again(1) + b"Ns") * rounds + b"e"
    yield "conjugates of an expanded tensor", repeated(
        _BY, several(
            storage(1, key=text("1"), kind=name("torch", "ComplexFloatStorage")), b"K\x00", numbers(1 << 22), numbers(0),
            b"\x89", b"}", mapped(text("conj"), b"\x88"),
        )
    )  # fmt: skip
    yield (
        "references to a storage far away",
        kept(1, several(text("storage"), name("torch", "FloatStorage"), text("0"), raw(b"cpu" * 100_000), b"K\x03"))
        + (again(1) + b"Q") * rounds,
    )


def _deflated(content: bytes, times: int) -> bytes:
    """Some bytes many times over, without ever having them all in memory."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return b"".join([packer.compress(content) for _ in range(times)]) + packer.flush()


def _archives() -> Iterator[tuple[str, bytes]]:
    """Archives that contradict themselves."""
    first, version, data = USUAL
    other = Entry("a/data.pkl", call("os", "system", SHELL) + STOP)
    zeros, pickled = _deflated(bytes(1 << 20), 64), _deflated(b"\x8f" * (1 << 20), 8)
    usual = by_hand(*USUAL)

    def packed_as(content: bytes, size: int) -> bytes:
        return by_hand(first, version, Entry("a/data/0", content, method=8, size=size, checksum=0))

    directory = usual.index(b"PK\1\2")

    yield "two pickles", by_hand(first, other, version, data)
    yield "two pickles, the good one last", by_hand(other, first, version, data)
    yield "two pickles in two folders", by_hand(*USUAL, Entry("b/data.pkl", GOOD))
    yield "two of a storage", by_hand(*USUAL, Entry("a/data/0", bytes(12)))
    for outside in ("../x", "/etc/passwd", "b/x", "x", "a/../b", "a//x", "a/./x", "a\\..\\x", "a/x\0y", "C:/x"):
        yield f"a record outside: {outside!r}", by_hand(*USUAL, Entry(outside))
    yield "a record that is no text", by_hand(*USUAL, Entry(b"a/\xff\xfe"))
    yield "a pickle at the top", by_hand(Entry("data.pkl", GOOD), Entry("version", b"3\n"))
    yield "a pickle two folders down", by_hand(Entry("a/b/data.pkl", GOOD), Entry("a/b/version", b"3\n"))
    for flag, meaning in ((1, "encrypted"), (1 << 6, "strongly encrypted"), (1 << 13, "masked"), (1 << 5, "patched")):
        yield f"flag: {meaning}", by_hand(Entry("a/data.pkl", GOOD, flags=flag), version, data)
        yield f"flag of a storage: {meaning}", by_hand(first, version, Entry("a/data/0", BYTES, flags=flag))
    for method in (1, 6, 9, 12, 14, 93, 95, 98, 99):
        yield f"packed by method {method}", by_hand(Entry("a/data.pkl", GOOD, method=method), version, data)
    for method, content in ((12, bz2.compress(bytes(4 << 20), 1)), (14, lzma.compress(bytes(4 << 20), preset=0))):
        bomb = Entry("a/data/0", content, method=method, size=4 << 20, checksum=0)
        yield f"a bomb by method {method}", by_hand(first, version, bomb)
    for count in (0, 1, 2, 4, 100, 0xFFFF):
        yield f"a count of {count}", by_hand(*USUAL, count=count)
    for shift in (-1, 1, 30, 1 << 31):
        yield f"a directory {shift} bytes off", by_hand(*USUAL, shift=shift)
    yield "several disks", by_hand(*USUAL, disk=1)
    yield "a record on another disk", by_hand(first, version, Entry("a/data/0", BYTES, disk=1))
    yield "bytes before the end record", by_hand(*USUAL, end=b"junk")
    yield "one record's bytes twice", by_hand(*USUAL, Entry("a/data/1", THREE["data/0"], start=0))
    yield "a record inside another", by_hand(
        first, version, data, Entry("a/data/1", Entry("a/data/2", bytes(12)).header() + bytes(12)),
        Entry("a/data/2", bytes(12), start=len(usual[:directory]) + 30 + len("a/data/1")),
    )  # fmt: skip
    yield "a record in the directory", by_hand(first, version, Entry("a/data/0", BYTES, start=directory))
    for start in (directory + 10_000, 0xFFFFFFFE, 5):
        yield f"a record at {start}", by_hand(first, version, Entry("a/data/0", BYTES, start=start))
    for size in (0, 11, 13, 1 << 20, 0xFFFFFFFE):
        said = Entry("a/data/0", BYTES, size=size, packed=size)
        yield f"a record of {size} bytes", by_hand(first, version, said)
        yield f"a record of two sizes: {size}", by_hand(first, version, Entry("a/data/0", BYTES, size=size))
    yield "a wrong checksum", by_hand(first, version, Entry("a/data/0", BYTES, checksum=1))
    yield "a wrong checksum of the pickle", by_hand(Entry("a/data.pkl", GOOD, checksum=1), version, data)
    yield "another name in the header", by_hand(Entry("a/data.pkl", GOOD, local_path=b"a/data.pk2"), version, data)
    yield "another method in the header", by_hand(Entry("a/data.pkl", GOOD, local_method=8), version, data)
    yield (
        "a longer name in the header",
        by_hand(first, version, Entry("a/data/0", BYTES, local_path=b"a/data/0" * 3000)),
    )
    for wide in (b"", b"\1\0\0\0", struct.pack("<2HQ", 1, 8, 12), struct.pack("<2H3Q", 1, 24, 1 << 60, 1 << 60, 0),
                 struct.pack("<2H3Q", 1, 24, 12, 12, 1 << 63), struct.pack("<2H3Q", 1, 24, 12, 12, 0) * 2):  # fmt: skip
        said = Entry("a/data/0", BYTES, extra=wide, size=0xFFFFFFFF, packed=0xFFFFFFFF, start=0xFFFFFFFF)
        yield f"zip64 fields {wide.hex()}", by_hand(first, version, said)
    for count, size, start, place in ((3, 1, 1, 0), (4, 0, 0, 0), (3, 0, 0, 1 << 60), (3, 0, 0, 7), (1 << 60, 0, 0, 0)):
        sizes = (len(usual) - directory - 22, directory)
        end = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, sizes[0] + size, sizes[1] + start)
        end += struct.pack("<4sIQI", b"PK\6\7", 0, len(usual) - 22 + place, 1)
        yield f"zip64 end {count} {size} {start} {place}", by_hand(*USUAL, end=end)
    yield "a comment that is an end record", usual[:-2] + struct.pack("<H", 22) + by_hand()
    yield "a bomb of zeros", packed_as(zeros, 64 << 20)
    yield "a bomb that says it is small", packed_as(zeros, 12)
    yield "a bomb that says it is huge", packed_as(zeros, 0xFFFFFFFE)
    yield "a bomb of sets", by_hand(Entry("a/data.pkl", pickled, method=8, size=8 << 20, checksum=0), version, data)
    yield "packed bytes that are cut", packed_as(zeros[:20], 12)
    yield "packed bytes that are none", packed_as(b"\xff" * 20, 12)
    many = [Entry(f"a/data/{k}", zeros[:-5000], method=8, size=4 << 20, checksum=0) for k in range(8)]
    program = listed(*[storage(1 << 20, key=text(str(k))) for k in range(8)]) + STOP
    yield "several bombs", by_hand(Entry("a/data.pkl", program), version, *many)
    yield "a byte order of its own", archive(GOOD, {**THREE, "byteorder": b"middle" * 1000})
    yield "a program", archive(GOOD, {**THREE, "constants.pkl": b"}."})


def _legacies() -> Iterator[tuple[str, bytes]]:
    opening = [pickle.dumps(value, 2) for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})]
    rest = struct.pack("<q", 3) + THREE["data/0"]
    one = pickle.dumps(["0"], 2)
    for value, content in _VALUES.items():
        if "tensor" in value:
            content = content.replace(b"tQ", b"NtQ", 1)
        program = content + STOP
        yield f"magic: {value}", program + b"".join(opening[1:]) + GOOD + one + rest
        yield f"version: {value}", opening[0] + program + opening[2] + GOOD + one + rest
        yield f"system: {value}", b"".join(opening[:2]) + program + GOOD + one + rest
        yield f"keys: {value}", legacy(GOOD, program, rest)
        yield f"a key: {value}", legacy(GOOD, listed(text("0"), content) + STOP, rest)
    yield "no key", legacy(GOOD, pickle.dumps([], 2), rest)
    yield "a key twice", legacy(GOOD, pickle.dumps(["0", "0"], 2), rest * 2)
    yield "a key too many", legacy(GOOD, pickle.dumps(["0", "1"], 2), rest * 2)
    yield "another key", legacy(GOOD, pickle.dumps(["1"], 2), rest)
    for count in (-1, 0, 2, 4, 1 << 62):
        yield f"a storage of {count}", legacy(GOOD, one, struct.pack("<q", count) + THREE["data/0"])
    yield "a storage that is cut", legacy(GOOD, one, rest[:-1])
    large = 1_000_000
    claims = listed(*[storage(large // 4, key=text(str(k))) for k in range(200)]) + STOP
    yield (
        "storages that are larger together",
        legacy(claims, pickle.dumps([str(k) for k in range(200)], 2), bytes(large)),
    )
    for offset, size in ((-1, 2), (2, 2), (0, 1 << 62), (1 << 62, 1), (0, -1)):
        part = several(text("v"), number(offset), number(size))
        view = several(text("storage"), FLOATS, text("0"), text("cpu"), b"K\x03", part)
        yield f"a view of {size} at {offset}", legacy(tensor(memory=view + b"Q") + STOP, one, rest)
    for value, content in _VALUES.items():
        view = several(text("storage"), FLOATS, text("0"), text("cpu"), b"K\x03", content)
        yield f"a view by {value}", legacy(tensor(memory=view + b"Q") + STOP, one, rest)


def corpus() -> Iterator[tuple[str, bytes]]:
    """All hostile files, by name."""
    for kind, programs in (("attack", ATTACKS), ("breakage", BREAKAGE), ("past the guards", PAST_THE_GUARDS)):
        for each, program in programs.items():
            yield f"{kind}: {each}", archive(program + STOP, THREE)
            yield f"{kind}, packed: {each}", archive(program + STOP, THREE, zipfile.ZIP_DEFLATED)
            yield f"{kind}, legacy: {each}", legacy(program + STOP)
    for place, put in _PLACES.items():
        for value, content in _VALUES.items():
            yield f"{place}: {value}", archive(put(content) + STOP, THREE)
    for flood, program in _floods():
        yield f"flood: {flood}", archive(program + STOP, THREE)
    for repetition, program in _repetitions():
        yield f"repetition: {repetition}", archive(program + STOP, {**THREE, "data/1": bytes(8)})
    for kind, files in (("archive", _archives()), ("legacy", _legacies())):
        for each, content in files:
            yield f"{kind}: {each}", content
