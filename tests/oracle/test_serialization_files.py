"""A file passes both ways: what torch saved undertow loads, what undertow saved torch loads, and all is as it was."""

from __future__ import annotations

import collections
import io
import pickle
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch as real_torch

import undertow
from tests.oracle.facts import differences, facts
from undertow.serialization import archive

Make = Callable[[Any], Any]
DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128",
)  # fmt: skip


def _with_attribute(torch: Any) -> Any:
    tensor = torch.ones(2)
    tensor.tag = {"name": "first"}
    return tensor


def _tagged_parameter(torch: Any) -> Any:
    parameter = torch.nn.Parameter(torch.arange(3.0))
    parameter.group = "decay"
    return parameter


def _ones(dtype: str, torch: Any) -> Any:
    return torch.ones(3).to(getattr(torch, dtype))


OBJECTS: dict[str, Make] = {
    "a vector": lambda torch: torch.arange(5.0),
    "a matrix": lambda torch: torch.arange(6.0).reshape(2, 3),
    "a transposed matrix": lambda torch: torch.arange(6.0).reshape(2, 3).t(),
    "every second element": lambda torch: torch.arange(10.0)[1::2],
    "an expanded column": lambda torch: torch.arange(3.0).reshape(3, 1).expand(3, 4),
    "no dimensions": lambda torch: torch.tensor(2.5),
    "no elements": lambda torch: torch.empty(0, 3),
    "no elements at all": lambda torch: torch.tensor([]),
    "wants gradients": lambda torch: torch.ones(2, requires_grad=True),
    "a result": lambda torch: torch.ones(2, requires_grad=True) * 3,
    "a conjugate": lambda torch: torch.tensor([1 + 2j, 3 - 1j]).conj(),
    "a parameter": lambda torch: torch.nn.Parameter(torch.arange(3.0)),
    "a frozen parameter": lambda torch: torch.nn.Parameter(torch.arange(3.0), requires_grad=False),
    "a parameter with an attribute": _tagged_parameter,
    "a tensor with an attribute": _with_attribute,
    "a size": lambda torch: torch.Size([2, 3]),
    "dtypes": lambda torch: [torch.float32, torch.bfloat16, torch.int64],
    "devices": lambda torch: [torch.device("cpu"), torch.device("cuda:1")],
    "a layout": lambda torch: torch.strided,
    "numbers": lambda torch: [1, -1, 2**31, -(2**31), 10**30, 0.1, float("inf"), 1 + 2j, True, False, None],
    "text": lambda torch: ["", "plain", "schön 名 🙂", "x" * 300],
    "bytes": lambda torch: [b"\x00\xff", bytearray(b"abc")],
    "containers": lambda torch: {"a": [1, (2, 3)], "b": {4: {5}}, "c": collections.OrderedDict(d=()), "e": set()},
    "a counter": lambda torch: collections.Counter("aab"),
    "keys of all kinds": lambda torch: {1: "a", 2.5: "b", None: "c", (1, (2, "x")): "d"},
    "a state dict": lambda torch: (torch.manual_seed(0), torch.nn.Linear(2, 1).state_dict())[1],
    **{dtype: partial(_ones, dtype) for dtype in DTYPES},
}

DIRECTIONS = [(real_torch, undertow), (undertow, real_torch), (undertow, undertow)]
DIRECTION_NAMES = ["from torch", "to torch", "own"]


def saved(torch: Any, obj: Any, **options: Any) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(obj, buffer, **options)
    buffer.seek(0)
    return buffer


def same(torch: Any, expected: Any, other: Any, actual: Any) -> None:
    lines = list(differences(facts(torch, expected), facts(other, actual), "loaded"))
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize(("writer", "reader"), DIRECTIONS, ids=DIRECTION_NAMES)
@pytest.mark.parametrize("name", OBJECTS)
def test_objects(name: str, writer: ModuleType, reader: ModuleType) -> None:
    make = OBJECTS[name]
    loaded = reader.load(saved(writer, make(writer)))
    expected = make(reader)
    same(reader, expected, reader, loaded)
    assert type(loaded) is type(expected)
    if isinstance(expected, reader.Tensor):
        assert loaded.stride() == expected.stride()
        assert loaded.is_leaf
        assert vars(loaded) == vars(expected)


