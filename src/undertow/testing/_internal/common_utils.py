"""What nearly every test written for PyTorch imports: its `TestCase`, its decorators, its constants."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib.util
import io
import os
import platform
import random
import socket
import sys
import tempfile
import unittest
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from undertow import dtypes
from undertow import random as generators
from undertow.autograd import gradcheck as _gradcheck
from undertow.autograd import gradgradcheck as _gradgradcheck
from undertow.dtypes import get_default_dtype
from undertow.dtypes import set_default_dtype as _set_default_dtype
from undertow.process_settings import (
    are_deterministic_algorithms_enabled,
    is_deterministic_algorithms_warn_only_enabled,
    use_deterministic_algorithms,
)
from undertow.testing._creation import make_tensor as make_tensor
from undertow.testing._internal.comparing import Tolerance, check_equal
from undertow.testing._internal.matrices import *  # noqa: F403
from undertow.testing._internal.parametrization import decorateIf as decorateIf
from undertow.testing._internal.parametrization import instantiate_parametrized_tests as instantiate_parametrized_tests
from undertow.testing._internal.parametrization import parametrize as parametrize
from undertow.testing._internal.parametrization import reparametrize as reparametrize
from undertow.testing._internal.parametrization import subtest as subtest

Decorator = Callable[[Any], Any]

# --- facts


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


SEED = 1234
IS_LINUX, IS_WINDOWS, IS_MACOS = (sys.platform == name for name in ("linux", "win32", "darwin"))
IS_X86, IS_ARM64 = platform.machine() in ("x86_64", "i386"), platform.machine() in ("arm64", "aarch64")
IS_PPC = IS_S390X = IS_JETSON = IS_FBCODE = IS_SANDCASTLE = IS_CI = IS_REMOTE_GPU = IN_RE_WORKER = False
IS_AVX512_VNNI_SUPPORTED = IS_CPU_EXT_SVE_SUPPORTED = IS_CPU_CAPABILITY_SVE256 = False
IS_FILESYSTEM_UTF8_ENCODING = sys.getfilesystemencoding() == "utf-8"
NO_MULTIPROCESSING_SPAWN = False
TEST_NUMPY, TEST_SCIPY = True, _installed("scipy")
TEST_CUDA = TEST_MPS = TEST_XPU = TEST_HPU = False
TEST_MKL = TEST_CUDA_GRAPH = TEST_CUDA_MEM_LEAK_CHECK = TEST_MULTIACCELERATOR = False
TEST_WITH_ROCM = TEST_WITH_ASAN = TEST_WITH_TSAN = TEST_WITH_UBSAN = TEST_WITH_DEV_DBG_ASAN = TEST_WITH_CROSSREF = False
TEST_WITH_TORCHDYNAMO = TEST_WITH_TORCHINDUCTOR = TEST_WITH_AOT_EAGER = TEST_WITH_MTIA = TEST_WITH_TV = TEST_ACL = False
TEST_ACCELERATOR = TEST_PRIVATEUSE1 = TEST_WITH_SLOW_GRADCHECK = TEST_SKIP_FAST = TEST_SAVE_XML = TEST_ONEDNN = False
TEST_WITHOUT_COMPILED_AUTOGRAD = True
TEST_WITH_SLOW = os.environ.get("PYTORCH_TEST_WITH_SLOW", "0") == "1"
TEST_DILL, TEST_NUMBA, TEST_LIBROSA, TEST_OPT_EINSUM = map(_installed, ("dill", "numba", "librosa", "opt_einsum"))
TEST_TRANSFORMERS, TEST_Z3 = False, False
GRADCHECK_NONDET_TOL = 0.0
GRAPH_EXECUTOR, ACCELERATOR_TYPE = "simple", None
NATIVE_DEVICES = ("cpu", "cuda", "xpu", "meta", "mps", "mtia", "privateuseone")
UNITTEST_ARGS = [sys.argv[0]]

_PAIRS = [(kind.numpy, kind) for kind in dtypes.ALL if kind not in (dtypes.complex32, dtypes.bfloat16)]
numpy_to_torch_dtype_dict = {numpy_kind.type: kind for numpy_kind, kind in _PAIRS}
torch_to_numpy_dtype_dict: dict[Any, Any] = {kind: numpy_kind.type for numpy_kind, kind in _PAIRS} | {
    dtypes.bfloat16: np.float32, dtypes.complex32: np.complex64,
}  # fmt: skip


# --- running


def run_tests(argv: list[str] | None = None) -> None:
    """Runs the tests of the program."""
    unittest.main(argv=argv or [sys.argv[0], *sys.argv[1:]])


def raise_on_run_directly(file_to_call: str) -> None:
    raise RuntimeError(f"This test file is not meant to be run directly, use {file_to_call}")


def load_tests(loader: Any, tests: Any, pattern: Any) -> Any:
    """All tests that a module has."""
    return tests


def set_rng_seed(seed: int | None = None) -> None:
    """Seeds every generator."""
    seed = SEED if seed is None else seed
    generators.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


class TestCase(unittest.TestCase):
    """unittest's, with `assertEqual` for tensors."""

    _precision: float = 0
    _rel_tol: float = 0
    maxDiff = None

    @property
    def precision(self) -> float:
        """The least absolute tolerance of `assertEqual`."""
        return self._precision

    @precision.setter
    def precision(self, value: float) -> None:
        self._precision = value

    @property
    def rel_tol(self) -> float:
        """The least relative tolerance."""
        return self._rel_tol

    @rel_tol.setter
    def rel_tol(self, value: float) -> None:
        self._rel_tol = value

    def setUp(self) -> None:
        set_rng_seed()

    def assertEqual(
        self, x: Any, y: Any, msg: Any = None, *, atol: float | None = None, rtol: float | None = None,
        equal_nan: bool = True, exact_dtype: bool = True, exact_device: bool = False, exact_layout: bool = False,
        exact_stride: bool = False, exact_is_coalesced: bool = False,
    ) -> None:  # fmt: skip
        """Whether two values, or nests of them, are equal; tensors within the tolerance of their dtypes."""
        __tracebackhide__ = True
        allowed = Tolerance(
            atol, rtol, (self._precision, self._rel_tol), equal_nan=equal_nan, exact_dtype=exact_dtype,
            exact_layout=exact_layout, exact_stride=exact_stride,
        )  # fmt: skip
        try:
            check_equal(x, y, allowed)
        except AssertionError as error:
            text = msg(str(error)) if callable(msg) else f"{error}\n{msg}" if msg else str(error)
            raise self.failureException(text) from None

    def assertNotEqual(self, x: Any, y: Any, msg: Any = None, **options: Any) -> None:  # type: ignore[override]
        """The opposite."""
        with self.assertRaises(AssertionError, msg=msg):
            self.assertEqual(x, y, msg, **options)

    def assertEqualIgnoreType(self, *args: Any, **kwargs: Any) -> None:
        """Whether values are equal, whatever their dtypes."""
        self.assertEqual(*args, exact_dtype=False, **kwargs)

    def assertEqualTypeString(self, x: Any, y: Any) -> None:
        """Whether two tensors have one type."""
        self.assertEqual(x.device, y.device)
        self.assertEqual(x.dtype, y.dtype)
        self.assertEqual(x.is_sparse, y.is_sparse)

    def assertEqualBroadcasting(self, x: Any, y: Any, *args: Any, **kwargs: Any) -> None:
        """Whether a tensor equals a value that is stretched to its shape."""
        wide = (y if hasattr(y, "expand_as") else x.new_tensor(y)).expand_as(x)
        self.assertEqual(x, wide, *args, **kwargs)

    def assertObjectIn(self, obj: Any, iterable: Any) -> None:
        """Whether this very object is among others."""
        if not any(each is obj for each in iterable):
            raise AssertionError("object not found in iterable")

    def assertExpectedInline(self, actual: str, expect: str, skip: int = 0) -> None:
        """Whether a text is this text."""
        self.assertMultiLineEqual(expect, actual)

    def assertExpectedRaisesInline(self, exc_type: Any, callable: Any, expect: str, *args: Any, **kwargs: Any) -> None:
        """Whether a call raises an error with this text."""
        with self.assertRaises(exc_type) as caught:
            callable(*args, **kwargs)
        self.assertMultiLineEqual(expect, str(caught.exception))

    def assertNotWarn(self, callable: Any, msg: str = "") -> None:
        """Whether a call warns of nothing."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            callable()
        self.assertTrue(len(caught) == 0, msg)

    @contextlib.contextmanager
    def assertWarnsOnceRegex(self, category: Any, regex: str = "") -> Iterator[None]:
        """A block that warns of this."""
        with self.assertWarnsRegex(category, regex):
            yield

    @contextlib.contextmanager
    def assertNoUnraisable(self, callable: Any = None, *args: Any, **kwargs: Any) -> Iterator[None]:
        """A block in which no destructor fails."""
        seen: list[Any] = []
        before, sys.unraisablehook = sys.unraisablehook, seen.append
        try:
            yield
        finally:
            sys.unraisablehook = before
        self.assertEqual(seen, [])

    @contextlib.contextmanager
    def assertLeaksNoCudaTensors(self, name: str | None = None) -> Iterator[None]:
        """A block that leaves no tensors on a GPU."""
        yield

    def assertGreaterAlmostEqual(
        self, first: Any, second: Any, places: Any = None, msg: Any = None, delta: Any = None
    ) -> None:
        """Whether a number is larger, or nearly so."""
        if not first >= second:
            self.assertAlmostEqual(first, second, places, msg, delta)

    def compare_with_numpy(
        self, torch_fn: Any, np_fn: Any, tensor_like: Any, device: Any = None, dtype: Any = None, **options: Any
    ) -> None:
        """Whether a function gives what NumPy's gives."""
        tensor = tensor_like if hasattr(tensor_like, "numpy") else make(tensor_like, dtype)
        array = tensor.detach().float().numpy() if tensor.dtype is dtypes.bfloat16 else tensor.detach().numpy()
        self.assertEqual(np_fn(array), torch_fn(tensor), exact_dtype=False, **options)

    def check_nondeterministic_alert(self, fn: Any, caller_name: str, should_alert: bool = True) -> None:
        """Everything here is deterministic, so nothing is refused for not being so."""
        with DeterministicGuard(True):
            fn()

    def run(self, result: Any = None) -> Any:
        """Each test begins with the default dtype that it found."""
        before = get_default_dtype()
        try:
            return super().run(result)
        finally:
            _set_default_dtype(before)


