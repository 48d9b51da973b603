"""The order that PyTorch's sort leaves equal elements in.

NOTE ties. `torch.sort` is C++'s std::sort, which does not keep equal elements in order: in pieces of more than sixteen it
swaps elements around a pivot (the median of three), then sorts the short pieces by insertion, which does. Programs can
see that order: sequences are packed by length, and dropout masks are then drawn for the packed rows. So the swaps are
done here as there. They take Python's time, about a microsecond each, and are left out where more than `MOST` elements
would have to be gone through: there ties keep their order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

SHORT = 16  # pieces up to this long are sorted by insertion
MOST = 1 << 15


def with_ties_swapped(order: Array, keys: Array) -> Array:
    """`order` sorts the rows of `keys` and keeps ties in order; the order that std::sort would have found."""
    rows, length = keys.shape
    if length <= SHORT or not rows:
        return order
    values = np.take_along_axis(keys, order, 1)
    same = values[:, 1:] == values[:, :-1]
    if values.dtype.kind == "f":
        same |= np.isnan(values[:, 1:]) & np.isnan(values[:, :-1])
    tied = np.flatnonzero(same.any(1))
    if not tied.size or tied.size * length > MOST:
        return order
    order = order.copy()
    for row in tied:
        ranks = np.empty(length, np.int64)
        ranks[order[row, 0]] = 0
        ranks[order[row, 1:]] = np.cumsum(~same[row])
        order[row] = _introsort(ranks.tolist())
    return order


def _introsort(ranks: list[int]) -> Array:
    """The indices that sort `ranks`."""
    places = list(range(len(ranks)))
    pieces = [(0, len(ranks), 2 * (len(ranks).bit_length() - 1))]
    while pieces:
        first, last, depth = pieces.pop()
        while last - first > SHORT and depth:
            depth -= 1
            cut = _partition(ranks, places, first, last)
            pieces.append((cut, last, depth))
            last = cut
    return np.asarray(places)[np.argsort(ranks, kind="stable")]


def _partition(ranks: list[int], places: list[int], first: int, last: int) -> int:
    """Swaps elements of a piece until none left of the cut, which is returned, is larger than one right of it."""
    chosen = _median(ranks, first + 1, first + (last - first) // 2, last - 1)
    _swap(ranks, places, first, chosen)
    pivot, left, right = ranks[first], first + 1, last
    while True:
        while ranks[left] < pivot:
            left += 1
        right -= 1
        while pivot < ranks[right]:
            right -= 1
        if left >= right:
            return left
        _swap(ranks, places, left, right)
        left += 1


def _median(ranks: list[int], a: int, b: int, c: int) -> int:
    """Where the middle one of three elements is; of equal ones the one that C++ takes."""
    if ranks[a] < ranks[b]:
        return b if ranks[b] < ranks[c] else c if ranks[a] < ranks[c] else a
    return a if ranks[a] < ranks[c] else c if ranks[b] < ranks[c] else b


def _swap(ranks: list[int], places: list[int], one: int, other: int) -> None:
    ranks[one], ranks[other] = ranks[other], ranks[one]
    places[one], places[other] = places[other], places[one]
