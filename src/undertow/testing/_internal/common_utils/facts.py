"""Facts for tests about the machine, the build and the options of the run: one CPU, no compiler, NumPy."""

from __future__ import annotations

import importlib.util
import logging
import os
import platform
import sys
import unittest
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np

from undertow._src.types import dtypes


class LazyVal:
    """A value that is computed when it is used."""

    def __init__(self, cb: Callable[[], Any]) -> None:
        self.cb = cb

    def __bool__(self) -> bool:
        return bool(self.cb())

    def __eq__(self, other: object) -> bool:
        return self.cb() == other

    def __repr__(self) -> str:
        return repr(self.cb())

    __hash__ = object.__hash__


def make_lazy_class(cls: type) -> type:
    """Return a class whose instances compute their value when an operator first uses it."""

    class Lazy:
        def __init__(self, cb: Callable[[], Any]) -> None:
            self._cb, self._value = cb, None

    def operator_of(name: str) -> Callable[..., Any]:
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            if self._value is None:
                self._value = self._cb()
            return getattr(self._value, name)(*args, **kwargs)

        return method

    left_alone = (
        "__class__",
        "__new__",
        "__init__",
        "__init_subclass__",
        "__getattribute__",
        "__setattr__",
        "__dict__",
    )
    for name in dir(cls):
        if name.startswith("__") and callable(getattr(cls, name)) and name not in left_alone:
            setattr(Lazy, name, operator_of(name))
    return Lazy


class TestEnvironment:
    """Options of a test run that the environment sets."""

    __test__ = False
    repro_env_vars: dict[str, str] = {}

    @staticmethod
    def def_flag(
        name: str, env_var: str | None = None, default: bool = False, include_in_repro: bool = True,
        enabled_fn: Callable[..., bool] | None = None, implied_by_fn: Callable[[], bool] = lambda: False,
    ) -> bool:  # fmt: skip
        """Define a flag from an environment variable, and return it."""
        enabled_fn = enabled_fn or (lambda value, default: (value != "0") if default else value == "1")
        enabled = bool(default)
        if env_var is not None:
            value = os.getenv(env_var)
            enabled = enabled_fn(value, default) if value is not None else bool(default)
            if enabled != default and include_in_repro:
                TestEnvironment.repro_env_vars[env_var] = value or ""
        enabled = enabled or bool(implied_by_fn())
        globals()[name] = enabled
        return enabled

    @staticmethod
    def def_setting(
        name: str, env_var: str | None = None, default: Any = None, include_in_repro: bool = True,
        parse_fn: Callable[[Any], Any] = lambda value: value,
    ) -> Any:  # fmt: skip
        """Define a setting from an environment variable, and return it."""
        given = default if env_var is None else os.getenv(env_var)
        value = default if given is None else parse_fn(given)
        if include_in_repro and value != default and env_var is not None:
            TestEnvironment.repro_env_vars[env_var] = str(given)
        globals()[name] = value
        return value

    @staticmethod
    def repro_env_var_prefix() -> str:
        """Return the environment variables that were set, as the prefix of a command line."""
        return " ".join(f"{name}={value}" for name, value in TestEnvironment.repro_env_vars.items())


def _check_module_exists(name: str) -> bool:
    """Whether a package is installed."""
    return importlib.util.find_spec(name) is not None


log = logging.getLogger(__name__)

