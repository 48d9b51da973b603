"""Which numbers a draw can give in each dtype: the range of `random_`, and the bounds that PyTorch refuses."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from undertow._src.base.sites import warn
from undertow._src.random.numerics import SIGNIFICAND_BITS
from undertow._src.types.dtypes import DTYPE_OF

_LIMITS_NAMES = {"float16": "Half", "bfloat16": "BFloat16", "float32": "Float", "float64": "Double"}
_SKEWED = 2**28  # from this many values on, the remainder of a 32-bit output would favour small numbers
_LOWEST = -(2**63)


def integer_range(n: int, low: int | None, high: int | None, dtype: np.dtype[Any]) -> tuple[int, int, bool]:
    """Return the size and start of the range of n draws, and whether 64 bits are drawn for each; warn as PyTorch does."""
    if n:
        _check_dtype(low, high, dtype)
    count, start, wide, notes = _range_and_warnings(low, high, dtype)
    for note in notes:
        warn(note, UserWarning)
    return count, start, wide


def _range_and_warnings(low: int | None, high: int | None, dtype: np.dtype[Any]) -> tuple[int, int, bool, list[str]]:
    if low is None:
        return _whole_range(dtype)
    if low == _LOWEST and high is None:
        return 2**64, 0, True, []
    digits = SIGNIFICAND_BITS.get(dtype.name)
    if high is not None:
        if low >= high:
            raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
        if digits:
            low, high = _raised(low, digits, dtype), _lowered(high, digits, dtype)
            if low >= high:
                raise RuntimeError(
                    f"random_ expects 'from' casted to dtype to be less than 'to' itself, but from={low} >= to={high}"
                )
        last = high - 1
    elif digits:
        low, last = _raised(low, digits, dtype), 2**digits
        if low >= last:
            raise RuntimeError(
                "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc', "
                f"but from={low} > to_inc={last}"
            )
    else:
        last = _largest_integer(dtype)
    smallest, largest = _bounds(dtype)
    for name, bound in (("from", low), ("to - 1", last)):
        if not smallest <= bound <= largest:
            raise RuntimeError(f"{name} is out of bounds for {DTYPE_OF[dtype].c_name}")
    count = last - low + 1
    return count, low, count >= _SKEWED, _warnings(low, last, digits, dtype)


def _whole_range(dtype: np.dtype[Any]) -> tuple[int, int, bool, list[str]]:
    """Return the range of `random_()`: from 0 to the dtype's largest integer, or the largest a float holds exactly."""
    digits = SIGNIFICAND_BITS.get(dtype.name)
    count = 2**digits + 1 if digits else _largest_integer(dtype) + 1
    return count, 0, dtype.name in ("int64", "float64"), []


def _check_dtype(low: int | None, high: int | None, dtype: np.dtype[Any]) -> None:
    """Refuse the dtypes that PyTorch has no kernel for; it only notices when there are values to draw."""
    kernel = ""
    if low is None and dtype.name in ("uint16", "uint32", "uint64"):
        kernel = "random_kernel_cpu"
    if low == _LOWEST and high is None and dtype.name not in ("int64", "float64", "float32", "bfloat16"):
        if dtype.name in ("int8", "int16", "int32", "uint8"):
            raise RuntimeError("random_full_64_bits_range_kernel_cpu handles only int64, double, float and bfloat16")
        kernel = "random_full_64_bits_range_kernel_cpu"
    if kernel:
        name = "Half" if dtype == np.float16 else dtype.name.replace("ui", "UI").replace("b", "B")
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{name}'")


def check_uniform(low: float, high: float, dtype: np.dtype[Any]) -> None:
    """Refuse the bounds that `uniform_` refuses."""
    smallest, largest = _bounds(dtype)
    for name, bound in (("from", low), ("to", high)):
        if not smallest <= bound <= largest:
            raise RuntimeError(f"{name} is out of bounds for {DTYPE_OF[dtype].c_name}")
    if low > high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}")
    if high - low > largest:
        raise RuntimeError(
            f"uniform_ expects to-from <= std::numeric_limits<{_LIMITS_NAMES[dtype.name]}>::max(), but found "
            f"to={high:g} and from={low:g} which result in to-from to exceed the limit"
        )


def check_permutation(n: int, dtype: np.dtype[Any]) -> None:
    """Refuse to count up to `n` in a dtype that cannot hold it; PyTorch lets bfloat16 pass."""
    if dtype.kind in "iu" and n - 1 > _largest_integer(dtype):
        raise RuntimeError(f"value cannot be converted to type {dtype.name}_t without overflow")
    name, most = {"float16": ("Half", "2049"), "float32": ("Float", "2^24+1")}.get(dtype.name, ("", ""))
    if name and n > 2 ** SIGNIFICAND_BITS[dtype.name] + 1:
        raise RuntimeError(f"n cannot be greater than {most} for {name} type.")


def _bounds(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the interval for a bound; bounds are signed 64-bit numbers, whatever the dtype holds."""
    if dtype.name in SIGNIFICAND_BITS:
        limits = ml_dtypes.finfo(dtype)
        return float(limits.min), float(limits.max)
    return 0 if dtype.kind in "ub" else int(np.iinfo(dtype).min), min(_largest_integer(dtype), 2**63 - 1)


def _largest_integer(dtype: np.dtype[Any]) -> int:
    return 1 if dtype == np.bool_ else int(np.iinfo(dtype).max)


def _raised(low: int, digits: int, dtype: np.dtype[Any]) -> int:
    """Return the lower bound, moved up if the dtype would round its successor below it."""
    following = _rounded(low + 1, dtype)
    if following >= low:
        return low
    return following + 2 ** (abs(low + 1).bit_length() - digits)


def _lowered(high: int, digits: int, dtype: np.dtype[Any]) -> int:
    """Return the upper bound, moved down if the dtype would round its predecessor up to it."""
    preceding = _rounded(high - 1, dtype)
    if preceding < high:
        return high
    return preceding - 2 ** (abs(high - 1).bit_length() - digits)


def _rounded(value: int, dtype: np.dtype[Any]) -> int:
    """Return a signed 64-bit number after a round trip through the dtype; on overflow, the lowest number."""
    with np.errstate(over="ignore"):
        rounded = float(np.float64(value) if dtype == np.float64 else np.float32(value).astype(dtype))
    return int(rounded) if abs(rounded) < 2.0**63 else _LOWEST


def _warnings(low: int, last: int, digits: int | None, dtype: np.dtype[Any]) -> list[str]:
    if digits is None:
        return []
    return [
        f"{name} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision limitations {DTYPE_OF[dtype].c_name} can "
        "support discrete uniform distribution only within this range"
        for name, bound in (("from", low), ("to - 1", last))
        if abs(bound) > 2**digits
    ]