TestCaseBase = TestCase


class TestGradients(TestCase):
    """The base of tests of gradients."""

    exact_dtype = True


def make(values: Any, dtype: Any = None) -> Any:
    """A tensor of these values."""
    from_data = sys.modules["undertow.from_data"]
    return from_data.as_tensor(values, dtype=dtype)


def gradcheck(fn: Any, inputs: Any, **kwargs: Any) -> bool:
    """Whether a function's gradient is what finite differences say."""
    return _gradcheck(fn, inputs, **{"nondet_tol": 0.0} | kwargs)


def gradgradcheck(fn: Any, inputs: Any, grad_outputs: Any = None, **kwargs: Any) -> bool:
    """The same of its second gradient."""
    return _gradgradcheck(fn, inputs, grad_outputs, **{"nondet_tol": 0.0} | kwargs)


# --- blocks


@contextlib.contextmanager
def freeze_rng_state() -> Iterator[None]:
    """A block after which the generator is where it was."""
    state = generators.get_rng_state()
    try:
        yield
    finally:
        generators.set_rng_state(state)


@contextlib.contextmanager
def set_default_dtype(dtype: Any) -> Iterator[None]:
    """A block with another default dtype."""
    before = get_default_dtype()
    _set_default_dtype(dtype)
    try:
        yield
    finally:
        _set_default_dtype(before)


