"""Decorators for tests that are skipped or expected to fail, or that change how a test runs."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import time
import unittest.mock
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from undertow._src.compat.process_settings import get_float32_matmul_precision, set_float32_matmul_precision
from undertow.testing._internal.common_utils.blocks import DeterministicGuard, SwapTensorsGuard
from undertow.testing._internal.common_utils.facts import (
    ADDRESS_IN_USE,
    IS_LINUX,
    IS_S390X,
    IS_SANDCASTLE,
    IS_WINDOWS,
    TEST_DILL,
    TEST_MKL,
    TEST_ONEDNN,
    TEST_SCIPY,
    TEST_SKIP_FAST,
    TEST_WITH_SLOW,
    TEST_WITH_SLOW_GRADCHECK,
)

Decorator = Callable[[Any], Any]


def _leave(test: Any) -> Any:
    """Return the test unchanged: the condition for skipping it never holds here."""
    return test


def _leave_called(*args: Any, **kwargs: Any) -> Any:
    """Return the test unchanged; the decorator may have arguments."""
    return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else _leave


# Conditions for skipping that never hold here: certain GPUs, compilers and processors.
skipIfRocm = skipIfRocm_BUGGY = skipIfRocmArch = skipIfRocmVersionLessThan = skipRocmIfTorchInductor = _leave_called
skipIfMPS = skipIfMps = skipIfXpu = skipIfXpu_BUGGY = skipIfWindowsXPU = skipIfHpu = skipIfHpu_BUGGY = _leave_called
skipIfCrossRef = skipIfTorchDynamo = skipIfTorchInductor = skipIfNNModuleInlined = _leave_called
skipIfLegacyJitExecutor = skipIfCompiledWithoutNumpy = skipIfNoLapack = skipIfFreeThreaded = _leave_called
skipCUDAMemoryLeakCheckIf = skipCUDANonDefaultStreamIf = skipIfCachingAllocatorDisabled = _leave_called
xfailIfTorchDynamo = xfailIfACL = xfailIfROCm = xpassIfTorchDynamo_np = xfail_inherited_tests = _leave_called
runWithoutCompiledAutograd = _leave_called
markDynamoStrictTest = unMarkDynamoStrictTest = make_dynamo_test = _leave_called
setBlasBackendsToDefaultFinally = setLinalgBackendsToDefaultFinally = setSdpaBackendsToDefaultFinally = _leave
gcIfJetson = _leave

# Requirements that are (mostly) not met here.
skipIfNoSciPy = unittest.skipIf(not TEST_SCIPY, "test require SciPy, but SciPy not found")
skipIfNoDill = unittest.skipIf(not TEST_DILL, "no dill")
skipIfNoXNNPACK = unittest.skip("XNNPACK must be enabled for these tests. Please build with USE_XNNPACK=1.")
skipIfNoXPU = unittest.skip("test required PyTorch compiled with XPU")
skipIfNotMiopenSuggestNHWC = unittest.skip("test doesn't currently work without MIOpen NHWC activation")
runOnRocm = unittest.skip("test currently only works on the ROCm stack")
requires_cuda = unittest.skip("Requires CUDA")
requires_mkl = unittest.skipUnless(TEST_MKL, "MKL not available")
requires_onednn = unittest.skipUnless(TEST_ONEDNN, "oneDNN not available")
skipIfSlowGradcheckEnv = unittest.skipIf(TEST_WITH_SLOW_GRADCHECK, "Tests without gradcheck need no slow gradcheck")
skip_if_pytest = unittest.skipIf("PYTEST_CURRENT_TEST" in os.environ, "does not work under pytest")
scoped_load_inline = unittest.skip("needs a compiler of C++ extensions")
xfailIfNoAcceleratorTriton = unittest.expectedFailure


def runOnRocmArch(arch: tuple[str, ...]) -> Decorator:
    return unittest.skip(f"test is only for AMD GPUs of the kinds {arch}")


def requires_cuda_p2p_access() -> Decorator:
    return unittest.skip("cuda p2p access is not available")


def skipIfWindows(func: Any = None, *, msg: str = "test doesn't currently work on the Windows stack") -> Any:
    mark = unittest.skipIf(IS_WINDOWS, f"skipIfWindows: {msg}")
    return mark if func is None else mark(func)


def skipIfPythonVersionMismatch(predicate: Callable[[Any], bool]) -> Decorator:
    """Skip a test unless a predicate accepts the version of Python."""
    return unittest.skipUnless(predicate(sys.version_info), "Python version mismatch")


def skipIfNotRegistered(op_name: str, message: str) -> Decorator:
    """Skip a test of an operator of Caffe2."""
    return unittest.skip(message)


def skip_but_pass_in_sandcastle(reason: str) -> Decorator:
    return unittest.skip(reason)


def skip_but_pass_in_sandcastle_if(condition: Any, reason: str) -> Decorator:
    """Skip a test if a condition holds; inside Meta's Sandcastle it would pass without running."""
    return unittest.skipIf(bool(condition) and not IS_SANDCASTLE, reason)


# --- slow tests and expected failures


def slowTest(fn: Any) -> Any:
    """Mark a slow test, which runs if PYTORCH_TEST_WITH_SLOW is 1."""
    marked = unittest.skipUnless(TEST_WITH_SLOW, "test is slow; run with PYTORCH_TEST_WITH_SLOW to enable test")(fn)
    marked.slow_test = True
    return marked


def slowTestIf(condition: Any) -> Decorator:
    return slowTest if condition else _leave


