"""Decorators for tests of several processes, which are skipped: undertow starts no processes for them."""

from __future__ import annotations

import functools
import itertools
import sys
import unittest
from collections import namedtuple
from collections.abc import Callable
from typing import Any

from undertow.testing._internal.common_utils import TestCase

_WHY = "undertow starts no processes for tests"
TIMEOUT_DEFAULT = 300
DEFAULT_WORLD_SIZE = 4
HAS_ACCELERATOR = False
TestSkip = namedtuple("TestSkip", "exit_code message")
TEST_SKIPS = {
    "backend_unavailable": TestSkip(72, "Skipped because distributed backend is not available."),
    "small_worldsize": TestSkip(73, "Skipped due to small world size."),
    "no_cuda": TestSkip(74, "CUDA is not available."),
    "generic": TestSkip(86, "Test skipped at subprocess level, look at subprocess log for skip reason"),
}


def _skipped(*args: Any, **kwargs: Any) -> Callable[[Any], Any]:
    """Return a decorator that skips a test."""
    return unittest.skip(_WHY)


requires_gloo = requires_nccl = requires_mpi = requires_ucc = requires_nccl_version = _skipped
requires_accelerator_dist_backend = require_n_gpus_for_nccl_backend = skip_if_lt_x_gpu = nccl_skip_if_lt_x_gpu = (
    _skipped
)


def skip_if_no_gpu(func: Any) -> Any:
    """Skip a test that needs a GPU."""
    return unittest.skip("CUDA is not available.")(func)


def skip_if_small_worldsize(func: Any) -> Any:
    """Skip a test that needs many processes."""
    return unittest.skip(_WHY)(func)


def skip_if_rocm_multiprocess(func: Any) -> Any:
    """Return the test unchanged: there are no AMD GPUs."""
    return func


def skip_if_win32() -> Callable[[Any], Any]:
    """Skip a test on Windows."""
    return unittest.skipIf(sys.platform == "win32", "This unit test case is not supported on Windows platform")


def at_least_x_gpu(x: int) -> bool:
    """Whether there are at least x GPUs."""
    return x <= 0


def spawn_threads_and_init_comms(func: Any = None, timeout: float = TIMEOUT_DEFAULT, world_size: int = 4) -> Any:
    """Skip a test that runs in several threads with communication."""
    if func is None:
        return functools.partial(spawn_threads_and_init_comms, timeout=timeout, world_size=world_size)
    return unittest.skip(_WHY)(func)


def run_subtests(
    cls_inst: Any, subtest_config: dict[str, list[Any]], test_fn: Callable[..., Any], *test_args: Any,
    **test_kwargs: Any,
) -> None:  # fmt: skip
    """Run a function as a subtest for every combination of the values in a table."""
    for choice in itertools.product(*subtest_config.values()):
        named = dict(zip(subtest_config, choice, strict=True))
        with cls_inst.subTest(**named):
            test_fn(*test_args, **test_kwargs, **named)


class MultiProcessTestCase(TestCase):
    """A test that needs several processes."""

    @property
    def world_size(self) -> int:
        return DEFAULT_WORLD_SIZE

    def setUp(self) -> None:
        self.skipTest(_WHY)


class MultiThreadedTestCase(MultiProcessTestCase):
    """A test that needs several threads."""


class DistributedTestBase(MultiProcessTestCase):
    """A test that needs several processes, on any type of device."""
