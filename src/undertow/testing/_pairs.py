"""Pairs of values to compare, the basis of `assert_close` and `TestCase.assertEqual`.

The constructor of a pair raises `UnsupportedInputs` for values it does not support; `compare` raises an `ErrorMeta` if
the values differ.
"""

from __future__ import annotations

import abc
import cmath
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from undertow._src.tensor.core import wrap
from undertow._src.tensor.from_data import as_tensor
from undertow._src.tensor.typed_storage import TypedStorage
from undertow._src.types import dtypes
from undertow._src.types.layouts import strided
from undertow._tensor import Tensor
from undertow.testing._mismatch import (
    ErrorMeta,
    Identifier,
    get_tolerances,
    make_scalar_mismatch_msg,
    make_tensor_mismatch_msg,
    which_are_close,
)

Place = tuple[Any, ...]


class UnsupportedInputs(Exception):
    """The pair does not support these values."""


class Pair(abc.ABC):
    """Two values, and their path in nested containers."""

    def __init__(self, actual: Any, expected: Any, *, id: Place = (), **unknown_parameters: Any) -> None:
        self.actual, self.expected, self.id = actual, expected, id
        self._unknown_parameters = unknown_parameters

    @staticmethod
    def _inputs_not_supported() -> NoReturn:
        raise UnsupportedInputs

    @staticmethod
    def _check_inputs_isinstance(*inputs: Any, cls: type | tuple[type, ...]) -> None:
        """Raise UnsupportedInputs for inputs of a different class."""
        if not all(isinstance(value, cls) for value in inputs):
            Pair._inputs_not_supported()

    def _fail(self, type: type[Exception], msg: str, *, id: Place = ()) -> NoReturn:
        raise ErrorMeta(type, msg, id=self.id if not id and hasattr(self, "id") else id)

    @abc.abstractmethod
    def compare(self) -> None:
        """Raise an `ErrorMeta` unless the two agree."""

    def extra_repr(self) -> Sequence[str | tuple[str, Any]]:
        """Return the names of further attributes for the repr."""
        return []

    def __repr__(self) -> str:
        shown = [
            (name, getattr(self, name)) if isinstance(name, str) else name
            for name in ("actual", "expected", *(["id"] if self.id else []), *self.extra_repr())
        ]
        inside = "".join(f"    {name}={value!r},\n" for name, value in shown)
        return f"{type(self).__name__}(\n{inside})"


class ObjectPair(Pair):
    """Any two objects, compared by `==`."""

    def compare(self) -> None:
        try:
            equal = self.actual == self.expected
        except Exception as error:
            raise ErrorMeta(
                ValueError, f"{self.actual} == {self.expected} failed with:\n{error}.", id=self.id
            ) from error
        if not equal:
            self._fail(AssertionError, f"{self.actual} != {self.expected}")


class NonePair(Pair):
    """Two values, at least one of them None."""

    def __init__(self, actual: Any, expected: Any, **other_parameters: Any) -> None:
        if actual is not None and expected is not None:
            self._inputs_not_supported()
        super().__init__(actual, expected, **other_parameters)

    def compare(self) -> None:
        if self.actual is not self.expected:
            self._fail(AssertionError, f"None mismatch: {self.actual} is not {self.expected}")


class BooleanPair(Pair):
    """Two booleans, Python's or NumPy's."""

    def __init__(self, actual: Any, expected: Any, *, id: Place, **other_parameters: Any) -> None:
        actual, expected = self._process_inputs(actual, expected, id=id)
        super().__init__(actual, expected, id=id, **other_parameters)

    @property
    def _supported_types(self) -> tuple[type, ...]:
        return bool, np.bool_

    def _process_inputs(self, actual: Any, expected: Any, *, id: Place) -> tuple[bool, bool]:
        self._check_inputs_isinstance(actual, expected, cls=self._supported_types)
        return self._to_bool(actual, id=id), self._to_bool(expected, id=id)

    def _to_bool(self, bool_like: Any, *, id: Place) -> bool:
        if isinstance(bool_like, (bool, np.bool_)):
            return bool(bool_like)
        raise ErrorMeta(TypeError, f"Unknown boolean type {type(bool_like)}.", id=id)

    def compare(self) -> None:
        if self.actual is not self.expected:
            self._fail(AssertionError, f"Booleans mismatch: {self.actual} is not {self.expected}")


