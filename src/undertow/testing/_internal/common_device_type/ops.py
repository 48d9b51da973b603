"""`@ops`: run a test for each operator of a list, and each of its dtypes."""

from __future__ import annotations

import functools
import unittest
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple

from undertow._src.tensor.core import TensorCore
from undertow._src.types import dtypes as d
from undertow._src.types.dtypes import dtype as Dtype
from undertow.testing._internal.common_device_type.bases import _update_param_kwargs
from undertow.testing._internal.common_utils.facts import OPINFO_SAMPLE_INPUT_INDEX
from undertow.testing._internal.common_utils.parametrization import Case, Test, _TestParametrizer
from undertow.testing._internal.common_utils.tracking import clear_tracked_input, get_tracked_input

e4m3_type, e5m2_type = d.float8_e4m3fn, d.float8_e5m2
E4M3_MAX_POS, E5M2_MAX_POS = d.finfo(e4m3_type).max, d.finfo(e5m2_type).max


class OpDTypes(Enum):
    """The dtypes of an operator that a test runs for."""

    supported, unsupported, supported_backward, unsupported_backward, any_one, none, any_common_cpu_cuda_one = range(7)


# The dtypes that a test of unsupported dtypes considers.
_COMMON = (
    d.bool, d.uint8, d.int8, d.int16, d.int32, d.int64, d.float16, d.bfloat16, d.float32, d.float64, d.complex64,
    d.complex128,
)  # fmt: skip

# The dtypes for a test of any one dtype, in order of preference.
ANY_DTYPE_ORDER = (
    d.float32, d.float64, d.complex64, d.complex128, d.float16, d.bfloat16, d.int64, d.int32, d.int16, d.int8, d.uint8,
    d.bool, d.float8_e4m3fn, d.float8_e5m2,
)  # fmt: skip


def _serialize_sample(sample_input: Any) -> str:
    """Return a description of a sample: the shapes and dtypes of its tensors."""
    if hasattr(sample_input, "summary"):
        return sample_input.summary()
    if isinstance(sample_input, TensorCore):
        return f"Tensor[size={tuple(sample_input.shape)}, dtype={sample_input.dtype}]"
    return str(sample_input)


class ops(_TestParametrizer):
    """Run a test, which takes `op` and `dtype`, for each operator of a list and the dtypes selected by `dtypes`."""

    def __init__(
        self, op_list: Iterable[Any], *, dtypes: OpDTypes | Sequence[Any] = OpDTypes.supported,
        allowed_dtypes: Sequence[Any] | None = None, skip_if_dynamo: bool = True,
    ) -> None:  # fmt: skip
        self.op_list = list(op_list)
        self.opinfo_dtypes = dtypes
        self.allowed_dtypes = None if allowed_dtypes is None else set(allowed_dtypes)
        self.skip_if_dynamo = skip_if_dynamo

    def _dtypes(self, op: Any, device_type: str) -> set[Any]:
        """Return the dtypes of one operator; {None} for a test without dtypes."""
        wanted = self.opinfo_dtypes
        supported = set(op.supported_dtypes(device_type))
        if isinstance(wanted, Sequence):
            found = set(wanted)
        elif wanted is OpDTypes.none:
            return {None}
        elif wanted is OpDTypes.unsupported:
            found = set(_COMMON) - supported
        elif wanted is OpDTypes.supported:
            found = supported
        elif wanted is OpDTypes.supported_backward:
            found = set(op.supported_backward_dtypes(device_type))
        elif wanted is OpDTypes.unsupported_backward:
            found = set(_COMMON) - set(op.supported_backward_dtypes(device_type))
        elif wanted in (OpDTypes.any_one, OpDTypes.any_common_cpu_cuda_one):
            allowed = supported if self.allowed_dtypes is None else supported & self.allowed_dtypes
            return {next(kind for kind in ANY_DTYPE_ORDER if kind in allowed)} if allowed else set()
        else:
            raise RuntimeError(f"Unknown OpDType: {wanted}")
        return found if self.allowed_dtypes is None else found & self.allowed_dtypes

    def _parametrize_test(self, test: Test, generic_cls: Any, device_cls: Any) -> Iterator[Case]:
        if device_cls is None:
            raise RuntimeError(
                "The @ops decorator is only intended to be used with tests that have a device: "
                "call instantiate_device_type_tests() on their class"
            )
        empty = True
        for op in device_cls._apply_op_allowlist(device_cls._apply_op_overrides(self.op_list, test)):
            for dtype in sorted(self._dtypes(op, device_cls.device_type), key=str):
                empty = False
                arguments = {"op": op}
                _update_param_kwargs(arguments, "dtype", dtype)
                decorators = functools.partial(
                    op.get_decorators, generic_cls.__name__, test.__name__, device_cls.device_type, dtype
                )
                yield _naming_samples(test), op.formatted_name, arguments, decorators
        if empty:
            raise ValueError(
                f"An empty op_list was passed to @ops for {test.__name__}. Note that this may result from reuse of a "
                "generator."
            )


