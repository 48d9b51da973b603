"""`nn.functional.pad`: padding by a value, by reflection, by the border or circularly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import as_ints, check_tensor, must_be, no_kernel
from undertow._src.ops.arrange import constant_pad_nd
from undertow._src.ops.image_order import ordered_like
from undertow._src.ops.numbers import as_number, is_number
from undertow._src.ops.public import public
from undertow._src.rules import resize as rules
from undertow._src.tensor.core import wrap
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._src.types.aliases import _size
    from undertow._tensor import Tensor

Widths = list[tuple[int, int]]


@public
def pad(input: Tensor, pad: _size, mode: str = "constant", value: float | None = None) -> Tensor:
    """Return a tensor padded on its last dims; widths come in pairs from the last dim on, and negative ones crop."""
    check_tensor(input, "pad")
    widths = as_ints(pad, "pad", "pad", 2)
    value = as_number(value)
    if value is not None and not is_number(value):
        raise must_be("float", value, "pad", "value", 4)
    ndim = input._array.ndim
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if len(widths) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(widths) > 2 * ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension; it is "
            f"{len(widths)} for an input of {ndim} dims"
        )
    if mode == "constant":
        return _constant(input, widths, 0 if value is None else value)
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    rank = len(widths) // 2
    if not (len(widths) in (2, 4, 6) and ndim in (rank + 1, rank + 2)):
        raise NotImplementedError(f"Padding size {len(widths)} is not supported for {ndim}D input tensor.")
    pairs = [(widths[place], widths[place + 1]) for place in range(0, len(widths), 2)][::-1]
    if mode == "circular":
        return _circular(input, pairs)
    return _by_index(input, pairs, mode, widths)


def _constant(input: Tensor, widths: tuple[int, ...], value: Any) -> Tensor:
    shape = input._array.shape
    for place in range(0, len(widths), 2):
        size = shape[len(shape) - 1 - place // 2]
        cropped = size + min(widths[place], 0) + min(widths[place + 1], 0)
        if cropped < 0 and size + min(widths[place], 0) >= 0:
            raise RuntimeError("narrow(): length must be non-negative.")
    return ordered_like(constant_pad_nd(input, widths, value), input)


def _by_index(input: Tensor, pairs: Widths, mode: str, widths: tuple[int, ...]) -> Tensor:
    """Pad by reflection or replication: along each dim, an index of source elements."""
    shape, rank = input._array.shape, len(pairs)
    if 0 in shape[len(shape) - rank - 1 :] or (len(shape) == rank + 1 and 0 in shape):
        raise RuntimeError(
            f"Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with possibly 0 batch size and no other "
            f"size of 0 for input, but got: {list(shape)}"
        )
    name = f"{'reflection' if mode == 'reflect' else 'replication'}_pad{rank}d"
    if DTYPE_OF[input._array.dtype].category == 0:
        raise no_kernel(name, input)
    places = []
    sides = ("W",) if rank == 1 else ("H", "W") if rank == 2 else ("D", "H", "W")
    made = [n + before + after for n, (before, after) in zip(shape[-rank:], pairs, strict=True)]
    given = ", ".join(f"{side}: {n}" for side, n in zip(sides, shape[-rank:], strict=True))
    if max(made) < 1:
        raise RuntimeError(
            f"input ({given}{' ' if mode == 'replicate' and rank > 1 else ''}) is too small. Calculated output "
            + " ".join(f"{side}: {n}" for side, n in zip(sides, made, strict=True))
        )
    margins = list(enumerate(pairs, len(shape) - rank))
    for axis, (before, after) in reversed(margins):
        if mode == "reflect" and max(before, after) >= shape[axis]:
            number = 4 + 2 * (len(shape) - 1 - axis)
            raise RuntimeError(
                f"Argument #{number}: Padding size should be less than the corresponding input dimension; it is "
                f"({before}, {after}) at dimension {axis} of {list(shape)}"
            )
    for axis, (before, after) in margins:
        n = shape[axis]
        if n + before + after < 0:
            sizes = [*shape[:axis], n + before + after, *shape[axis + 1 :]]
            raise RuntimeError(f"Trying to create tensor with negative dimension {n + before + after}: {sizes}")
        place = np.arange(-before, n + after)
        if mode == "reflect" and n > 1:
            place = np.abs(place)
            place = np.where(place >= n, 2 * (n - 1) - place, place)
        if before or after:
            places.append((axis, np.clip(place, 0, n - 1)))
    rule = (rules.reflection_pad if mode == "reflect" else rules.replication_pad)[rank]
    return ordered_like(apply(rule, input, padding=widths, places=tuple(places)), input)


def _circular(input: Tensor, pairs: Widths) -> Tensor:
    """Return the image in the middle of a larger one, then each margin copied from the opposite side."""
    shape, rank = input._array.shape, len(pairs)
    lead = len(shape) - rank
    size = list(shape)
    for axis, (before, after) in enumerate(pairs, lead):
        n = shape[axis]
        if before > n or after > n:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if n + before + after < 0:
            raise RuntimeError("Negative padding value is resulting in an empty dimension")
        size[axis] = n + before + after
    out = wrap(np.empty(size, input._array.dtype))
    source, target = input, out
    for axis, (before, after) in enumerate(pairs, lead):
        start = max(-before, 0)
        length = shape[axis] - start - max(-after, 0)
        source, target = source.narrow(axis, start, length), target.narrow(axis, max(before, 0), length)
    target.copy_(source)
    for axis in reversed(range(lead, len(shape))):
        before, after = pairs[axis - lead]
        everything = (slice(None),) * axis
        end = size[axis] - max(after, 0)
        if before > 0:
            out[(*everything, slice(0, before))] = out[(*everything, slice(end - before, end))]
        if after > 0:
            start = max(before, 0)
            out[(*everything, slice(end, size[axis]))] = out[(*everything, slice(start, start + after))]
    return out