class DeterministicGuard:
    """A block in which deterministic algorithms are asked for, or not."""

    def __init__(self, deterministic: bool, *, warn_only: bool = False, fill_uninitialized_memory: bool = True) -> None:
        self.wanted = deterministic, warn_only

    def __enter__(self) -> None:
        self.before = are_deterministic_algorithms_enabled(), is_deterministic_algorithms_warn_only_enabled()
        use_deterministic_algorithms(self.wanted[0], warn_only=self.wanted[1])

    def __exit__(self, *exception: object) -> None:
        use_deterministic_algorithms(self.before[0], warn_only=self.before[1])


@contextlib.contextmanager
def TemporaryFileName(*args: Any, **kwargs: Any) -> Iterator[str]:
    """The name of a file that is gone after the block."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"file{kwargs.get('suffix') or ''}")
        open(path, "wb").close()
        yield path


@contextlib.contextmanager
def TemporaryDirectoryName(suffix: str | None = None) -> Iterator[str]:
    """The name of a folder that is gone after the block."""
    with tempfile.TemporaryDirectory(suffix=suffix) as folder:
        yield folder


class BytesIOContext(io.BytesIO):
    """A file in memory that a block does not close."""

    def __enter__(self) -> BytesIOContext:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


@contextlib.contextmanager
def disable_gc() -> Iterator[None]:
    """A block without the collector of circles."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextlib.contextmanager
def _nothing(*args: Any, **kwargs: Any) -> Iterator[None]:
    yield


set_warn_always_context = AlwaysWarnTypedStorageRemoval = _nothing
CudaNonDefaultStream = CudaSyncGuard = SwapTensorsGuard = _nothing
enable_profiling_mode = enable_profiling_mode_for_profiling_tests = num_profiled_runs = _nothing


# --- decorators


def _leave(test: Any) -> Any:
    """The test itself: what it should not run on is not here."""
    return test


def _leave_called(*args: Any, **kwargs: Any) -> Any:
    """The same, where the decorator may be given arguments."""
    return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else _leave