def _naming_samples(test: Test) -> Test:
    """Wrap a test to add the last sample to its errors."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> Any:
        clear_tracked_input()
        try:
            return test(*args, **kwargs)
        except unittest.SkipTest:
            raise
        except Exception as error:
            last = get_tracked_input()
            if last is not None and OPINFO_SAMPLE_INPUT_INDEX is None:
                error.add_note(f"Caused by {last.type_desc} at index {last.index}: {_serialize_sample(last.val)}")
            raise

    return run


# --- skipped operators


class SkipSpec(NamedTuple):
    """An operator, device and dtypes for which a test is skipped, or expected to fail."""

    op_name: str
    variant_name: str
    device_type: Any
    dtypes: Any
    expected_failure: bool


def skip(op_name: str, variant_name: str = "", *, device_type: Any = None, dtypes: Any = None) -> SkipSpec:
    """Return an entry for `skipOps`: skip the test for this operator."""
    return SkipSpec(op_name, variant_name, device_type, dtypes, False)


def xfail(op_name: str, variant_name: str = "", *, device_type: Any = None, dtypes: Any = None) -> SkipSpec:
    """Return an entry for `skipOps`: expect the test to fail for this operator."""
    return SkipSpec(op_name, variant_name, device_type, dtypes, True)


def skipOps(to_skip: Iterable[SkipSpec]) -> Callable[[Test], Test]:
    """Skip a test under `@ops` for some operators, or expect it to fail for them."""
    specs = list(to_skip)

    def decorate(test: Test) -> Test:
        inner: Any = getattr(test, "parametrize_fn", None)

        def parametrize(test: Test, generic_cls: Any, device_cls: Any) -> Iterator[Case]:
            for case, name, arguments, decorators in inner(test, generic_cls, device_cls):
                yield case, name, arguments, functools.partial(_with_marks, specs, device_cls, decorators)

        if inner is None:
            raise RuntimeError("skipOps must be applied to a test that is decorated with @ops")
        test.parametrize_fn = parametrize  # type: ignore[attr-defined]
        return test

    return decorate


def _with_marks(specs: list[SkipSpec], device_cls: Any, decorators: Any, arguments: dict[str, Any]) -> list[Any]:
    op, dtype, marks = arguments.get("op"), arguments.get("dtype"), list(decorators(arguments))
    for spec in specs:
        names = (op.name, op.variant_test_name) == (spec.op_name, spec.variant_name) if op is not None else False
        kinds = [spec.dtypes] if isinstance(spec.dtypes, Dtype) else spec.dtypes
        here = spec.device_type in (None, getattr(device_cls, "device_type", None))
        if names and here and (kinds is None or dtype in kinds):
            marks.append(unittest.expectedFailure if spec.expected_failure else unittest.skip("Skipped!"))
    return marks
