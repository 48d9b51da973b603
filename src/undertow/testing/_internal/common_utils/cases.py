"""`TestCase`: unittest's, with `assertEqual` for tensors and further methods that PyTorch's tests use."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import subprocess
import sys
import traceback
import unittest
import unittest.case
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.from_data import as_tensor
from undertow._src.types import dtypes
from undertow._src.types.dtypes import get_default_dtype
from undertow._src.types.dtypes import set_default_dtype as _set_default_dtype
from undertow.nn.modules.container import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from undertow.testing._comparison import not_close_error_metas
from undertow.testing._internal.common_utils.blocks import DeterministicGuard
from undertow.testing._internal.common_utils.marks import check_if_enable
from undertow.testing._internal.common_utils.pairs import ALL_PAIRS
from undertow.testing._internal.common_utils.sparse_samples import SparseSamples
from undertow.testing._internal.common_utils.tracking import set_rng_seed

Message = str | Callable[[str], str] | None
ACCEPT = False  # `--accept` on the command line: files of expected results are overwritten


class AssertRaisesContextIgnoreNotImplementedError(unittest.case._AssertRaisesContext):
    """`assertRaises` that skips the test if the block raises NotImplementedError."""

    def __exit__(self, exc_type: Any, exc_value: Any, tb: Any) -> bool:
        if exc_type is not None and issubclass(exc_type, NotImplementedError):
            self.test_case.skipTest(f"not_implemented: {exc_value}")
        return super().__exit__(exc_type, exc_value, tb)


class TestCase(SparseSamples, unittest.TestCase):
    """unittest's TestCase with `assertEqual` for tensors. Each test starts with the same seed and default dtype."""

    _precision: float = 0
    _rel_tol: float = 0
    _diffThreshold = sys.maxsize
    _ignore_not_implemented_error = False
    maxDiff = None

    def __init__(self, method_name: str = "runTest", methodName: str = "runTest") -> None:
        super().__init__(method_name if method_name != "runTest" else methodName)

    @property
    def precision(self) -> float:
        """The minimum absolute tolerance of `assertEqual`."""
        return self._precision

    @precision.setter
    def precision(self, prec: float) -> None:
        self._precision = prec

    @property
    def rel_tol(self) -> float:
        """The minimum relative tolerance of `assertEqual`."""
        return self._rel_tol

    @rel_tol.setter
    def rel_tol(self, prec: float) -> None:
        self._rel_tol = prec

    def setUp(self) -> None:
        check_if_enable(self)
        set_rng_seed()

    def run(self, result: Any = None) -> Any:
        before = get_default_dtype()
        try:
            return super().run(result)
        finally:
            _set_default_dtype(before)

    def _should_stop_test_suite(self) -> bool:
        """Whether a device error makes further tests useless: never."""
        return False

    # --- equality

    def assertEqual(
        self, x: Any, y: Any, msg: Message = None, *, atol: float | None = None, rtol: float | None = None,
        equal_nan: bool = True, exact_dtype: bool = True, exact_device: bool = False, exact_layout: bool = False,
        exact_stride: bool = False, exact_is_coalesced: bool = False,
    ) -> None:  # fmt: skip
        """Check that two values, or nested containers, are equal; tensors within the tolerance of their dtypes."""
        __tracebackhide__ = True
        if isinstance(x, TensorCore) and isinstance(y, Sequence):
            y = as_tensor(y, dtype=x.dtype, device=x.device)
        elif isinstance(x, Sequence) and isinstance(y, TensorCore):
            x = as_tensor(x, dtype=y.dtype, device=y.device)
        errors = not_close_error_metas(
            x, y, pair_types=ALL_PAIRS, sequence_types=(Sequence, Sequential, ModuleList, ParameterList),
            mapping_types=(Mapping, ModuleDict, ParameterDict), rtol=rtol, rtol_override=self.rel_tol, atol=atol,
            atol_override=self.precision, equal_nan=equal_nan, check_device=exact_device, check_dtype=exact_dtype,
            check_layout=exact_layout, check_stride=exact_stride, check_is_coalesced=exact_is_coalesced,
        )  # fmt: skip
        if errors:
            add = msg if callable(msg) or not msg else lambda generated: f"{generated}\n{msg}"
            raise errors[0].to_error(add or None)

    def assertNotEqual(  # type: ignore[override]
        self, x: Any, y: Any, msg: Any = None, *, atol: float | None = None, rtol: float | None = None, **kwargs: Any
    ) -> None:
        """Check that two values differ."""
        with self.assertRaises(AssertionError, msg=msg):
            self.assertEqual(x, y, msg, atol=atol, rtol=rtol, **kwargs)

    def assertEqualIgnoreType(self, *args: Any, **kwargs: Any) -> None:
        """Check that two values are equal, ignoring dtypes."""
        self.assertEqual(*args, exact_dtype=False, **kwargs)

    def assertEqualBroadcasting(self, x: Any, y: Any, *args: Any, **kwargs: Any) -> None:
        """Check that all elements of a tensor equal a value."""
        if not isinstance(y, (TensorCore, Iterable)):
            y = x.new_ones(x.size()) * y
        self.assertEqual(x, y, *args, exact_dtype=False, **kwargs)

    def assertEqualTypeString(self, x: Any, y: Any) -> None:
        """Check that two tensors have the same device, dtype and sparsity."""
        self.assertEqual(x.device, y.device)
        self.assertEqual(x.dtype, y.dtype)
        self.assertEqual(x.is_sparse, y.is_sparse)

    def assertObjectIn(self, obj: Any, iterable: Iterable[Any]) -> None:
        """Check that an iterable contains this object, by identity."""
        if not any(each is obj for each in iterable):
            raise AssertionError("object not found in iterable")

    def assertGreaterAlmostEqual(
        self, first: Any, second: Any, places: Any = None, msg: Any = None, delta: Any = None
    ) -> None:
        """Check that a number is larger than a second one, or almost equal."""
        if places is not None and delta is not None:
            raise TypeError("specify delta or places not both")
        places = 7 if places is None else places
        near = second - first <= delta if delta is not None else round(second - first, places) == 0
        if not (first >= second or near):
            allowed = f"{delta} delta" if delta is not None else f"{places} places"
            self.fail(self._formatMessage(msg, f"{first} not greater than or equal to {second} within {allowed}"))

    def compare_with_reference(self, torch_fn: Any, ref_fn: Any, sample_input: Any, **kwargs: Any) -> None:
        """Check that a function and a NumPy reference agree on a sample."""
        arrays = sample_input.numpy()
        actual = torch_fn(sample_input.input, *sample_input.args, **sample_input.kwargs)
        expected = ref_fn(arrays.input, *arrays.args, **arrays.kwargs)
        self.assertEqual(actual, expected, exact_device=False, **kwargs)

    def compare_with_numpy(
        self, torch_fn: Any, np_fn: Any, tensor_like: Any, device: Any = None, dtype: Any = None, **kwargs: Any
    ) -> None:
        """Check that a function and a NumPy function agree on a tensor."""
        tensor = (
            tensor_like if isinstance(tensor_like, TensorCore) else as_tensor(tensor_like, dtype=dtype, device=device)
        )
        array = tensor.detach().float().numpy() if tensor.dtype is dtypes.bfloat16 else tensor.detach().numpy()
        expected = np_fn(array)
        actual = torch_fn(tensor)
        if isinstance(expected, np.ndarray):
            expected = as_tensor(np.ascontiguousarray(expected)).to(actual.dtype)
        self.assertEqual(expected, actual, exact_device=False, **kwargs)

    # --- errors and warnings

    def assertRaises(self, expected_exception: Any, *args: Any, **kwargs: Any) -> Any:
        if not self._ignore_not_implemented_error:
            return super().assertRaises(expected_exception, *args, **kwargs)
        context: Any = AssertRaisesContextIgnoreNotImplementedError(expected_exception, self)
        return context.handle("assertRaises", args, kwargs)

    def assertRaisesRegex(self, expected_exception: Any, expected_regex: Any, *args: Any, **kwargs: Any) -> Any:
        if not self._ignore_not_implemented_error:
            return super().assertRaisesRegex(expected_exception, expected_regex, *args, **kwargs)
        context: Any = AssertRaisesContextIgnoreNotImplementedError(expected_exception, self, expected_regex)
        return context.handle("assertRaisesRegex", args, kwargs)

    def assertNoUnraisable(self, callable: Any, *args: Any, **kwargs: Any) -> None:
        """Check that no destructor fails during a call."""
        raised: list[Any] = []
        before, sys.unraisablehook = sys.unraisablehook, raised.append
        try:
            callable(*args, **kwargs)
        finally:
            sys.unraisablehook = before
        self.assertIsNone(raised[0] if raised else None)

    def assertNotWarn(self, callable: Any, msg: str = "") -> None:
        """Check that a call does not warn."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            callable()
        self.assertTrue(len(caught) == 0, msg)

    @contextlib.contextmanager
    def assertWarnsOnceRegex(self, category: Any, regex: str = "") -> Iterator[None]:
        """Return a block that must give a warning of this category and text."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        if len(caught) == 0:
            self.fail("no warning caught")
        self.assertTrue(any(issubclass(each.category, category) for each in caught))
        self.assertTrue(
            any(re.match(regex, str(each.message)) for each in caught), f"{regex}, {[each.message for each in caught]}"
        )

    @contextlib.contextmanager
    def assertLeaksNoCudaTensors(self, name: str | None = None) -> Iterator[None]:
        """Return a block without effect: there is no GPU to leak tensors on."""
        yield

    def assertLogs(self, logger: Any = None, level: Any = None) -> Any:
        """Return a block that must log something; the default logger is that of torch."""
        return super().assertLogs(logging.getLogger("torch") if logger is None else logger, level)

    def assertNoLogs(self, logger: Any = None, level: Any = None) -> Any:
        return super().assertNoLogs(logging.getLogger("torch") if logger is None else logger, level)

    def check_nondeterministic_alert(self, fn: Any, caller_name: str, should_alert: bool = True) -> None:
        """Run a function in deterministic mode: it must not raise, since everything here is deterministic."""
        with DeterministicGuard(True):
            fn()

    # --- expected texts

    def _remove_ansi_escape(self, input: str) -> str:
        """Return a text without colours."""
        return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", input)

    def remove_comment_lines(self, input_string: str) -> str:
        return "\n".join(line for line in input_string.split("\n") if not line.strip().startswith("#"))

    def remove_empty_lines(self, input_string: str) -> str:
        return "\n".join(line for line in input_string.split("\n") if line.strip())

    def assertExpectedInline(
        self, actual: Any, expect: str, skip: int = 0, ignore_comments: bool = False, ignore_empty_lines: bool = False
    ) -> None:
        """Check that a text equals the expected one."""
        texts = [self._remove_ansi_escape(actual if isinstance(actual, str) else str(actual)), expect]
        if ignore_comments:
            texts = [self.remove_comment_lines(text) for text in texts]
        if ignore_empty_lines:
            texts = [self.remove_empty_lines(text) for text in texts]
        self.assertMultiLineEqual(texts[1], texts[0])

    def assertExpectedRaisesInline(self, exc_type: Any, callable: Any, expect: str, *args: Any, **kwargs: Any) -> None:
        """Check that a call raises an error with this text."""
        with self.assertRaises(exc_type) as caught:
            callable(*args, **kwargs)
        self.assertMultiLineEqual(expect, str(caught.exception))

    def assertExpectedInlineMunged(
        self, exc_type: Any, callable: Any, expect: str, *, skip: int = 0, suppress_suffix: bool = True,
        post_munge: Callable[[str], str] | None = None,
    ) -> None:  # fmt: skip
        """Check that a call raises an error with this text, without paths and line numbers."""
        with self.assertRaises(exc_type) as caught:
            callable()
        text = munge_exc(caught.exception, suppress_suffix=suppress_suffix)
        self.assertExpectedInline(post_munge(text) if post_munge else text, expect)

    def assertExpectedRaises(self, exc_type: Any, callable: Any, *args: Any, **kwargs: Any) -> None:
        """Check that a call raises an error whose text is in this test's file of expected results."""
        subname = kwargs.pop("subname", None)
        with self.assertRaises(exc_type) as caught:
            callable(*args, **kwargs)
        self.assertExpected(str(caught.exception), subname)

    def assertExpected(self, s: str, subname: str | None = None) -> None:
        """Check that a text equals that in `expect/<class>.<test>[-subname].expect`, in the folder of the test's file."""
        if not isinstance(s, str):
            raise TypeError("assertExpected is strings only")
        home = sys.modules[type(self).__module__].__file__ or "."
        name = ".".join(self.id().split(".")[-2:]) + (f"-{subname}" if subname else "")
        path = Path(os.path.realpath(home)).parent / "expect" / f"{name}.expect"
        if ACCEPT or not path.exists():
            if not ACCEPT:
                raise RuntimeError(f"I got this output for {name}:\n\n{s}\n\nNo expect file exists: {path}")
            path.parent.mkdir(exist_ok=True)
            path.write_text(s)
        expected = re.sub(r"CppOp\[(.+?)\]", "CppOp[]", path.read_text())
        self.assertMultiLineEqual(expected, re.sub(r"CppOp\[(.+?)\]", "CppOp[]", s))

    def assertExpectedStripMangled(self, s: str, subname: str | None = None) -> None:
        """Check as `assertExpected`, without the mangled names of TorchScript."""
        self.assertExpected(re.sub(r"__torch__[^ ]+", "", s), subname)

    # --- other programs

    @staticmethod
    def run_process_no_exception(code: str, env: dict[str, str] | None = None) -> tuple[bytes, bytes]:
        """Run a program in a new Python process; raise if it fails, and return its standard output and error."""
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, env={**os.environ, **(env or {})}, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"Received {done.returncode} return code:\n{done.stderr.decode()}")
        return done.stdout, done.stderr

    @staticmethod
    def runWithPytorchAPIUsageStderr(code: str) -> str:
        """Return what a program writes to its standard error."""
        return TestCase.run_process_no_exception(code)[1].decode("ascii")


