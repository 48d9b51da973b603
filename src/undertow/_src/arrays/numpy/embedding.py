"""Rows of a table by index, and the sums over rows that are their gradients."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np

from undertow._src.arrays.numpy.scatter import Array
from undertow._src.arrays.numpy.scatter import add_rows as _add_flat_rows


def take_rows(x: Array, index: Array) -> Array:
    """out[i, …] = x[index[i], …]; the adjoint of add_rows."""
    return np.take(x, index, axis=0)


def add_rows(rows: Array, index: Array, count: int) -> Array:
    """(count, …) with out[index[i]] += rows[i]; the adjoint of take_rows."""
    width = rows.shape[index.ndim :]
    flat, places = rows.reshape(index.size, math.prod(width)), index.reshape(-1)
    half = rows.dtype.itemsize < 4
    add = _add_sorted_rows if 0 < 4 * count <= places.size else _add_flat_rows
    out = add(flat.astype(np.float32) if half else flat, places, count)
    return (out.astype(rows.dtype) if half else out).reshape(count, *width)


def _add_sorted_rows(rows: Array, index: Array, count: int) -> Array:
    """Compute add_rows where most indices repeat: rows are sorted by index, and each group is summed at once."""
    order = np.argsort(index, kind="stable")
    sorted_index = index[order]
    starts = np.flatnonzero(np.concatenate(([True], sorted_index[1:] != sorted_index[:-1])))
    out = np.zeros((count, rows.shape[1]), rows.dtype)
    out[sorted_index[starts]] = np.add.reduceat(rows[order], starts, axis=0)
    return out


def embedding_grad(g: Array, index: Array, count: int, padding: int, by_frequency: bool) -> Array:
    """Compute add_rows without the rows of `padding`, each divided by its index's frequency if `by_frequency`."""
    rows, flat = g.reshape(index.size, -1) if index.size else g.reshape(0, g.shape[-1]), index.reshape(-1)
    if by_frequency:
        rows = rows / np.bincount(flat, minlength=count)[flat].astype(rows.dtype)[:, None]
    if padding >= 0:
        kept = flat != padding
        if not kept.all():
            rows, flat = rows[kept], flat[kept]
    return add_rows(rows, flat, count)


def sparse_embedding_grad(g: Array, index: Array, count: int, padding: int) -> Any:
    """Return embedding_grad as a sparse tensor: the rows in order, each with its index, without those of `padding`."""
    rows, flat = g.reshape(index.size, g.shape[-1]), index.reshape(-1)
    if padding >= 0:
        kept = flat != padding
        rows, flat = rows[kept], flat[kept]
    return sparse_gradient(flat[None].astype(np.int64), rows, (count, g.shape[-1]))


def sparse_gather_grad(g: Array, shape: tuple[int, ...], axis: int, index: Array) -> Any:
    """Return gather_backward as a sparse tensor: every element of g, with the index that it was taken from."""
    places = np.indices(index.shape).reshape(index.ndim, index.size)
    if shape:
        places[axis] = index.reshape(-1)
    return sparse_gradient(places[: len(shape)], g.reshape(-1), shape)


def sparse_gradient(places: Array, items: Any, shape: tuple[int, ...]) -> Any:
    """Return a sparse gradient, whose class is imported at the first use."""
    return importlib.import_module("undertow.sparse.coo").gradient(places, items, shape)


def bag_max(x: Array, index: Array, bags: Array, scale: Array, count: int) -> tuple[Array, Array]:
    """Return the largest element of each column over a bag's rows (0 if empty), and the row it is from (−1 if none)."""
    out = np.zeros((count, x.shape[1]), x.dtype)
    chosen = np.full(out.shape, -1, np.int64)
    used = np.flatnonzero(scale != 0)
    if not used.size:
        return out, chosen
    used = used[np.argsort(bags[used], kind="stable")]  # bag by bag
    members, rows = index[used], x[index[used]]
    starts = np.flatnonzero(np.diff(bags[used], prepend=-1))
    largest = np.maximum.reduceat(rows, starts, axis=0)
    repeated = np.repeat(largest, np.diff(starts, append=len(used)), axis=0)
    there = (rows == repeated) | (rows != rows)
    first = np.minimum.reduceat(np.where(there, np.arange(len(used))[:, None], len(used)), starts, axis=0)
    out[bags[used][starts]], chosen[bags[used][starts]] = largest, members[first]
    return out, chosen


def bag_max_grad(g: Array, chosen: Array, shape: tuple[int, ...]) -> Array:
    """Add gradients to the chosen elements; the adjoint of bag_max_take."""
    out = np.zeros(shape, g.dtype)
    bag, column = np.nonzero(chosen >= 0)
    np.add.at(out.reshape(-1), chosen[bag, column] * shape[1] + column, g[bag, column])
    return out


def bag_max_take(x: Array, chosen: Array) -> Array:
    """Return the chosen elements, 0 where there is none."""
    return np.where(chosen >= 0, np.take_along_axis(x, np.maximum(chosen, 0), axis=0), x.dtype.type(0))
