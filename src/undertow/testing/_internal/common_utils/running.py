"""Run tests, and other programs from tests."""

from __future__ import annotations

import argparse
import os
import socket
import sys
import threading
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from undertow.testing._internal.common_utils import cases, facts


def parse_cmd_line_args() -> None:
    """Parse PyTorch's options from the command line; leave the rest to unittest."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--accept", action="store_true")
    parser.add_argument("--seed", type=int)
    for ignored in ("--subprocess", "--use-pytest", "--save-xml", "--repeat", "--run-parallel", "--ge-config"):
        parser.add_argument(ignored, nargs="?")
    known, rest = parser.parse_known_args()
    cases.ACCEPT = known.accept
    facts.UNITTEST_ARGS[:] = [sys.argv[0], *rest]


def run_tests(argv: list[str] | None = None) -> None:
    """Run the tests of the program."""
    if argv is None:
        parse_cmd_line_args()
    unittest.main(argv=argv or facts.UNITTEST_ARGS)


def raise_on_run_directly(file_to_call: str) -> None:
    raise RuntimeError(
        f"This test file is not meant to be run directly, use:\n\n\tpython {file_to_call} TESTNAME\n\ninstead."
    )


def load_tests(loader: Any, tests: Any, pattern: Any) -> unittest.TestSuite:
    """Return a suite of all tests of a module."""
    return unittest.TestSuite(discover_test_cases_recursively(tests))


def discover_test_cases_recursively(suite_or_case: Any) -> list[unittest.TestCase]:
    """Return the tests in nested suites."""
    if isinstance(suite_or_case, unittest.TestCase):
        return [suite_or_case]
    return [case for each in suite_or_case for case in discover_test_cases_recursively(each)]


# --- other programs, threads and ports


def run_concurrently(
    worker_func: Callable[..., Any], num_threads: int | None = None, args: tuple[Any, ...] = (), kwargs: Any = None
) -> None:
    """Call a function, or each of a list of functions, in threads that start together; reraise the first exception."""
    workers = [worker_func] * (num_threads or 1) if callable(worker_func) else list(worker_func)
    gate, failed = threading.Barrier(len(workers)), list[BaseException]()

    def work(worker: Callable[..., Any]) -> None:
        gate.wait()
        try:
            worker(*args, **(kwargs or {}))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def find_free_port() -> int:
    """Return a free port."""
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


def download_file(url: str, binary: bool = True) -> str:
    """Download a file once, and return its path; skip the test if the network is not reachable."""
    path = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "data", os.path.basename(url))
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            content = urlopen(url, timeout=15).read()
        except OSError as error:
            raise unittest.SkipTest(f"could not download test file '{url}'") from error
        Path(path).write_bytes(content)
    return path


def _cpu_sleep(cycles: int) -> None:
    """Wait for a number of cycles of a 1 GHz processor."""
    time.sleep(cycles / 1e9)


def device_sleep(device: str, cycles: int) -> None:
    """Keep a device busy for a time."""
    _cpu_sleep(cycles)


def get_cycles_per_ms(device: str = "cpu") -> float:
    return 1e6


def copy_func(f: Any) -> Any:
    """Return a function with the same code and its own attributes."""
    made = type(f)(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    made.__kwdefaults__, made.__dict__ = f.__kwdefaults__, dict(f.__dict__)
    return made
