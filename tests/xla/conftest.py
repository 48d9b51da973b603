"""For tests that compile steps."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any
from zlib import crc32

import pytest

import undertow
from tests.xla.interpreted import interpreted
from undertow._src.compile.compiled import Compiled
from undertow._src.compile.guards.guard import GuardList, failure


@pytest.fixture(autouse=True, scope="module")
def small_heap() -> None:
    """Each compile collects garbage: what earlier files left in JAX's caches and undertow's need not be looked at again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def first_steps() -> Iterator[None]:
    """Programs for first steps of optimizers are run here, on the CPU too, as they are on other devices."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Compiled, "compiles_first_step", True)
        yield


@pytest.fixture(autouse=True, scope="module")
def words_agree() -> Iterator[None]:
    """Wherever words in memory say that a program's guards hold, the guards are asked, too."""
    hold = GuardList.hold

    def hold_and_ask(guards: GuardList, arguments: Sequence[Any]) -> bool:
        held = hold(guards, arguments)
        assert not held or failure(guards.guards[:-1], arguments) == ""
        return held

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GuardList, "hold", hold_and_ask)
        yield


# Files about what XLA, devices or the cache do with programs, and those that say themselves which programs are interpreted.
COMPILED = {
    "test_cache", "test_devices", "test_donation", "test_fuzzed_steps", "test_half_as_eager", "test_interpreted",
    "test_layouts_as_eager", "test_models", "test_numbers_as_eager", "test_optimized", "test_steps_coverage",
    "test_steps_large", "test_steps_on_device",
}  # fmt: skip


@pytest.fixture(autouse=True)
def interpreting(request: pytest.FixtureRequest) -> Iterator[None]:
    """Four of five tests, chosen by name, interpret their programs, which takes half the time; PROGRAMS=compiled: none."""
    file = request.module.__name__.rpartition(".")[2]
    compiled = (
        os.environ.get("PROGRAMS") == "compiled" or file in COMPILED or crc32(request.node.name.encode()) % 5 == 0
    )
    with nullcontext() if compiled else interpreted():
        yield


SPELLINGS = ("undertow", "torch")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    spellings = SPELLINGS if _has_both(metafunc.module.__name__) else SPELLINGS[:1]
    metafunc.parametrize("spelling", spellings, indirect=True, scope="module")


def _has_both(module: str) -> bool:
    """Tests of whole steps, and of reading code, run under either spelling; all do with SPELLINGS=all."""
    name = module.rpartition(".")[2]
    return name.startswith("test_step") or name == "test_effects" or (_wants_all() and name != "test_spellings")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave each test one spelling, half of them this one and half that one; SPELLINGS=all has them run twice."""
    if not _wants_all():
        items[:] = [item for item in items if not _is_left_out(item)]


def _is_left_out(item: pytest.Item) -> bool:
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    if "spelling" not in parameters or not _has_both(item.module.__name__):  # type: ignore[attr-defined]
        return False
    name = item.nodeid.replace(f"[{parameters['spelling']}", "[", 1)
    return parameters["spelling"] != SPELLINGS[crc32(name.encode()) % 2]


def _wants_all() -> bool:
    return os.environ.get("SPELLINGS") == "all"


@pytest.fixture(autouse=True, scope="module")
def spelling(request: pytest.FixtureRequest) -> Iterator[None]:
    """How programs spell undertow: `torch` is as under `undertow run`, where its classes say that they are torch's."""
    with undertow.pretend_torch() if request.param == "torch" else nullcontext():
        yield
