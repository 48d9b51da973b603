"""Reading images at given positions: affine grids, and sampling by nearest, linear or cubic interpolation."""

# fmt: off
from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from undertow._src.rules.rule import Rule, op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace

_CUBIC = -0.75  # the parameter of the cubic kernel

affine_grid = op("affine_grid_generator", lambda xp, theta, *, size, align_corners, base: xp.reshape(
                     xp.matmul(xp.constant(base), xp.swapaxes(theta, 1, 2)), (size[0], *size[2:], len(size) - 2)),
                 promote="same", accepts="f",
                 theta=lambda xp, g, size, base: xp.matmul(
                     xp.swapaxes(xp.reshape(g, (size[0], -1, len(size) - 2)), 1, 2), xp.constant(base)))


def _grid_sampler(rank: int) -> Rule:
    return op(f"grid_sampler_{rank}d",
              lambda xp, input, grid, *, interpolation_mode, padding_mode, align_corners: sampled(
                  xp, input, grid, interpolation_mode, padding_mode, align_corners),
              node=f"GridSampler{rank}DBackward0", promote="same", accepts="f",
              joint=lambda xp, g, needs, input, grid, interpolation_mode, padding_mode, align_corners: sample_gradients(
                  xp, g, needs, input, grid, interpolation_mode, padding_mode, align_corners))


grid_sampler = {rank: _grid_sampler(rank) for rank in (2, 3)}
# fmt: on


def sampled(xp: Namespace, input: Array, grid: Array, mode: str, padding: str, align: bool) -> Array:
    """Sample input at the positions of the grid: Σ over a position's corners of weight · element."""
    total: Any = None
    for weight, _, places in corners(xp, input.shape[2:], grid, mode, padding, align):
        part = xp.take_from_planes(input, _for_channels(xp, places, input), grid.ndim - 2) * xp.expand_dims(weight, 1)
        total = part if total is None else total + part
    return total


def sample_gradients(
    xp: Namespace, g: Array, needs: tuple[bool, ...], input: Array, grid: Array, mode: str, padding: str, align: bool
) -> tuple[Any, Any]:
    """Return the gradients of the input and of the grid."""
    input_grad, slopes = None, None
    for weight, weight_slopes, places in corners(xp, input.shape[2:], grid, mode, padding, align):
        spread = _for_channels(xp, places, input)
        if needs[0]:
            part = xp.add_to_planes(g * xp.expand_dims(weight, 1), spread, tuple(input.shape[2:]), False)
            input_grad = part if input_grad is None else input_grad + part
        if needs[1]:
            along = xp.sum(g * xp.take_from_planes(input, spread, grid.ndim - 2), axis=(1,))
            parts = [along * slope for slope in weight_slopes]
            slopes = parts if slopes is None else [one + other for one, other in zip(slopes, parts, strict=True)]
    return input_grad, None if slopes is None else xp.stack(slopes, grid.ndim - 1)


def _for_channels(xp: Namespace, places: Array, input: Array) -> Array:
    """Repeat positions (batch, *out) for every channel."""
    stretched = xp.expand_dims(places, 1)
    return xp.broadcast_to(stretched, (*stretched.shape[:1], input.shape[1], *stretched.shape[2:]))


def corners(
    xp: Namespace, size: tuple[int, ...], grid: Array, mode: str, padding: str, align: bool
) -> Iterator[tuple[Any, Any, Any]]:
    """Yield for each corner that a sample reads: its weight, the weight's slope along each coordinate, its flat index."""
    axes = []
    for axis, n in enumerate(size):
        coordinate = xp.select(grid, grid.ndim - 1, len(size) - 1 - axis)
        position, scale = unnormalized(xp, coordinate, n, align)
        if mode == "bicubic":
            axes.append(cubic_taps(xp, position, scale, n, padding, align))
            continue
        position, scale = confined(xp, position, scale, n, padding, align)
        axes.append(nearest_tap(xp, position, n) if mode == "nearest" else linear_taps(xp, position, scale, n))
    for choice in itertools.product(*axes):
        inside, place = None, None
        for (_, _, index, valid), n in zip(choice, size, strict=True):
            inside = valid if inside is None else inside * valid
            place = index if place is None else place * n + index
        weight, slopes = inside, []
        for value, _, _, _ in choice:
            weight = weight * value
        for moving in range(len(choice)):
            slope = inside
            for place_of, (value, change, _, _) in enumerate(choice):
                slope = slope * (change if place_of == moving else value)
            slopes.append(slope)
        yield weight, slopes[::-1], place


