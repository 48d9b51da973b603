"""The arguments of save and load, what they refuse, and the list of safe globals, as torch has them."""

from __future__ import annotations

import fractions
import io
import mmap
import os
import pickle
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch as real_torch

import undertow
from tests.oracle.harness import Log, agree, agree_error


class Point:
    """A class of the user's, with attributes."""

    def __init__(self, x: int) -> None:
        self.x = x


class Slotted:
    """A class of the user's that says how it is pickled."""

    __slots__ = ("x",)

    def __getstate__(self) -> Any:
        return {"x": self.x}

    def __setstate__(self, state: Any) -> None:
        self.x = state["x"] * 10


def saved(torch: Any, obj: Any, **options: Any) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(obj, buffer, **options)
    buffer.seek(0)
    return buffer


def relocated(torch: Any, location: str) -> io.BytesIO:
    """A file whose one storage claims to be from elsewhere."""
    source, moved = zipfile.ZipFile(saved(torch, {"a": torch.arange(3.0)})), io.BytesIO()
    with zipfile.ZipFile(moved, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith("data.pkl"):
                tag = len(location).to_bytes(4, "little") + location.encode()
                content = content.replace(b"\x03\x00\x00\x00cpu", tag)
            target.writestr(name, content)
    moved.seek(0)
    return moved


LOCATIONS: dict[str, Any] = {
    "a name": "cpu",
    "a device": lambda torch: torch.device("cpu"),
    "a dict": {"cuda:0": "cpu"},
    "a dict without it": {"cuda:1": "cpu"},
    "nothing": None,
    "another device": "cuda:0",
    "an unknown device": "bogus",
}


@pytest.mark.parametrize("name", LOCATIONS)
@pytest.mark.parametrize("location", ["cpu", "cuda:0", "bogus"])
def test_map_location(name: str, location: str) -> None:
    def program(torch: Any) -> Any:
        target = LOCATIONS[name](torch) if callable(LOCATIONS[name]) else LOCATIONS[name]
        loaded = torch.load(relocated(torch, location), map_location=target)
        return loaded, str(loaded["a"].device)

    agree(program, words=20)


@pytest.mark.parametrize("answer", ["storage", "None"])
@pytest.mark.parametrize("location", ["cpu", "cuda:0"])
@pytest.mark.parametrize("zipped", [True, False])
def test_map_location_may_be_a_function(location: str, answer: str, zipped: bool) -> None:
    def program(torch: Any, log: Log) -> Any:
        def place(storage: Any, tag: str) -> Any:
            log(tag, storage.nbytes(), str(storage.device))
            return storage if answer == "storage" else None

        if zipped:
            return torch.load(relocated(torch, location), map_location=place)
        file = saved(torch, {"a": torch.arange(3.0)}, _use_new_zipfile_serialization=False)
        return torch.load(file, map_location=place)

    agree(program, words=20)


REFUSED: dict[str, Any] = {
    "a missing file": lambda torch, folder: torch.load(folder / "missing.pt"),
    "a folder": lambda torch, folder: torch.load(folder),
    "a number": lambda torch, folder: torch.load(3),
    "text": lambda torch, folder: torch.load(io.StringIO("text")),
    "mmap of a buffer": lambda torch, folder: torch.load(saved(torch, [1]), mmap=True),
    "a pickle module": lambda torch, folder: torch.load(saved(torch, [1]), pickle_module=pickle, weights_only=True),
    "saving to a number": lambda torch, folder: torch.save([1], 3),
    "saving to nothing": lambda torch, folder: torch.save([1], None),
    "no such folder": lambda torch, folder: torch.save([1], "missing/folder.pt"),
    "two dtypes of one memory": lambda torch, folder: _two_dtypes(torch),
    "a class": lambda torch, folder: torch.load(saved(torch, Point(1))),
    "a standard class": lambda torch, folder: torch.load(saved(torch, fractions.Fraction(1, 2))),
    "a function": lambda torch, folder: torch.load(saved(torch, [os.getpid])),
    "a NumPy array": lambda torch, folder: torch.load(saved(torch, np.ones(2))),
    "a module": lambda torch, folder: torch.load(saved(torch, torch.nn.Linear(1, 1))),
    "a frozen set": lambda torch, folder: torch.load(saved(torch, frozenset([1]))),
    "what cannot be pickled": lambda torch, folder: torch.save(lambda: 1, io.BytesIO()),
    "a half of a file": lambda torch, folder: torch.load(io.BytesIO(saved(torch, torch.ones(9)).getvalue()[:500])),
    "mapping the old format": lambda torch, folder: _map_legacy(torch, folder),
    "an unknown argument": lambda torch, folder: torch.load(saved(torch, [1]), weights_only=False, unknown=1),
}


def _two_dtypes(torch: Any) -> None:
    x = torch.arange(3.0)
    torch.save((x, x.view(torch.int32)), io.BytesIO())


def _map_legacy(torch: Any, folder: Path) -> Any:
    torch.save([1], folder / "old.pt", _use_new_zipfile_serialization=False)
    return torch.load(folder / "old.pt", mmap=True)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, tmp_path: Path) -> None:
    agree_error(lambda torch: REFUSED[name](torch, tmp_path), words=4 if "class" in name or "NumPy" in name else 8)


