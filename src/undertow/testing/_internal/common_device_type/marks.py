"""Decorators for tests that take a device: their devices, dtypes and tolerances."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import unittest
from collections.abc import Callable
from typing import Any, NamedTuple

from undertow._src.types.dtypes import dtype as Dtype
from undertow.testing._internal.common_utils.facts import NATIVE_DEVICES as NATIVE_DEVICES
from undertow.testing._internal.common_utils.marks import _leave, _leave_called

Decorator = Callable[[Any], Any]
GPU_TYPES = ["cuda", "mps", "xpu", "mtia"]
HAS_PSUTIL = importlib.util.find_spec("psutil") is not None


# --- dtypes and tolerances


class dtypes:
    """Run a test for each of these dtypes, or tuples of dtypes; `device_type` restricts this to a type of device."""

    def __init__(self, *args: Any, device_type: str = "all") -> None:
        groups = args if args and isinstance(args[0], (list, tuple)) else (args,)
        for group in groups:
            if not isinstance(group, (list, tuple)):
                raise AssertionError(f"When one dtype variant is a tuple or list, all must be. Received {group}")
            if not all(isinstance(kind, Dtype) for kind in group):
                raise AssertionError(f"Unknown dtype in {group}")
        self.args, self.device_type = args, device_type

    def __call__(self, fn: Any) -> Any:
        found = getattr(fn, "dtypes", {})
        if self.device_type in found:
            raise RuntimeError(f"dtypes redefinition for {self.device_type}")
        fn.dtypes = {**found, self.device_type: self.args}
        return fn


dtypesIfCPU, dtypesIfCUDA, dtypesIfMPS, dtypesIfXPU, dtypesIfHPU, dtypesIfPRIVATEUSE1 = (
    functools.partial(dtypes, device_type=kind) for kind in ("cpu", "cuda", "mps", "xpu", "hpu", "privateuseone")
)


class tol(NamedTuple):
    """An absolute and a relative tolerance."""

    atol: float
    rtol: float


class _Override:
    """A decorator that sets values by dtype on a test."""

    attribute, values = "", "values"

    def __init__(self, d: dict[Any, Any]) -> None:
        if not isinstance(d, dict):
            raise AssertionError(f"{type(self).__name__} not given a dtype : {self.values} dict!")
        for kind in d:
            if not isinstance(kind, Dtype):
                raise AssertionError(f"{type(self).__name__} given unknown dtype {kind}")
        self.d = d

    def __call__(self, fn: Any) -> Any:
        setattr(fn, self.attribute, self.d)
        return fn


class precisionOverride(_Override):
    """Absolute tolerances of a test by dtype."""

    attribute, values = "precision_overrides", "precision"


class toleranceOverride(_Override):
    """Tolerances of a test by dtype."""

    attribute, values = "tolerance_overrides", "tol"

    def __init__(self, d: dict[Any, tol]) -> None:
        super().__init__(d)
        if not all(isinstance(each, tol) for each in d.values()):
            raise AssertionError("toleranceOverride not given a dtype : tol dict!")


# --- skipping by type of device


def _device_type(test: Any) -> str:
    return getattr(test, "device_type", "cpu")


class skipIf:
    """Skip a test on a type of device (None: all) if a condition holds: a boolean, or the name of a test's attribute."""

    def __init__(self, dep: Any, reason: str, device_type: Any = None) -> None:
        self.dep, self.reason, self.device_type = dep, reason, device_type

    def __call__(self, fn: Any) -> Any:
        @functools.wraps(fn)
        def run(slf: Any, *args: Any, **kwargs: Any) -> Any:
            kinds = self.device_type
            here = kinds is None or _device_type(slf) in ([kinds] if isinstance(kinds, str) else kinds)
            if here and (getattr(slf, self.dep, True) if isinstance(self.dep, str) else self.dep):
                raise unittest.SkipTest(self.reason)
            return fn(slf, *args, **kwargs)

        return run


def _skip_if_class(name: str, device_type: Any) -> type[skipIf]:
    def make(self: Any, dep: Any, reason: str) -> None:
        skipIf.__init__(self, dep, reason, device_type)

    return type(name, (skipIf,), {"__init__": make, "__doc__": f"Skip a test on {device_type} if a condition holds."})


skipCPUIf = _skip_if_class("skipCPUIf", "cpu")
skipCUDAIf = _skip_if_class("skipCUDAIf", "cuda")
skipXPUIf = _skip_if_class("skipXPUIf", "xpu")
skipGPUIf = _skip_if_class("skipGPUIf", GPU_TYPES)
skipMPSIf = _skip_if_class("skipMPSIf", "mps")
skipHPUIf = _skip_if_class("skipHPUIf", "hpu")
skipXLAIf = _skip_if_class("skipXLAIf", "xla")
skipLazyIf = _skip_if_class("skipLazyIf", "lazy")
skipMetaIf = _skip_if_class("skipMetaIf", "meta")
skipPRIVATEUSE1If = _skip_if_class("skipPRIVATEUSE1If", "privateuseone")


skipXLA = skipXLAIf(True, "Marked as skipped for XLA")
skipLazy = skipLazyIf(True, "test doesn't work with lazy tensors")
skipMeta = skipMetaIf(True, "test doesn't work with meta tensors")
skipMPS = skipMPSIf(True, "test doesn't work on MPS backend")
skipHPU = skipHPUIf(True, "test doesn't work on HPU backend")
skipXPU = skipXPUIf(True, "test doesn't work on XPU backend")
skipPRIVATEUSE1 = skipPRIVATEUSE1If(True, "test doesn't work on privateuse1 backend")

