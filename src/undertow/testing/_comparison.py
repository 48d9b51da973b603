"""`assert_close`: whether two values, or two nests of them, agree as closely as their dtypes allow."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from undertow._tensor import Tensor
from undertow.dtypes import DTYPE_OF, SCALAR_DTYPE, dtype, promote
from undertow.from_data import as_tensor

# Relative and absolute tolerance by dtype; complex dtypes have those of their parts, all others none.
_TOLERANCES = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7)}

_OLD_TOLERANCES = {"float16": (1e-3, 1e-3), "bfloat16": (1e-4, 1e-5), "float32": (1e-4, 1e-5), "float64": (1e-5, 1e-8)}


class _Options:
    """What one call of `assert_close` was told."""

    def __init__(
        self, rtol: float | None, atol: float | None, equal_nan: bool, check_dtype: bool, check_stride: bool,
        allow_subclasses: bool,
    ) -> None:  # fmt: skip
        if (rtol is None) != (atol is None):
            missing = "rtol" if rtol is None else "atol"
            raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}.")
        self.rtol, self.atol, self.equal_nan = rtol, atol, equal_nan
        self.check_dtype, self.check_stride = check_dtype, check_stride
        self.allow_subclasses = allow_subclasses

    def tolerances(self, *kinds: dtype) -> tuple[float, float]:
        """The tolerances given, or the loosest of the dtypes'."""
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        own = [_TOLERANCES.get(kind.to_real().name, (0.0, 0.0)) for kind in kinds]
        return max(pair[0] for pair in own), max(pair[1] for pair in own)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raises AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere.

    Tensors, arrays and numbers are compared, and sequences and mappings of them item by item.
    """
    complaint = _compare(
        actual, expected, _Options(rtol, atol, equal_nan, check_dtype, check_stride, allow_subclasses), ()
    )
    if complaint is not None:
        if msg is not None:
            complaint = msg(complaint) if callable(msg) else msg
        raise AssertionError(complaint)


def _compare(actual: Any, expected: Any, options: _Options, path: tuple[Any, ...]) -> str | None:
    """The first complaint about a pair of values, or None."""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            return _place(
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {sorted(expected.keys() - actual.keys())}\n"
                f"Additional keys in the actual mapping: {sorted(actual.keys() - expected.keys())}",
                path,
            )
        pairs: Any = [(key, actual[key], expected[key]) for key in actual]
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            return _place(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", path)
        pairs = [(place, one, other) for place, (one, other) in enumerate(zip(actual, expected, strict=True))]
    else:
        complaint = _compare_leaves(actual, expected, options)
        return None if complaint is None else _place(complaint, path)
    complaints = (_compare(one, other, options, (*path, key)) for key, one, other in pairs)
    return next((complaint for complaint in complaints if complaint is not None), None)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _place(complaint: str, path: tuple[Any, ...]) -> str:
    if not path:
        return complaint
    return f"{complaint}\n\nThe failure occurred for item {''.join(f'[{key!r}]' for key in path)}"


def _compare_leaves(actual: Any, expected: Any, options: _Options) -> str | None:
    if actual is None or expected is None:
        return None if actual is expected else f"None mismatch: {actual} is not {expected}"
    if isinstance(actual, (bool, np.bool_)) and isinstance(expected, (bool, np.bool_)):
        return None if bool(actual) is bool(expected) else f"Booleans mismatch: {actual} is not {expected}"
    if isinstance(actual, (int, float, complex)) and isinstance(expected, (int, float, complex)):
        if options.check_dtype and type(actual) is not type(expected):
            return f"The (d)types do not match: {type(actual)} != {type(expected)}."
        widest = [_widest(value) for value in (actual, expected)]
        return _compare_scalars(actual, expected, options.tolerances(*widest), options.equal_nan)
    if _is_sparse(actual) or _is_sparse(expected):
        return _compare_sparse(actual, expected, options)
    arrays = [_array(value) for value in (actual, expected)]
    related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
    alike = related if options.allow_subclasses else type(actual) is type(expected)
    if not alike or any(array is None for array in arrays):
        raise TypeError(
            f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}."
        )
    return _compare_arrays(arrays[0], arrays[1], options)


def _is_sparse(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_sparse


def _compare_sparse(actual: Any, expected: Any, options: _Options) -> str | None:
    if not (_is_sparse(actual) and _is_sparse(expected)):
        layouts = [getattr(value, "layout", None) for value in (actual, expected)]
        return f"The values for attribute 'layout' do not match: {layouts[0]} != {layouts[1]}."
    if actual.shape != expected.shape:
        return f"The values for attribute 'shape' do not match: {actual.shape} != {expected.shape}."
    if actual._nnz() != expected._nnz():
        return (
            f"The number of specified values in sparse COO tensors does not match: {actual._nnz()} != {expected._nnz()}"
        )
    parts = [(tensor.coalesce().indices(), tensor.coalesce().values()) for tensor in (actual, expected)]
    for name, one, other in zip(("indices", "values"), *parts, strict=True):
        complaint = _compare_arrays(one.detach()._array, other.detach()._array, options)
        if complaint is not None:
            return complaint.replace("Tensor-likes", f"Sparse COO {name}", 1)
    return None


def _widest(value: complex) -> dtype:
    kind = SCALAR_DTYPE[type(value)]
    return DTYPE_OF[np.dtype(np.complex128 if kind.is_complex else np.float64)] if kind.category > 1 else kind


def _array(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value._array
    return value if isinstance(value, np.ndarray) else None


def _compare_scalars(actual: Any, expected: Any, tolerances: tuple[float, float], equal_nan: bool) -> str | None:
    rtol, atol = tolerances
    both_nan = actual != actual and expected != expected
    difference = abs(actual - expected)
    if actual == expected or (equal_nan and both_nan) or difference <= atol + rtol * abs(expected):
        return None
    relative = difference / abs(expected) if expected else math.inf
    loose = bool(rtol or atol)
    allowed = [f" (up to {limit} allowed)" if loose else "" for limit in (atol, rtol)]
    return (
        f"Scalars are not {'close' if loose else 'equal'}!\n\nExpected {expected} but got {actual}.\n"
        f"Absolute difference: {difference}{allowed[0]}\nRelative difference: {relative}{allowed[1]}"
    )


def _compare_arrays(actual: Any, expected: Any, options: _Options) -> str | None:
    kinds = DTYPE_OF[actual.dtype], DTYPE_OF[expected.dtype]
    if actual.shape != expected.shape:
        shapes = [f"torch.Size({list(array.shape)})" for array in (actual, expected)]
        return f"The values for attribute 'shape' do not match: {shapes[0]} != {shapes[1]}."
    if options.check_dtype and kinds[0] is not kinds[1]:
        return f"The values for attribute 'dtype' do not match: {kinds[0]} != {kinds[1]}."
    if options.check_stride and actual.strides != expected.strides:
        steps = [tuple([step // array.itemsize for step in array.strides]) for array in (actual, expected)]
        return f"The values for attribute 'stride()' do not match: {steps[0]} != {steps[1]}."
    rtol, atol = options.tolerances(*kinds)
    common = promote(*kinds)
    wide = np.dtype(np.complex128) if common.is_complex else np.dtype(np.float64 if common.category > 1 else np.int64)
    one, other = actual.astype(wide), expected.astype(wide)
    with np.errstate(all="ignore"):
        difference = np.abs(one - other)
        close = (one == other) | (np.isfinite(other) & (difference <= atol + rtol * np.abs(other)))
        relative = (difference / np.abs(other)).astype(
            np.float64 if common.category > 1 and common.to_real().itemsize == 8 else np.float32
        )
    if options.equal_nan:
        close = close | (np.isnan(one) & np.isnan(other))
    if close.all():
        return None
    if not one.ndim:
        return _compare_scalars(actual.item(), expected.item(), (rtol, atol), options.equal_nan)
    return _describe(close, difference, relative, (rtol, atol))


def _describe(close: Any, difference: Any, relative: Any, tolerances: tuple[float, float]) -> str:
    rtol, atol = tolerances
    loose = bool(rtol or atol)
    wrong = int(np.count_nonzero(~close))
    lines = [
        f"Tensor-likes are not {'close' if loose else 'equal'}!\n",
        f"Mismatched elements: {wrong} / {close.size} ({wrong / close.size:.1%})",
    ]
    for name, values, limit in (("absolute", difference, atol), ("relative", relative, rtol)):
        masked = np.where(close, 0, values)
        place = np.unravel_index(int(np.argmax(masked)), masked.shape)
        found = masked[place].item()
        where = tuple(int(index) for index in place)
        lines.append(f"Greatest {name} difference: {found} at index {where}" + f" (up to {limit} allowed)" * loose)
    return "\n".join(lines)


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = True, msg: Any = ""
) -> None:
    """The old form of `assert_close`: anything that makes a tensor is compared, and dtypes may differ."""
    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. Please use "
        "`torch.testing.assert_close()` instead.",
        FutureWarning,
        stacklevel=2,
    )
    one, other = [value if isinstance(value, Tensor) else as_tensor(value) for value in (actual, expected)]
    if rtol is None and atol is None:
        limits = [_OLD_TOLERANCES.get(DTYPE_OF[tensor._array.dtype].name, (0.0, 0.0)) for tensor in (one, other)]
        rtol, atol = max(limit[0] for limit in limits), max(limit[1] for limit in limits)
    assert_close(
        one, other, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=True, check_dtype=False, check_stride=False,
        msg=msg or None,
    )  # fmt: skip