@pytest.mark.parametrize("torch", [real_torch, undertow], ids=["torch", "undertow"])
def test_a_refusal_names_what_to_allow(torch: Any) -> None:
    with pytest.raises(pickle.UnpicklingError) as refusal:
        torch.load(saved(torch, Point(1)))
    assert f"GLOBAL {Point.__module__}.Point was not an allowed global by default" in str(refusal.value)
    assert f"add_safe_globals([{Point.__module__}.Point])" in str(refusal.value)


def test_safe_globals() -> None:
    def program(torch: Any, log: Log) -> Any:
        serialization = torch.serialization
        before = serialization.get_safe_globals()
        slotted = Slotted()
        slotted.x = 4
        file = saved(torch, [Point(3), slotted, torch.ones(1)])
        with serialization.safe_globals([Point, Slotted]):
            log(sorted(item.__name__ for item in set(serialization.get_safe_globals()) - set(before)))
            point, slotted, _ = torch.load(file)
        log(point.x, slotted.x, type(point).__name__)
        log(len(serialization.get_safe_globals()) - len(before))
        file.seek(0)
        return torch.load(file)

    agree_error(program, words=4)


def test_blocks_of_safe_globals_that_overlap() -> None:
    def program(torch: Any, log: Log) -> Any:
        serialization = torch.serialization

        def note() -> None:
            log([item in serialization.get_safe_globals() for item in (Point, fractions.Fraction)])

        first, second = serialization.safe_globals([Point]), serialization.safe_globals([fractions.Fraction])
        for step in (first.__enter__, second.__enter__):
            step()
            note()
        for block in (first, second):
            block.__exit__(None, None, None)
            note()
        with serialization.safe_globals([Point]):
            serialization.add_safe_globals([fractions.Fraction])
        note()
        with serialization.safe_globals([fractions.Fraction]):
            with serialization.safe_globals([Point]):
                note()
            note()
        note()

    agree(program, raises=False)


def test_safe_globals_may_be_renamed() -> None:
    def program(torch: Any, log: Log) -> Any:
        file = saved(torch, Point(3))
        with torch.serialization.safe_globals([(Slotted, f"{Point.__module__}.Point")]):
            return type(torch.load(file)).__name__

    agree(program, raises=False)


def test_numpy_may_be_allowed() -> None:
    allowed = [np._core.multiarray._reconstruct, np.ndarray, np.dtype, type(np.dtype("f8"))]  # type: ignore[attr-defined]

    def program(torch: Any) -> Any:
        with torch.serialization.safe_globals(allowed):
            return torch.load(saved(torch, {"a": np.arange(3.0), "t": torch.ones(2)}))

    agree(program, raises=False)


@pytest.mark.parametrize("torch", [real_torch, undertow], ids=["torch", "undertow"])
def test_adding_and_clearing(torch: Any) -> None:
    serialization = torch.serialization
    before = serialization.get_safe_globals()
    try:
        serialization.clear_safe_globals()
        serialization.add_safe_globals([Point])
        serialization.add_safe_globals([Point])
        assert serialization.get_safe_globals() == [Point]
        assert torch.load(saved(torch, Point(5))).x == 5
        serialization.clear_safe_globals()
        assert serialization.get_safe_globals() == []
    finally:
        serialization.add_safe_globals(before)


def test_unsafe_globals_are_listed() -> None:
    def program(torch: Any) -> Any:
        file = saved(torch, [Point(1), fractions.Fraction(1, 2), torch.ones(2), {"a": {1}}, np.ones(1)])
        return sorted(torch.serialization.get_unsafe_globals_in_checkpoint(file))

    agree(program, raises=False)