# NumPy has what these tests need, or the condition concerns GPUs.
skipCPUIfNoLapack = skipCPUIfNoFFT = _leave
skipCPUIfNoMkl = skipCPUIf(True, "PyTorch is built without MKL support")
skipCPUIfNoMklSparse = skipCPUIf(True, "PyTorch is built without MKL Sparse support")
skipCPUIfNoMkldnn = skipCPUIf(True, "PyTorch is built without mkldnn support")
skipCUDAIfNoMagma = skipCUDAIfNoCudnn = skipCUDAIfNoCusolver = skipCUDAIfMiopen = skipCUDAIfNoMiopen = _leave
skipCUDAIfNotRocm = skipCUDAIfNoMagmaAndNoCusolver = skipCUDAIfNoMagmaAndNoLinalgsolver = _leave
skipCUDAIfNoSparseGeneric = skipCUDAIfNoCusparseGeneric = skipCUDAIfNoHipsparseGeneric = _leave
skipCUDAIfNoCusolverROCMIfNoMagma = skipCUDAIfNotMiopenSuggestNHWC = disablecuDNN = disableMkldnn = _leave
skipCUDAIfRocm = skipCUDAIfVersionLessThan = skipCUDAIfCudnnVersionLessThan = skipCUDAIfRocmVersionLessThan = (
    _leave_called
)
skipCUDAVersionIn = skipCUDAIfRocmHipBlasltVersionLessThan = skipCUDANonDefaultStreamIf = _leave_called


class expectedFailure:
    """Expect a test to fail on one type of device (and dtype)."""

    def __init__(self, device_type: str, dtype: Any = None) -> None:
        self.device_type, self.dtype = device_type, dtype

    def __call__(self, fn: Any) -> Any:
        @functools.wraps(fn)
        def run(slf: Any, *args: Any, **kwargs: Any) -> Any:
            here = self.device_type in (None, _device_type(slf))
            if not here or self.dtype not in (None, kwargs.get("dtype")):
                return fn(slf, *args, **kwargs)
            try:
                fn(slf, *args, **kwargs)
            except Exception:
                return None
            raise slf.failureException("expected test to fail, but it passed")

        return run


expectedFailureCPU, expectedFailureCUDA, expectedFailureMPS, expectedFailureXPU, expectedFailureHPU = (
    expectedFailure(kind) for kind in ("cpu", "cuda", "mps", "xpu", "hpu")
)
expectedFailureXLA, expectedFailureMeta = expectedFailure("xla"), expectedFailure("meta")
expectedFailureMPSPre14 = expectedFailureMPSPre15 = expectedFailureMPSComplex = _leave


# --- restricting tests to devices


class onlyOn:
    """Run a test only on some types of device."""

    def __init__(self, device_type: Any) -> None:
        self.device_type = device_type

    def __call__(self, fn: Any) -> Any:
        @functools.wraps(fn)
        def run(slf: Any, *args: Any, **kwargs: Any) -> Any:
            wanted = [self.device_type] if isinstance(self.device_type, str) else self.device_type
            if _device_type(slf) not in wanted and not getattr(slf, "bypass_device_restrictions", False):
                raise unittest.SkipTest(f"Only runs on {self.device_type}")
            return fn(slf, *args, **kwargs)

        return run


onlyCPU, onlyCUDA, onlyMPS, onlyXPU, onlyHPU = (onlyOn(kind) for kind in ("cpu", "cuda", "mps", "xpu", "hpu"))
onlyPRIVATEUSE1, onlyCUDAAndPRIVATEUSE1 = onlyOn("privateuseone"), onlyOn(["cuda", "privateuseone"])
onlyAccelerator = skipCPUIf(True, "Only runs on accelerators, current device is cpu")
onlyNativeDeviceTypes = onlyOn(NATIVE_DEVICES)


def onlyNativeDeviceTypesAnd(devices: Any = None) -> Decorator:
    """Run a test only on PyTorch's native types of device, and on these."""
    return onlyOn([*NATIVE_DEVICES, *([devices] if isinstance(devices, str) else devices or ())])


class deviceCountAtLeast:
    """Run a test that takes a list of devices if there are at least this many; there is one CPU."""

    def __init__(self, num_required_devices: int) -> None:
        self.num_required_devices = num_required_devices

    def __call__(self, fn: Any) -> Any:
        if hasattr(fn, "num_required_devices"):
            raise AssertionError(f"deviceCountAtLeast redefinition for {fn.__name__}")

        @functools.wraps(fn)
        def run(slf: Any, devices: Any, *args: Any, **kwargs: Any) -> Any:
            if len(devices) < self.num_required_devices:
                raise unittest.SkipTest(f"fewer than {self.num_required_devices} devices detected")
            return fn(slf, devices, *args, **kwargs)

        run.num_required_devices = self.num_required_devices  # type: ignore[attr-defined]
        return run


def _has_sufficient_memory(device: Any, size: int) -> bool:
    """Whether this number of bytes of memory is free."""
    if not HAS_PSUTIL:
        raise unittest.SkipTest("Need psutil to determine if memory is sufficient")
    psutil = importlib.import_module("psutil")
    return psutil.virtual_memory().available >= size


def largeTensorTest(size: Any, device: Any = None, inductor: bool = False) -> Decorator:
    """Skip a test if less memory is free than it needs, given in bytes or as "3GB"."""
    units = {"GB": 1024**3, "MB": 1024**2, "KB": 1024}
    needed = int(float(size[:-2]) * units[size[-2:].upper()]) if isinstance(size, str) else size

    def decorate(fn: Any) -> Any:
        @functools.wraps(fn)
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            needs = needed(self, *args, **kwargs) if callable(needed) else needed
            if not _has_sufficient_memory(device or self.get_primary_device(), needs):
                raise unittest.SkipTest(f"Insufficient {device or 'cpu'} memory")
            return fn(self, *args, **kwargs)

        return run

    return decorate
