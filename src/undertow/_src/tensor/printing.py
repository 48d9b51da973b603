"""What `repr(tensor)` prints of a raw array, and the options that control it.

The text is made in three steps: choose the elements shown (`_shown`), turn them into strings of equal width
(`_columns`), and lay the strings out in brackets and lines (`_layout`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import compress
from typing import Any

import numpy as np

from undertow._src.types import dtypes
from undertow._src.types.dtypes import DTYPE_OF, dtype, get_default_dtype


class _Options:
    """The print options, for every thread."""

    __slots__ = ("edgeitems", "linewidth", "precision", "sci_mode", "threshold")

    def __init__(self) -> None:
        self.precision: int = 4
        self.threshold: float = 1000
        self.edgeitems: int = 3
        self.linewidth: int = 80
        self.sci_mode: bool | None = None


_options = _Options()
_PROFILES: dict[str, dict[str, float]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(
    precision: int | None = None, threshold: float | None = None, edgeitems: int | None = None,
    linewidth: int | None = None, profile: str | None = None, sci_mode: bool | None = None,
) -> None:  # fmt: skip
    """Set how tensors print, in every thread.

    What is None stays unchanged, but `sci_mode=None` chooses by the values again. precision: digits after the point.
    threshold: tensors with more elements are summarised to `edgeitems` at both ends of each dimension. linewidth:
    columns. profile: "default", "short" or "full". sci_mode: scientific notation or not.
    """
    wanted: dict[str, Any] = dict(_PROFILES.get(profile, {})) if profile is not None else {}
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    wanted.update((name, value) for name, value in given.items() if value is not None)
    wanted["sci_mode"] = sci_mode
    for name, value in wanted.items():
        setattr(_options, name, value)


def get_printoptions() -> dict[str, Any]:
    """Return the current print options, as keyword arguments of `set_printoptions`."""
    return {name: getattr(_options, name) for name in ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")}


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Set print options inside the block."""
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        set_printoptions(**before)


def tensor_repr(
    array: np.ndarray[Any, Any], *, prefix: str = "tensor(", device: str | None = None, notes: Sequence[str] = (),
    contents: str | None = None,
) -> str:  # fmt: skip
    """Return the text of a tensor holding `array`.

    device: shown when given, such as "cuda:0". notes: what follows the dtype, such as "grad_fn=<MulBackward0>" or
    "requires_grad=True". contents: what to print in place of the elements.
    """
    kind = DTYPE_OF[array.dtype]
    if contents is None:
        contents = _contents(array, len(prefix))
    suffixes = [] if device is None else [f"device='{device}'"]
    if device == "meta" or (array.ndim != 1 if array.size == 0 else not _options.edgeitems):
        suffixes.append(f"size={tuple(array.shape)}")
    if kind is not get_default_dtype() and not (array.size and _shows_in_elements(kind)):
        suffixes.append(f"dtype={kind}")
    suffixes += notes
    return _with_suffixes(prefix + contents, suffixes, len(prefix))


def _shows_in_elements(kind: dtype) -> bool:
    """Whether printed elements alone show the dtype, as `3` shows int64 and `3.+0.j` the default complex dtype."""
    return kind is dtypes.int64 or kind is dtypes.bool or (kind.is_complex and kind is _default_complex())


def _default_complex() -> dtype:
    return dtypes.complex128 if get_default_dtype() is dtypes.float64 else dtypes.complex64


def _with_suffixes(text: str, suffixes: Sequence[str], indent: int) -> str:
    """Return `text, suffix, suffix)`, with a suffix on a new line where it would exceed the line width."""
    column = len(text) - text.rfind("\n") + 1
    parts = [text]
    for suffix in suffixes:
        if column + len(suffix) + 2 > _options.linewidth:
            parts.append(",\n" + " " * indent + suffix)
            column = indent + len(suffix)
        else:
            parts.append(", " + suffix)
            column += len(suffix) + 2
    return "".join(parts) + ")"


# --- the elements