@pytest.mark.parametrize(("writer", "reader"), DIRECTIONS, ids=DIRECTION_NAMES)
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_protocols_and_formats(writer: ModuleType, reader: ModuleType, protocol: int, zipped: bool) -> None:
    def make(torch: Any) -> Any:
        base = torch.arange(6.0)
        return {"base": base, "part": base[2:4], "parameter": torch.nn.Parameter(base.clone()), "n": [1, None, "x"]}

    file = saved(writer, make(writer), pickle_protocol=protocol, _use_new_zipfile_serialization=zipped)
    loaded = reader.load(file, weights_only=False)
    same(reader, make(reader), reader, loaded)
    loaded["base"][3] = 99.0
    assert loaded["part"].tolist() == [2.0, 99.0]
    if reader is undertow:
        file.seek(0)
        same(reader, make(reader), reader, reader.load(file, weights_only=True))


@pytest.mark.parametrize(("writer", "reader"), DIRECTIONS, ids=DIRECTION_NAMES)
def test_shared_memory_stays_shared(writer: ModuleType, reader: ModuleType) -> None:
    base = writer.arange(12.0).reshape(3, 4)
    tied = writer.nn.Parameter(writer.ones(2))
    loaded = reader.load(saved(writer, [base, base[1], base.t(), base, tied, tied, writer.nn.Parameter(tied.detach())]))
    whole, row, turned, again, first, second, third = loaded
    assert whole is again
    assert first is second and first is not third
    whole[1, 2] = 100.0
    assert row[2] == 100.0 and turned[2, 1] == 100.0
    assert row.storage_offset() == 4 and turned.stride() == (1, 4)
    with reader.no_grad():
        first[0] = 7.0
    assert third[0] == 7.0
    assert whole.untyped_storage().nbytes() == row.untyped_storage().nbytes() == 48


@pytest.mark.parametrize(("writer", "reader"), DIRECTIONS, ids=DIRECTION_NAMES)
def test_a_loaded_part_is_saved_again_with_its_whole(writer: ModuleType, reader: ModuleType) -> None:
    loaded = reader.load(saved(writer, {"part": writer.arange(100.0)[50:52]}))
    records = zipfile.ZipFile(saved(reader, loaded))
    assert records.getinfo("archive/data/0").file_size == 400


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("writer", [real_torch, undertow], ids=["torch", "undertow"])
def test_mmap(tmp_path: Path, writer: ModuleType, mapped: bool) -> None:
    path = tmp_path / "model.pt"
    base = writer.arange(1000.0)
    writer.save(
        {"base": base, "tail": base[500:], "bytes": writer.ones(3).to(writer.uint8), "z": writer.zeros(0)}, path
    )
    content = path.read_bytes()
    loaded = undertow.load(path, mmap=mapped)
    assert loaded["tail"].sum().item() == sum(range(500, 1000))
    loaded["base"][999] = 0.0
    assert loaded["tail"][-1].item() == 0.0
    assert loaded["base"].untyped_storage().nbytes() == 4000
    assert loaded["z"].shape == (0,)
    assert path.read_bytes() == content, "writes to a mapped tensor must not reach the file"


def test_the_archive_is_laid_out_as_torch_does(tmp_path: Path) -> None:
    contents = {}
    for torch in (real_torch, undertow):
        path = tmp_path / f"{torch.__name__}.pt"
        torch.save({"a": torch.arange(3.0), "b": [torch.nn.Parameter(torch.ones(2)), torch.Size([1])]}, path)
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
            names = [name.removeprefix(f"{torch.__name__}/") for name in archive.namelist()]
            contents[torch.__name__] = {name: archive.read(f"{torch.__name__}/{name}") for name in names}
            offsets = [info.header_offset for info in archive.infolist()]
        raw = path.read_bytes()
        for name, offset in zip(names, offsets, strict=True):
            begin = offset + 30 + int.from_bytes(raw[offset + 26 : offset + 28], "little")
            begin += int.from_bytes(raw[offset + 28 : offset + 30], "little")
            assert begin % 64 == 0, name
    expected, actual = contents["torch"], contents["undertow"]
    assert list(actual) == list(expected)
    assert actual.pop(".data/serialization_id") != expected.pop(".data/serialization_id")
    assert actual == expected, "the pickle too is the same to the byte"


@pytest.mark.parametrize("name", ["model.pt", "model.v2.pt", "noending", "a b.pt", "ünï.pt"])
def test_the_folder_is_named_after_the_file(tmp_path: Path, name: str) -> None:
    folders = []
    for torch in (real_torch, undertow):
        torch.save([1], tmp_path / name)
        with zipfile.ZipFile(tmp_path / name) as archive:
            folders.append(archive.namelist()[0])
    assert folders[0] == folders[1]


