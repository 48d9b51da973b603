"""Resizing images by interpolation, and moving pixels between space and channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.numpy import resize as kernels
from undertow._src.base.sites import warn
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import as_int, check_tensor, invalid_combination, is_int, no_kernel
from undertow._src.ops.image_order import ordered_like
from undertow._src.ops.numbers import is_number
from undertow._src.ops.pool_average import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from undertow._src.ops.public import public
from undertow._src.rules import resize as rules
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.dtypes import DTYPE_OF, uint8

if TYPE_CHECKING:
    from undertow._src.types.aliases import _size
    from undertow._tensor import Tensor

_RANK_OF = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2, "lanczos": 2}
_MODES = "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact"


def _sizes(input: Tensor, size: object, scale_factor: object, mode: str) -> tuple[Any, Any]:
    """(size, None) or (None, scale factors), one for each spatial dim."""
    rank, shape = input._array.ndim - 2, list(input._array.shape[2:])
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    which, given = ("size", size) if size is not None else ("scale_factor", scale_factor)
    if isinstance(given, (tuple, list)):
        if len(given) != rank:
            what = "output" if which == "size" else "scale_factor"
            shown = f"output size of {given}" if which == "size" else f"scale_factor of shape {given}"
            raise ValueError(
                f"Input and {what} must have the same number of spatial dimensions; the input's are {shape}, and {shown}. "
                f"After the batch and the channels, the input has a dimension for each number of the {what}."
            )
        values = list(given)
    else:
        values = [given] * rank
    name = f"{'_' * (mode == 'nearest-exact')}upsample_{mode.replace('-', '_')}{rank}d"
    if which == "size":
        if not all(is_int(value) for value in values):
            raise invalid_combination(name, (input, values, None))
        return tuple([as_int(value, name, "size") for value in values]), None
    if not all(is_number(value) or isinstance(value, TensorCore) for value in values):
        raise invalid_combination(name, (input, None, values))
    return None, tuple([float(value) for value in values])


def _check_modes(input: Tensor, mode: str, antialias: bool) -> None:
    ndim = input._array.ndim
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and ndim == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes on inputs of four dims"
        )
    if mode == "lanczos" and not antialias:
        raise ValueError("Lanczos mode requires antialias=True")
    rank = ndim - 2
    if mode in ("nearest", "nearest-exact", "area") and rank in (1, 2, 3):
        return
    if _RANK_OF.get(mode) == rank:
        return
    if mode in ("linear", "bilinear", "trilinear") and rank in (1, 2, 3):
        raise NotImplementedError(f"Got {ndim}D input, but {mode} mode needs {_RANK_OF[mode] + 2}D input")
    raise NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {ndim}D), with mode {_MODES} (got {mode})"
    )


def _check_output(input: Tensor, size: tuple[int, ...]) -> None:
    shape = input._array.shape[2:]
    if min(shape) <= 0 or min(size) <= 0:
        names = "DHW"[-len(size) :]
        before, after = (
            ", ".join(f"{name}: {n}" for name, n in zip(names, sizes, strict=True)) for sizes in (shape, size)
        )
        middle = " and" if len(size) == 1 else ""
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input ({before}){middle} output ({after})"
        )
    if input._array.shape[1] == 0:
        raise RuntimeError(
            f"Non-empty {input._array.ndim}D data tensor expected but got a tensor with sizes {list(input._array.shape)}"
        )


def _taps(mode: str, n: int, count: int, align: bool, scale: float | None, antialias: bool, dtype: object) -> Any:
    if mode in ("nearest", "nearest-exact"):
        places = kernels.nearest_indices(n, count, scale, mode == "nearest-exact", dtype)
        return kernels.Taps(places[:, None], np.ones((count, 1), np.float64 if dtype == np.float64 else np.float32), n)
    if antialias:
        return kernels.antialias_taps(n, count, mode == "bicubic", align, scale, dtype, lanczos=mode == "lanczos")
    if mode == "bicubic":
        return kernels.cubic_taps(n, count, align, scale, dtype)
    return kernels.linear_taps(n, count, align, scale, dtype)


@public
def interpolate(
    input: Tensor, size: int | _size | None = None, scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest", align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:  # fmt: skip
    """Images, sequences or volumes of another size, by one of the modes of interpolation."""
    check_tensor(input, "interpolate")
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | "
                "trilinear"
            )
    output, scales = _sizes(input, size, scale_factor, mode)
    if recompute_scale_factor and output is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    shape = input._array.shape[2:]
    if output is None:
        output = tuple([math.floor(n * scale) for n, scale in zip(shape, scales, strict=True)])
        if recompute_scale_factor or mode == "area":
            scales = None
    _check_modes(input, mode, antialias)
    if mode == "area":
        return (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[len(output) - 1](input, output)
    return resized(input, output, scales, mode, bool(align_corners), antialias)


def resized(
    input: Tensor, output: tuple[int, ...], scales: Sequence[float | None] | None, mode: str, align: bool,
    antialias: bool = False,
) -> Tensor:  # fmt: skip
    """Resize to `output`; the scales, where there are any, say which places of the input are read."""
    _check_output(input, output)
    kind = DTYPE_OF[input._array.dtype]
    if kind is not uint8 and not kind.is_floating_point:
        raise no_kernel("upsample_nearest2d_channels_last", input)
    shape = input._array.shape[2:]
    dtype = kind.opmath.numpy if kind.is_floating_point else np.dtype(np.float32)
    taps = tuple(
        [
            _taps(mode, n, count, align, None if scales is None else scales[place], antialias, dtype)
            for place, (n, count) in enumerate(zip(shape, output, strict=True))
        ]
    )
    rule = rules.upsample[mode + (" antialias" if antialias else ""), len(output)]
    statics = {"output_size": output, "align_corners": align, "scale_factors": scales, "taps": taps}
    if kind is uint8 and mode in _RANK_OF:
        return ordered_like(_resized_bytes(input, taps), input)
    return ordered_like(apply(rule, input, **statics), input)


def _resized_bytes(input: Tensor, taps: tuple[Any, ...]) -> Any:
    """Resize integers: weights are fixed-point, and each axis is rounded before the next one."""
    array = input._array.astype(np.float64)
    for place in reversed(range(len(taps))):
        weights = taps[place].weights.astype(np.float64)
        bits = 0
        while bits < 22 and int(0.5 + weights.max() * 2 ** (bits + 1)) < 2**15:
            bits += 1
        fixed = np.trunc(weights * 2**bits + np.where(weights < 0, -0.5, 0.5)) / 2**bits
        axis = array.ndim - len(taps) + place
        array = kernels.resize(array, kernels.Taps(taps[place].indices, fixed, taps[place].size), axis)
        array = np.clip(np.floor(array + 0.5), 0, 255)
    return wrap(array.astype(np.uint8))


def _deprecated(name: str) -> None:
    warn(f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.")


@public
def upsample(
    input: Tensor, size: int | _size | None = None, scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest", align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """interpolate, under its old name."""
    _deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


@public
def upsample_nearest(
    input: Tensor, size: int | _size | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """interpolate by nearest neighbours, under its old name."""
    _deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")


@public
def upsample_bilinear(
    input: Tensor, size: int | _size | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """interpolate linearly with aligned corners, under its old name."""
    _deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


# --- pixels and channels


def _check_images(name: str, input: Tensor) -> None:
    check_tensor(input, name)
    ndim = input._array.ndim
    if ndim < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with {ndim} dimension(s)"
        )


@public
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Channels laid out as blocks of pixels: (…, C·r², H, W) to (…, C, H·r, W·r)."""
    _check_images("pixel_shuffle", input)
    if upscale_factor <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {upscale_factor}")
    channels = input._array.shape[-3]
    if channels % upscale_factor**2:
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by upscale_factor squared: "
            f"{channels} is no multiple of {upscale_factor**2}"
        )
    return ordered_like(apply(rules.pixel_shuffle, input, upscale_factor=upscale_factor), input)


@public
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Blocks of pixels as channels: the inverse of pixel_shuffle."""
    _check_images("pixel_unshuffle", input)
    if downscale_factor <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {downscale_factor}")
    for side, dim in (("height", -2), ("width", -1)):
        if input._array.shape[dim] % downscale_factor:
            raise RuntimeError(
                f"pixel_unshuffle expects {side} to be divisible by downscale_factor, but "
                f"input.size({dim})={input._array.shape[dim]} is not divisible by {downscale_factor}"
            )
    if not input._array.size:
        return input.clone()  # PyTorch leaves the shape of an empty tensor as it is
    return ordered_like(apply(rules.pixel_unshuffle, input, downscale_factor=downscale_factor), input)


@public
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Interleave channels: one of each group in turn."""
    check_tensor(input, "channel_shuffle")
    shape = input._array.shape
    if len(shape) <= 2:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(shape)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    if shape[1] % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {shape[1]} channels and {groups} groups."
        )
    return ordered_like(apply(rules.channel_shuffle, input, groups=groups), input)


native_channel_shuffle = channel_shuffle
