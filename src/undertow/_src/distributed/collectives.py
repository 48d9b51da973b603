"""Collectives on NumPy arrays. Each begins with the group's exchange; data that do not fit there take a program."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce as fold
from typing import Any

import numpy as np

from undertow._src.distributed.groups import SMALL, Array, ProcessGroup
from undertow._src.distributed.recorder import Call

# Reductions that are one program; the others gather all arrays and reduce them here.
_PROGRAMS = {"SUM": "sum", "AVG": "sum", "MIN": "min", "MAX": "max"}
_FOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "SUM": np.add, "AVG": np.add, "PRODUCT": np.multiply, "MIN": np.minimum, "MAX": np.maximum,
    "BAND": np.bitwise_and, "BOR": np.bitwise_or, "BXOR": np.bitwise_xor,
}  # fmt: skip


def _bytes_of(flat: Array) -> Array:
    return flat.view(np.uint8) if flat.size else np.empty(0, np.uint8)


def _flat(array: Any) -> Array:
    return np.ascontiguousarray(np.asarray(array)).reshape(-1)


def _rows(group: ProcessGroup, blocks: Array, dtype: Any, size: int) -> list[Array]:
    """Return every rank's array from an exchange."""
    count = size * dtype.itemsize
    return [np.ascontiguousarray(row[:count]).view(dtype) for row in blocks]


def all_gather(group: ProcessGroup, call: Call, array: Any) -> list[Array]:
    """Return every rank's array, flat."""
    flat = _flat(array)
    raw = _bytes_of(flat)
    _, blocks = group.exchange(call, raw)
    if raw.size <= SMALL:
        return _rows(group, blocks, flat.dtype, flat.size)
    return list(group.clique.run("gather", raw).view(flat.dtype))


def all_reduce(group: ProcessGroup, call: Call, array: Any, op: str, factor: Any = None) -> Array:
    """Return the reduction of every rank's array, flat."""
    flat = _flat(array)
    if factor is not None:
        flat, op = (flat * factor).astype(flat.dtype), "SUM"
    raw = _bytes_of(flat)
    _, blocks = group.exchange(call, raw)
    if raw.size <= SMALL:
        return _folded(op, _rows(group, blocks, flat.dtype, flat.size))
    program = _PROGRAMS.get(op)
    if program is None or flat.dtype == bool or (flat.dtype.kind == "c" and op != "SUM"):
        return _folded(op, list(group.clique.run("gather", raw).view(flat.dtype)))
    parts = flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat
    total = group.clique.run(program, parts).view(flat.dtype)
    return _divided(total, group.size()) if op == "AVG" else total


def _folded(op: str, rows: list[Array]) -> Array:
    total = fold(_FOLDS[op], rows)
    return _divided(total, len(rows)) if op == "AVG" else total


def _divided(total: Array, count: int) -> Array:
    return (total / total.dtype.type(count)).astype(total.dtype)


def broadcast(group: ProcessGroup, call: Call, array: Any, root: int) -> Array:
    """Return the root's array, flat."""
    flat = _flat(array)
    raw = _bytes_of(flat)
    _, blocks = group.exchange(call, raw)
    if raw.size <= SMALL:
        return _rows(group, blocks, flat.dtype, flat.size)[root]
    return group.clique.run("broadcast", raw, root).view(flat.dtype)


def gather_bytes(group: ProcessGroup, call: Call, data: bytes) -> list[bytes]:
    """Return every rank's bytes, of any length."""
    counts, blocks = group.exchange(call, data)
    largest = max(counts)
    if largest > SMALL:
        padded = np.zeros(1 << (largest - 1).bit_length(), np.uint8)
        padded[: len(data)] = np.frombuffer(data, np.uint8)
        blocks = group.clique.run("gather", padded)
    return [row[:count].tobytes() for row, count in zip(blocks, counts, strict=True)]


def barrier(group: ProcessGroup, call: Call) -> None:
    """Wait for every rank."""
    group.exchange(call)