@pytest.mark.parametrize("what", ["_LONGEST", "_MOST_ENTRIES"])
def test_archives_larger_than_a_plain_zip(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    # The same fields as beyond 4 GB or 65,535 records.
    monkeypatch.setattr(archive, what, 50 if what == "_LONGEST" else 3)
    content = [undertow.arange(100.0), undertow.ones(3), undertow.zeros(0)]
    file = saved(undertow, content)
    monkeypatch.undo()
    assert b"PK\6\6" in file.getvalue()
    with zipfile.ZipFile(io.BytesIO(file.getvalue())) as records:
        assert records.testzip() is None
    for torch in (real_torch, undertow):
        file.seek(0)
        assert [tensor.tolist() for tensor in torch.load(file)] == [tensor.tolist() for tensor in content]


def test_more_records_than_a_plain_zip_can_count() -> None:
    file = saved(undertow, [undertow.ones(2)])
    pickled = zipfile.ZipFile(file).read("archive/data.pkl")
    large = io.BytesIO()
    writer = archive.ArchiveWriter(large, "archive")
    for name, data in [
        ("data.pkl", pickled),
        ("byteorder", b"little"),
        ("version", b"3\n"),
        ("data/0", b"\0\0\x80?" * 2),
    ]:
        writer.write(name, data)
    for number in range(66_000):
        writer.write(f"data/{number + 1}", b"")
    writer.finish()
    for torch in (real_torch, undertow):
        large.seek(0)
        assert torch.load(large)[0].tolist() == [1.0, 1.0]


def test_a_module_is_loaded_by_its_class() -> None:
    class_of = {"torch": real_torch, "undertow": undertow}
    for writer, reader in (("torch", "undertow"), ("undertow", "torch")):
        module = class_of[writer].nn.Linear(3, 2)
        loaded = class_of[reader].load(saved(class_of[writer], module), weights_only=False)
        assert type(loaded) is class_of[reader].nn.Linear
        same(class_of[writer], module.state_dict(), class_of[reader], loaded.state_dict())


@pytest.mark.parametrize("name", ["relu", "nn.functional.relu", "nn.functional.gelu", "nn.Linear", "nn.Parameter"])
@pytest.mark.parametrize(("writer", "reader"), DIRECTIONS, ids=DIRECTION_NAMES)
def test_functions_and_classes_by_name(name: str, writer: ModuleType, reader: ModuleType) -> None:
    def find(torch: Any) -> Any:
        for part in name.split("."):
            torch = getattr(torch, part)
        return torch

    assert reader.load(saved(writer, [find(writer)]), weights_only=False) == [find(reader)]


@pytest.mark.parametrize(("writer", "reader"), DIRECTIONS, ids=DIRECTION_NAMES)
def test_generators(writer: ModuleType, reader: ModuleType) -> None:
    generator = writer.Generator().manual_seed(7)
    writer.rand(3, generator=generator)
    expected = writer.rand(2, generator=writer.load(saved(writer, generator), weights_only=False)).tolist()
    assert reader.rand(2, generator=reader.load(saved(writer, generator), weights_only=False)).tolist() == expected


class MyPickle:
    """A module that offers a pickler and an unpickler of its own."""

    Pickler = pickle._Pickler
    Unpickler = pickle._Unpickler


@pytest.mark.parametrize(("writer", "reader"), DIRECTIONS, ids=DIRECTION_NAMES)
def test_another_pickle_module(writer: ModuleType, reader: ModuleType) -> None:
    file = saved(writer, {"a": writer.arange(3.0)}, pickle_module=MyPickle)
    same(writer, {"a": writer.arange(3.0)}, reader, reader.load(file, pickle_module=MyPickle))


@pytest.mark.parametrize("depth", [10, 100, 180])
def test_deep_nests(depth: int) -> None:
    def make(torch: Any) -> Any:
        nest: Any = torch.ones(1)
        for level in range(depth):
            nest = {"level": level, "inside": [nest]}
        return nest

    for writer, reader in DIRECTIONS:
        loaded = reader.load(saved(writer, make(writer)))
        for _ in range(depth):
            loaded = loaded["inside"][0]
        assert loaded.tolist() == [1.0]
