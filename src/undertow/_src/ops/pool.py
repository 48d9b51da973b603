"""Max pooling: the largest element of every window, its index, and the inverse. Averages: pool_average.py."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.device.array import values_known
from undertow._src.arrays.numpy.pool import pool_counts
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import as_int, check_tensor, is_int, must_be, no_kernel, refuse_undetermined
from undertow._src.ops.broadcasting import squeeze, unsqueeze
from undertow._src.ops.image_order import ordered_like
from undertow._src.ops.public import public
from undertow._src.rules import pool as rules
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._src.types.aliases import _size
    from undertow._tensor import Tensor

Sizes = tuple[int, ...]
_COUNT_WORDS = {1: "an int, list of ints or tuple of ints of size 1", 2: "two", 3: "three"}


def window_option(value: object, rank: int, name: str, option: str) -> Sizes:
    """Return an option of a pooling: one int for every spatial dim, or one for each."""
    if is_int(value):
        return (as_int(value, name, option),) * rank
    if not isinstance(value, (tuple, list)):
        raise must_be("tuple of ints", value, name, option)
    if len(value) not in (1, rank):
        if rank == 1:
            raise RuntimeError(
                f"{name}() {option} must be {_COUNT_WORDS[1]} but got size {len(value)}"
                if name == "max_pool1d" else f"{name}() argument '{option}' should contain one int (got {len(value)})"
            )  # fmt: skip
        omitted = "omitted, a single int" if option == "stride" else "a single int"
        raise RuntimeError(f"{name}: {option} must either be {omitted}, or a tuple of {_COUNT_WORDS[rank]} ints")
    values = tuple([as_int(each, name, option) for each in value])
    return values * rank if len(values) == 1 else values


def _sides(prefix: str, values: Sizes) -> str:
    names = {2: ("H", "W"), 3: ("T", "H", "W")}[len(values)]
    return " ".join(f"{prefix}{side}: {value}" for side, value in zip(names, values, strict=True))


def check_windows(
    name: str, input: Tensor, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil_mode: bool
) -> None:
    """Refuse what PyTorch's two- and three-dimensional poolings refuse."""
    rank, shape = len(kernel), input._array.shape
    if 0 in stride:
        raise RuntimeError("stride should not be zero")
    if min(kernel) <= 0:
        raise RuntimeError(f"kernel size should be greater than zero, but got {_sides('k', kernel)}")
    if min(stride) <= 0:
        raise RuntimeError(f"stride should be greater than zero, but got {_sides('d', stride)}")
    if min(dilation) <= 0:
        raise RuntimeError(f"dilation should be greater than zero, but got {_sides('dilation', dilation)}")
    for k, p, d in zip(kernel, padding, dilation, strict=True):
        if p < 0:
            raise RuntimeError(f"pad must be non-negative, but got pad: {p}")
        if p > ((k - 1) * d + 1) // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, not {p} for {k} with dilation {d}"
            )
    if rank == 2 and any(p > k // 2 for k, p in zip(kernel, padding, strict=True)):
        raise RuntimeError(
            f"pad should be smaller than or equal to half of kernel size, not {padding[1]} wide and "
            f"{padding[0]} high, the kernel {kernel[1]} and {kernel[0]}"
        )
    if len(shape) not in (rank + 1, rank + 2) and name != "avg_pool2d":
        raise RuntimeError(f"non-empty {rank + 1}D or {rank + 2}D (batch mode) tensor expected for input")
    if 0 in shape[-rank - 1 :] and rank == 3:
        shown = "max_pool3d_with_indices_out_cpu_template" if name == "max_pool3d" else name
        raise RuntimeError(
            f"{shown}(): Expected input's non-batch dimensions to have positive length, but its shape is {list(shape)}"
        )
    if 0 in shape[-rank - 1 :] or len(shape) > rank + 2:
        raise RuntimeError(
            f"Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with optional 0 dim batch size for input, but "
            f"got:{list(shape)}"
        )
    counts = pool_counts(shape[-rank:], kernel, stride, padding, dilation, ceil_mode)
    if name == "avg_pool3d" and any(n + 2 * p < k for n, p, k in zip(shape[-rank:], padding, kernel, strict=True)):
        raise RuntimeError(
            f"input image ({_sides('', shape[-rank:])}) smaller than kernel size ({_sides('k', kernel)}): no window fits"
        )
    if min(counts) < 1:
        before, after = (f"({'x'.join(map(str, (shape[-rank - 1], *size)))})" for size in (shape[-rank:], counts))
        raise RuntimeError(f"Given input size: {before}. Calculated output size: {after}. Output size is too small")


# --- maxima


def _max_pool(
    rank: int, input: Tensor, kernel_size: int | _size, stride: int | _size | None, padding: int | _size,
    dilation: int | _size, ceil_mode: bool, indices: bool,
) -> Any:  # fmt: skip
    name = f"max_pool{rank}d"
    check_tensor(input, name)
    kernel = window_option(kernel_size, rank, name, "kernel_size")
    strides = kernel if is_left_out(stride) else window_option(stride, rank, name, "stride")
    paddings = window_option(padding, rank, name, "padding")
    dilations = window_option(dilation, rank, name, "dilation")
    if DTYPE_OF[input._array.dtype].category == 0:
        raise no_kernel(name, input)
    check_windows(name, input, kernel, strides, paddings, dilations, ceil_mode)
    rule = rules.max_pool_with_indices[rank] if indices else rules.max_pool[rank]
    found = apply(
        rule, input, kernel_size=kernel, stride=strides, padding=paddings, dilation=dilations, ceil_mode=bool(ceil_mode)
    )
    return ordered_like(found, input)


def is_left_out(stride: int | _size | None) -> bool:
    return stride is None or (isinstance(stride, (tuple, list)) and not stride)


def _check_max_pool1d(input: Tensor, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> None:
    shape = input._array.shape
    if len(shape) not in (2, 3) or 0 in shape[-2:]:
        raise RuntimeError(
            f"max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 samples, but got:{list(shape)}"
        )
    for option, value in (("kernel_size", kernel), ("stride", stride)):
        if value <= 0:
            raise RuntimeError(f"max_pool1d() {option} must be greater than zero, but got {value}")
    if padding < 0:
        raise RuntimeError(f"max_pool1d() padding must be non-negative, but got {padding}")
    if padding > kernel // 2:
        raise RuntimeError(
            f"max_pool1d() padding should be at most half of kernel size, but got padding={padding} and "
            f"kernel_size={kernel}"
        )
    if dilation <= 0:
        raise RuntimeError(f"max_pool1d() dilation must be greater than zero, but got {dilation}")
    (count,) = pool_counts(shape[-1:], (kernel,), (stride,), (padding,), (dilation,), ceil_mode)
    if count < 1:
        raise RuntimeError(f"max_pool1d() Invalid computed output size: {count}")


def _max_pool1d(
    input: Tensor, kernel_size: int | _size, stride: int | _size | None, padding: int | _size, dilation: int | _size,
    ceil_mode: bool, indices: bool,
) -> Any:  # fmt: skip
    name = "max_pool1d"
    check_tensor(input, name)
    (kernel,) = window_option(kernel_size, 1, name, "kernel_size")
    step = kernel if is_left_out(stride) else window_option(stride, 1, name, "stride")[0]
    (pad,), (spread,) = window_option(padding, 1, name, "padding"), window_option(dilation, 1, name, "dilation")
    if indices and input._array.ndim not in (2, 3):
        raise RuntimeError(
            f"Expected 2 to 3 dimensions, but got {input._array.ndim}-dimensional tensor for argument #1 'self' (while "
            "checking arguments for max_pool1d)"
        )
    if not indices:  # with indices PyTorch pools an image of one row, with that function's error texts
        _check_max_pool1d(input, kernel, step, pad, spread, ceil_mode)
    if not DTYPE_OF[input._array.dtype].is_inexact:
        raise no_kernel("max_pool1d_impl", input)
    found = _max_pool(2, unsqueeze(input, -2), (1, kernel), (1, step), (0, pad), (1, spread), ceil_mode, indices)
    return tuple([squeeze(part, -2) for part in found]) if indices else squeeze(found, -2)


@public
def max_pool1d(
    input: Tensor, kernel_size: int | _size, stride: int | _size | None = None, padding: int | _size = 0,
    dilation: int | _size = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Tensor:  # fmt: skip
    """Return the largest element of every window of a sequence."""
    return _max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@public
def max_pool2d(
    input: Tensor, kernel_size: int | _size, stride: int | _size | None = None, padding: int | _size = 0,
    dilation: int | _size = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Tensor:  # fmt: skip
    """Return the largest element of every window of an image."""
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@public
def max_pool3d(
    input: Tensor, kernel_size: int | _size, stride: int | _size | None = None, padding: int | _size = 0,
    dilation: int | _size = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Tensor:  # fmt: skip
    """Return the largest element of every window of a volume."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@public
def max_pool1d_with_indices(
    input: Tensor, kernel_size: int | _size, stride: int | _size | None = None, padding: int | _size = 0,
    dilation: int | _size = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """max_pool1d, and where each largest element stands."""
    return _max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


@public
def max_pool2d_with_indices(
    input: Tensor, kernel_size: int | _size, stride: int | _size | None = None, padding: int | _size = 0,
    dilation: int | _size = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """max_pool2d, and where each largest element stands in its plane."""
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, True)


@public
def max_pool3d_with_indices(
    input: Tensor, kernel_size: int | _size, stride: int | _size | None = None, padding: int | _size = 0,
    dilation: int | _size = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """max_pool3d, and where each largest element stands in its volume."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, True)


# --- unpooling


def unpool_size(
    shape: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], output_size: Any
) -> Any:
    """Return the size that a pooling to `shape` may have started from: the default, or a given one close to it."""
    rank = len(kernel)
    usual = [(n - 1) * s + k - 2 * p for n, k, s, p in zip(shape[-rank:], kernel, stride, padding, strict=True)]
    if output_size is None:
        return usual
    given = output_size[2:] if len(output_size) == rank + 2 else output_size
    if len(given) != rank:
        raise ValueError(
            f"output_size should be a sequence containing {rank} or {rank + 2} elements, but it has a length of "
            f"'{len(given)}'"
        )
    for dim, (n, middle, step) in enumerate(zip(given, usual, stride, strict=True)):
        if not middle - step < n < middle + step:
            raise ValueError(
                f'invalid output_size "{given}" (dim {dim} must be between {middle - step} and {middle + step})'
            )
    return given


def _max_unpool(
    rank: int, input: Tensor, indices: Tensor, kernel_size: int | _size, stride: int | _size | None,
    padding: int | _size, output_size: _size | None,
) -> Tensor:  # fmt: skip
    name = f"max_unpool{rank}d"
    check_tensor(input, name)
    kernel = window_option(kernel_size, rank, name, "kernel_size")
    strides = kernel if is_left_out(stride) else window_option(stride, rank, name, "stride")
    pads = window_option(padding, rank, name, "padding")
    size = tuple(unpool_size(input._array.shape, kernel, strides, pads, output_size))
    if rank == 1:
        result = _unpooled(2, unsqueeze(input, -1), unsqueeze(indices, -1), (*size, 1))
        return squeeze(result, -1)
    return _unpooled(rank, input, indices, size)


def _unpooled(rank: int, input: Tensor, indices: Tensor, size: Sizes) -> Tensor:
    refuse_undetermined(f"max_unpooling{rank}d_forward_out")
    shape = input._array.shape
    if len(shape) not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"Input to max_unpooling{rank}d should be a {rank + 1}d or {rank + 2}d Tensor, but got a tensor with "
            f"{len(shape)} dimensions."
        )
    if indices._array.dtype != np.int64:
        raise RuntimeError(
            f"elements in indices should be type int64 but got: {DTYPE_OF[indices._array.dtype].scalar_name}"
        )
    if indices._array.shape != input._array.shape:
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input ({list(input._array.shape)}), not "
            f"{list(indices._array.shape)}"
        )
    for dim in range(1, len(shape)):
        if shape[dim] == 0:
            raise RuntimeError(
                f"max_unpooling{rank}d_forward_out_cpu(): Expected input to have non-zero size for non-batch dimensions: "
                f"{list(shape)} is empty at dimension {dim}."
            )
    if input._array.dtype.kind in "iub":
        raise no_kernel(f"max_unpool{rank}d", input)
    places = indices._array
    wrong = (places < 0) | (places >= math.prod(size))
    if values_known(places) and wrong.any():
        raise RuntimeError(
            f"Found an invalid max index: {places[wrong][0]} (output volumes are of size {'x'.join(map(str, size))})"
        )
    return ordered_like(apply(rules.max_unpool[rank], input, indices, output_size=size), input)


@public
def max_unpool1d(
    input: Tensor, indices: Tensor, kernel_size: int | _size, stride: int | _size | None = None,
    padding: int | _size = 0, output_size: _size | None = None,
) -> Tensor:  # fmt: skip
    """Zeros, with the results of a max_pool1d put back where they came from."""
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


@public
def max_unpool2d(
    input: Tensor, indices: Tensor, kernel_size: int | _size, stride: int | _size | None = None,
    padding: int | _size = 0, output_size: _size | None = None,
) -> Tensor:  # fmt: skip
    """Zeros, with the results of a max_pool2d put back where they came from."""
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


@public
def max_unpool3d(
    input: Tensor, indices: Tensor, kernel_size: int | _size, stride: int | _size | None = None,
    padding: int | _size = 0, output_size: _size | None = None,
) -> Tensor:  # fmt: skip
    """Zeros, with the results of a max_pool3d put back where they came from."""
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)