# --- the machine
IS_LINUX, IS_WINDOWS, IS_MACOS = (sys.platform == name for name in ("linux", "win32", "darwin"))
IS_X86, IS_ARM64 = platform.machine() in ("x86_64", "i386"), platform.machine() in ("arm64", "aarch64")
IS_PPC, IS_S390X = platform.machine() == "ppc64le", platform.machine() == "s390x"
IS_FILESYSTEM_UTF8_ENCODING = sys.getfilesystemencoding() == "utf-8"
IS_JETSON = IS_FBCODE = IS_SANDCASTLE = IS_REMOTE_GPU = IN_RE_WORKER = _is_fbcode_default = False
IS_AVX512_VNNI_SUPPORTED = IS_CPU_EXT_SVE_SUPPORTED = IS_CPU_CAPABILITY_SVE = IS_CPU_CAPABILITY_SVE256 = False
IS_CI = bool(os.getenv("CI"))
NO_MULTIPROCESSING_SPAWN = EXPANDABLE_SEGMENTS = NOTEST_CPU = False
MACOS_VERSION = float(".".join(platform.mac_ver()[0].split(".")[:2]) or -1)
MI200_ARCH, MI300_ARCH, MI350_ARCH = ("gfx90a",), ("gfx942",), ("gfx950",)  # names of AMD GPUs
NAVI3_ARCH, NAVI4_ARCH = ("gfx1100", "gfx1101"), ("gfx1200", "gfx1201")
NAVI_ARCH = ("gfx1030", *NAVI3_ARCH, *NAVI4_ARCH)
check_names = ["orin", "concord", "galen", "xavier", "nano", "jetson", "tegra", "thor"]
NATIVE_DEVICES = ("cpu", "cuda", "xpu", "meta", "mps", "mtia", "privateuseone")
DEVICE_LIST_SUPPORT_PROFILING_TEST = ("cpu", "cuda", "xpu")
ALLOW_XPU_PROFILING_TEST = True
ACCELERATOR_TYPE = cuda_python_error_check = custom_device_mod = None

# --- available packages and devices
TEST_NUMPY, TEST_SCIPY = True, _check_module_exists("scipy")
TEST_DILL, TEST_NUMBA, TEST_LIBROSA, TEST_OPT_EINSUM = map(
    _check_module_exists, ("dill", "numba", "librosa", "opt_einsum")
)
TEST_FAIRSEQ = _check_module_exists("fairseq")
TEST_TRANSFORMERS = _check_module_exists("transformers")
TEST_CUDA = TEST_MPS = TEST_XPU = TEST_HPU = TEST_ACCELERATOR = TEST_MULTIACCELERATOR = False
TEST_CUDA_GRAPH = TEST_CUDA_GRAPH_CONDITIONAL_NODES = TEST_CUDA_CUDSS = TEST_CUDA_PYTHON_BINDINGS = False
TEST_CUDA_MEM_LEAK_CHECK = TEST_SKIP_CUDAGRAPH = TEST_CUTEDSL = TEST_TRITON_DSL = TEST_NVMATH = TEST_Z3 = False
TEST_MKL = TEST_ONEDNN = TEST_ACL = TEST_WITH_MIOPEN_SUGGEST_NHWC = TEST_WITH_MTIA = TEST_WITH_TV = False
TEST_PRIVATEUSE1, TEST_PRIVATEUSE1_DEVICE_TYPE = None, "privateuseone"

# --- options of the test run
TEST_WITH_ROCM = TEST_WITH_ASAN = TEST_WITH_TSAN = TEST_WITH_UBSAN = TEST_WITH_DEV_DBG_ASAN = TEST_WITH_CROSSREF = False
TEST_WITH_TORCHDYNAMO = TEST_WITH_TORCHINDUCTOR = TEST_WITH_AOT_EAGER = TEST_WITHOUT_COMPILED_AUTOGRAD = False
TEST_BAILOUTS = TEST_DISCOVER = TEST_IN_SUBPROCESS = USE_PYTEST = SHOWLOCALS = RERUN_DISABLED_TESTS = False
TEST_WITH_SLOW = TestEnvironment.def_flag("TEST_WITH_SLOW", env_var="PYTORCH_TEST_WITH_SLOW")
TEST_SKIP_FAST = TestEnvironment.def_flag("TEST_SKIP_FAST", env_var="PYTORCH_TEST_SKIP_FAST")
TEST_WITH_SLOW_GRADCHECK = TestEnvironment.def_flag("TEST_WITH_SLOW_GRADCHECK", "PYTORCH_TEST_WITH_SLOW_GRADCHECK")
PRINT_REPRO_ON_FAILURE = TestEnvironment.def_flag(
    "PRINT_REPRO_ON_FAILURE", "PYTORCH_PRINT_REPRO_ON_FAILURE", True, False
)
OPINFO_SAMPLE_INPUT_INDEX = TestEnvironment.def_setting(
    "OPINFO_SAMPLE_INPUT_INDEX", "PYTORCH_OPINFO_SAMPLE_INPUT_INDEX", None, False, int
)
OPINFO_RESTRICT_TO_DSL = None
REPEAT_COUNT = RUN_PARALLEL = 0
GRADCHECK_NONDET_TOL = 1e-12
GRAPH_EXECUTOR = None
running_script_path: str | None = None
DISABLE_RUNNING_SCRIPT_CHK = True
LOG_SUFFIX = PYTEST_SINGLE_TEST = TEST_SAVE_XML = DISABLED_TESTS_FILE = SLOW_TESTS_FILE = slow_tests_file = ""
DEFAULT_DISABLED_TESTS_FILE, DEFAULT_SLOW_TESTS_FILE = ".pytorch-disabled-tests.json", "slow_tests.json"
disabled_tests_dict: dict[str, Any] = {}
slow_tests_dict: dict[str, Any] = {}
UNITTEST_ARGS = [sys.argv[0]] if sys.argv else []
ADDRESS_IN_USE, CONNECT_TIMEOUT, FILE_SCHEMA = "Address already in use", "connect() timed out.", "file://"
has_pytest = _check_module_exists("pytest")


