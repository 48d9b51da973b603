"""The tolerances of dtypes, and the messages about values that differ."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from undertow._src.tensor.core import TensorCore
from undertow._src.types import dtypes
from undertow._src.types.dtypes import DTYPE_OF, promote

Identifier = str | Callable[[str], str] | None

# Relative and absolute tolerance by dtype; zero for all others.
_DTYPE_PRECISIONS: dict[Any, tuple[float, float]] = {
    dtypes.float16: (1e-3, 1e-5), dtypes.bfloat16: (1.6e-2, 1e-5), dtypes.float32: (1.3e-6, 1e-5),
    dtypes.float64: (1e-7, 1e-7), dtypes.complex32: (1e-3, 1e-5), dtypes.complex64: (1.3e-6, 1e-5),
    dtypes.complex128: (1e-7, 1e-7), dtypes.quint8: (1.3e-6, 1e-5), dtypes.quint2x4: (1.3e-6, 1e-5),
    dtypes.quint4x2: (1.3e-6, 1e-5), dtypes.qint8: (1.3e-6, 1e-5), dtypes.qint32: (1.3e-6, 1e-5),
}  # fmt: skip


class ErrorMeta(Exception):
    """An error to be raised later: its class, its message, and the path in nested containers where it occurred."""

    def __init__(self, type: type[Exception], msg: str, *, id: tuple[Any, ...] = ()) -> None:
        super().__init__(msg)
        self.type, self.msg, self.id = type, msg, id

    def to_error(self, msg: str | Callable[[str], str] | None = None) -> Exception:
        """Return the error; `msg` replaces the message, or is a function of it."""
        if msg is not None and not callable(msg):
            return self.type(msg)
        place = f"\n\nThe failure occurred for item {''.join(f'[{key!r}]' for key in self.id)}" if self.id else ""
        return self.type(msg(self.msg + place) if callable(msg) else self.msg + place)


# --- tolerances


def default_tolerances(
    *inputs: Any, dtype_precisions: dict[Any, tuple[float, float]] | None = None
) -> tuple[float, float]:
    """Return the largest relative and absolute tolerances of some tensors' dtypes."""
    kinds = []
    for value in inputs:
        if isinstance(value, TensorCore):
            kinds.append(value.dtype)
        elif isinstance(value, dtypes.dtype):
            kinds.append(value)
        else:
            raise TypeError(f"Expected a torch.Tensor or a torch.dtype, but got {type(value)} instead.")
    found = [(dtype_precisions or _DTYPE_PRECISIONS).get(kind, (0.0, 0.0)) for kind in kinds]
    return max(pair[0] for pair in found), max(pair[1] for pair in found)


def get_tolerances(
    *inputs: Any, rtol: float | None, atol: float | None, id: tuple[Any, ...] = ()
) -> tuple[float, float]:
    """Return the given tolerances, or those of the dtypes."""
    if rtol is not None and atol is not None:
        return rtol, atol
    if rtol is None and atol is None:
        return default_tolerances(*inputs)
    missing = "rtol" if rtol is None else "atol"
    raise ErrorMeta(
        ValueError, f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}.", id=id
    )


# --- messages


def _title(identifier: Identifier, default: str, loose: bool) -> str:
    name = default if identifier is None else identifier(default) if callable(identifier) else identifier
    return f"{name} are not {'close' if loose else 'equal'}!\n\n"


def _make_mismatch_msg(
    *, default_identifier: str, identifier: Identifier = None, extra: str | None = None, abs_diff: float,
    abs_diff_idx: int | tuple[int, ...] | None = None, atol: float, rel_diff: float,
    rel_diff_idx: int | tuple[int, ...] | None = None, rtol: float,
) -> str:  # fmt: skip
    """Return the message for values that differ: by how much, and where."""
    loose = bool(rtol or atol)
    lines = [] if extra is None else [extra]
    for kind, found, place, limit in (
        ("absolute", abs_diff, abs_diff_idx, atol), ("relative", rel_diff, rel_diff_idx, rtol),
    ):  # fmt: skip
        what = f"{kind.capitalize()} difference" if place is None else f"Greatest {kind} difference"
        where = "" if place is None else f" at index {place}"
        lines.append(f"{what}: {found}{where}" + f" (up to {limit} allowed)" * loose)
    return _title(identifier, default_identifier, loose) + "\n".join(lines)


def _make_bitwise_mismatch_msg(
    *, default_identifier: str, identifier: Identifier = None, extra: str | None = None,
    first_mismatch_idx: tuple[int, ...] | None = None,
) -> str:  # fmt: skip
    """Return the message for values that differ and cannot be subtracted."""
    lines = [] if extra is None else [extra]
    if first_mismatch_idx is not None:
        lines.append(f"The first mismatched element is at index {first_mismatch_idx}")
    return _title(identifier, default_identifier, loose=False) + "\n".join(lines)


def make_scalar_mismatch_msg(
    actual: complex, expected: complex, *, rtol: float, atol: float, identifier: Identifier = None
) -> str:
    """Return the message for two numbers that differ."""
    difference = abs(actual - expected)
    return _make_mismatch_msg(
        default_identifier="Scalars", identifier=identifier, extra=f"Expected {expected} but got {actual}.",
        abs_diff=difference, atol=atol, rel_diff=math.inf if expected == 0 else difference / abs(expected), rtol=rtol,
    )  # fmt: skip


def make_tensor_mismatch_msg(
    actual: Any, expected: Any, matches: Any, *, rtol: float, atol: float, identifier: Identifier = None
) -> str:
    """Return the message for two tensors; `matches` is the mask of equal elements."""
    close = np.asarray(matches._array)
    wrong = int(np.count_nonzero(~close))
    extra = f"Mismatched elements: {wrong} / {close.size} ({wrong / close.size:.1%})"
    one, other = comparable(actual, expected)
    common = promote(actual.dtype, expected.dtype)
    if common.is_inexact:  # the message shows differences in the tensors' dtype
        one, other = one.astype(common.numpy), other.astype(common.numpy)
    with np.errstate(all="ignore"):
        difference = np.abs(one - other)
        difference[close] = 0
        relative = (difference / np.abs(other)).astype(difference.dtype if common.is_inexact else np.float32)
        relative[close] = 0
    found = []
    for values in (difference, relative):
        place = tuple(int(index) for index in np.unravel_index(int(np.argmax(values)), values.shape))
        found.append((values[place].item(), place))
    return _make_mismatch_msg(
        default_identifier="Tensor-likes", identifier=identifier, extra=extra, abs_diff=found[0][0],
        abs_diff_idx=found[0][1], atol=atol, rel_diff=found[1][0], rel_diff_idx=found[1][1], rtol=rtol,
    )  # fmt: skip


# --- numbers


def comparable(actual: Any, expected: Any) -> tuple[Any, Any]:
    """Return the arrays of two tensors in a dtype wide enough to subtract them."""
    arrays = [np.asarray(tensor.detach()._array) for tensor in (actual, expected)]
    common = promote(*[DTYPE_OF[array.dtype] for array in arrays])
    wide = np.complex128 if common.is_complex else np.float64 if common.is_inexact else np.int64
    return arrays[0].astype(wide), arrays[1].astype(wide)


def which_are_close(actual: Any, expected: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    """Return the mask of elements at which two tensors agree."""
    one, other = comparable(actual, expected)
    with np.errstate(all="ignore"):
        close = (one == other) | (np.isfinite(other) & (np.abs(one - other) <= atol + rtol * np.abs(other)))
    return close | (np.isnan(one) & np.isnan(other)) if equal_nan else close
