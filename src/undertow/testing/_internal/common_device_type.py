"""Tests that run once per kind of device, here once: on the CPU; and once per dtype."""

from __future__ import annotations

import functools
import unittest
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from undertow.dtypes import dtype as Dtype
from undertow.testing._internal.common_utils import TestCase
from undertow.testing._internal.parametrization import Test, bound, cases_of

Decorator = Callable[[Any], Any]
NATIVE_DEVICES = ("cpu", "cuda", "xpu", "meta", "mps", "mtia", "privateuseone")


class DeviceTypeTestBase(TestCase):
    """The base of tests for one kind of device."""

    device_type = "cpu"

    @classmethod
    def get_primary_device(cls) -> str:
        return cls.device_type

    @classmethod
    def get_all_devices(cls) -> list[str]:
        return [cls.device_type]


class CPUTestBase(DeviceTypeTestBase):
    """Tests on the CPU."""


def get_device_type_test_bases() -> list[Any]:
    """The kinds of device that tests run on."""
    return [CPUTestBase]


device_type_test_bases = get_device_type_test_bases()


def get_all_device_types() -> list[str]:
    return ["cpu"]


def instantiate_device_type_tests(
    generic_test_class: Any, scope: dict[str, Any], except_for: Any = None, only_for: Any = None, **options: Any
) -> None:
    """Puts a class of tests for the CPU into `scope` in place of a class whose tests take a device."""
    del scope[generic_test_class.__name__]
    left_out = [except_for] if isinstance(except_for, str) else except_for or ()
    wanted = [only_for] if isinstance(only_for, str) else only_for
    if "cpu" in left_out or (wanted is not None and "cpu" not in wanted):
        return
    name = f"{generic_test_class.__name__}CPU"
    bases = tuple([base for base in generic_test_class.__bases__ if base is not object])
    body = {key: value for key, value in vars(generic_test_class).items() if key not in ("__dict__", "__weakref__")}
    tests = {key: body.pop(key) for key in list(body) if key.startswith("test")}
    made = type(name, (CPUTestBase, *[base for base in bases if base not in CPUTestBase.__mro__]), body)
    made.__module__ = generic_test_class.__module__
    for key, test in tests.items():
        for full, function in _device_tests(key, test):
            setattr(made, full, function)
    scope[name] = made


def _device_tests(name: str, test: Test) -> list[tuple[str, Test]]:
    found = []
    kinds: Any = getattr(test, "dtypes", None)
    chosen = [None] if kinds is None else kinds.get("cpu", kinds.get("all", [None]))
    for case in cases_of(test):
        for kind in chosen:
            kinds_of_case = kind if isinstance(kind, Sequence) else [] if kind is None else [kind]
            arguments = dict(case.arguments)
            if isinstance(kind, Dtype):
                arguments["dtype"] = kind
            elif kinds_of_case:
                arguments["dtypes"] = tuple(kinds_of_case)
            suffix = "_".join(filter(None, [case.suffix, "cpu", *[each.name for each in kinds_of_case]]))
            full = f"{name}_{suffix}"
            found.append((full, bound(_on_cpu(test, kind), arguments, case.decorators, full)))
    return found


def _on_cpu(test: Test, kind: Any) -> Test:
    """A test that is given the CPU as its device, and the tolerances that were set for its dtype."""
    precise, tolerant = getattr(test, "precision_overrides", {}), getattr(test, "tolerance_overrides", {})

    @functools.wraps(test)
    def run(self: Any, **arguments: Any) -> Any:
        before = self.precision, self.rel_tol
        if kind in tolerant:
            self.precision, self.rel_tol = tolerant[kind]
        elif kind in precise:
            self.precision = precise[kind]
        device = ["cpu"] if getattr(test, "num_required_devices", 0) else "cpu"
        try:
            return test(self, device, **arguments)
        finally:
            self.precision, self.rel_tol = before

    return run


# --- dtypes and tolerances


class dtypes:
    """Runs a test for each of these dtypes, or tuples of them; `device_type` restricts it to a kind of device."""

    def __init__(self, *args: Any, device_type: str = "all") -> None:
        if len(args) == 1 and isinstance(args[0], (list, tuple)) and args[0] and isinstance(args[0][0], (list, tuple)):
            args = tuple(args[0])
        self.args, self.device_type = args, device_type

    def __call__(self, test: Any) -> Any:
        test.dtypes = {**getattr(test, "dtypes", {}), self.device_type: list(self.args)}
        return test


class dtypesIfCPU(dtypes):
    """The dtypes on the CPU."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args, device_type="cpu")


class dtypesIfCUDA(dtypes):
    """The dtypes on GPUs."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args, device_type="cuda")


class dtypesIfMPS(dtypesIfCUDA):
    """The dtypes on Apple's GPUs."""


