"""For tests that compile steps."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

import undertow
from undertow.xla.compiled import Compiled


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


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests of whole steps, and of reading code, run under both spellings; with SPELLINGS=all in the environment all do."""
    name = metafunc.module.__name__.rpartition(".")[2]
    every = os.environ.get("SPELLINGS") == "all" and name != "test_spellings"
    both = name.startswith("test_step") or name == "test_effects" or every
    metafunc.parametrize("spelling", ["undertow", "torch"] if both else ["undertow"], indirect=True, scope="module")


@pytest.fixture(autouse=True, scope="module")
def spelling(request: pytest.FixtureRequest) -> Iterator[None]:
    """How programs spell undertow: `torch` is as under `undertow run`, where its classes say that they are torch's."""
    with undertow.pretend_torch() if request.param == "torch" else nullcontext():
        yield