skipIfRocm = skipIfMPS = skipIfMps = skipIfXpu = _leave_called
skipIfHpu = skipIfCrossRef = skipIfNoLapack = skipIfTorchDynamo = _leave_called
skipIfTorchInductor = skipIfWindows = _leave_called
skipIfRocmVersionLessThan = skipIfNNModuleInlined = skipIfLegacyJitExecutor = _leave_called
skipIfCompiledWithoutNumpy = skipIfFreeThreaded = _leave_called
skipIfRocmArch = skipRocmIfTorchInductor = skipIfWindowsXPU = _leave_called
skipCUDAMemoryLeakCheckIf = skipCUDANonDefaultStreamIf = _leave_called
skipIfCachingAllocatorDisabled = serialTest = gcIfJetson = _leave_called
xfailIfTorchDynamo = xfailIfLinux = xfailIfWindows = _leave_called
xfailIfS390X = xfailIfACL = xfailIfROCm = xpassIfTorchDynamo_np = _leave_called
markDynamoStrictTest = unMarkDynamoStrictTest = xfail_inherited_tests = wrapDeterministicFlagAPITest = _leave_called
setBlasBackendsToDefaultFinally = setLinalgBackendsToDefaultFinally = setSdpaBackendsToDefaultFinally = _leave_called
wrapSwapTensorsTest = skipIfPythonVersionMismatch = _leave_called
runWithoutCompiledAutograd = skip_but_pass_in_sandcastle_if = _leave_called
retry_on_connect_failures = with_ieee_matmul_precision = _leave_called
recover_orig_fp32_precision = print_repro_on_failure = _leave_called
skipIfNoSciPy = unittest.skipIf(not TEST_SCIPY, "test requires SciPy, but SciPy is not found")
skipIfNoXNNPACK = unittest.skip("XNNPACK must be enabled for these tests")
skipIfNoXPU = skipIfNotMiopenSuggestNHWC = runOnRocm = unittest.skip("needs another device")


def slowTest(test: Any) -> Any:
    """A test that takes long: it runs if PYTORCH_TEST_WITH_SLOW is 1."""
    return unittest.skipUnless(TEST_WITH_SLOW, "test is slow; run with PYTORCH_TEST_WITH_SLOW to enable test")(test)


def slowTestIf(condition: Any) -> Decorator:
    return slowTest if condition else _leave


def xfailIf(condition: Any) -> Decorator:
    """A test that is known to fail where a condition holds."""
    return unittest.expectedFailure if condition else _leave


def lazy_skip_if(condition: Callable[[], bool], reason: str) -> Decorator:
    """Skips a test if a condition holds when it runs."""

    def decorate(test: Any) -> Any:
        @functools.wraps(test)
        def run(*args: Any, **kwargs: Any) -> Any:
            if condition():
                raise unittest.SkipTest(reason)
            return test(*args, **kwargs)

        return run

    return decorate


def suppress_warnings(test: Any) -> Any:
    """A test whose warnings are not shown."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return test(*args, **kwargs)

    return run


def coalescedonoff(test: Any) -> Any:
    """A test of sparse tensors, once with coalesced ones and once without."""

    @functools.wraps(test)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        test(self, *args, coalesced=True, **kwargs)
        test(self, *args, coalesced=False, **kwargs)

    return run


@contextlib.contextmanager
def skip_exception_type(kind: Any) -> Iterator[None]:
    """A block that skips the test if it raises this."""
    try:
        yield
    except kind as error:
        raise unittest.SkipTest(f"not implemented: {error}") from error


# --- small things


def dtype_name(dtype: Any) -> str:
    return dtype.name


def numpy_to_torch_dtype(numpy_dtype: Any) -> Any:
    return numpy_to_torch_dtype_dict[np.dtype(numpy_dtype).type]


def is_iterable(obj: Any) -> bool:
    try:
        iter(obj)
    except TypeError:
        return False
    return True


def is_iterable_of_tensors(iterable: Any, include_empty: bool = False) -> bool:
    """Whether something holds tensors only."""
    if hasattr(iterable, "numel"):
        return False
    items = list(iterable) if is_iterable(iterable) else []
    return all(hasattr(item, "numel") for item in items) if items else include_empty


def iter_indices(tensor: Any) -> Any:
    """The indices of all elements."""
    if tensor.dim() == 0:
        return range(0)
    return range(tensor.size(0)) if tensor.dim() == 1 else product(*map(range, tensor.size()))


def first_sample(self: Any, samples: Any) -> Any:
    """The first of some samples."""
    return next(iter(samples))


def noncontiguous_like(t: Any) -> Any:
    """A copy of a tensor that does not lie in one piece."""
    if not t.is_contiguous():
        return t
    wide = t.detach().new_empty(*t.shape, 2)
    result = wide[..., 0]
    result.copy_(t.detach())
    return result.requires_grad_(t.requires_grad)


def find_free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


def to_gpu(obj: Any, type_map: Any = None) -> Any:
    raise RuntimeError("undertow has no GPU to move this to")
