"""`.safetensors` files pass between undertow and torch, through the safetensors library."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.torch as theirs
import torch as real_torch

import undertow
from tests.oracle.facts import differences, facts
from undertow.serialization import safetensors as ours

DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64",
)  # fmt: skip
LIBRARIES = [
    (theirs, real_torch, ours, undertow),
    (ours, undertow, theirs, real_torch),
    (ours, undertow, ours, undertow),
]
NAMES = ["from torch", "to torch", "own"]


def content(torch: Any) -> dict[str, Any]:
    tensors = {dtype: torch.arange(6).reshape(2, 3).to(getattr(torch, dtype)) for dtype in DTYPES}
    return {**tensors, "scalar": torch.tensor(2.5), "empty": torch.zeros(0, 3), "ünï": torch.ones(1)}


def same(torch: Any, loaded: Any) -> None:
    # The library orders them.
    expected, actual = (dict(sorted(tensors.items())) for tensors in (content(torch), loaded))
    lines = list(differences(facts(torch, expected), facts(torch, actual), "loaded"))
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize(("writer", "torch", "reader", "other"), LIBRARIES, ids=NAMES)
def test_files(tmp_path: Path, writer: Any, torch: Any, reader: Any, other: Any) -> None:
    path = tmp_path / "model.safetensors"
    writer.save_file(content(torch), path, metadata={"format": "pt"})
    same(other, reader.load_file(path))
    with safetensors.safe_open(str(path), framework="np") as opened:
        assert opened.metadata() == {"format": "pt"}


@pytest.mark.parametrize(("writer", "torch", "reader", "other"), LIBRARIES, ids=NAMES)
def test_bytes(writer: Any, torch: Any, reader: Any, other: Any) -> None:
    same(other, reader.load(writer.save(content(torch))))


@pytest.mark.parametrize("mapped", [True, False])
def test_tensors_can_be_written_to_and_the_file_stays(tmp_path: Path, mapped: bool) -> None:
    path = tmp_path / "model.safetensors"
    ours.save_file(content(undertow), path)
    before = path.read_bytes()
    loaded = ours.load_file(path, mmap=mapped)
    same(undertow, loaded)
    loaded["float32"][0, 0] = 99.0
    assert path.read_bytes() == before
    assert loaded["float32"].untyped_storage().nbytes() == 24


REFUSED: dict[str, Any] = {
    "a list": lambda torch: [torch.ones(1)],
    "a number": lambda torch: {"a": 1},
    "not contiguous": lambda torch: {"a": torch.ones(2, 3).t()},
    "shared": lambda torch: (lambda x: {"a": x, "b": x[:1]})(torch.ones(2)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, tmp_path: Path) -> None:
    messages = []
    for library, torch in ((theirs, real_torch), (ours, undertow)):
        with pytest.raises((ValueError, RuntimeError)) as refusal:
            library.save_file(REFUSED[name](torch), tmp_path / "x.safetensors")
        messages.append((refusal.type, str(refusal.value).split()[:7]))
    assert messages[0] == messages[1]
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("damage", ["cut", "header", "offsets", "empty"])
def test_damaged_files_are_named(tmp_path: Path, damage: str) -> None:
    good = ours.save({"a": undertow.ones(4)})
    bad = {
        "cut": good[:-3],
        "header": struct.pack("<Q", 1 << 40) + good[8:],
        "offsets": good.replace(b"[0,16]", b"[0,99]"),
        "empty": b"",
    }[damage]
    path = tmp_path / "bad.safetensors"
    path.write_bytes(bad)
    with pytest.raises(safetensors.SafetensorError, match=r"bad\.safetensors"):
        ours.load_file(path)


def test_a_dtype_that_undertow_lacks(tmp_path: Path) -> None:
    path = tmp_path / "small.safetensors"
    theirs.save_file({"a": real_torch.ones(2).to(real_torch.float8_e8m0fnu)}, path)
    with pytest.raises(TypeError, match=r"tensor a of .*small\.safetensors has the dtype F8_E8M0"):
        ours.load_file(path)


def test_an_interrupted_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.safetensors"
    ours.save_file({"a": undertow.zeros(2)}, path)

    def fail(specs: Any, name: str, metadata: Any) -> None:
        Path(name).write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(safetensors, "serialize_file", fail)
    with pytest.raises(OSError, match="disk full"):
        ours.save_file({"a": undertow.ones(2)}, path)
    assert ours.load_file(path)["a"].tolist() == [0.0, 0.0]
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_another_device(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    ours.save_file({"a": undertow.ones(2)}, path)
    with pytest.raises(RuntimeError, match="CUDA device"):
        ours.load_file(path, device="cuda")


def test_the_librarys_own_functions_for_torch(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import torch
            from safetensors import safe_open
            from safetensors.torch import load, load_file, save, save_file

            tensors = {"a": torch.arange(3.0), "b": torch.ones(2, 2).to(torch.bfloat16), "i": torch.arange(2)}
            save_file(tensors, "x.safetensors")
            loaded = load_file("x.safetensors")
            print({name: loaded[name] for name in sorted(loaded)})
            loaded["a"][0] = 5
            print(loaded["a"].untyped_storage().nbytes(), load(save(tensors))["b"])
            with safe_open("x.safetensors", framework="pt") as file:
                print(file.get_tensor("i"), file.get_slice("b")[1:])
            """
        )
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(undertow.__file__).parent.parent)}
    printed = []
    for command in ([sys.executable, str(program)], [sys.executable, "-m", "undertow", "run", str(program)]):
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert not done.stderr, done.stderr
        printed.append(done.stdout)
    assert printed[0] == printed[1]
