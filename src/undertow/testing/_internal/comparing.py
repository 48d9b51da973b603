"""How `TestCase.assertEqual` of PyTorch's tests compares: numbers, tensors, arrays and nests of them, by value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from undertow import dtypes
from undertow._core import TensorCore
from undertow.from_data import as_tensor
from undertow.storage import UntypedStorage
from undertow.testing._comparison import assert_close

# Looser than assert_close's in the absolute sense for half precision, as tests expect.
_TOLERANCES = {
    dtypes.float16: (1e-3, 1e-5), dtypes.bfloat16: (1.6e-2, 1e-5), dtypes.float32: (1.3e-6, 1e-5),
    dtypes.float64: (1e-7, 1e-7), dtypes.complex32: (1e-3, 1e-5), dtypes.complex64: (1.3e-6, 1e-5),
    dtypes.complex128: (1e-7, 1e-7),
}  # fmt: skip


class Tolerance:
    """What one call of `assertEqual` allows."""

    def __init__(self, atol: float | None, rtol: float | None, least: tuple[float, float], **options: Any) -> None:
        if (atol is None) != (rtol is None):
            raise ValueError("Both 'rtol' and 'atol' must be either specified or omitted")
        self.atol, self.rtol, self.least, self.options = atol, rtol, least, options

    def of(self, *kinds: Any) -> tuple[float, float]:
        """The relative and the absolute tolerance for these dtypes."""
        if self.rtol is not None and self.atol is not None:
            own = self.rtol, self.atol
        else:
            found = [_TOLERANCES.get(kind, (0.0, 0.0)) for kind in kinds]
            own = max(pair[0] for pair in found), max(pair[1] for pair in found)
        return max(own[0], self.least[1]), max(own[1], self.least[0])


def check_equal(x: Any, y: Any, allowed: Tolerance, place: str = "") -> None:
    """Raises AssertionError unless two values are equal, tensors within their tolerance."""
    if isinstance(x, np.generic) and not isinstance(y, (TensorCore, np.ndarray)):
        x = x.item()
    if isinstance(y, np.generic) and not isinstance(x, (TensorCore, np.ndarray)):
        y = y.item()
    tensors = isinstance(x, (TensorCore, np.ndarray)) or isinstance(y, (TensorCore, np.ndarray))
    if tensors and _makes_tensor(x) and _makes_tensor(y):
        _check_tensors(x, y, allowed, place)
    elif isinstance(x, Mapping) and isinstance(y, Mapping):
        if set(x) != set(y):
            raise AssertionError(f"The keys of the mappings do not match{place}: {sorted(map(str, set(x) ^ set(y)))}")
        for key in x:
            check_equal(x[key], y[key], allowed, f"{place}[{key!r}]")
    elif _is_sequence(x) and _is_sequence(y):
        if len(x) != len(y):
            raise AssertionError(f"The length of the sequences mismatch{place}: {len(x)} != {len(y)}")
        for number, (one, other) in enumerate(zip(x, y, strict=True)):
            check_equal(one, other, allowed, f"{place}[{number}]")
    elif isinstance(x, (bool, int, float, complex)) and isinstance(y, (bool, int, float, complex)):
        _check_numbers(x, y, allowed, place)
    elif isinstance(x, UntypedStorage) and isinstance(y, UntypedStorage):
        check_equal(x.tolist(), y.tolist(), allowed, place)
    elif x is not y and not x == y:
        raise AssertionError(f"Object comparison failed{place}: {x!r} != {y!r}")


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _makes_tensor(value: Any) -> bool:
    if _is_sequence(value):
        return all(map(_makes_tensor, value)) and not any(isinstance(each, TensorCore) for each in value)
    return isinstance(value, (TensorCore, np.ndarray, np.generic, bool, int, float, complex))


def _check_tensors(x: Any, y: Any, allowed: Tolerance, place: str) -> None:
    options = dict(allowed.options)
    exact = options.pop("exact_dtype", True)
    both = isinstance(x, TensorCore) and isinstance(y, TensorCore)
    one, other = [value if isinstance(value, TensorCore) else as_tensor(value) for value in (x, y)]
    rtol, atol = allowed.of(one.dtype, other.dtype)
    arrays = all(isinstance(value, (TensorCore, np.ndarray)) for value in (x, y))
    assert_close(
        one.detach(), other.detach(), rtol=rtol, atol=atol, equal_nan=options.get("equal_nan", True),
        check_dtype=exact and arrays, check_stride=options.get("exact_stride", False),
        msg=lambda text: f"{text}{place and f' at {place}'}",
    )  # fmt: skip
    if both and options.get("exact_layout") and one.layout is not other.layout:
        raise AssertionError(f"layouts differ{place}: {one.layout} != {other.layout}")


def _check_numbers(x: Any, y: Any, allowed: Tolerance, place: str) -> None:
    wide = dtypes.complex128 if complex in (type(x), type(y)) else dtypes.float64 if float in (type(x), type(y)) else None
    rtol, atol = allowed.of(wide)
    same_nan = x != x and y != y and allowed.options.get("equal_nan", True)
    if x != y and not same_nan and not abs(x - y) <= atol + rtol * abs(y):
        raise AssertionError(f"Scalars are not close{place}: {x} != {y} (rtol {rtol}, atol {atol})")
