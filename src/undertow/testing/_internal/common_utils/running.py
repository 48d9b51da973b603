"""Running tests, and other programs from tests."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import socket
import subprocess
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
    """Take PyTorch's own options from the command line; what is left is unittest's."""
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
    """All tests that a module has, one after the other."""
    return unittest.TestSuite(discover_test_cases_recursively(tests))


def discover_test_cases_recursively(suite_or_case: Any) -> list[unittest.TestCase]:
    """Return the tests in a suite of suites."""
    if isinstance(suite_or_case, unittest.TestCase):
        return [suite_or_case]
    return [case for each in suite_or_case for case in discover_test_cases_recursively(each)]


def get_test_names(test_cases: Any) -> list[str]:
    return [".".join(case.id().split(".")[-2:]) for case in test_cases]


def _print_test_names() -> None:
    suite = unittest.TestLoader().loadTestsFromModule(sys.modules["__main__"])
    print("\n".join(get_test_names(discover_test_cases_recursively(suite))))


def lint_test_case_extension(suite: Any) -> bool:
    """Whether every test is a `TestCase` of this package."""
    wrong = [case for case in discover_test_cases_recursively(suite) if not isinstance(case, cases.TestCase)]
    for name in sorted({type(case).__name__ for case in wrong}):
        print(f"{name} - extends unittest.TestCase, should extend torch.testing's TestCase")
    return not wrong


def check_test_defined_in_running_script(test_case: Any) -> None:
    """Return a check of PyTorch's own test suite; its files' tests may be anywhere here."""


def set_running_script_path() -> None:
    """Note which file is run."""
    facts.running_script_path = os.path.realpath(sys.argv[0]) if sys.argv and sys.argv[0].endswith(".py") else None


def sanitize_test_filename(filename: str) -> str:
    """Return the path of a file of tests as part of a name."""
    return re.sub(r"[\\/]", ".", filename.removesuffix(".py")).lstrip(".")


def remove_device_and_dtype_suffixes(test_name: str) -> str:
    """Return a test's name without what was added for a device and dtypes."""
    kinds = {str(kind).split(".")[1] for kind in facts.torch_to_numpy_dtype_dict} | {
        "cpu",
        "cuda",
        "meta",
        "mps",
        "xpu",
    }
    parts = test_name.split("_")
    while len(parts) > 1 and parts[-1] in kinds:
        parts.pop()
    return "_".join(parts)


def chunk_list(lst: list[Any], nchunks: int) -> list[list[Any]]:
    """Return a list dealt out into so many."""
    return [lst[start::nchunks] for start in range(nchunks)]


def split_if_not_empty(x: str) -> list[str]:
    return x.split("?") if x else []


def maybe_load_json(filename: str) -> dict[str, Any]:
    """Return what a file of JSON holds; nothing if there is no such file."""
    return json.loads(Path(filename).read_text()) if os.path.isfile(filename) else {}


def get_writable_path(path: str) -> str:
    return path


# --- other programs, threads and ports


def wait_for_process(p: Any, timeout: float | None = None) -> int:
    """Wait for a program's end and gives its return code."""
    try:
        return p.wait(timeout=timeout)
    except KeyboardInterrupt:
        p.send_signal(signal.SIGINT)  # it got the same interrupt; it may still clean up
        code = p.wait(timeout=5)
        if code is None:
            p.kill()
        return code
    except subprocess.TimeoutExpired:
        p.terminate()
        raise
    finally:
        p.wait()


def shell(
    command: Any, cwd: Any = None, env: Any = None, stdout: Any = None, stderr: Any = None, timeout: Any = None
) -> int:
    """Run a command and gives its return code."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # before the program writes to them
    words = command if not isinstance(command, str) else shlex.split(command)
    outside = {"cwd": cwd, "env": env, "stdout": stdout, "stderr": stderr}
    return wait_for_process(subprocess.Popen(words, text=True, **outside), timeout)


def retry_shell(
    command: Any, cwd: Any = None, env: Any = None, stdout: Any = None, stderr: Any = None, timeout: Any = None,
    retries: int = 1, was_rerun: bool = False,
) -> tuple[int, bool]:  # fmt: skip
    """Run a command, again if it fails, so many times; its return code and whether it was run again."""
    if retries < 0:
        raise AssertionError(f"Expecting non negative number for number of retries, got {retries}")
    code = shell(command, cwd, env, stdout, stderr, timeout)
    while code != 0 and retries > 0:
        retries, was_rerun = retries - 1, True
        code = shell(command, cwd, env, stdout, stderr, timeout)
    return code, was_rerun


def run_concurrently(
    worker_func: Callable[..., Any], num_threads: int | None = None, args: tuple[Any, ...] = (), kwargs: Any = None
) -> None:
    """Call a function, or each of a list of functions, in threads that start together; raises what one raises."""
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
    """Return a port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


def download_file(url: str, binary: bool = True) -> str:
    """Return the path of a file from the net, fetched once; a test is skipped if the net cannot be reached."""
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
    """Wait so many cycles of a processor of one gigahertz."""
    time.sleep(cycles / 1e9)


def device_sleep(device: str, cycles: int) -> None:
    """Keep a device busy for a time."""
    _cpu_sleep(cycles)


def get_cycles_per_ms(device: str = "cpu") -> float:
    return 1e6


def open_source_signpost(**kwargs: Any) -> None:
    """Report to nobody."""


def prof_callable(callable: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a script; more than once only where scripts are profiled."""
    return callable(*args, **kwargs)


def prof_func_call(*args: Any, **kwargs: Any) -> Any:
    return args[0](*args[1:], **kwargs)


prof_meth_call = func_call = meth_call = prof_func_call


def copy_func(f: Any) -> Any:
    """Return a function with the same code and its own attributes."""
    made = type(f)(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    made.__kwdefaults__, made.__dict__ = f.__kwdefaults__, dict(f.__dict__)
    return made