class NumberPair(Pair):
    """Two numbers, Python's or NumPy's."""

    _TYPE_TO_DTYPE: dict[type, Any] = {int: dtypes.int64, float: dtypes.float64, complex: dtypes.complex128}
    _NUMBER_TYPES: tuple[type, ...] = tuple(_TYPE_TO_DTYPE)

    def __init__(
        self, actual: Any, expected: Any, *, id: Place = (), rtol: float | None = None, atol: float | None = None,
        equal_nan: bool = False, check_dtype: bool = False, **other_parameters: Any,
    ) -> None:  # fmt: skip
        actual, expected = self._process_inputs(actual, expected, id=id)
        super().__init__(actual, expected, id=id, **other_parameters)
        kinds = [self._TYPE_TO_DTYPE.get(type(value), dtypes.int64) for value in (actual, expected)]
        self.rtol, self.atol = get_tolerances(*kinds, rtol=rtol, atol=atol, id=id)
        self.equal_nan, self.check_dtype = equal_nan, check_dtype

    @property
    def _supported_types(self) -> tuple[type, ...]:
        return (*self._NUMBER_TYPES, np.number)

    def _process_inputs(self, actual: Any, expected: Any, *, id: Place) -> tuple[complex, complex]:
        self._check_inputs_isinstance(actual, expected, cls=self._supported_types)
        return self._to_number(actual, id=id), self._to_number(expected, id=id)

    def _to_number(self, number_like: Any, *, id: Place) -> Any:
        if isinstance(number_like, np.number):
            return number_like.item()
        if isinstance(number_like, self._NUMBER_TYPES):
            return number_like
        raise ErrorMeta(TypeError, f"Unknown number type {type(number_like)}.", id=id)

    def compare(self) -> None:
        if self.check_dtype and type(self.actual) is not type(self.expected):
            self._fail(AssertionError, f"The (d)types do not match: {type(self.actual)} != {type(self.expected)}.")
        if not self._close(self.actual, self.expected):
            message = make_scalar_mismatch_msg(self.actual, self.expected, rtol=self.rtol, atol=self.atol)
            self._fail(AssertionError, message)

    def _close(self, one: complex, other: complex) -> bool:
        if one == other or (self.equal_nan and cmath.isnan(one) and cmath.isnan(other)):
            return True
        apart = abs(one - other)
        return cmath.isfinite(apart) and apart <= self.atol + self.rtol * abs(other)

    def extra_repr(self) -> Sequence[str]:
        return "rtol", "atol", "equal_nan", "check_dtype"


