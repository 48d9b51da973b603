"""Rules that only functions without a counterpart in nn.functional need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow._src.rules.rule import op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace

# --- convolution over (time, batch, channel): one matrix product for each position in the kernel


def _padded(xp: Namespace, x: Array, pad: int) -> Array:
    return xp.pad(x, ((pad, pad), (0, 0), (0, 0)), 0)


def _tbc(xp: Namespace, self: Array, weight: Array, bias: Array, pad: int) -> Array:
    wide = _padded(xp, self, pad)
    length = wide.shape[0] - weight.shape[0] + 1
    total = bias
    for place in range(weight.shape[0]):
        total = total + xp.matmul(xp.slice_along(wide, 0, place, place + length, 1), xp.select(weight, 0, place))
    return total


def _tbc_gradients(
    xp: Namespace, g: Array, needs: tuple[bool, ...], self: Array, weight: Array, pad: int
) -> tuple[Any, Any, Any]:
    wide, length, taps = _padded(xp, self, pad), g.shape[0], range(weight.shape[0])
    of_input = of_weight = None
    if needs[0]:
        for place in taps:
            part = xp.matmul(g, xp.swapaxes(xp.select(weight, 0, place), 0, 1))
            part = xp.pad(part, ((place, weight.shape[0] - 1 - place), (0, 0), (0, 0)), 0)
            of_input = part if of_input is None else of_input + part
        of_input = xp.slice_along(of_input, 0, pad, pad + self.shape[0], 1)
    if needs[1]:
        rows = xp.reshape(g, (-1, g.shape[2]))
        pieces = [xp.slice_along(wide, 0, place, place + length, 1) for place in taps]
        of_weight = xp.stack(
            [xp.matmul(xp.swapaxes(xp.reshape(piece, (-1, piece.shape[2])), 0, 1), rows) for piece in pieces], 0
        )
    return of_input, of_weight, xp.sum(g, axis=(0, 1)) if needs[2] else None


conv_tbc = op("conv_tbc", lambda xp, self, weight, bias, *, pad: _tbc(xp, self, weight, bias, pad), promote="same",
              joint=_tbc_gradients)  # fmt: skip

# --- group_norm that returns its statistics


def _group_gradients(
    xp: Namespace, g: Any, needs: tuple[bool, ...], input: Array, weight: Array, mean: Array, rstd: Array,
    sizes: tuple[int, ...],
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return gradients through the result, and through mean and rstd, which depend on the input alone."""
    of_input, of_weight, of_bias = xp.group_norm_grad(g[0], input, mean, rstd, weight, sizes, needs)
    batch, channels, area, groups = sizes
    count = channels // groups * area
    for through, of_statistic in enumerate(g[1:]):
        if of_input is None:
            continue
        slope = xp.reshape(of_statistic, (batch, groups, 1)) * (1 / count)
        if through == 1:  # rstd changes by −rstd³ (x − mean) / count
            scale, center = (xp.reshape(value, (batch, groups, 1)) for value in (rstd, mean))
            slope = -slope * scale * scale * scale * (xp.reshape(input, (batch, groups, count)) - center)
        spread = xp.broadcast_to(slope, (batch, groups, count))
        of_input = of_input + xp.reshape(spread, of_input.shape)
    return of_input, of_weight, of_bias


native_group_norm = op(
    "native_group_norm",
    lambda xp, input, weight, bias, *, N, C, HxW, group, eps: xp.group_norm(
        input, weight, bias, (N, C, HxW, group), eps
    ),
    promote="same",
    accepts="f",
    outputs=3,
    names=("out", "result1", "result2"),
    joint=lambda xp, g, needs, input, weight, result1, result2, N, C, HxW, group: _group_gradients(
        xp, g, needs, input, weight, result1, result2, (N, C, HxW, group)
    ),
)
