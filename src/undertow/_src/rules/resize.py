"""Changing the size of images: padding by their own elements, interpolation, shuffling pixels into channels."""

# fmt: off
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow._src.rules.rule import Rule, op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace

# --- padding that repeats the image's own elements: along each axis, the source of each position


def _index_pad(name: str, node: str) -> Rule:
    return op(name, lambda xp, self, *, padding, places: placed(xp, self, places), node=node, keeps=("self",),
              stepwise=True, self=lambda xp, g, self_spec, places: unplaced(xp, g, self_spec.shape, places))


reflection_pad = {rank: _index_pad(f"reflection_pad{rank}d", f"ReflectionPad{rank}DBackward0") for rank in (1, 2, 3)}
replication_pad = {rank: _index_pad(f"replication_pad{rank}d", f"ReplicationPad{rank}DBackward0") for rank in (1, 2, 3)}


# --- interpolation: along each of the last axes, which elements are read and with what weights


def _upsample(name: str, node: str) -> Rule:
    return op(name, lambda xp, self, *, output_size, align_corners, scale_factors, taps: resized(xp, self, taps),
              node=node, promote="same", accepts="if",
              self=lambda xp, g, taps: unresized(xp, g, taps))


upsample: dict[tuple[str, int], Rule] = {
    **{("nearest", rank): _upsample(f"upsample_nearest{rank}d", f"UpsampleNearest{rank}DBackward0") for rank in (1, 2, 3)},
    **{("nearest-exact", rank): _upsample(f"_upsample_nearest_exact{rank}d", f"UpsampleNearestExact{rank}DBackward0")
       for rank in (1, 2, 3)},
    ("linear", 1): _upsample("upsample_linear1d", "UpsampleLinear1DBackward0"),
    ("bilinear", 2): _upsample("upsample_bilinear2d", "UpsampleBilinear2DBackward0"),
    ("trilinear", 3): _upsample("upsample_trilinear3d", "UpsampleTrilinear3DBackward0"),
    ("bicubic", 2): _upsample("upsample_bicubic2d", "UpsampleBicubic2DBackward0"),
    ("bilinear antialias", 2): _upsample("_upsample_bilinear2d_aa", "UpsampleBilinear2DAaBackward0"),
    ("bicubic antialias", 2): _upsample("_upsample_bicubic2d_aa", "UpsampleBicubic2DAaBackward0"),
    ("lanczos antialias", 2): _upsample("_upsample_lanczos2d_aa", "UpsampleLanczos2DAaBackward0"),
}

resize_axis = op("upsample", lambda xp, self, *, taps, axis: xp.resize(self, taps, axis), promote="same",
                 self=lambda xp, g, taps, axis: xp.resize_adjoint(g, taps, axis))

resize_axis_adjoint = op("upsample_backward", lambda xp, self, *, taps, axis: xp.resize_adjoint(self, taps, axis),
                         promote="same", self=lambda xp, g, taps, axis: xp.resize(g, taps, axis))

# --- pixels and channels

pixel_shuffle = op("pixel_shuffle", lambda xp, self, *, upscale_factor: shuffled(xp, self, upscale_factor),
                   self=lambda xp, g, upscale_factor: unshuffled(xp, g, upscale_factor))

pixel_unshuffle = op("pixel_unshuffle", lambda xp, self, *, downscale_factor: unshuffled(xp, self, downscale_factor),
                     self=lambda xp, g, downscale_factor: shuffled(xp, g, downscale_factor))

channel_shuffle = op("channel_shuffle", lambda xp, self, *, groups: dealt(xp, self, groups),
                     self=lambda xp, g, groups: dealt(xp, g, max(1, g.shape[1] // groups)))
# fmt: on


def placed(xp: Namespace, x: Array, places: tuple[tuple[int, Any], ...]) -> Array:
    """Return, along each listed axis, the elements at the listed positions."""
    for axis, place in places:
        x = xp.index_select(x, axis, xp.constant(place))
    return x


def unplaced(xp: Namespace, g: Array, shape: tuple[int, ...], places: tuple[tuple[int, Any], ...]) -> Array:
    """Return the adjoint of `placed`: every element sums the gradients of its positions."""
    for axis, place in reversed(places):
        size = (*g.shape[:axis], shape[axis], *g.shape[axis + 1 :])
        g = xp.index_add(xp.zeros(size, xp.dtype_of(g)), axis, xp.constant(place), g)
    return g


def resized(xp: Namespace, x: Array, taps: tuple[Any, ...]) -> Array:
    for place in reversed(range(len(taps))):
        x = xp.resize(x, taps[place], x.ndim - len(taps) + place)
    return x


def unresized(xp: Namespace, g: Array, taps: tuple[Any, ...]) -> Array:
    for place in range(len(taps)):
        g = xp.resize_adjoint(g, taps[place], g.ndim - len(taps) + place)
    return g


def shuffled(xp: Namespace, x: Array, factor: int) -> Array:
    """(…, C·r², H, W) as (…, C, H·r, W·r)."""
    *lead, channels, height, width = x.shape
    count = len(lead)
    x = xp.reshape(x, (*lead, channels // factor**2, factor, factor, height, width))
    x = xp.transpose(x, (*range(count + 1), count + 3, count + 1, count + 4, count + 2))
    return xp.reshape(x, (*lead, channels // factor**2, height * factor, width * factor))


def unshuffled(xp: Namespace, x: Array, factor: int) -> Array:
    """Return the inverse of `shuffled`."""
    *lead, channels, height, width = x.shape
    count = len(lead)
    x = xp.reshape(x, (*lead, channels, height // factor, factor, width // factor, factor))
    x = xp.transpose(x, (*range(count + 1), count + 2, count + 4, count + 1, count + 3))
    return xp.reshape(x, (*lead, channels * factor**2, height // factor, width // factor))


def dealt(xp: Namespace, x: Array, groups: int) -> Array:
    """Interleave channels: one of each group in turn."""
    batch, channels, *size = x.shape
    split = xp.reshape(x, (batch, groups, channels // groups, *size))
    return xp.reshape(xp.swapaxes(split, 1, 2), x.shape)