class TensorLikePair(Pair):
    """Two values that can be converted to tensors: tensors, arrays, storages."""

    _flags = ("equal_nan", "check_device", "check_dtype", "check_layout", "check_stride")
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_layout: bool
    check_stride: bool

    def __init__(
        self, actual: Any, expected: Any, *, id: Place = (), allow_subclasses: bool = True, rtol: float | None = None,
        atol: float | None = None, equal_nan: bool = False, check_device: bool = True, check_dtype: bool = True,
        check_layout: bool = True, check_stride: bool = False, **other_parameters: Any,
    ) -> None:  # fmt: skip
        given = dict(locals())
        tensors = self._process_inputs(actual, expected, id=id, allow_subclasses=allow_subclasses)
        super().__init__(*tensors, id=id, **other_parameters)
        self.rtol, self.atol = get_tolerances(*tensors, rtol=rtol, atol=atol, id=id)
        for name in self._flags:
            setattr(self, name, given[name])

    def _process_inputs(self, actual: Any, expected: Any, *, id: Place, allow_subclasses: bool) -> tuple[Any, Any]:
        one, other = [Tensor if isinstance(value, Tensor) and value.is_sparse else type(value)
                      for value in (actual, expected)]  # fmt: skip
        if not (issubclass(one, other) or issubclass(other, one)) or (not allow_subclasses and one is not other):
            self._inputs_not_supported()
        tensors = self._to_tensor(actual), self._to_tensor(expected)
        for tensor in tensors:
            self._check_supported(tensor, id=id)
        return tensors

    def _to_tensor(self, tensor_like: Any) -> Any:
        if isinstance(tensor_like, Tensor):
            return tensor_like
        if not isinstance(tensor_like, (np.ndarray, np.generic, TypedStorage)):
            self._inputs_not_supported()
        try:
            return as_tensor(tensor_like)
        except Exception:
            self._inputs_not_supported()

    def _check_supported(self, tensor: Any, *, id: Place) -> None:
        """Do nothing: every layout of undertow can be compared."""

    def compare(self) -> None:
        self._compare_attributes(self.actual, self.expected)
        if any(tensor.device.type == "meta" for tensor in (self.actual, self.expected)):
            return
        self._compare_values(*self._equalize_attributes(self.actual, self.expected))

    def _compare_attributes(self, actual: Any, expected: Any) -> None:
        def differ(name: str, one: Any, other: Any) -> NoReturn:
            self._fail(AssertionError, f"The values for attribute '{name}' do not match: {one} != {other}.")

        if actual.shape != expected.shape:
            differ("shape", actual.shape, expected.shape)
        if self.check_layout and actual.layout is not expected.layout:
            differ("layout", actual.layout, expected.layout)
        if self.check_stride and actual.layout is expected.layout is strided and actual.stride() != expected.stride():
            differ("stride()", actual.stride(), expected.stride())
        if self.check_device and actual.device != expected.device:
            differ("device", actual.device, expected.device)
        if self.check_dtype and actual.dtype is not expected.dtype:
            differ("dtype", actual.dtype, expected.dtype)

    def _equalize_attributes(self, actual: Any, expected: Any) -> tuple[Any, Any]:
        """Convert both to dense tensors if the layouts differ; the comparison promotes dtypes itself."""
        if actual.layout is not expected.layout:
            actual, expected = [tensor.to_dense() if tensor.layout is not strided else tensor
                                for tensor in (actual, expected)]  # fmt: skip
        return actual, expected

    def _compare_values(self, actual: Any, expected: Any) -> None:
        options: dict[str, Any] = {"rtol": self.rtol, "atol": self.atol, "equal_nan": self.equal_nan}
        if actual.is_sparse:
            self._compare_sparse_coo_values(actual, expected, **options)
        else:
            self._compare_regular_values_close(actual, expected, **options)

    def _compare_sparse_coo_values(self, actual: Any, expected: Any, **options: Any) -> None:
        if actual._nnz() != expected._nnz():
            self._fail(
                AssertionError,
                f"The number of specified values in sparse COO tensors does not match: {actual._nnz()} != "
                f"{expected._nnz()}",
            )
        one, other = actual.coalesce(), expected.coalesce()
        self._compare_regular_values_equal(one.indices(), other.indices(), identifier="Sparse COO indices")
        self._compare_regular_values_close(one.values(), other.values(), **options, identifier="Sparse COO values")

    def _compare_regular_values_equal(
        self, actual: Any, expected: Any, *, equal_nan: bool = False, identifier: Identifier = None
    ) -> None:
        self._compare_regular_values_close(actual, expected, rtol=0, atol=0, equal_nan=equal_nan, identifier=identifier)

    def _compare_regular_values_close(
        self, actual: Any, expected: Any, *, rtol: float, atol: float, equal_nan: bool, identifier: Identifier = None
    ) -> None:
        close = which_are_close(actual, expected, rtol, atol, equal_nan)
        if close.all():
            return
        if close.shape == ():
            one, other = actual.item(), expected.item()
            message = make_scalar_mismatch_msg(one, other, rtol=rtol, atol=atol, identifier=identifier)
        else:
            message = make_tensor_mismatch_msg(
                actual, expected, wrap(close), rtol=rtol, atol=atol, identifier=identifier
            )
        self._fail(AssertionError, message)

    def extra_repr(self) -> Sequence[str]:
        return "rtol", "atol", *self._flags
