"""How the source reader follows code as packages write it, and what it leaves out."""

from __future__ import annotations

import ast
import functools
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

import undertow as torch
from undertow._src.compile.effects import analyse, purity, read

LOG: list[Any] = []


class Loud:
    """Whatever is asked of it besides its class is noted."""

    def __eq__(self, other: object) -> bool:
        LOG.append("eq")
        return True

    def __hash__(self) -> int:
        LOG.append("hash")
        return 1

    def __len__(self) -> int:
        LOG.append("len")
        return 1


class Looked:
    """Attributes are looked for by code."""

    def __init__(self) -> None:
        self.notes = LOG

    def __getattribute__(self, name: str) -> Any:
        return super().__getattribute__(name)


LOUD, LOOKED = Loud(), Looked()


def test_a_builtin_calls_only_the_methods_that_it_calls() -> None:
    assert analyse(lambda x: x * 2 if isinstance(LOUD, Loud) else x, ["tensor"]).pure
    assert [each.line for each in analyse(lambda x: x * len(LOUD), ["tensor"]).effects] == [
        Loud.__len__.__code__.co_firstlineno + 1
    ]
    assert not analyse(lambda x: x if LOUD == 2 else -x, ["tensor"]).pure
    assert not analyse(lambda x: x if LOUD else -x, ["tensor"]).pure


def test_attributes_found_by_code() -> None:
    effects = analyse(lambda x: LOOKED.notes.append(x), ["tensor"]).effects
    assert any(effect.target is LOG for effect in effects)


def _logs() -> Any:
    while True:
        yield LOG


def _through_a_generator(x: Any) -> Any:
    for log in _logs():
        log.append(1)
    return x


def test_what_a_generator_gives() -> None:
    assert any(effect.target is LOG for effect in analyse(_through_a_generator, ["tensor"]).effects)


def _given(x: Any, *, function: Any = None, other: Any = None) -> Any:
    return x if function is None else function(x)


def _passes_on(x: Any, **kwargs: Any) -> Any:
    return _given(x, **kwargs)


def test_keywords_are_passed_on_by_name() -> None:
    assert analyse(lambda x: _passes_on(x, other=LOG.append), ["tensor"]).pure
    assert not analyse(lambda x: _passes_on(x, function=LOG.append), ["tensor"]).pure


def _holds_itself(x: Any) -> Any:
    first: list[Any] = []
    second = [first, LOG.append]
    first.append(second)
    for each in first:
        for inner in each:
            inner(x)
    return x


def test_containers_that_hold_each_other() -> None:
    assert any(effect.target is LOG for effect in analyse(_holds_itself, ["tensor"]).effects)


def _two_statements(x: Any) -> Any:
    LOG.append(1)
    print(x)
    return x


def test_what_is_left_without_a_statement() -> None:
    reading = read(_two_statements, ["tensor"])
    (frame,) = reading.frames
    first, second, _ = frame.node.body
    assert isinstance(first, ast.Expr) and [each.what for each in reading.effects_of(id(first))] == ["appends to `LOG`"]
    assert [each.what for each in reading.without(frozenset([id(first)])).effects.effects] == ["prints"]
    assert [each.what for each in reading.without(frozenset([id(second)])).effects.effects] == ["appends to `LOG`"]


def test_a_function_that_keeps_its_results_acts_once(capsys: pytest.CaptureFixture[str]) -> None:
    @functools.lru_cache
    def factor(name: str) -> float:
        print("asked for", name)
        return 2.0

    @torch.compile
    def step(x: Any) -> Any:
        return x * factor("a")

    for _ in range(3):
        assert step(torch.ones(2)).tolist() == [2.0, 2.0]
    assert capsys.readouterr().out == "asked for a\n"


PACKAGE = """
class Options:
    verbose = False
    def __init__(self): self.mode = "quiet"; self.level = 0

OPTIONS = Options()
TABLE = {"quiet": abs, "loud": print}
LOG = []

def dead(x):
    if OPTIONS.mode == "loud" or OPTIONS.verbose:
        LOG.append(1)
    return x * 2

def from_a_table(x):
    TABLE[OPTIONS.mode](1)
    return x

def sets_it_first(x):
    OPTIONS.level = 1
    if OPTIONS.level:
        LOG.append(1)
    return x

def sets_any_object(x, which):
    for each in which():
        each.mode = "loud"
    if OPTIONS.mode == "loud":
        LOG.append(1)
    return x

def which():
    yield OPTIONS
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module that counts as one of an installed package."""
    (tmp_path / "a_package_that_is_read.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(purity, "_INSTALLED_FOLDERS", (*purity._INSTALLED_FOLDERS, f"{tmp_path}/"))
    yield importlib.import_module("a_package_that_is_read")
    del sys.modules["a_package_that_is_read"]


def test_code_in_packages_behind_tests_that_fail_is_left_out(package: Any) -> None:
    for function in (package.dead, package.from_a_table):
        assert read(function, ["tensor"], decides=True).effects.pure, function
    assert not analyse(package.dead, ["tensor"]).pure  # a hook may come to it in a later call
    package.OPTIONS.mode = "loud"
    for function in (package.dead, package.from_a_table):
        assert not read(function, ["tensor"], decides=True).effects.pure, function


def test_what_the_code_itself_sets_is_not_decided(package: Any) -> None:
    effects = read(package.sets_it_first, ["tensor"], decides=True).effects.effects
    assert any(effect.target is package.LOG for effect in effects)
    effects = read(lambda x: package.sets_any_object(x, package.which), ["tensor"], decides=True).effects.effects
    assert any(effect.target is package.LOG for effect in effects)
