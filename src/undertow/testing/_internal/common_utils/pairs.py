"""The pairs of `TestCase.assertEqual`: more types of values than `assert_close`, compared less strictly."""

from __future__ import annotations

import unittest
from typing import Any

import numpy as np

from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.from_data import as_tensor
from undertow._src.tensor.typed_storage import TypedStorage
from undertow._src.types import dtypes
from undertow.testing._comparison import BooleanPair as BooleanPair
from undertow.testing._comparison import NonePair as NonePair
from undertow.testing._comparison import NumberPair as NumberPair
from undertow.testing._comparison import Pair as Pair
from undertow.testing._comparison import TensorLikePair as TensorLikePair
from undertow.testing._comparison import _unwrap_dtensor_for_comparison as _unwrap_dtensor_for_comparison
from undertow.testing._comparison import not_close_error_metas as not_close_error_metas
from undertow.testing._mismatch import ErrorMeta

Place = tuple[Any, ...]
_ARRAYS = (TensorCore, np.ndarray)


def _only_element(value: Any, kind: str, id: Place) -> Any:
    """Return the number in a tensor or array of one element."""
    size = value.numel() if isinstance(value, TensorCore) else value.size
    if size != 1:
        raise ErrorMeta(
            ValueError,
            f"Only single element tensor-likes can be compared against a {kind}. Got {size} elements instead.",
            id=id,
        )
    return value.item()


class RelaxedBooleanPair(BooleanPair):
    """A boolean and a boolean, a number, or a tensor of one element."""

    _supported_number_types: tuple[type, ...] = (int, float, complex, np.number)

    def _process_inputs(self, actual: Any, expected: Any, *, id: Place) -> tuple[bool, bool]:
        supported = (*self._supported_types, *self._supported_number_types, *_ARRAYS)
        self._check_inputs_isinstance(actual, expected, cls=supported)
        if not any(isinstance(value, self._supported_types) for value in (actual, expected)):
            self._inputs_not_supported()
        return self._to_bool(actual, id=id), self._to_bool(expected, id=id)

    def _to_bool(self, bool_like: Any, *, id: Place) -> bool:
        if isinstance(bool_like, _ARRAYS):
            bool_like = _only_element(bool_like, "boolean", id)
        return bool(bool_like)


class RelaxedNumberPair(NumberPair):
    """A number and a number, or a tensor of one element; their types may differ. Tolerances are those of float32."""

    _TYPE_TO_DTYPE = {int: dtypes.int64, float: dtypes.float32, complex: dtypes.complex64}

    def __init__(
        self, actual: Any, expected: Any, *, rtol_override: float = 0.0, atol_override: float = 0.0,
        check_dtype: Any = None, **other_parameters: Any,
    ) -> None:  # fmt: skip
        super().__init__(actual, expected, check_dtype=False, **other_parameters)
        self.rtol, self.atol = max(self.rtol, rtol_override), max(self.atol, atol_override)

    def _process_inputs(self, actual: Any, expected: Any, *, id: Place) -> tuple[complex, complex]:
        self._check_inputs_isinstance(actual, expected, cls=(*self._supported_types, *_ARRAYS))
        if not any(isinstance(value, self._supported_types) for value in (actual, expected)):
            self._inputs_not_supported()
        return self._to_number(actual, id=id), self._to_number(expected, id=id)

    def _to_number(self, number_like: Any, *, id: Place) -> complex:
        if isinstance(number_like, _ARRAYS):
            number_like = _only_element(number_like, "number", id)
        number: Any = super()._to_number(number_like, id=id)
        if type(number) in self._NUMBER_TYPES:
            return number
        return int(number) if isinstance(number, int) else number + 0  # a subclass, such as IntEnum, becomes a number


class TensorOrArrayPair(TensorLikePair):
    """Two tensors or arrays, in any mixture."""

    def __init__(
        self, actual: Any, expected: Any, *, rtol_override: float = 0.0, atol_override: float = 0.0,
        **other_parameters: Any,
    ) -> None:  # fmt: skip
        super().__init__(actual, expected, **other_parameters)
        self.rtol, self.atol = max(self.rtol, rtol_override), max(self.atol, atol_override)

    def _process_inputs(self, actual: Any, expected: Any, *, id: Place, allow_subclasses: bool) -> tuple[Any, Any]:
        self._check_inputs_isinstance(actual, expected, cls=_ARRAYS)
        return self._to_tensor(actual), self._to_tensor(expected)


class TypedStoragePair(TensorLikePair):
    """Two typed storages."""

    def __init__(
        self, actual: Any, expected: Any, *, rtol_override: float = 0.0, atol_override: float = 0.0,
        **other_parameters: Any,
    ) -> None:  # fmt: skip
        self._check_inputs_isinstance(actual, expected, cls=TypedStorage)
        super().__init__(actual, expected, **other_parameters)
        self.rtol, self.atol = max(self.rtol, rtol_override), max(self.atol, atol_override)

    def _to_tensor(self, typed_storage: Any) -> Any:
        return as_tensor(typed_storage.tolist(), dtype=typed_storage.dtype)


class UnittestPair(Pair):
    """Two objects of one class, compared by unittest, with its messages."""

    CLS: Any = object
    TYPE_NAME: str | None = None

    def __init__(self, actual: Any, expected: Any, **other_parameters: Any) -> None:
        self._check_inputs_isinstance(actual, expected, cls=self.CLS)
        super().__init__(actual, expected, **other_parameters)

    def compare(self) -> None:
        case = unittest.TestCase()
        try:
            case.assertEqual(self.actual, self.expected)
        except case.failureException as error:
            kind = self.TYPE_NAME or next(iter(self.CLS if isinstance(self.CLS, tuple) else (self.CLS,))).__name__
            self._fail(AssertionError, f"{kind.title()} comparison failed: {error}")


class StringPair(UnittestPair):
    """Two texts."""

    CLS, TYPE_NAME = (str, bytes), "string"


class SetPair(UnittestPair):
    """Two sets."""

    CLS = set


class TypePair(UnittestPair):
    """Two classes."""

    CLS = type


class ObjectPair(UnittestPair):
    """Any two objects."""

    CLS = object


ALL_PAIRS = (
    NonePair, RelaxedBooleanPair, RelaxedNumberPair, TensorOrArrayPair, TypedStoragePair, StringPair, SetPair, TypePair,
    ObjectPair,
)  # fmt: skip
