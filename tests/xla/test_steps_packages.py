"""What is changed from outside in installed packages, in tensors' own methods and in abstract classes after the compile."""

from __future__ import annotations

import abc
import collections.abc
import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import undertow as torch
from undertow import nn
from undertow._src.compile import CompileError
from undertow._src.compile.effects import purity

PACKAGE = """
import numpy
FLAG, LIMITS, NAMES, TABLE = False, {"a": 1.0}, ["one"], numpy.ones(2)
class Base:
    inherited = 1
    def doubled(self, v): return v
class Config(Base):
    x = 1
    class Inner: y = 1
class Slotted:
    __slots__ = ("n",)
    def __init__(self): self.n = 1
CONFIG, SLOTTED = Config(), Slotted()
def helper(v): return v
def made():
    state = [1]
    count = 1
    def read(v): return v * state[0] * count
    def bump():
        nonlocal count
        state[0], count = 3, 2
    return read, bump
closed, bump = made()
def flag(v): return v * 2 if FLAG else v
def attribute_of_class(v): return v * Config.x
def inherited(v): return v * Config.inherited
def attribute_of_object(v): return v * CONFIG.x
def nested(v): return v * Config.Inner.y
def slot(v): return v * SLOTTED.n
def entry(v): return v * LIMITS["a"]
def length(v): return v * len(NAMES)
def array(v): return v * float(TABLE[0])
def called(v): return helper(v)
def method(v): return CONFIG.doubled(v)
def two_deep(v): return flag(attribute_of_class(v))
"""

CHANGES: dict[str, Callable[[Any], Any]] = {
    "flag": lambda package: setattr(package, "FLAG", True),
    "attribute_of_class": lambda package: setattr(package.Config, "x", 3),
    "inherited": lambda package: setattr(package.Config, "inherited", 3),
    "attribute_of_object": lambda package: setattr(package.CONFIG, "x", 3),
    "nested": lambda package: setattr(package.Config.Inner, "y", 3),
    "slot": lambda package: setattr(package.SLOTTED, "n", 3),
    "entry": lambda package: package.LIMITS.update(a=3.0),
    "length": lambda package: package.NAMES.append("two"),
    "array": lambda package: package.TABLE.fill(3.0),
    "called": lambda package: setattr(package, "helper", lambda v: v * 3),
    "method": lambda package: setattr(package.Base, "doubled", lambda self, v: v * 3),
    "two_deep": lambda package: setattr(package.Config, "x", 3),
    "closed": lambda package: package.bump(),
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A package that is installed."""
    (tmp_path / "undertow_tests_installed.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(purity, "_INSTALLED_FOLDERS", (*purity._INSTALLED_FOLDERS, str(tmp_path)))
    purity.origin_of_file.cache_clear()
    import undertow_tests_installed  # type: ignore[import-not-found]

    yield undertow_tests_installed
    del sys.modules["undertow_tests_installed"]
    purity.origin_of_file.cache_clear()


def sees(step: Any, change: Callable[[], Any]) -> None:
    """Both ways of running agree before the change and after it, which matters."""
    compiled, x = torch.compile(step), torch.full((3,), 2.0)
    before = step(x).tolist()
    assert [compiled(x).tolist() for _ in range(3)] == [before] * 3
    change()
    assert step(x).tolist() != before
    assert [compiled(x).tolist() for _ in range(2)] == [step(x).tolist()] * 2


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_package_reads(package: Any, name: str) -> None:
    function = getattr(package, name)
    sees(lambda x: function(x), lambda: CHANGES[name](package))


@pytest.mark.parametrize("name", ["flag", "attribute_of_object", "called"])
def test_what_a_package_reads_for_a_hook(package: Any, name: str) -> None:
    function, layer = getattr(package, name), nn.Identity()
    layer.register_forward_hook(lambda module, args, out: function(out))
    sees(layer, lambda: CHANGES[name](package))


def test_a_package_that_reads_the_same_keeps_its_program(package: Any) -> None:
    step = torch.compile(lambda x: package.two_deep(x))
    for turn in range(4):
        step(torch.full((3,), 1.0 + turn))
    assert len(torch.compile.explain(step).data[0]["programs"]) == 1


def plus_one(x: Any) -> Any:
    x = x.clone()
    x += 1
    return x


OPERATORS: dict[str, tuple[Any, str]] = {
    "x * 2": (lambda x: x * 2, "__mul__"), "2 - x": (lambda x: 5 - x, "__rsub__"), "-x": (lambda x: -x, "__neg__"),
    "x[0]": (lambda x: x[0], "__getitem__"), "x += 1": (plus_one, "__iadd__"), "x @ x": (lambda x: x @ x, "__matmul__"),
    "abs(x)": (lambda x: abs(x), "__abs__"), "pow(x, 2)": (lambda x: pow(x, 2), "__pow__"),
    "x < 3": (lambda x: (x < 3).float(), "__lt__"), "sum(x)": (lambda x: sum(x), "__add__"),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("where", ["step", "hook"])
def test_an_operator_of_tensors_that_is_replaced(name: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, method = OPERATORS[name]
    before, layer = getattr(torch.Tensor, method), nn.Identity()
    layer.register_forward_hook(lambda module, args, out: function(out))
    other = lambda *given: before(*given) + 1 if method not in ("__add__", "__lt__") else before(*given).float().neg()
    sees(function if where == "step" else layer, lambda: monkeypatch.setattr(torch.Tensor, method, other))


def test_a_method_that_tensors_inherit_and_then_have(monkeypatch: pytest.MonkeyPatch) -> None:
    name = next(name for name in ("__len__", "dim", "size", "numel") if name not in vars(torch.Tensor))
    step = (lambda x: x * len(x)) if name == "__len__" else lambda x: x * getattr(x, name)()
    sees(step, lambda: monkeypatch.setattr(torch.Tensor, name, lambda self: 7, raising=False))


def abstract() -> tuple[Any, Any, Any]:
    class Kind(abc.ABC):  # noqa: B024
        pass

    class Other:
        pass

    return Kind, Other, Other()


def test_a_class_that_is_registered_with_an_abstract_one() -> None:
    kind, other, value = abstract()
    sees(lambda x: x * 2 if isinstance(value, kind) else x, lambda: kind.register(other))


def test_the_same_asked_of_the_class_itself() -> None:
    kind, other, _ = abstract()
    sees(lambda x: x * 2 if issubclass(other, kind) else x, lambda: kind.register(other))


def test_the_same_in_a_pattern() -> None:
    _, other, value = abstract()

    def step(x: Any) -> Any:
        match value:
            case collections.abc.Sized():
                return x * 2
        return x

    sees(step, lambda: collections.abc.Sized.register(other))


def test_the_same_in_a_hook() -> None:
    kind, other, value = abstract()
    layer = nn.Identity()
    layer.register_forward_hook(lambda module, args, out: out * 2 if isinstance(value, kind) else out)
    sees(layer, lambda: kind.register(other))


@pytest.mark.parametrize(
    "ask", [sys.getsizeof, sys.getrefcount, weakref.getweakrefcount, lambda _: gc.get_stats()[0]["collected"]]
)
def test_what_python_knows_of_objects_is_refused(ask: Any) -> None:
    values = {1, 2, 3}
    with pytest.raises(CompileError, match="the step calls"):
        torch.compile(lambda x: x * ask(values))(torch.ones(3))
