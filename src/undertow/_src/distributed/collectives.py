"""Collectives on NumPy arrays. Each begins with the group's exchange; larger data take a second XLA program."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce as fold
from typing import Any

import numpy as np

from undertow._src.distributed.errors import DistBackendError
from undertow._src.distributed.groups import SMALL, Array, ProcessGroup
from undertow._src.distributed.recorder import Call
from undertow._src.distributed.runtime import PART
from undertow._src.distributed.work import Refused

# Reductions that are one program; the others gather all arrays and reduce them here.
_PROGRAMS = {"SUM": "sum", "AVG": "sum", "MIN": "min", "MAX": "max"}
_FOLDS: dict[str, Callable[..., Any]] = {
    "SUM": np.add, "AVG": np.add, "PRODUCT": np.multiply, "MIN": np.minimum, "MAX": np.maximum,
    "BAND": np.bitwise_and, "BOR": np.bitwise_or, "BXOR": np.bitwise_xor,
}  # fmt: skip


def bytes_of(array: Any) -> Array:
    """Return an array's bytes, flat."""
    flat = _flat(array)
    return flat.view(np.uint8) if flat.size else np.empty(0, np.uint8)


def joined(arrays: Any) -> Array:
    """Return the elements of several arrays of one dtype, one array after the other."""
    return np.concatenate([_flat(array) for array in arrays])


def _flat(array: Any) -> Array:
    return np.ascontiguousarray(np.asarray(array)).reshape(-1)


def _rows(group: ProcessGroup, blocks: Array, dtype: Any, size: int) -> list[Array]:
    """Return every rank's array from an exchange."""
    count = size * dtype.itemsize
    return [np.ascontiguousarray(row[:count]).view(dtype) for row in blocks]


def all_gather(group: ProcessGroup, call: Call, array: Any) -> list[Array]:
    """Return every rank's array, flat."""
    flat = _flat(array)
    raw = bytes_of(flat)
    _, blocks = group.exchange(call, raw)
    if raw.size <= SMALL:
        return _rows(group, blocks, flat.dtype, flat.size)
    return list(group.clique.gather(raw).view(flat.dtype))


def all_reduce(
    group: ProcessGroup, call: Call, array: Any, op: str, factor: Any = None, in_place: bool = False
) -> Array:
    """Return the reduction of every rank's array, flat; with `in_place`, it may be written into the array."""
    flat = _flat(array)
    if factor is not None:
        flat, op = (flat * factor).astype(flat.dtype), "SUM"
    raw = bytes_of(flat)
    _, blocks = group.exchange(call, raw)
    if raw.size <= SMALL:
        return _folded(op, _rows(group, blocks, flat.dtype, flat.size))
    if group.size() == 2:
        return _reduced_by_two(group, flat, op, flat if in_place else np.empty_like(flat))
    program = _PROGRAMS.get(op)
    if program is None or flat.dtype == bool or (flat.dtype.kind == "c" and op != "SUM"):
        return _folded(op, list(group.clique.gather(raw).view(flat.dtype)))
    parts = flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat
    total = group.clique.run(program, parts, out=parts if in_place else None).view(flat.dtype)
    return _divided(total, group.size()) if op == "AVG" else total


