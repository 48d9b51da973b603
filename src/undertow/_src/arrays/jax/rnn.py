"""Recurrent layers on JAX: one layer in one direction over a packed batch, and its gradient, as scans over time.

See numpy/rnn.py for what packed means and for the mathematics. A batch whose sequences are not equally long is padded
so that every step is as wide as the first; rows of sequences that have ended, or not begun, keep their state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from undertow._src.arrays.jax.tracing import platform_of

Array = Any
Sizes = tuple[int, ...]

_GPU_UNROLL = 4  # steps per turn of a loop: a turn has fixed costs, of launches and copies of what it carries


class _Steps:
    """How concatenated rows become steps of one width, and back."""

    def __init__(self, batch_sizes: Sizes) -> None:
        self.count, self.width = len(batch_sizes), max(batch_sizes, default=0)
        self.plain = all(size == self.width for size in batch_sizes)
        row = np.arange(self.width)
        self.there = row < np.asarray(batch_sizes)[:, None]  # (step, row)
        starts = np.cumsum((0, *batch_sizes))[:-1, None]
        self.source = np.where(self.there, starts + row, 0).astype(np.int32)
        self.rows = np.flatnonzero(self.there).astype(np.int32)

    def apart(self, x: Array) -> Array:
        """Reshape (rows, …) to (step, row, …)."""
        if self.plain:
            return x.reshape(self.count, self.width, *x.shape[1:])
        return jnp.asarray(x).at[self.source].get(mode="promise_in_bounds")

    def together(self, x: Array) -> Array:
        """Reshape (step, row, …) to (rows, …)."""
        flat = x.reshape(self.count * self.width, *x.shape[2:])
        return flat if self.plain else jnp.asarray(flat).at[self.rows].get(mode="promise_in_bounds")

    def scan(self, step: Callable[[Any, Any], tuple[Any, Any]], state: tuple[Array, ...], parts: tuple[Array, ...],
             reverse: bool) -> tuple[tuple[Array, ...], tuple[Array, ...]]:  # fmt: skip
        """Run a step over time: its state is carried from step to step, its other results are concatenated."""

        def kept(before: Any, given: Any) -> tuple[Any, Any]:
            there, *given = given
            after, made = step(before, given)
            return tuple([jnp.where(there, new, old) for new, old in zip(after, before, strict=True)]), made

        steps: tuple[Array, ...] = tuple([self.apart(part) for part in parts])
        unroll = _GPU_UNROLL if platform_of(state[0]) == "gpu" else 1
        if self.plain:
            last, made = lax.scan(step, state, steps, reverse=reverse, unroll=unroll)
        else:
            last, made = lax.scan(kept, state, (self.there[:, :, None], *steps), reverse=reverse, unroll=unroll)
        return last, tuple([self.together(part) for part in made])


def _columns(x: Array, k: int, size: int) -> Array:
    return x[..., k * size : (k + 1) * size]


# --- LSTM


def lstm_scan(
    gx: Array, h0: Array, c0: Array, w_hh: Array, w_hr: Array | None, batch_sizes: Sizes, reverse: bool
) -> tuple[Array, ...]:
    """Return (outputs, last h, last c, gates, c before each step, tanh of c after it, h before it, h before projection)."""
    size = gx.shape[1] // 4
    # sigmoid(x) = tanh(x / 2) / 2 + 1/2: with the halves folded in, one tanh serves all four gates.
    half = np.repeat(np.array([0.5, 0.5, 1.0, 0.5], gx.dtype), size)
    shift = np.repeat(np.array([0.5, 0.5, 0.0, 0.5], gx.dtype), size)
    weight = jnp.transpose(w_hh) * half

    def step(state: Any, given: Any) -> tuple[Any, Any]:
        (h, c), (share,) = state, given
        gates = jnp.tanh(share + h @ weight) * half + shift
        i, f, g, o = [_columns(gates, k, size) for k in range(4)]
        new_c = f * c + i * g
        squashed = jnp.tanh(new_c)
        wide = o * squashed
        new_h = wide if w_hr is None else wide @ w_hr.T
        return (new_h, new_c), (new_h, gates, c, squashed, h, *([] if w_hr is None else [wide]))

    (h, c), made = _Steps(batch_sizes).scan(step, (h0, c0), (gx * half,), reverse)
    outputs, gates, c_before, tanh_c, h_before, *rest = made
    return outputs, h, c, gates, c_before, tanh_c, h_before, rest[0] if rest else outputs


def lstm_scan_grad(
    g_out: Array, g_h: Array, g_c: Array, gates: Array, c_before: Array, tanh_c: Array, w_hh: Array, w_hr: Array | None,
    batch_sizes: Sizes, reverse: bool,
) -> tuple[Array, ...]:  # fmt: skip
    """Return (gradient of the gates before activation, of h0, of c0, and of each step's output)."""
    size = gates.shape[1] // 4
    i, f, g, o = [_columns(gates, k, size) for k in range(4)]
    to_c = o * (1 - tanh_c * tanh_c)
    to_o = tanh_c * o * (1 - o)
    to_ifg = jnp.concatenate([g * i * (1 - i), c_before * f * (1 - f), i * (1 - g * g)], 1)

    def step(state: Any, given: Any) -> tuple[Any, Any]:
        (dh, dc), (arriving, to_c, to_o, to_ifg, f) = state, given
        total = dh + arriving
        back = total if w_hr is None else total @ w_hr
        dc = dc + back * to_c
        dz = jnp.concatenate([jnp.concatenate([dc, dc, dc], 1) * to_ifg, back * to_o], 1)
        return (dz @ w_hh, dc * f), (dz, *([] if w_hr is None else [total]))

    (dh, dc), made = _Steps(batch_sizes).scan(step, (g_h, g_c), (g_out, to_c, to_o, to_ifg, f), not reverse)
    return made[0], dh, dc, made[1] if w_hr is not None else None


# --- GRU


def gru_scan(gx: Array, h0: Array, w_hh: Array, b_hn: Array, batch_sizes: Sizes, reverse: bool) -> tuple[Array, ...]:
    """Return (outputs, last h, gates r z n, h W_n^T + b_n at each step, h before it)."""
    size = gx.shape[1] // 3
    weight = jnp.transpose(w_hh)

    def step(state: Any, given: Any) -> tuple[Any, Any]:
        (h,), (share,) = state, given
        part = h @ weight
        rz = 0.5 * jnp.tanh(0.5 * (share[:, : 2 * size] + part[:, : 2 * size])) + 0.5
        r, z = rz[:, :size], rz[:, size:]
        fresh = part[:, 2 * size :] + b_hn
        new = jnp.tanh(share[:, 2 * size :] + r * fresh)
        new_h = (h - new) * z + new
        return (new_h,), (new_h, jnp.concatenate([rz, new], 1), fresh, h)

    (h,), (outputs, gates, fresh, h_before) = _Steps(batch_sizes).scan(step, (h0,), (gx,), reverse)
    return outputs, h, gates, fresh, h_before


def gru_scan_grad(
    g_out: Array, g_h: Array, gates: Array, hidden_n: Array, h_before: Array, w_hh: Array, batch_sizes: Sizes,
    reverse: bool,
) -> tuple[Array, ...]:  # fmt: skip
    """(gradient of gx, of h W^T with its biases, of h0)."""
    size = gates.shape[1] // 3
    r, z, n = [_columns(gates, k, size) for k in range(3)]
    to_n = (1 - z) * (1 - n * n)
    to_r = to_n * hidden_n * r * (1 - r)
    to_z = (h_before - n) * z * (1 - z)
    slopes = jnp.concatenate([to_r, to_z, to_n * r], 1)  # of h W^T; gx sees n without r

    def step(state: Any, given: Any) -> tuple[Any, Any]:
        (dh,), (arriving, slopes, to_n, z) = state, given
        total = dh + arriving
        dhid = jnp.concatenate([total, total, total], 1) * slopes
        return (total * z + dhid @ w_hh,), (dhid, total * to_n)

    (dh,), (dhid, dn) = _Steps(batch_sizes).scan(step, (g_h,), (g_out, slopes, to_n, z), not reverse)
    return jnp.concatenate([dhid[:, : 2 * size], dn], 1), dhid, dh


# --- the plain recurrent layer


def rnn_scan(gx: Array, h0: Array, w_hh: Array, relu: bool, batch_sizes: Sizes, reverse: bool) -> tuple[Array, ...]:
    """Return (outputs, last h, h before each step)."""
    weight = jnp.transpose(w_hh)

    def step(state: Any, given: Any) -> tuple[Any, Any]:
        (h,), (share,) = state, given
        z = share + h @ weight
        new = jnp.maximum(z, 0) if relu else jnp.tanh(z)
        return (new,), (new, h)

    (h,), (outputs, h_before) = _Steps(batch_sizes).scan(step, (h0,), (gx,), reverse)
    return outputs, h, h_before


def rnn_scan_grad(
    g_out: Array, g_h: Array, outputs: Array, w_hh: Array, relu: bool, batch_sizes: Sizes, reverse: bool
) -> tuple[Array, ...]:
    """(gradient before the activation, of h0)."""
    slope = (outputs > 0).astype(outputs.dtype) if relu else 1 - outputs * outputs

    def step(state: Any, given: Any) -> tuple[Any, Any]:
        (dh,), (arriving, slope) = state, given
        dz = (dh + arriving) * slope
        return (dz @ w_hh,), (dz,)

    (dh,), (dz,) = _Steps(batch_sizes).scan(step, (g_h,), (g_out, slope), not reverse)
    return dz, dh
