"""Tests that run once per type of device (here only on the CPU) and once per dtype."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from typing import Any

from undertow.testing._internal.common_utils import TestCase
from undertow.testing._internal.common_utils.parametrization import (
    Case,
    Test,
    compose_parametrize_fns,
    dtype_name,
    no_decorators,
)

PYTORCH_TESTING_DEVICE_ONLY_FOR_KEY = "PYTORCH_TESTING_DEVICE_ONLY_FOR"
PYTORCH_TESTING_DEVICE_EXCEPT_FOR_KEY = "PYTORCH_TESTING_DEVICE_EXCEPT_FOR"
PYTORCH_TESTING_DEVICE_FOR_CUSTOM_KEY = "PYTORCH_TESTING_DEVICE_FOR_CUSTOM"
_TORCH_TEST_DEVICES = os.environ.get("TORCH_TEST_DEVICES")
PYTORCH_CUDA_MEMCHECK = lazy_ts_backend_init = False


def _dtype_test_suffix(dtypes: Any) -> str:
    """Return the suffix of a test's name for one dtype, or several."""
    if isinstance(dtypes, (list, tuple)):
        return "".join(f"_{dtype_name(kind)}" for kind in dtypes)
    return f"_{dtype_name(dtypes)}" if dtypes else ""


def _update_param_kwargs(param_kwargs: dict[str, Any], name: str, value: Any) -> None:
    """Set an argument under its name, or under the plural of the name if it is a list or tuple."""
    plural = f"{name}s"
    param_kwargs.pop(name, None)
    param_kwargs.pop(plural, None)
    if isinstance(value, (list, tuple)):
        param_kwargs[plural] = value
    elif value is not None:
        param_kwargs[name] = value


class DeviceTypeTestBase(TestCase):
    """The base class of tests for one type of device."""

    device_type = "generic_device_type"
    bypass_device_restrictions = False
    op_overrides: Any = None
    op_allowlist: Any = None
    test_exclusions: Any = None

    @classmethod
    def get_primary_device(cls) -> str:
        return cls.device_type

    @classmethod
    def _init_and_get_primary_device(cls) -> str:
        return cls.get_primary_device()

    @classmethod
    def get_all_devices(cls) -> list[str]:
        return [cls.get_primary_device()]

    @classmethod
    def set_test_configs(
        cls, *, op_overrides: Any = None, op_allowlist: Any = None, test_exclusions: Any = None
    ) -> None:
        """Set which operators are tested, and which tests are excluded."""
        cls.op_overrides, cls.op_allowlist, cls.test_exclusions = op_overrides, op_allowlist, test_exclusions

    @classmethod
    def _get_test_exclusions(cls, test_class_name: str) -> Any:
        return (cls.test_exclusions or {}).get(test_class_name, ())

    @classmethod
    def _apply_op_allowlist(cls, ops: Any) -> Any:
        return [op for op in ops if op.name in cls.op_allowlist] if cls.op_allowlist is not None else ops

    @classmethod
    def _apply_op_overrides(cls, ops: Any, test: Any = None) -> Any:
        return [(cls.op_overrides or {}).get(op.name, op) for op in ops]

    @classmethod
    def _get_dtypes(cls, test: Any) -> Any:
        """Return the dtypes of a test for this type of device."""
        given = getattr(test, "dtypes", None)
        return None if given is None else given.get(cls.device_type, given.get("all"))

    def _get_precision_override(self, test: Any, dtype: Any) -> float:
        return getattr(test, "precision_overrides", {}).get(dtype, self.precision)

    def _get_tolerance_override(self, test: Any, dtype: Any) -> tuple[float, float]:
        found = getattr(test, "tolerance_overrides", {}).get(dtype)
        return (self.precision, self.rel_tol) if found is None else (found[0], found[1])

    def _apply_precision_override_for_test(self, test: Any, param_kwargs: dict[str, Any]) -> None:
        dtype = param_kwargs.get("dtype", param_kwargs.get("dtypes"))
        if dtype:
            self.precision = self._get_precision_override(test, dtype)
            self.precision, self.rel_tol = self._get_tolerance_override(test, dtype)

    @classmethod
    def instantiate_test(cls, name: str, test: Test, *, generic_cls: Any = None) -> None:
        """Add a plain test to the class for each case and dtype of a test that takes a device."""
        parametrize_fn = getattr(test, "parametrize_fn", None)
        dtypes = cls._get_dtypes(test)
        if dtypes is not None:
            own = functools.partial(_each_dtype, dtypes)
            parametrize_fn = own if parametrize_fn is None else compose_parametrize_fns(parametrize_fn, own)
        parametrize_fn = parametrize_fn or _as_it_is
        for case, suffix, arguments, decorators in parametrize_fn(test, generic_cls, cls):
            kinds = arguments.get("dtype", arguments.get("dtypes"))
            full = f"{name}{'_' if suffix else ''}{suffix}_{cls.device_type}{_dtype_test_suffix(kinds)}"
            decorated: Any = case
            for decorator in decorators(arguments):
                decorated = decorator(decorated)
            if hasattr(cls, full):
                raise AssertionError(f"Redefinition of test {full}")
            setattr(cls, full, _with_device(cls, full, decorated, arguments))


