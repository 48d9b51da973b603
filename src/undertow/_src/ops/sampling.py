"""Sampling images at given positions: affine_grid and grid_sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.base.sites import warn
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import check_tensor, must_be
from undertow._src.ops.public import public
from undertow._src.rules import sampling as rules
from undertow._src.types.dtypes import DTYPE_OF
from undertow._src.types.sizes import size_of

if TYPE_CHECKING:
    from undertow._src.types.aliases import _size
    from undertow._tensor import Tensor

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")


def _usual_alignment() -> bool:
    warn(
        "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Pass align_corners: "
        "with True, -1 and 1 are the centres of the outermost pixels, with False their outer edges."
    )
    return False


@public
def affine_grid(theta: Tensor, size: _size, align_corners: bool | None = None) -> Tensor:
    """Return the positions that an image of `size` is read from under affine maps: (batch, *size, 2 or 3) in [−1, 1]."""
    if align_corners is None:
        align_corners = _usual_alignment()
    check_tensor(theta, "affine_grid", "theta", 1)
    if not DTYPE_OF[theta._array.dtype].is_floating_point:
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    size = size if isinstance(size, tuple) else tuple(size)
    if len(size) not in (4, 5):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, not "
            f"{size_of(size) if isinstance(size, tuple) and type(size) is not tuple else size}."
        )
    rank = len(size) - 2
    shape = theta._array.shape
    if len(shape) != 3 or shape[-2] != rank or shape[-1] != rank + 1:
        raise ValueError(
            f"Expected a batch of {rank}D affine matrices of shape Nx{rank}x{rank + 1} for size {size}. Got "
            f"{size_of(shape)}."
        )
    if align_corners and min(size[2:]) == 1:
        warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids where align_corners=True: a single "
            "pixel is at 0, in the middle, and no longer at -1."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    if size[0] != shape[0]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{size[0]}, {rank + 1}] but got: "
            f"[{shape[0]}, {rank + 1}]."
        )
    return affine_places(theta, tuple(size), align_corners)


def affine_places(theta: Tensor, size: tuple[int, ...], align_corners: bool) -> Tensor:
    """`affine_grid` with checked arguments."""
    base = _base_grid(size[2:], align_corners, DTYPE_OF[theta._array.dtype].opmath.numpy)
    return apply(rules.affine_grid, theta, size=size, align_corners=align_corners, base=base)


def _base_grid(size: tuple[int, ...], align: bool, dtype: Any) -> Any:
    """(1, places, rank + 1): the coordinates of every place, x first, and a one."""
    axes = []
    for n in size:
        line = np.linspace(-1, 1, n, dtype=dtype) if n > 1 else np.zeros(1, dtype)
        axes.append(line if align else line * dtype.type((n - 1) / n))
    planes = np.meshgrid(*axes, indexing="ij")[::-1]
    return np.stack([*planes, np.ones(size, dtype)], axis=-1).reshape(1, -1, len(size) + 1)


@public
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Images read at the places of a grid, whose last dim holds coordinates in [−1, 1], x first."""
    if mode not in MODES:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in PADDINGS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"'{padding_mode}'"
        )
    if align_corners is None:
        align_corners = _usual_alignment()
    for place, (argument, value) in enumerate((("input", input), ("grid", grid)), 1):
        if not hasattr(value, "_array"):
            raise must_be("Tensor", value, "grid_sampler", argument, place)
    check_grid(input, grid, mode)
    return apply(
        rules.grid_sampler[input._array.ndim - 2], input, grid, interpolation_mode=mode, padding_mode=padding_mode,
        align_corners=align_corners,
    )  # fmt: skip


def check_grid(input: Tensor, grid: Tensor, mode: str) -> None:
    """Refuse a grid that does not fit the images."""
    shape, places = input._array.shape, grid._array.shape
    got = f"but got input with sizes {list(shape)} and grid with sizes {list(places)}"
    if shape[0] != places[0]:
        raise RuntimeError(f"grid_sampler(): expected grid and input to have same batch size, {got}")
    if places[-1] != len(shape) - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {len(shape) - 2} in last dimension, but got grid with sizes "
            f"{list(places)}"
        )
    if len(shape) not in (4, 5) or len(shape) != len(places):
        raise RuntimeError(
            f"grid_sampler(): expected {'5D' if len(shape) == 5 else '4D'} input and grid with same number of dimensions, "
            f"{got}"
        )
    for dim in range(2, len(shape)):
        if shape[dim] <= 0:
            raise RuntimeError(
                f"grid_sampler(): expected input to have non-empty spatial dimensions; its shape {list(shape)} "
                f"is empty at dimension {dim}"
            )
    if len(shape) == 5 and mode == "bicubic":
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if input._array.dtype != grid._array.dtype:
        kinds = [DTYPE_OF[value._array.dtype].scalar_name for value in (input, grid)]
        raise RuntimeError(f"expected scalar type {kinds[0]} but found {kinds[1]}")
