"""Fractional max pooling: as many windows as wanted, spread over the input at random (Graham, 2014)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import check_tensor, no_kernel, wrap_real_dim
from undertow._src.ops.pool import window_option
from undertow._src.ops.public import public
from undertow._src.random.generators import stream_of
from undertow._src.rules.pool import take_from_planes
from undertow._src.rules.rule import twin
from undertow._src.tensor.core import wrap
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._src.types.aliases import _size
    from undertow._tensor import Tensor

_taken = {rank: twin(take_from_planes, f"FractionalMaxPool{rank}DBackward0") for rank in (2, 3)}
_SIDES = {2: ("height", "width"), 3: ("time", "height", "width")}


def _window_starts(samples: np.ndarray, size: int, count: int, kernel: int) -> np.ndarray:
    """Where each plane's windows start along one dimension: steps of two neighbouring sizes, in an order set by a draw."""
    starts = np.full((*samples.shape, count), size - kernel)
    if count > 1:
        step = samples.dtype.type((size - kernel) / (count - 1))
        places = np.arange(count - 1, dtype=samples.dtype)
        draws = samples[..., None]
        starts[..., :-1] = ((places + draws) * step).astype(np.int64) - (draws * step).astype(np.int64)
    return starts


def _largest(array: np.ndarray, samples: np.ndarray, kernel: tuple[int, ...], counts: tuple[int, ...]) -> Any:
    """Return the flat place, within its plane, of the largest value of every window. NaN counts as the largest."""
    rank, sizes = len(kernel), array.shape[-len(kernel) :]
    # PyTorch's planes take the draws for width first, its volumes those for time first.
    order = range(rank) if rank == 3 else reversed(range(rank))
    starts = [
        _window_starts(samples[..., draw], size, count, width)
        for draw, size, count, width in zip(order, sizes, counts, kernel, strict=True)
    ]
    flat = array.reshape(*array.shape[:-rank], math.prod(sizes))
    best, where = None, None
    for offsets in product(*[range(width) for width in kernel]):
        place: Any = 0
        for axis, (size, offset) in enumerate(zip(sizes, offsets, strict=True)):
            shape = [1] * rank
            shape[axis] = counts[axis]
            place = place * size + (starts[axis] + offset).reshape(*starts[axis].shape[:-1], *shape)
        place = np.broadcast_to(place, (*flat.shape[:-1], *counts)).reshape(*flat.shape[:-1], math.prod(counts))
        value = np.take_along_axis(flat, place, -1)
        if best is None:
            best, where = value, place.copy()
        else:
            better = (value > best) | np.isnan(value)
            best, where = np.where(better, value, best), np.where(better, place, where)
    return where


def _pool(
    rank: int, input: Tensor, kernel_size: int | _size, output_size: int | _size | None,
    output_ratio: Any,
    return_indices: bool, samples: Tensor | None,
) -> Any:  # fmt: skip
    name = f"fractional_max_pool{rank}d"
    check_tensor(input, name)
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    array = input._array
    if array.ndim < rank + 1:
        wrap_real_dim(0 if output_size is not None and not array.ndim else -rank, array.ndim)
        wrap_real_dim(-rank - 1, array.ndim)
    sizes = array.shape[-rank:]
    if output_size is None:
        if rank == 3 and isinstance(output_ratio, float):  # PyTorch takes one number for all sides of volumes only
            output_ratio = (output_ratio,) * rank
        if len(output_ratio) > rank:
            raise ValueError(f"{name} requires output_ratio to either be a single Int or tuple of Ints.")
        output_size = [int(size * output_ratio[dim]) for dim, size in enumerate(sizes)]
    shown = name if rank == 2 else name + "_out"
    if array.ndim > rank + 2:
        raise RuntimeError(f"{shown}(): Expected {rank + 1}D or {rank + 2}D tensor, but got: {list(array.shape)}")
    kernel = window_option(kernel_size, rank, name, "kernel_size")
    if min(kernel) < 1:
        raise ValueError(f"kernel_size must be greater than 0, but got {min(kernel)}")
    if not DTYPE_OF[array.dtype].is_floating_point:
        raise no_kernel(f"{name}_out_frame", input)
    counts = window_option(output_size, rank, name, "output_size")
    batch = array.shape[0] if array.ndim == rank + 2 else 1
    if samples is None:
        shape = (batch, array.shape[-rank - 1], rank)
        drawn = stream_of(None, input).uniform(int(np.prod(shape)), dtype=array.dtype).reshape(shape)
    else:
        drawn = samples._array
        if drawn.dtype != array.dtype:
            raise RuntimeError("Expect _random_samples to have the same dtype as input")
        if drawn.ndim != 3:
            raise RuntimeError(f"Expect _random_samples to have 3 dimensions, got {drawn.ndim}")
        if drawn.shape[0] < batch:
            raise RuntimeError("Expect _random_samples.size(0) no less then input batch size.")
        if drawn.shape[1] != array.shape[-rank - 1]:
            raise RuntimeError("Expect _random_samples.size(1) equals to input channel size.")
        if drawn.shape[2] != rank:
            raise RuntimeError(f"Expect _random_samples.size(2) equals to {rank}; got {drawn.shape[2]}.")
    for dim in range(1, array.ndim):
        if array.shape[dim] == 0:
            raise RuntimeError(
                f"{shown}(): Expected input to have non-zero size for non-batch dimensions, but {list(array.shape)} "
                f"is empty at dimension {dim}"
            )
    for side, size, count, width in zip(_SIDES[rank], sizes, counts, kernel, strict=True):
        if count + width - 1 > size - (rank == 3):
            raise RuntimeError(f"{shown}(): pool {side} {width} too large relative to input {side} {size}")
    draws = drawn[:batch] if array.ndim == rank + 2 else drawn[0]
    where = wrap(_largest(array, draws, kernel, counts).reshape(*array.shape[:-rank], *counts))
    values = apply(_taken[rank], input, where, rank=rank)
    return (values, where) if return_indices else values


@public
def fractional_max_pool2d(
    input: Tensor, kernel_size: int | _size, output_size: int | _size | None = None,
    output_ratio: float | Sequence[float] | None = None, return_indices: bool = False, _random_samples: Any = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Max pooling of (batch, channels, height, width) to a size or by a ratio, with windows placed at random."""
    return _pool(2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


@public
def fractional_max_pool3d(
    input: Tensor, kernel_size: int | _size, output_size: int | _size | None = None,
    output_ratio: float | Sequence[float] | None = None, return_indices: bool = False, _random_samples: Any = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Max pooling of (batch, channels, depth, height, width) to a size or by a ratio, with windows placed at random."""
    return _pool(3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def fractional_max_pool2d_with_indices(*args: Any, **kwargs: Any) -> Any:
    """fractional_max_pool2d together with where the values stood."""
    return fractional_max_pool2d(*args, **{**kwargs, "return_indices": True})


def fractional_max_pool3d_with_indices(*args: Any, **kwargs: Any) -> Any:
    """fractional_max_pool3d together with where the values stood."""
    return fractional_max_pool3d(*args, **{**kwargs, "return_indices": True})
