"""For every test, of the source's doctests too: global state is policed, and torch computes on one thread."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

import undertow
from tests import global_state
from tests.needs_torch import needs_torch

WITHOUT_TORCH = find_spec("torch") is None
if not WITHOUT_TORCH:
    import torch as real_torch

# XLA compiles the same programs in a third of the time with less care for how fast they run. What its default makes of
# them is looked at in tests/xla/test_optimized.py, and everywhere with
# `PROGRAMS=compiled XLA_FLAGS= make test`.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false")
# A shell starts background jobs with Ctrl-C ignored, and programs that tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# JAX looks through the files of every traceback that passes it, a tenth of the time of tests that compile.
os.environ.setdefault("JAX_TRACEBACK_FILTERING", "off")

hypothesis.settings.register_profile("repeatable", derandomize=True)  # the same examples in every run
hypothesis.settings.load_profile("repeatable")

# Not tests: seeds and packages are programs that tests run, the namespace of JAX and utils/tensorboard need packages that
# the core does without, importing the stand-in makes a process pretend, and torch.ops and torch.classes have any name one
# asks for, which pytest takes for settings.
collect_ignore = [
    "tests/packages", "tests/seeds", "tests/why/cases", "src/undertow/_src/arrays/jax/namespace.py",
    "src/undertow/_src/compat/child_processes", "src/undertow/utils/tensorboard", "src/undertow/classes.py",
    "src/undertow/ops.py",
]  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    if WITHOUT_TORCH:
        return
    # Two workers share two cores; a spinning thread pool in each would slow both.
    real_torch.set_num_threads(1)
    real_torch.backends.opt_einsum.enabled = (
        False  # JAX brings that package along; undertow is compared with plain PyTorch
    )


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out what compares with PyTorch where PyTorch is not installed (`make test-pythons`)."""
    if not WITHOUT_TORCH:
        return None
    return (
        collection_path.name == "oracle" or (collection_path.suffix == ".py" and needs_torch(collection_path)) or None
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out `undertow why` on the engine torch where PyTorch is not installed."""
    if WITHOUT_TORCH:
        items[:] = [item for item in items if _parameters(item).get("engine") != "torch"]


def _parameters(item: pytest.Item) -> dict[str, object]:
    """Return what a test is parametrized with, by name."""
    return item.callspec.params if hasattr(item, "callspec") else {}


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Freeze what was collected: it lives as long as the process, so the garbage collector need not look at it.

    Otherwise each collection that compiling a step asks for walks 700,000 objects, longer than the compile takes.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test that leaves a mode, a hook or a setting behind, and start the next one clean."""
    before = global_state.snapshot()
    try:
        result = yield
    finally:
        leaked = global_state.leaks(before)
        if leaked:
            global_state.restore()
    if leaked:
        pytest.fail("the test leaked global state\n  " + "\n  ".join(leaked), pytrace=False)
    return result


@pytest.fixture(autouse=True)
def names_in_doctests(doctest_namespace: dict[str, Any]) -> None:
    """Examples in docstrings may say `torch`, `undertow` and `np` without importing them."""
    doctest_namespace.update({"torch": undertow, "undertow": undertow, "np": np})
