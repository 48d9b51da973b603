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
from tests.hostile_files import ATTACKS, BREAKAGE
from tests.pickle_programs import GOOD, STOP, THREE, archive, call, legacy, text

# What loading a bad file may raise; anything else is a crash.
CLEAR = (RuntimeError, pickle.UnpicklingError, EOFError)


def test_the_tools_of_these_tests_make_good_files(tmp_path: Path) -> None:
    (tmp_path / "good.pt").write_bytes(archive(GOOD, THREE))
    assert torch.load(tmp_path / "good.pt").tolist() == [0.0, 1.0, 2.0]
    (tmp_path / "old.pt").write_bytes(legacy(b"}" + STOP))
    assert torch.load(tmp_path / "old.pt") == {}


# --- programs that want to run something


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    yield tmp_path


@pytest.mark.parametrize("container", [lambda program: archive(program, THREE), legacy], ids=["zip", "legacy"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_is_run(in_folder: Path, attack: str, container: Callable[[bytes], bytes]) -> None:
    (in_folder / "evil.pt").write_bytes(container(ATTACKS[attack] + STOP))
    with pytest.raises(pickle.UnpicklingError, match=r"Weights only load failed. 'evil.pt'"):
        torch.load("evil.pt")
    assert os.listdir(in_folder) == ["evil.pt"]


# --- programs that want to break something


@pytest.mark.parametrize("case", BREAKAGE)
def test_broken_programs_give_a_clear_error(tmp_path: Path, case: str) -> None:
    path = tmp_path / "bad.pt"
    path.write_bytes(archive(BREAKAGE[case] + STOP, THREE))
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
        with pytest.raises(RuntimeError, match="checksum does not match"):
            torch.load(tmp_path / "flipped.pt")


def test_a_record_larger_than_it_says(tmp_path: Path) -> None:
    packed = archive(GOOD, {"data/0": b"\0" * 10_000_000}, zipfile.ZIP_DEFLATED)
    (tmp_path / "bomb.pt").write_bytes(packed.replace(struct.pack("<I", 10_000_000), struct.pack("<I", 12)))
    with pytest.raises(CLEAR, match=r"bomb\.pt"):
        torch.load(tmp_path / "bomb.pt")


def test_a_record_that_claims_to_be_huge(tmp_path: Path) -> None:
    claimed = archive(GOOD, THREE).replace(struct.pack("<I", 12), struct.pack("<I", 1 << 31))
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
