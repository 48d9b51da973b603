"""The pickler that `save` uses writes what Python's own write, of nests of any depth."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import io
import pathlib
import pickle
from typing import Any

import pytest

import undertow as torch
from undertow.serialization.deep_pickler import DeepPickler


@dataclasses.dataclass
class Point:
    x: int
    y: Any = None


class Color(enum.Enum):
    RED = 1


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slots) and (self.a, self.b) == (other.a, other.b)

    __hash__ = None  # type: ignore[assignment]


class Keywords(int):
    def __new__(cls, *, value: int) -> Keywords:
        return super().__new__(cls, value)

    def __getnewargs_ex__(self) -> Any:
        return (), {"value": int(self)}


class Stacked(list[Any]):
    pass


class Table(dict[Any, Any]):
    pass


class BySetter:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __reduce__(self) -> Any:
        return BySetter, (None,), self.value, None, None, set_value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BySetter) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]


def set_value(target: BySetter, value: Any) -> None:
    target.value = value


Pair = collections.namedtuple("Pair", "first second")

VALUES: dict[str, Any] = {
    "atoms": [None, True, False, 0, -1, 255, 256, 65535, 65536, 1 << 40, -(1 << 100), 1.5, "", "é", "x" * 300, b"", b"ab"],
    "bytes": [b"\xff" * 300, bytearray(b"abc"), bytearray()],
    "lists": [[], [1], [1, 2], list(range(1001)), list(range(2000)), [[[]]]],
    "dicts": [{}, {1: 2}, {1: 2, "a": [3]}, {i: i for i in range(1001)}],
    "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), ((),)],
    "sets": [set(), {1}, frozenset(), frozenset([1]), {(1, 2)}],
    "shared": (lambda x: [x, x, (x, x)])([1, "text"]),
    "shared texts": ["one text"] * 3 + [{"one text": "one text"}],
    "objects": [Point(1, Point(2)), Color.RED, Slots(1, [2]), Keywords(value=7)],
    "containers": [Stacked([1, 2]), Table({1: 2}), Pair(1, 2)],
    "objects with state": [BySetter([1, 2])],
    "of the library": [
        collections.OrderedDict(a=1), collections.Counter("aab"), collections.deque([1, 2], 5), datetime.date(2020, 1, 1),
        decimal.Decimal("1.5"), fractions.Fraction(1, 3), complex(1, 2), range(3), slice(1, 2), pathlib.PurePosixPath("a"),
        collections.defaultdict(list, a=[1]), functools.partial(int, base=2).keywords,
    ],
    "names": [int, len, Point, datetime.datetime.now, type(None), type(...), ..., NotImplemented],
}  # fmt: skip


def pickled(kind: Any, value: object, protocol: int) -> bytes:
    file = io.BytesIO()
    kind(file, protocol).dump(value)
    return file.getvalue()


@pytest.mark.parametrize("protocol", range(2, 6))
@pytest.mark.parametrize("name", VALUES)
def test_the_bytes_are_those_of_pythons_pickler(name: str, protocol: int) -> None:
    value = VALUES[name]
    content = pickled(DeepPickler, value, protocol)
    assert content == pickled(pickle._Pickler, value, protocol)
    if name != "names":
        assert pickle.loads(content) == value


@pytest.mark.parametrize("protocol", [2, 4])
def test_objects_that_hold_themselves(protocol: int) -> None:
    row: list[Any] = []
    row.append(row)
    pair: Any = ([],)
    pair[0].append(pair)
    long: Any = ([], 1, 2, 3)
    long[0].append(long)
    table: dict[str, Any] = {}
    table["self"] = table
    point = Point(1)
    point.y = [point]
    for value in (row, pair, long, table, point):
        content = pickled(DeepPickler, value, protocol)
        assert content == pickled(pickle._Pickler, value, protocol)
    loaded = pickle.loads(pickled(DeepPickler, point, protocol))
    assert loaded.y[0] is loaded


@pytest.mark.parametrize("bad", [(int,), (int, [1]), (1, ()), 7])
def test_reductions_that_are_none(bad: Any) -> None:
    class Bad:
        def __reduce__(self) -> Any:
            return bad

    with pytest.raises(pickle.PicklingError):
        torch.save(Bad(), io.BytesIO())


@pytest.mark.parametrize("protocol", [2, 4])
def test_nests_are_saved_at_any_depth(protocol: int) -> None:
    depth = 5_000  # the interpreter stops at 1,000
    nests: dict[str, Any] = {"list": None, "dict": None, "tuple": None, "point": None, "tensor": torch.ones(1)}
    for _ in range(depth):
        nests["list"] = [nests["list"]]
        nests["dict"] = {"in": nests["dict"]}
        nests["tuple"] = (nests["tuple"],)
        nests["point"] = Point(1, nests["point"])
        nests["tensor"] = collections.OrderedDict(a=nests["tensor"])
    for name, value in nests.items():
        file = io.BytesIO()
        torch.save(value, file, pickle_protocol=protocol)
        file.seek(0)
        loaded = torch.load(file, weights_only=name != "point")
        for _ in range(depth):
            loaded = (
                loaded.y if name == "point" else next(iter(loaded.values() if isinstance(loaded, dict) else loaded))
            )
        assert loaded is None or loaded.tolist() == [1.0]


def test_nested_modules_are_saved_at_any_depth() -> None:
    module: Any = torch.nn.Linear(1, 1)
    for _ in range(1000):
        module = torch.nn.Sequential(module)
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    assert len(list(torch.load(file, weights_only=False).children())) == 1