class ProfilingMode(Enum):
    """How TorchScript runs a program; here it runs as Python."""

    LEGACY = 1
    SIMPLE = 2
    PROFILING = 3


def cppProfilingFlagsToProfilingMode() -> ProfilingMode:
    return ProfilingMode.SIMPLE


# --- dtypes

_PAIRS = [(kind.numpy, kind) for kind in dtypes.ALL if kind not in (dtypes.complex32, dtypes.bfloat16)]
numpy_to_torch_dtype_dict = {numpy_kind.type: kind for numpy_kind, kind in _PAIRS}
torch_to_numpy_dtype_dict: dict[Any, Any] = {kind: numpy_kind.type for numpy_kind, kind in _PAIRS} | {
    dtypes.bfloat16: np.float32, dtypes.complex32: np.complex64,
}  # fmt: skip
dtype2prec_DONTUSE = {dtypes.float32: 1e-5, dtypes.float64: 1e-5, dtypes.float16: 1e-2, dtypes.bfloat16: 1e-1}


def numpy_to_torch_dtype(np_dtype: Any) -> Any:
    """Return the torch dtype for a NumPy dtype."""
    return numpy_to_torch_dtype_dict[np.dtype(np_dtype).type]


def has_corresponding_torch_dtype(np_dtype: Any) -> bool:
    try:
        numpy_to_torch_dtype(np_dtype)
    except KeyError:
        return False
    return True


# --- other devices


def getRocmVersion() -> tuple[int, int]:
    return 0, 0


def getRocmArchName(device_index: int = 0) -> str:
    """Raise: there is no AMD GPU."""
    raise AssertionError("Torch not compiled with CUDA enabled")


def isRocmArchAnyOf(arch: tuple[str, ...]) -> bool:
    return False


def is_navi3_arch() -> bool:
    return False


def get_gcc_major_version() -> None:
    """Return the version of the compiler for extensions: None, it is not used."""


def _is_privateuse1_backend_available() -> bool:
    return False


def _is_cpu_device_type(dev: Any) -> bool:
    return str(dev).split(":")[0] == "cpu"


# --- kernel languages (DSLs)


class LazyDSLCheck:
    """The available kernel languages: none."""

    def _get_registry(self) -> None:
        return None

    def is_available(self, dsl_name: str) -> bool:
        return False

    def list_available(self) -> list[str]:
        return []

    def list_all(self) -> list[str]:
        return []


_dsl_checker = LazyDSLCheck()
is_dsl_available, get_available_dsls, get_all_dsls = (
    _dsl_checker.is_available, _dsl_checker.list_available, _dsl_checker.list_all,
)  # fmt: skip


def skipIfDSLUnavailable(dsl_name: str, reason: str | None = None) -> Callable[[Any], Any]:
    """Skip a test that needs a kernel language."""
    return unittest.skipUnless(is_dsl_available(dsl_name), reason or f"{dsl_name} is not available")


skipUnlessDSLAvailable = skipIfDSLUnavailable
skipIfNoCuteDSL, skipIfNoTritonDSL = skipIfDSLUnavailable("cutedsl"), skipIfDSLUnavailable("triton")
skipIfNoNvmath = unittest.skipUnless(TEST_NVMATH, "nvmath is not available")