def _contents(array: np.ndarray[Any, Any], indent: int) -> str:
    if array.size == 0:
        return "[]"
    summarized = array.size > _options.threshold
    if summarized and not _options.edgeitems and array.ndim:
        return "[...]"
    cut = [summarized and length > 2 * _options.edgeitems for length in array.shape]
    shown = _shown(array, cut)
    strings, width = _columns(shown)
    if array.ndim == 0:
        return strings[0]
    columns = _options.linewidth - (indent + array.ndim - 1)  # each outer bracket takes one more column
    return _layout(strings, shown.shape, cut, indent, max(1, columns // (width + 2)))


def _shown(array: np.ndarray[Any, Any], cut: Sequence[bool]) -> np.ndarray[Any, Any]:
    """Return the elements that are printed: only both ends of each dimension that is cut."""
    if True not in cut:
        return array
    edge = _options.edgeitems
    kept = (
        [*range(edge), *range(length - edge, length)] if is_cut else range(length)
        for length, is_cut in zip(array.shape, cut, strict=True)
    )
    return array[np.ix_(*kept)]


def _layout(strings: list[str], shape: Sequence[int], cut: Sequence[bool], indent: int, per_line: int) -> str:
    """Put nested brackets around `strings`, the elements of an array of this shape in order."""
    last = len(shape) - 1
    margins = [" " * (indent + dim + 1) for dim in range(last + 1)]
    rows = []
    for items in _groups(strings, shape[last], " ..." if cut[last] else ""):
        lines = [", ".join(items[at : at + per_line]) for at in range(0, len(items), per_line)]
        rows.append("[" + f",\n{margins[last]}".join(lines) + "]")
    for dim in range(last - 1, -1, -1):  # outwards, one bracket and one more empty line at a time
        between = "," + "\n" * (last - dim) + margins[dim]
        rows = ["[" + between.join(items) + "]" for items in _groups(rows, shape[dim], "..." if cut[dim] else "")]
    return rows[0]


def _groups(items: list[str], length: int, ellipsis: str) -> Iterator[list[str]]:
    """Group `items` into lists of `length`, with the ellipsis, if any, between the two ends of each."""
    for start in range(0, len(items), length):
        group = items[start : start + length]
        if ellipsis:
            group.insert(_options.edgeitems, ellipsis)
        yield group


def _columns(shown: np.ndarray[Any, Any]) -> tuple[list[str], int]:
    """Return every element as a string, padded to a column, and the column's width."""
    kind = DTYPE_OF[shown.dtype]
    if kind.is_complex:
        real, real_width = _columns(shown.real)
        imaginary, imaginary_width = _columns(shown.imag)
        stripped = [part.lstrip() + "j" for part in imaginary]
        joined = [a + b if b[0] in "+-" else f"{a}+{b}" for a, b in zip(real, stripped, strict=True)]
        return joined, real_width + imaginary_width + 1
    if kind.is_floating_point:
        return _float_columns(shown.astype(np.float64).ravel())
    strings = [str(value) for value in shown.ravel().tolist()]
    width = max(map(len, strings))
    return [each.rjust(width) for each in strings], width


def _float_columns(values: np.ndarray[Any, Any]) -> tuple[list[str], int]:
    """Return floats in the plainest of three notations that shows them all: `3.`, `3.1416` or `3.1416e+00`."""
    is_ordinary = np.isfinite(values) & (values != 0)  # zeros, nan and inf don't affect notation or width
    strings = _notated(values, *_notation(values[is_ordinary]))
    width = max(map(len, compress(strings, is_ordinary)), default=1)
    return [each.rjust(width) for each in strings], width


def _notation(ordinary: np.ndarray[Any, Any]) -> tuple[bool, bool]:
    """Whether values are printed as whole numbers, and whether with an exponent."""
    if not ordinary.size:
        return True, False
    integral = not np.any(ordinary != np.ceil(ordinary))
    sizes = np.abs(ordinary)
    smallest, largest = float(sizes.min()), float(sizes.max())
    scientific = largest / smallest > 1000 or largest > 1e8 or (not integral and smallest < 1e-4)
    return integral, scientific if _options.sci_mode is None else _options.sci_mode


def _notated(values: np.ndarray[Any, Any], integral: bool, scientific: bool) -> list[str]:
    if scientific:
        pattern = f"%.{_options.precision}e"
    elif not integral:
        pattern = f"%.{_options.precision}f"
    else:  # the point tells a float from an int; nan and inf need none
        return [f"{value:.0f}." if math.isfinite(value) else str(value) for value in values.tolist()]
    return [pattern % value for value in values.tolist()]