def check_if_enable(test: Any) -> None:
    """Skip tests that are not slow if only slow ones are to run."""
    if TEST_SKIP_FAST and not getattr(getattr(test, test._testMethodName), "slow_test", False):
        raise unittest.SkipTest("test is fast; we disabled it with PYTORCH_TEST_SKIP_FAST")


def xfailIf(condition: Any) -> Decorator:
    """Mark a test as expected to fail if a condition holds."""
    return unittest.expectedFailure if condition else _leave


xfailIfLinux, xfailIfWindows, xfailIfS390X = xfailIf(IS_LINUX), xfailIf(IS_WINDOWS), xfailIf(IS_S390X)
xfailIfPy312Plus = xfailIf(sys.version_info >= (3, 12))


def lazy_skip_if(condition_fn: Callable[[], bool], reason: str) -> Decorator:
    """Skip a test if a condition holds when it runs."""

    def decorate(test: Any) -> Any:
        @functools.wraps(test)
        def run(*args: Any, **kwargs: Any) -> Any:
            if condition_fn():
                raise unittest.SkipTest(reason)
            return test(*args, **kwargs)

        return run

    return decorate


@contextmanager
def skip_exception_type(exc_type: Any) -> Iterator[None]:
    """Skip the test if the block raises this exception."""
    try:
        yield
    except exc_type as error:
        raise unittest.SkipTest(f"not implemented: {error}") from error


# --- changes to how a test runs


def serialTest(condition: bool = True) -> Decorator:
    """Mark a test to run alone when pytest runs tests in parallel."""

    def decorate(test: Any) -> Any:
        if condition and "pytest" in sys.modules:
            return sys.modules["pytest"].mark.serial(test)
        return test

    return decorate


def _inside(block: Callable[[], Any]) -> Decorator:
    """Return a decorator that runs a test inside a new context."""

    def decorate(fn: Any) -> Any:
        @functools.wraps(fn)
        def run(*args: Any, **kwargs: Any) -> Any:
            with block():
                return fn(*args, **kwargs)

        return run

    return decorate


@contextmanager
def _kept_matmul_precision() -> Iterator[None]:
    before = get_float32_matmul_precision()
    try:
        yield
    finally:
        set_float32_matmul_precision(before)


suppress_warnings = _inside(lambda: warnings.catch_warnings(action="ignore"))
wrapDeterministicFlagAPITest = _inside(lambda: DeterministicGuard(False))
recover_orig_fp32_precision = with_ieee_matmul_precision = _inside(_kept_matmul_precision)  # always in full precision
wrapSwapTensorsTest = lambda swap=None: _inside(lambda: SwapTensorsGuard(swap))


def coalescedonoff(f: Any) -> Any:
    """Run a test twice, with coalesced and with uncoalesced sparse tensors."""

    @functools.wraps(f)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        f(self, *args, coalesced=True, **kwargs)
        f(self, *args, coalesced=False, **kwargs)

    return run


def retry(ExceptionToCheck: Any, tries: int = 3, delay: float = 3, skip_after_retries: bool = False) -> Decorator:
    """Retry a test after an exception, up to `tries` times; then let it fail, or skip it."""

    def decorate(fn: Any) -> Any:
        @functools.wraps(fn)
        def run(*args: Any, **kwargs: Any) -> Any:
            for _ in range(tries - 1):
                try:
                    return fn(*args, **kwargs)
                except ExceptionToCheck:
                    time.sleep(delay)
            try:
                return fn(*args, **kwargs)
            except ExceptionToCheck as error:
                if skip_after_retries:
                    raise unittest.SkipTest(f"Skipping after {tries} consecutive {error!r}") from error
                raise

        return run

    return decorate


def retry_on_connect_failures(func: Any = None, connect_errors: Any = ADDRESS_IN_USE) -> Any:
    """Retry a test, up to ten times, while it fails with one of these connection errors."""
    if func is None:
        return functools.partial(retry_on_connect_failures, connect_errors=connect_errors)
    reasons = [connect_errors] if isinstance(connect_errors, str) else list(connect_errors)

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        for left in range(9, -1, -1):
            try:
                return func(*args, **kwargs)
            except RuntimeError as error:
                if not left or not any(reason in str(error) for reason in reasons):
                    raise
                time.sleep(0.5)
        return None

    return run


def print_repro_on_failure(repro_parts: Any) -> Any:
    """Add the command that reproduces the failure to errors raised in the block."""

    @contextmanager
    def block() -> Iterator[None]:
        try:
            yield
        except unittest.SkipTest:
            raise
        except Exception as error:
            error.add_note("To execute this test, run: " + " ".join(part for part in repro_parts if part))
            raise

    return block()


def patch_test_members(updates: dict[str, Any]) -> Decorator:
    """Replace attributes of the test object during a test."""

    def decorate(test: Any) -> Any:
        @functools.wraps(test)
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            with unittest.mock.patch.multiple(self, **updates):
                return test(self, *args, **kwargs)

        return run

    return decorate


def mock_wrapper(method: Any) -> Any:
    """Wrap a method to also call its `mock`, which records the arguments."""
    mock = sys.modules["unittest.mock"].MagicMock()

    @functools.wraps(method)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        mock(*args, **kwargs)
        return method(self, *args, **kwargs)

    wrapper.mock = mock  # type: ignore[attr-defined]
    return wrapper


def settings(*args: Any, **kwargs: Any) -> Decorator:
    """Return Hypothesis's settings if it is imported, otherwise a decorator without effect."""
    hypothesis = sys.modules.get("hypothesis")
    return hypothesis.settings(*args, **kwargs) if hypothesis is not None else _leave


def get_function_arglist(func: Any) -> list[str]:
    return inspect.getfullargspec(func).args
