"""The order in which PyTorch's sort leaves equal elements.

NOTE ties. `torch.sort` is C++'s std::sort, which is not stable: in pieces of more than sixteen it swaps elements around
a pivot (the median of three), then sorts the short pieces by insertion, which is stable. Programs can see that order:
sequences are packed by length, and dropout masks are then drawn for the packed rows. So the same swaps are done here.
They cost about a microsecond each in Python, and are left out where more than `MOST` elements would have to be visited:
there ties keep their order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

SHORT = 16  # pieces up to this long are sorted by insertion
MOST = 1 << 15


def with_ties_swapped(order: Array, keys: Array, first: int | None = None) -> Array:
    """Return PyTorch's order, given a stable `order` that sorts the rows of `keys`.

    first: how many are needed, for the order of torch.topk.
    """
    length = keys.shape[1]
    values = np.take_along_axis(keys, order, 1)
    same = values[:, 1:] == values[:, :-1]
    if values.dtype.kind == "f":
        same |= np.isnan(values[:, 1:]) & np.isnan(values[:, :-1])
    tied = np.flatnonzero(same[:, :first].any(1))
    found = order[:, :first]
    if not tied.size or tied.size * length > MOST:
        return found
    found = found.copy()
    for row in tied:
        ranks = np.empty(length, np.int64)
        ranks[order[row, 0]] = 0
        ranks[order[row, 1:]] = np.cumsum(~same[row])
        listed, places = ranks.tolist(), list(range(length))
        if first is None:
            _sort(listed, places, 0, length)
        else:
            _bring_forward(listed, places, first - 1)
            _sort(listed, places, 0, first - 1)
        found[row] = places[:first]
    return found


def _sort(ranks: list[int], places: list[int], first: int, last: int) -> None:
    """Sort a piece as std::sort does."""
    pieces = [(first, last, _depth(last - first))]
    while pieces:
        begin, end, depth = pieces.pop()
        while end - begin > SHORT and depth:
            depth -= 1
            cut = _partition(ranks, places, begin, end)
            pieces.append((cut, end, depth))
            end = cut
    _insert(ranks, places, first, last)


def _bring_forward(ranks: list[int], places: list[int], nth: int) -> None:
    """Partition as std::nth_element does: the nth gets its sorted position, with smaller elements before it."""
    first, last, depth = 0, len(ranks), _depth(len(ranks))
    while last - first > 3 and depth:
        depth -= 1
        cut = _partition(ranks, places, first, last)
        first, last = (cut, last) if cut <= nth else (first, cut)
    _insert(ranks, places, first, last)


def _depth(length: int) -> int:
    """Return how often a piece may be cut before C++ falls back to a different method."""
    return 2 * (length.bit_length() - 1) if length else 0


def _insert(ranks: list[int], places: list[int], first: int, last: int) -> None:
    """Sort by insertion, which keeps ties in order."""
    order = sorted(range(first, last), key=ranks.__getitem__)
    ranks[first:last], places[first:last] = [ranks[i] for i in order], [places[i] for i in order]


def _partition(ranks: list[int], places: list[int], first: int, last: int) -> int:
    """Swap elements of a piece until none left of the cut is larger than one right of it; return the cut."""
    chosen = _median(ranks, first + 1, first + (last - first) // 2, last - 1)
    ranks[first], ranks[chosen] = ranks[chosen], ranks[first]
    places[first], places[chosen] = places[chosen], places[first]
    pivot, left, right = ranks[first], first + 1, last
    while True:
        while ranks[left] < pivot:
            left += 1
        right -= 1
        while pivot < ranks[right]:
            right -= 1
        if left >= right:
            return left
        ranks[left], ranks[right] = ranks[right], ranks[left]
        places[left], places[right] = places[right], places[left]
        left += 1


def _median(ranks: list[int], a: int, b: int, c: int) -> int:
    """Return the position of the median of three elements; of equal ones, C++'s choice."""
    if ranks[a] < ranks[b]:
        return b if ranks[b] < ranks[c] else c if ranks[a] < ranks[c] else a
    return a if ranks[a] < ranks[c] else c if ranks[b] < ranks[c] else b