def unnormalized(xp: Namespace, coordinate: Array, n: int, align: bool) -> tuple[Any, Any]:
    """Return a coordinate in [−1, 1] as a position on an axis of n elements, and the position's slope."""
    if align:
        return (coordinate + 1) * ((n - 1) / 2), xp.full_like(coordinate, (n - 1) / 2)
    return ((coordinate + 1) * n - 1) * 0.5, xp.full_like(coordinate, n / 2)


def confined(xp: Namespace, position: Array, slope: Array, n: int, padding: str, align: bool) -> tuple[Any, Any]:
    """Move positions outside the image inside: to the border, or by reflection."""
    if padding == "reflection":
        low, span = (0, n - 1) if align else (-0.5, n)
        if span == 0:
            return xp.zeros_like(position), xp.zeros_like(slope)
        turned = xp.where(position < low, -xp.ones_like(slope), xp.ones_like(slope))
        distance = xp.abs(position - low)
        flips = xp.floor(distance * (1 / span))
        rest = distance - flips * span
        odd = flips - xp.floor(flips * 0.5) * 2
        position = xp.where(odd == 0, rest + low, span - rest + low)
        slope = slope * turned * (1 - 2 * odd)
    if padding in ("reflection", "border"):
        outside = (position <= 0) | (position >= n - 1)
        slope = xp.where(outside, xp.zeros_like(slope), slope)
        position = xp.where(position > 0, position, xp.zeros_like(position))
        position = xp.where(position < n - 1, position, xp.full_like(position, n - 1))
    return position, slope


def nearest_tap(xp: Namespace, position: object, n: int) -> list[Any]:
    return [_tap(xp, xp.ones_like(position), xp.zeros_like(position), xp.rint(position), n)]


def linear_taps(xp: Namespace, position: Array, slope: Array, n: int) -> list[Any]:
    """Return the elements on both sides, weighted by distance."""
    left = xp.floor(position)
    share = position - left
    return [_tap(xp, 1 - share, -slope, left, n), _tap(xp, share, slope, left + 1, n)]


def cubic_taps(xp: Namespace, position: object, slope: Any, n: int, padding: str, align: bool) -> list[Any]:
    """Return the four nearest elements under a cubic kernel; each is moved into the image separately."""
    base = xp.floor(position)
    share = position - base
    taps = []
    for step in (-1, 0, 1, 2):
        d = xp.abs(share - step)
        sign = 1 if step <= 0 else -1
        if step in (0, 1):
            value = ((_CUBIC + 2) * d - (_CUBIC + 3)) * d * d + 1
            change = (3 * (_CUBIC + 2) * d - 2 * (_CUBIC + 3)) * d
        else:
            value = ((d - 5) * d + 8) * d * _CUBIC - 4 * _CUBIC
            change = ((3 * d - 10) * d + 8) * _CUBIC
        place, _ = confined(xp, base + step, slope, n, padding, align)
        taps.append(_tap(xp, value, change * slope * sign, xp.floor(place) if padding == "reflection" else place, n))
    return taps


def _tap(xp: Namespace, weight: Array, slope: Array, place: Array, n: int) -> tuple[Any, Any, Any, Any]:
    """Return weight, slope, index (0 outside the image) and whether the position is inside."""
    valid = (place >= 0) & (place <= n - 1)
    index = xp.as_index(xp.where(valid, place, xp.zeros_like(place)))
    return weight, slope, index, xp.astype(valid, xp.dtype_of(place))