def _reduced_by_two(group: ProcessGroup, flat: Array, op: str, out: Array) -> Array:
    """Return the reduction of two ranks' arrays: they swap parts, and each rank reduces them while they are cached."""
    step = max(1, PART // flat.itemsize)
    for start in range(0, flat.size, step):
        part = slice(start, start + step)
        other = group.clique.run("swap", flat[part].view(np.uint8)).view(flat.dtype)
        _FOLDS[op](flat[part], other, out=out[part])
    return _divided(out, 2, out) if op == "AVG" else out


def _folded(op: str, rows: list[Array]) -> Array:
    total = fold(_FOLDS[op], rows)
    return _divided(total, len(rows)) if op == "AVG" else total


def _divided(total: Array, count: int, out: Array | None = None) -> Array:
    return np.divide(total, total.dtype.type(count), out=out)


def broadcast(group: ProcessGroup, call: Call, array: Any, root: int) -> Array:
    """Return the root's array, flat."""
    flat = _flat(array)
    raw = bytes_of(flat)
    _, blocks = group.exchange(call, raw)
    if raw.size <= SMALL:
        return _rows(group, blocks, flat.dtype, flat.size)[root]
    return group.clique.run("broadcast", raw, root).view(flat.dtype)


def exchange(group: ProcessGroup, call: Call, rows: list[Array]) -> list[Array]:
    """Send each rank one of this rank's arrays, all of one size, and return the arrays that the others sent."""
    dtype = rows[0].dtype
    raw = np.stack([bytes_of(row) for row in rows])
    _, blocks = group.exchange(call, raw.reshape(-1))
    if raw.size <= SMALL:
        own, count = group.rank(), raw.shape[1]
        return [np.ascontiguousarray(block[own * count : (own + 1) * count]).view(dtype) for block in blocks]
    return [row.view(dtype) for row in group.clique.run("exchange", raw)]


def reduce_scatter(group: ProcessGroup, call: Call, rows: list[Array], op: str, factor: Any = None) -> Array:
    """Return the reduction of the arrays that the ranks have for this rank: each has one for every rank."""
    if factor is not None:
        rows, op = [(row * factor).astype(row.dtype) for row in rows], "SUM"
    return _folded(op, exchange(group, call, rows))


def scatter(group: ProcessGroup, call: Call, rows: list[Array] | None, like: Any, root: int) -> Array:
    """Return the array that the root has for this rank."""
    if rows is None:
        rows = [np.zeros(like.size, like.dtype)] * group.size()
    return exchange(group, call, rows)[root]


def exchange_uneven(group: ProcessGroup, call: Call, rows: list[Array], wanted: list[int]) -> list[Array]:
    """Give each rank one of this rank's arrays, of any size; `wanted` is how many elements this rank expects of each."""
    sizes = np.array([[row.size for row in rows], wanted], np.int64)
    _, blocks = group.exchange(call, bytes_of(sizes))
    size, dtype = group.size(), rows[0].dtype
    table = np.stack([np.ascontiguousarray(block[: sizes.nbytes]).view(np.int64).reshape(2, size) for block in blocks])
    given, expected = table[:, 0], table[:, 1].T  # given[i, j]: from rank i to rank j
    if (given != expected).any():
        source, target = map(int, np.argwhere(given != expected)[0])
        raise Refused(
            DistBackendError(
                f"{call}: rank {group.ranks[source]} sends {given[source, target]} elements to rank "
                f"{group.ranks[target]}, which expects {expected[source, target]}"
            )
        )
    width = int(given.max()) * dtype.itemsize
    if not width:
        return [np.empty(0, dtype) for _ in range(size)]
    padded = np.zeros((size, width), np.uint8)
    for number, row in enumerate(rows):
        padded[number, : row.nbytes] = bytes_of(row)
    received = group.clique.run("exchange", padded)
    return [
        np.ascontiguousarray(row[: count * dtype.itemsize]).view(dtype)
        for row, count in zip(received, wanted, strict=True)
    ]


def gather_bytes(group: ProcessGroup, call: Call, data: bytes) -> list[bytes]:
    """Return every rank's bytes, of any length."""
    counts, blocks = group.exchange(call, data)
    largest = max(counts)
    if largest > SMALL:
        padded = np.zeros(1 << (largest - 1).bit_length(), np.uint8)
        padded[: len(data)] = np.frombuffer(data, np.uint8)
        blocks = group.clique.gather(padded)
    return [row[:count].tobytes() for row, count in zip(blocks, counts, strict=True)]


def barrier(group: ProcessGroup, call: Call) -> None:
    """Wait for every rank."""
    group.exchange(call)