TestCaseBase = TestCase


class NestedTensorTestCase(TestCase):
    """The base class of tests of nested tensors."""

    def assertEqualIgnoringNestedInts(self, a: Any, b: Any) -> None:
        self.assertEqual(a.unbind(), b.unbind())

    assertEqualNoncontigAware = assertEqualIgnoringNestedInts

    @contextlib.contextmanager
    def branch_nested_state(self) -> Iterator[None]:
        """Return a block without effect: ragged sizes are not numbered here."""
        yield


def munge_exc(
    e: Any, *, suppress_suffix: bool = True, suppress_prefix: bool = True, file: str | None = None, skip: int = 0,
    strip_carets: bool = True, strip_stack_attribution: bool = True,
) -> str:  # fmt: skip
    """Return the text of an exception without paths, line numbers and addresses, which differ between machines."""
    text = str(e) if suppress_prefix and not isinstance(e, str) else e if isinstance(e, str) else _whole(e)
    text = re.sub(r'File "([^"]+)", line \d+', lambda found: f'File "{os.path.basename(found[1])}", line N', text)
    text = re.sub(r"0x[0-9a-fA-F]+", "0xN", text)
    if suppress_suffix:
        text = re.sub(r"\n*(Set TORCH_LOGS|You can suppress).*", "", text, flags=re.DOTALL)
    if strip_carets:
        text = "\n".join(line for line in text.split("\n") if not re.fullmatch(r"\s*[~^]+\s*", line))
    return text


def _whole(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(type(error), error)).rstrip("\n")
