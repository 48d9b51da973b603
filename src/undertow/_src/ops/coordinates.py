"""Places in a grid: flat indices as coordinates, and counts of points in the cells of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow import return_types
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import as_int, check_tensor, is_int, no_kernel
from undertow._src.ops.public import overloaded, public
from undertow._src.ops.slicing import unbind
from undertow._src.ops.sort import bin_edges
from undertow._src.rules.elementwise import not_differentiated
from undertow._src.rules.rule import op
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._tensor import Tensor


@public
def unravel_index(indices: Tensor, shape: object) -> tuple[Any, ...]:
    """Flat indices into a tensor of a shape as coordinates, a tensor for each dim."""
    if indices.is_complex() or indices.is_floating_point() or indices._array.dtype.kind == "b":
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if not isinstance(shape, (int, Sequence)):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    if isinstance(shape, int):
        sizes: tuple[int, ...] = (shape,)
    else:
        for size in shape:
            if not isinstance(size, int):
                raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(size)}")
        sizes = tuple(shape)
    if any(size < 0 for size in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {tuple(sizes)}")
    array = indices._array
    found = np.empty((*array.shape, len(sizes)), np.int64)
    step = 1
    for place in reversed(range(len(sizes))):
        found[..., place] = (array // max(step, 1)) % max(sizes[place], 1)
        step *= sizes[place]
    return unbind(wrap(found), -1)


# --- counts


def _edges_from(array: np.ndarray, counts: Sequence[int], limits: Any) -> list[Any]:
    """Return the edges of equal cells along every dim of points, from the smallest to the largest or within limits."""
    dims = array.shape[-1]
    points = array.reshape(-1, dims)
    edges = []
    for dim, count in enumerate(counts):
        if count <= 0:
            raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {count} for dimension {dim}")
        if limits is not None:
            low, high = limits[2 * dim], limits[2 * dim + 1]
        elif len(points):
            low, high = points[:, dim].min(), points[:, dim].max()
        else:
            low, high = 0.0, 1.0
        if low > high:
            raise RuntimeError(
                f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} for dimension {dim}"
            )
        edges.append(bin_edges(low, high, count, array.dtype))
    return edges


def _counted(array: np.ndarray, edges: Sequence[Any], weight: Any, density: bool) -> np.ndarray:
    """How many points, or how much weight, every cell has; the last cell has its upper edge too."""
    points = array.reshape(-1, len(edges))
    inside = np.ones(len(points), bool)
    place = np.zeros(len(points), np.int64)
    for dim, edge in enumerate(edges):
        values = points[:, dim]
        cell = np.searchsorted(edge, values, "right") - 1
        cell[values == edge[-1]] = len(edge) - 2
        inside &= (values >= edge[0]) & (values <= edge[-1])
        place = place * (len(edge) - 1) + np.clip(cell, 0, len(edge) - 2)
    shape = tuple([len(edge) - 1 for edge in edges])
    weights = None if weight is None else weight.reshape(-1)[inside].astype(np.float64)
    counts = np.bincount(place[inside], weights, int(np.prod(shape))).reshape(shape).astype(np.float64)
    if density:
        counts = counts / counts.sum()
        for dim, edge in enumerate(edges):
            widths = np.diff(edge.astype(np.float64))
            counts = counts / widths.reshape([-1 if axis == dim else 1 for axis in range(len(edges))])
    return counts.astype(array.dtype)


_counts = op("histogramdd", lambda xp, self, *, found: found, node="NotImplemented",
             self=not_differentiated("_histogramdd_from_bin_cts"))  # fmt: skip
_bin_edges = op("histogramdd", lambda xp, self, *, found: found, node="NotImplemented", outputs=0,
                self=not_differentiated("_histogramdd_bin_edges"))  # fmt: skip


@overloaded
def histogramdd(
    input: Tensor, bins: Any, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> Any:
    """How many points, given by their coordinates along the last dim, every cell of a grid has; and the cells' edges."""
    check_tensor(input, "histogramdd")
    array = input._array
    if array.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    dims = array.shape[-1]
    by_edges = isinstance(bins, (tuple, list)) and bool(bins) and isinstance(bins[0], TensorCore)
    if by_edges and len(bins) != dims:
        raise RuntimeError(
            f"torch.histogramdd: expected {dims} sequences of bin edges for a {dims}-dimensional histogram but got "
            f"{len(bins)}"
        )
    counts = [] if by_edges else [as_int(bins, "histogramdd", "bins")] * dims if is_int(bins) else list(bins)
    if not by_edges and len(counts) != dims:
        raise RuntimeError("histogramdd: The size of bins must be equal to the number of coordinates of a point.")
    if range is not None and len(range) != 2 * dims:
        raise RuntimeError(
            f"torch.histogramdd: for a {dims}-dimensional histogram range should have {2 * dims} elements, but got "
            f"{len(range)}"
        )
    if weight is not None and weight._array.shape != array.shape[:-1]:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have one weight for each point, "
            f"but the input is of shape {list(array.shape)} and the weight of {list(weight._array.shape)}"
        )
    if not DTYPE_OF[array.dtype].is_floating_point:
        raise no_kernel("histogramdd", input)
    edges = [edge._array for edge in bins] if by_edges else _edges_from(array, counts, range)
    found = _counted(array, edges, None if weight is None else weight._array, density)
    shown = tuple(bins) if by_edges else apply(_bin_edges, input, found=tuple(edges))
    return return_types.histogramdd((apply(_counts, input, found=found), shown))