def _as_it_is(test: Test, generic_cls: Any, device_cls: Any) -> Iterator[Case]:
    yield test, "", {}, no_decorators


def _each_dtype(dtypes: Any, test: Test, generic_cls: Any, device_cls: Any) -> Iterator[Case]:
    for kind in dtypes:
        arguments: dict[str, Any] = {}
        _update_param_kwargs(arguments, "dtype", kind)
        yield test, "", arguments, no_decorators


def _with_device(cls: Any, name: str, test: Test, arguments: dict[str, Any]) -> Test:
    """Return a plain test that passes the device and the arguments, and sets the tolerances for its dtype."""

    @functools.wraps(test)
    def run(self: Any) -> Any:
        before = self.precision, self.rel_tol
        self._apply_precision_override_for_test(test, arguments)
        device = cls.get_all_devices() if hasattr(test, "num_required_devices") else cls.get_primary_device()
        try:
            return test(self, device, **arguments)
        finally:
            self.precision, self.rel_tol = before

    del run.__wrapped__  # pytest would take its parameters for fixtures
    run.__name__, run.__qualname__ = name, f"{cls.__name__}.{name}"
    return run


# --- types of device


class CPUTestBase(DeviceTypeTestBase):
    """Tests on the CPU."""

    device_type = "cpu"


class CUDATestBase(DeviceTypeTestBase):
    """Tests on NVIDIA's GPUs; none are made, since there is no GPU."""

    device_type = "cuda"


class MPSTestBase(DeviceTypeTestBase):
    """Tests on Apple's GPUs."""

    device_type = "mps"


class XPUTestBase(DeviceTypeTestBase):
    """Tests on Intel's GPUs."""

    device_type = "xpu"


class HPUTestBase(DeviceTypeTestBase):
    """Tests on Habana's processors."""

    device_type = "hpu"


class LazyTestBase(DeviceTypeTestBase):
    """Tests of lazy tensors."""

    device_type = "lazy"


class PrivateUse1TestBase(DeviceTypeTestBase):
    """Tests on a device of another package."""

    device_type, device_mod = "privateuse1", None


def get_device_type_test_bases() -> list[Any]:
    """Return the base classes for the types of device that tests run on."""
    return [CPUTestBase]


device_type_test_bases = get_device_type_test_bases()


def get_all_device_types() -> list[str]:
    return ["cpu"]


def filter_desired_device_types(device_type_test_bases: Any, except_for: Any = None, only_for: Any = None) -> list[Any]:
    """Return the base classes whose types of device are selected."""
    left_out = [except_for] if isinstance(except_for, str) else except_for
    wanted = [only_for] if isinstance(only_for, str) else only_for
    if left_out and wanted and set(left_out) & set(wanted):
        raise RuntimeError("same device type in except_for and only_for")
    kept = [base for base in device_type_test_bases if not left_out or base.device_type not in left_out]
    return [base for base in kept if not wanted or base.device_type in wanted]


def get_desired_device_type_test_bases(
    except_for: Any = None, only_for: Any = None, include_lazy: bool = False, allow_mps: bool = False,
    allow_xpu: bool = False,
) -> list[Any]:  # fmt: skip
    """Return the base classes that a class of tests and the environment select."""
    found = filter_desired_device_types(device_type_test_bases, except_for, only_for)
    only, without = [
        [name for name in os.getenv(key, "").split(",") if name]
        for key in (PYTORCH_TESTING_DEVICE_ONLY_FOR_KEY, PYTORCH_TESTING_DEVICE_EXCEPT_FOR_KEY)
    ]
    return filter_desired_device_types(found, without, only)


def instantiate_device_type_tests(
    generic_test_class: Any, scope: dict[str, Any], except_for: Any = None, only_for: Any = None,
    include_lazy: bool = False, allow_mps: bool = False, allow_xpu: bool = False,
) -> None:  # fmt: skip
    """Replace a class whose tests take a device, in `scope`, by one class for each type of device."""
    scope.pop(generic_test_class.__name__, None)
    tests = {
        name: test for name, test in vars(generic_test_class).items() if name.startswith("test") and callable(test)
    }
    for name in tests:
        delattr(generic_test_class, name)
    for base in get_desired_device_type_test_bases(except_for, only_for, include_lazy, allow_mps, allow_xpu):
        made = _device_class(base, generic_test_class)
        for name, test in tests.items():
            if name in made._get_test_exclusions(generic_test_class.__name__):
                continue
            made.instantiate_test(name, test, generic_cls=generic_test_class)
        scope[made.__name__] = made


def _device_class(base: Any, generic: Any) -> Any:
    made: Any = type(f"{generic.__name__}{base.device_type.upper()}", (base, generic), {})
    made.__module__ = generic.__module__
    return made