class dtypesIfXPU(dtypesIfCUDA):
    """The dtypes on Intel's GPUs."""


class dtypesIfHPU(dtypesIfCUDA):
    """The dtypes on Habana's processors."""


class dtypesIfPRIVATEUSE1(dtypesIfCUDA):
    """The dtypes on other devices."""


class tol(NamedTuple):
    """An absolute and a relative tolerance."""

    atol: float
    rtol: float


class precisionOverride:
    """Absolute tolerances of a test by dtype."""

    def __init__(self, d: dict[Any, float]) -> None:
        self.d = d

    def __call__(self, test: Any) -> Any:
        test.precision_overrides = self.d
        return test


class toleranceOverride:
    """Tolerances of a test by dtype."""

    def __init__(self, d: dict[Any, tol]) -> None:
        self.d = d

    def __call__(self, test: Any) -> Any:
        test.tolerance_overrides = self.d
        return test


# --- which devices a test is for


def _leave(test: Any) -> Any:
    return test


def _skipped(reason: str) -> Decorator:
    return lambda test: unittest.skip(reason)(test)


def _unless_cpu(*args: Any, **kwargs: Any) -> Decorator:
    return _leave


def onlyOn(device_type: Any) -> Decorator:
    """A test for some kinds of device."""
    wanted = [device_type] if isinstance(device_type, str) else device_type
    return _leave if "cpu" in wanted else _skipped(f"Only runs on {device_type}")


def onlyNativeDeviceTypesAnd(devices: Any = None) -> Decorator:
    return _leave


onlyCPU = onlyNativeDeviceTypes = _leave
onlyCUDA = onlyAccelerator = onlyCUDAAndPRIVATEUSE1 = onlyMPS = onlyXPU = onlyHPU = onlyPRIVATEUSE1 = _skipped(
    "Only runs on accelerators"
)


class deviceCountAtLeast:
    """A test that takes a list of so many devices; the CPU is one."""

    def __init__(self, num_required_devices: int) -> None:
        self.count = num_required_devices

    def __call__(self, test: Any) -> Any:
        if self.count > 1:
            return unittest.skip(f"fewer than {self.count} devices detected")(test)
        test.num_required_devices = self.count
        return test


def skipIf(dep: Any, reason: str, device_type: str | None = None) -> Decorator:
    """Skips a test where a condition holds."""
    if device_type not in (None, "cpu"):
        return _leave
    return unittest.skipIf(bool(dep() if callable(dep) else dep), reason)


def skipCPUIf(dep: Any, reason: str) -> Decorator:
    """Skips a test on the CPU where a condition holds."""
    return skipIf(dep, reason)


skipCUDAIf = skipMPSIf = skipXPUIf = skipGPUIf = skipHPUIf = skipLazyIf = skipMetaIf = skipXLAIf = skipPRIVATEUSE1If = (
    _unless_cpu
)
skipCPUIfNoLapack = skipCPUIfNoFFT = skipCPUIfNoMkl = skipCPUIfNoMklSparse = skipCPUIfNoMkldnn = _leave
skipMPS = skipXLA = skipXPU = skipMeta = skipLazy = skipHPU = skipPRIVATEUSE1 = skipCUDAIfNoMagma = _leave
skipCUDAIfNoCudnn = skipCUDAIfNoCusolver = skipCUDAIfRocm = skipCUDAIfMiopen = skipCUDAIfNoMiopen = _leave
skipCUDAIfNotRocm = skipCUDAIfNoMagmaAndNoCusolver = skipCUDAIfNoMagmaAndNoLinalgsolver = _leave
skipCUDAIfNoSparseGeneric = skipCUDAIfNoCusparseGeneric = skipCUDAIfNoHipsparseGeneric = _leave
skipCUDAIfVersionLessThan = skipCUDAIfCudnnVersionLessThan = skipCUDAIfRocmVersionLessThan = skipCUDAVersionIn = _unless_cpu
disablecuDNN = disableMkldnn = _leave
expectedFailureCUDA = expectedFailureMPS = expectedFailureXLA = expectedFailureXPU = expectedFailureMeta = _leave
expectedFailureHPU = expectedFailureMPSPre14 = expectedFailureMPSPre15 = expectedFailureMPSComplex = _leave
expectedFailureCPU = unittest.expectedFailure


class expectedFailure:
    """A test that fails on one kind of device."""

    def __init__(self, device_type: str) -> None:
        self.device_type = device_type

    def __call__(self, test: Any) -> Any:
        return unittest.expectedFailure(test) if self.device_type == "cpu" else test


def largeTensorTest(size: Any, device: Any = None, inductor: Any = None) -> Decorator:
    """A test that needs gigabytes; those for the CPU are skipped."""
    return _leave if device not in (None, "cpu") else _skipped(f"needs {size} of memory")