def test_hooks_are_not_saved() -> None:
    def program(torch: Any, log: Log) -> Any:
        x = torch.ones(2, requires_grad=True)
        x.register_hook(lambda grad: grad * 2)
        loaded = torch.load(saved(torch, x))
        log(bool(loaded._backward_hooks))
        (loaded * 3).sum().backward()
        return loaded.grad

    agree(program, warns=True, raises=False)


def test_a_parameter_loses_its_hooks_and_gradient() -> None:
    def program(torch: Any, log: Log) -> Any:
        p = torch.nn.Parameter(torch.ones(2))
        p.register_hook(lambda grad: grad * 2)
        (p * 3).sum().backward()
        loaded = torch.load(saved(torch, {"p": p}))["p"]
        log(bool(loaded._backward_hooks), loaded.grad, type(loaded).__name__, loaded._version)
        return loaded

    agree(program, warns=True, raises=False)


class Tagged(real_torch.Tensor):
    pass


class UndertowTagged(undertow.Tensor):
    pass


@pytest.mark.parametrize(
    ("torch", "cls"), [(real_torch, Tagged), (undertow, UndertowTagged)], ids=["torch", "undertow"]
)
def test_subclasses(torch: Any, cls: Any) -> None:
    tensor = torch.arange(3.0).as_subclass(cls)
    tensor.note = "kept"
    file = saved(torch, tensor)
    loaded = torch.load(file, weights_only=False)
    assert type(loaded) is cls and loaded.note == "kept" and loaded.tolist() == [0.0, 1.0, 2.0]
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(file)
    file.seek(0)
    with torch.serialization.safe_globals([cls]):
        assert type(torch.load(file)) is cls


@pytest.mark.parametrize("module", [real_torch, undertow], ids=["torch", "undertow"])
def test_files_without_checksums(module: ModuleType) -> None:
    torch: Any = module
    assert torch.serialization.get_crc32_options() is True
    torch.serialization.set_crc32_options(False)
    try:
        file = saved(torch, torch.arange(3.0))
    finally:
        torch.serialization.set_crc32_options(True)
    assert zipfile.ZipFile(file).getinfo("archive/data/0").CRC == 0
    file.seek(0)
    assert undertow.load(file).tolist() == [0.0, 1.0, 2.0]
    file.seek(0)
    assert real_torch.load(file).tolist() == [0.0, 1.0, 2.0]


def test_compressed_by_another_program() -> None:
    source, packed = zipfile.ZipFile(saved(real_torch, real_torch.zeros(1000))), io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
    for torch in (real_torch, undertow):
        packed.seek(0)
        assert torch.load(packed).tolist() == [0.0] * 1000


def test_byte_order_of_the_other_kind() -> None:
    def swapped(torch: Any) -> io.BytesIO:
        source, other = zipfile.ZipFile(saved(torch, [torch.tensor([1.5, -2.0]), torch.tensor([1 + 2j])])), io.BytesIO()
        with zipfile.ZipFile(other, "w") as target:
            for name in source.namelist():
                content = source.read(name)
                if name.endswith("byteorder"):
                    content = b"big"
                elif "/data/" in name:
                    content = np.frombuffer(content, np.float32).byteswap().tobytes()
                target.writestr(name, content)
        other.seek(0)
        return other

    agree(lambda torch: torch.load(swapped(torch)), raises=False)


def test_settings(tmp_path: Path) -> None:
    def program(torch: Any, log: Log) -> Any:
        serialization = torch.serialization
        log(serialization.get_default_load_endianness(), serialization.get_default_mmap_options() == mmap.MAP_PRIVATE)
        torch.save(torch.zeros(2), tmp_path / "shared.pt")
        with serialization.set_default_mmap_options(mmap.MAP_SHARED):
            log(serialization.get_default_mmap_options() == mmap.MAP_SHARED)
            torch.load(tmp_path / "shared.pt", mmap=True)[0] = 5.0
        log(serialization.get_default_mmap_options() == mmap.MAP_PRIVATE)
        return torch.load(tmp_path / "shared.pt", mmap=True)

    agree(program, raises=False)
    agree_error(lambda torch: torch.serialization.set_default_mmap_options(7))
    agree_error(lambda torch: torch.serialization.set_default_load_endianness("big"))
