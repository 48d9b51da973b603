"""Damaged and hostile checkpoints give an error that names the file, and nothing in them is run."""

from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import undertow as torch

# What loading a bad file may raise; anything else is a crash.
CLEAR = (RuntimeError, pickle.UnpicklingError, EOFError)

MARK, STOP, REDUCE = b"(", b".", b"R"


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def name(module: str, attribute: str) -> bytes:
    return f"c{module}\n{attribute}\n".encode()


def call(module: str, attribute: str, *arguments: bytes) -> bytes:
    return name(module, attribute) + MARK + b"".join(arguments) + b"t" + REDUCE


def archive(program: bytes, records: dict[str, bytes] | None = None, compress: int = zipfile.ZIP_STORED) -> bytes:
    """A checkpoint whose pickle is `program`."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compress) as target:
        target.writestr("archive/data.pkl", program)
        target.writestr("archive/version", b"3\n")
        for key, content in (records or {}).items():
            target.writestr(f"archive/{key}", content)
    return file.getvalue()


def legacy(program: bytes) -> bytes:
    """The same in the format before PyTorch 1.6."""
    opening = [0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {}}]
    return b"".join(pickle.dumps(value, 2) for value in opening) + program + pickle.dumps([], 2)


def storage(count: int = 3, key: bytes = text("0"), kind: bytes = name("torch", "FloatStorage")) -> bytes:
    return MARK + text("storage") + kind + key + text("cpu") + b"J" + struct.pack("<i", count) + b"tQ"


def numbers(*values: int) -> bytes:
    return MARK + b"".join(b"\x8a\x08" + struct.pack("<q", value) for value in values) + b"t"


def tensor(offset: bytes = b"K\x00", size: bytes = numbers(3), stride: bytes = numbers(1)) -> bytes:
    return call("torch._utils", "_rebuild_tensor_v2", storage(), offset, size, stride, b"\x89", b"}") + STOP


THREE = {"data/0": np.arange(3, dtype=np.float32).tobytes()}


def test_the_tools_of_these_tests_make_good_files(tmp_path: Path) -> None:
    (tmp_path / "good.pt").write_bytes(archive(tensor(), THREE))
    assert torch.load(tmp_path / "good.pt").tolist() == [0.0, 1.0, 2.0]
    (tmp_path / "old.pt").write_bytes(legacy(b"}" + STOP))
    assert torch.load(tmp_path / "old.pt") == {}


# --- programs that want to run something

TOUCH = "touched"
ATTACKS: dict[str, bytes] = {
    "os.system": call("os", "system", text(f"touch {TOUCH}")) + STOP,
    "posix.system": call("posix", "system", text(f"touch {TOUCH}")) + STOP,
    "subprocess": call("subprocess", "Popen", text(f"touch {TOUCH}")) + STOP,
    "eval": call("builtins", "eval", text(f"open('{TOUCH}', 'w')")) + STOP,
    "exec": call("__builtin__", "exec", text(f"open('{TOUCH}', 'w')")) + STOP,
    "open": call("builtins", "open", text(TOUCH), text("w")) + STOP,
    "io.open": call("io", "open", text(TOUCH), text("w")) + STOP,
    "pathlib": call("pathlib", "Path", text(TOUCH)) + STOP,
    "import": call("builtins", "__import__", text("antigravity")) + STOP,
    "getattr": call("builtins", "getattr", name("torch", "Tensor"), text("__subclasses__")) + STOP,
    "a module of undertow": call("torch.serialization", "save", text("x"), text(TOUCH)) + STOP,
    "undertow by its own name": call("undertow.serialization", "save", text("x"), text(TOUCH)) + STOP,
    "load again": call("torch", "load", text(TOUCH)) + STOP,
    "a dotted name": call("torch", "Tensor.__init__", text("x")) + STOP,
    "codecs": call("_codecs", "encode", text("x"), text("rot13")) + STOP,
    "stack global": text("os") + text("system") + b"\x93" + MARK + text(f"touch {TOUCH}") + b"t" + REDUCE + STOP,
    "inst": MARK + text(f"touch {TOUCH}") + b"ios\nsystem\n" + STOP,
    "obj": MARK + name("os", "system") + text(f"touch {TOUCH}") + b"o" + STOP,
    "newobj": name("subprocess", "Popen") + MARK + text(f"touch {TOUCH}") + b"t\x81" + STOP,
    "newobj with keywords": name("subprocess", "Popen") + MARK + text(f"touch {TOUCH}") + b"t}\x92" + STOP,
    "extension registry": b"\x82\x01" + STOP,
    "build a class": name("collections", "OrderedDict") + b"}" + text("x") + b"K\x01sb" + STOP,
    "build a dtype": name("torch", "float32") + b"}" + text("itemsize") + b"K\x01sb" + STOP,
    "call a value": text("x") + MARK + b"t" + REDUCE + STOP,
    "call a tensor": tensor()[:-1] + MARK + b"t" + REDUCE + STOP,
    "call the tensor class": name("torch", "Tensor") + numbers(1 << 40) + REDUCE + STOP,
    "much memory": call("builtins", "bytearray", b"\x8a\x06" + struct.pack("<q", 1 << 40)[:6]) + STOP,
    "another reference": text("file:///etc/passwd") + b"Q" + STOP,
    "text reference": b"P0\n" + STOP,
    "slots of a tensor": call(
        "torch._tensor", "_rebuild_from_type_v2", name("torch._utils", "_rebuild_tensor"), name("torch", "Tensor"),
        MARK + storage() + b"K\x00" + numbers(3) + numbers(1) + b"t",
        MARK + b"N}" + text("_array") + text("x") + b"st",
    ) + STOP,
}  # fmt: skip


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    yield tmp_path


@pytest.mark.parametrize("container", [lambda program: archive(program, THREE), legacy], ids=["zip", "legacy"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_is_run(in_folder: Path, attack: str, container: Callable[[bytes], bytes]) -> None:
    (in_folder / "evil.pt").write_bytes(container(ATTACKS[attack]))
    with pytest.raises(pickle.UnpicklingError, match=r"Weights only load failed. 'evil.pt'"):
        torch.load("evil.pt")
    assert os.listdir(in_folder) == ["evil.pt"]


# --- programs that want to break something


def _nested(depth: int) -> bytes:
    return b")" + b"\x85" * depth


def _doubled(times: int) -> bytes:
    """A tuple of two of a tuple of two …: little to write, endless to hash."""
    return b")" + b"".join(b"q\x00h\x00\x86" for _ in range(times))


BREAKAGE: dict[str, bytes] = {
    "a key too deep to hash": b"}" + _nested(200_000) + b"K\x01s" + STOP,
    "a key too wide to hash": b"}" + _doubled(60) + b"K\x01s" + STOP,
    "an item too wide to hash": call("builtins", "set", b"]" + _doubled(60) + b"a") + STOP,
    "a pair too wide to hash": call("collections", "OrderedDict", b"](" + _doubled(60) + b"K\x01ta") + STOP,
    "a list as a key": b"}]K\x01s" + STOP,
    "an odd number of items": b"}(K\x01K\x02K\x03u" + STOP,
    "no key": b"}K\x01s" + STOP,
    "items without a mark": b"}K\x01K\x02u" + STOP,
    "append to a dict": b"}K\x01a" + STOP,
    "an empty stack": STOP,
    "no end": b"}",
    "nothing": b"",
    "an unknown instruction": b"\xff" + STOP,
    "an object never made": b"h\x05" + STOP,
    "a protocol of the future": b"\x80\x09}" + STOP,
    "text that is cut": b"X\xff\xff\xff\xff" + b"abc",
    "text of negative length": b"\x8b" + struct.pack("<i", -5) + STOP,
    "text that is no text": b"X\x02\x00\x00\x00\xff\xfe" + STOP,
    "a number that is cut": b"J\x00",
    "beyond the end": tensor(offset=b"K\x01"),
    "far beyond the end": tensor(size=numbers(1 << 40)),
    "more than can be counted": tensor(size=numbers(1 << 62, 1 << 62), stride=numbers(0, 0)),
    "before the beginning": tensor(stride=numbers(-1)),
    "a negative offset": tensor(offset=b"J" + struct.pack("<i", -1)),
    "a negative size": tensor(size=numbers(-3)),
    "sizes without strides": tensor(stride=numbers()),
    "text as a size": tensor(size=text("3")),
    "no storage": call("torch._utils", "_rebuild_tensor_v2", b"N", b"K\x00", numbers(3), numbers(1), b"\x89", b"}") + STOP,
    "integers that want gradients": call(
        "torch._utils", "_rebuild_tensor_v2", storage(3, kind=name("torch", "IntStorage")), b"K\x00", numbers(3),
        numbers(1), b"\x88", b"}",
    ) + STOP,
    "a parameter of text": call("torch._utils", "_rebuild_parameter", text("x"), b"\x88", b"}") + STOP,
    "attributes that are no names": call(
        "torch._utils", "_rebuild_parameter_with_state", tensor()[:-1], b"\x88", b"}", b"}K\x01K\x02s"
    ) + STOP,
    "too long a storage": storage(4) + STOP,
    "too short a storage": storage(2) + STOP,
    "a storage of negative size": storage(-1) + STOP,
    "a storage that is not there": storage(key=text("1")) + STOP,
    "a storage in another folder": storage(key=text("../data.pkl")) + STOP,
    "a storage of no type": storage(kind=text("FloatStorage")) + STOP,
    "a device of no kind": call("torch", "device", text("nonsense")) + STOP,
    "a size of text": call("torch", "Size", text("abc")) + STOP,
    "quantised": call("torch._utils", "_rebuild_qtensor", b"N") + STOP,
    "sparse": call("torch._utils", "_rebuild_sparse_tensor", b"N") + STOP,
    "eight bits of exponent": name("torch", "float8_e8m0fnu") + STOP,
}  # fmt: skip


@pytest.mark.parametrize("case", BREAKAGE)
def test_broken_programs_give_a_clear_error(tmp_path: Path, case: str) -> None:
    path = tmp_path / "bad.pt"
    path.write_bytes(archive(BREAKAGE[case], THREE))
    with pytest.raises(CLEAR) as refusal:
        torch.load(path)
    assert "bad.pt" in str(refusal.value)


def good_file(**options: Any) -> bytes:
    file = io.BytesIO()
    base = torch.arange(6.0)
    torch.save({"a": base, "b": [base[2:], torch.nn.Parameter(torch.ones(2))], "step": 7, "name": "x"}, file, **options)
    return file.getvalue()


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("mapped", [True, False], ids=["mmap", "read"])
def test_every_truncation_is_an_error(tmp_path: Path, zipped: bool, mapped: bool) -> None:
    content = good_file(_use_new_zipfile_serialization=zipped)
    path = tmp_path / "cut.pt"
    for length in [*range(40), *range(40, len(content) - 40, 13), *range(len(content) - 40, len(content))]:
        path.write_bytes(content[:length])
        with pytest.raises(CLEAR) as refusal:
            torch.load(path, mmap=mapped)
        assert "cut.pt" in str(refusal.value), length


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_no_flipped_bit_crashes(tmp_path: Path, zipped: bool) -> None:
    content = good_file(_use_new_zipfile_serialization=zipped)
    path = tmp_path / "flipped.pt"
    refused = 0
    for position in [place for place, byte in enumerate(content) if byte != ord("Z")]:  # which fill the gaps
        flipped = bytearray(content)
        flipped[position] ^= 1 << position % 8
        path.write_bytes(flipped)
        try:
            torch.load(path)
        except CLEAR as error:
            refused += 1
            assert "flipped.pt" in str(error), f"byte {position}: {error}"
    assert refused > 200


def test_every_flipped_bit_of_a_storage_is_noticed(tmp_path: Path) -> None:
    content = good_file()
    begin = content.index(np.arange(6, dtype=np.float32).tobytes())
    for position in range(begin, begin + 24):
        flipped = bytearray(content)
        flipped[position] ^= 1
        (tmp_path / "flipped.pt").write_bytes(flipped)
        with pytest.raises(RuntimeError, match="checksum does not fit"):
            torch.load(tmp_path / "flipped.pt")


def test_a_record_larger_than_it_says(tmp_path: Path) -> None:
    packed = archive(tensor(), {"data/0": b"\0" * 10_000_000}, zipfile.ZIP_DEFLATED)
    (tmp_path / "bomb.pt").write_bytes(packed.replace(struct.pack("<I", 10_000_000), struct.pack("<I", 12)))
    with pytest.raises(CLEAR, match=r"bomb\.pt"):
        torch.load(tmp_path / "bomb.pt")


def test_a_record_that_claims_to_be_huge(tmp_path: Path) -> None:
    claimed = archive(tensor(), THREE).replace(struct.pack("<I", 12), struct.pack("<I", 1 << 31))
    (tmp_path / "huge.pt").write_bytes(claimed)
    with pytest.raises(CLEAR, match=r"huge\.pt"):
        torch.load(tmp_path / "huge.pt")


NOT_CHECKPOINTS: dict[str, tuple[bytes, str]] = {
    "text": (b"hello, this is text", "is not a checkpoint"),
    "a web page": (b"<!DOCTYPE html><html>not found</html>", "web page"),
    "a note of git-lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 2\n", "git lfs pull"),
    "a pickle": (pickle.dumps({"a": 1}, 2), "Invalid magic number"),
    "another zip": (b"PK\x03\x04", "zip archive"),
}


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("case", NOT_CHECKPOINTS)
def test_other_files(tmp_path: Path, case: str, weights_only: bool) -> None:
    content, words = NOT_CHECKPOINTS[case]
    path = tmp_path / "other.bin"
    path.write_bytes(content)
    with pytest.raises(CLEAR, match=words) as refusal:
        torch.load(path, weights_only=weights_only)
    assert "other.bin" in str(refusal.value)


def test_an_archive_without_a_pickle(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as target:
        target.writestr("photo.jpg", b"")
    with pytest.raises(RuntimeError, match=r"photos\.zip.* not a checkpoint"):
        torch.load(tmp_path / "photos.zip")


def test_a_compiled_program_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "script.pt").write_bytes(archive(b"}" + STOP, {"constants.pkl": b"}."}))
    with pytest.raises(RuntimeError, match="TorchScript"):
        torch.load(tmp_path / "script.pt")


def test_code_that_was_trusted_and_fails_says_for_which_file(tmp_path: Path) -> None:
    path = tmp_path / "trusted.pt"
    path.write_bytes(archive(call("builtins", "int", text("seven")) + STOP))
    with pytest.raises(ValueError, match="invalid literal") as failure:
        torch.load(path, weights_only=False)
    assert any("trusted.pt" in note for note in failure.value.__notes__)


def test_a_name_undertow_lacks_is_named(tmp_path: Path) -> None:
    path = tmp_path / "quantised.pt"
    path.write_bytes(archive(call("torch._utils", "_rebuild_qtensor", b"N") + STOP))
    with pytest.raises(AttributeError, match=r"undertow has no torch\._utils\._rebuild_qtensor"):
        torch.load(path, weights_only=False)
