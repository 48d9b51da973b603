"""Recurrent layers on NumPy: one layer in one direction over a packed batch, and its gradient.

Packed means that step t holds rows for the first `batch_sizes[t]` sequences (longest first), all steps concatenated; a
plain batch is the case where every step has the same size. The input's part of the gates, `gx = x W_ih^T + b`, is one
matrix product made by the caller; what remains here is the part that goes step by step.

    LSTM  i, f, g, o = gx_t + h W^T;  c' = s(f) c + s(i) tanh(g);  h' = s(o) tanh(c')      (then h' P^T with projection)
    GRU   r, z, n: n = tanh(gx_n + s(r) (h W_n^T + b_n));  h' = (1 - s(z)) n + s(z) h
    RNN   h' = tanh or relu(gx_t + h W^T)

with s the logistic function. Gradients go step by step only where they must; the factors that do not depend on the
incoming gradient are computed for all steps at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]


def steps(batch_sizes: Sizes, reverse: bool) -> Iterator[tuple[slice, int]]:
    """Yield for each step in the order of the recurrence: its rows in the packed data, and their number."""
    spans, start = [], 0
    for size in batch_sizes:
        spans.append((slice(start, start + size), size))
        start += size
    return reversed(spans) if reverse else iter(spans)


# --- LSTM


def lstm_scan(
    gx: Array, h0: Array, c0: Array, w_hh: Array, w_hr: Array | None, batch_sizes: Sizes, reverse: bool
) -> Any:
    """Return (outputs, last h, last c, gates, c before each step, tanh of c after it, h before it, h before projection)."""
    rows, wide = gx.shape
    size = wide // 4
    # sigmoid(x) = tanh(x / 2) / 2 + 1/2: with the halves folded in, one tanh serves all four gates.
    half = np.repeat(np.array([0.5, 0.5, 1.0, 0.5], gx.dtype), size)
    shift = np.repeat(np.array([0.5, 0.5, 0.0, 0.5], gx.dtype), size)
    gates = gx * half
    weight = np.ascontiguousarray((w_hh * half[:, None]).T)
    project = None if w_hr is None else np.ascontiguousarray(w_hr.T)
    h, c = h0.copy(), c0.copy()
    outputs = np.empty((rows, h0.shape[1]), gx.dtype)
    h_before = np.empty_like(outputs)
    c_before, tanh_c, wide_h = (np.empty((rows, size), gx.dtype) for _ in range(3))
    for span, n in steps(batch_sizes, reverse):
        now, h_now, c_now = gates[span], h[:n], c[:n]
        h_before[span] = h_now
        c_before[span] = c_now
        now += h_now @ weight
        np.tanh(now, out=now)
        now *= half
        now += shift
        c_now *= now[:, size : 2 * size]
        c_now += now[:, :size] * now[:, 2 * size : 3 * size]
        np.tanh(c_now, out=tanh_c[span])
        step = np.multiply(now[:, 3 * size :], tanh_c[span], out=wide_h[span])
        h_now[...] = step if project is None else step @ project
        outputs[span] = h_now
    return outputs, h, c, gates, c_before, tanh_c, h_before, wide_h


def lstm_scan_grad(
    g_out: Array, g_h: Array, g_c: Array, gates: Array, c_before: Array, tanh_c: Array, w_hh: Array, w_hr: Array | None,
    batch_sizes: Sizes, reverse: bool,
) -> Any:  # fmt: skip
    """Return (gradient of the gates before activation, of h0, of c0, and of each step's output)."""
    rows, wide = gates.shape
    size = wide // 4
    i, f, g, o = (gates[:, k * size : (k + 1) * size] for k in range(4))
    to_c = o * (1 - tanh_c * tanh_c)
    to_o = tanh_c * o * (1 - o)
    to_ifg = np.empty((rows, 3, size), gates.dtype)
    np.multiply(g * i, 1 - i, out=to_ifg[:, 0])
    np.multiply(c_before * f, 1 - f, out=to_ifg[:, 1])
    np.multiply(i, 1 - g * g, out=to_ifg[:, 2])
    dz = np.empty((rows, 4, size), gates.dtype)
    flat = dz.reshape(rows, wide)
    dh, dc = g_h.copy(), g_c.copy()
    arrived = np.array(g_out)
    for span, n in steps(batch_sizes, not reverse):
        dh_now, dc_now, total = dh[:n], dc[:n], arrived[span]
        total += dh_now
        back = total if w_hr is None else total @ w_hr
        dc_now += back * to_c[span]
        np.multiply(back, to_o[span], out=dz[span, 3])
        np.multiply(dc_now[:, None], to_ifg[span], out=dz[span, :3])
        np.matmul(flat[span], w_hh, out=dh_now)
        dc_now *= f[span]
    return flat, dh, dc, arrived


# --- GRU


def gru_scan(gx: Array, h0: Array, w_hh: Array, b_hn: Array, batch_sizes: Sizes, reverse: bool) -> Any:
    """Return (outputs, last h, gates r z n, h W_n^T + b_n at each step, h before it)."""
    rows, wide = gx.shape
    size = wide // 3
    weight = np.ascontiguousarray(w_hh.T)
    gates = gx.copy()
    h = h0.copy()
    outputs, h_before, hidden_n = (np.empty((rows, size), gx.dtype) for _ in range(3))
    for span, n in steps(batch_sizes, reverse):
        now, h_now = gates[span], h[:n]
        h_before[span] = h_now
        part = h_now @ weight
        rz = now[:, : 2 * size]
        rz += part[:, : 2 * size]
        rz *= 0.5
        np.tanh(rz, out=rz)
        rz *= 0.5
        rz += 0.5
        fresh = np.add(part[:, 2 * size :], b_hn, out=hidden_n[span])
        new = now[:, 2 * size :]
        new += now[:, :size] * fresh
        np.tanh(new, out=new)
        h_now -= new
        h_now *= now[:, size : 2 * size]
        h_now += new
        outputs[span] = h_now
    return outputs, h, gates, hidden_n, h_before


def gru_scan_grad(
    g_out: Array, g_h: Array, gates: Array, hidden_n: Array, h_before: Array, w_hh: Array, batch_sizes: Sizes,
    reverse: bool,
) -> Any:  # fmt: skip
    """(gradient of gx, of h W^T with its biases, of h0)."""
    rows, wide = gates.shape
    size = wide // 3
    r, z, n = (gates[:, k * size : (k + 1) * size] for k in range(3))
    to_n = (1 - z) * (1 - n * n)
    to_z = (h_before - n) * z * (1 - z)
    to_r = hidden_n * r * (1 - r)
    dx = np.empty((rows, wide), gates.dtype)
    dhid = np.empty((rows, wide), gates.dtype)
    dh = g_h.copy()
    for span, count in steps(batch_sizes, not reverse):
        dh_now = dh[:count]
        dh_now += g_out[span]
        dn = np.multiply(dh_now, to_n[span], out=dx[span, 2 * size :])
        np.multiply(dn, to_r[span], out=dx[span, :size])
        np.multiply(dh_now, to_z[span], out=dx[span, size : 2 * size])
        dhid[span, : 2 * size] = dx[span, : 2 * size]
        np.multiply(dn, r[span], out=dhid[span, 2 * size :])
        dh_now *= z[span]
        dh_now += dhid[span] @ w_hh
    return dx, dhid, dh


# --- the plain recurrent layer


def rnn_scan(gx: Array, h0: Array, w_hh: Array, relu: bool, batch_sizes: Sizes, reverse: bool) -> Any:
    """Return (outputs, last h, h before each step)."""
    weight = np.ascontiguousarray(w_hh.T)
    outputs = gx.copy()
    h = h0.copy()
    h_before = np.empty_like(outputs)
    for span, n in steps(batch_sizes, reverse):
        now, h_now = outputs[span], h[:n]
        h_before[span] = h_now
        now += h_now @ weight
        if relu:
            np.maximum(now, 0, out=now)
        else:
            np.tanh(now, out=now)
        h_now[...] = now
    return outputs, h, h_before


def rnn_scan_grad(
    g_out: Array, g_h: Array, outputs: Array, w_hh: Array, relu: bool, batch_sizes: Sizes, reverse: bool
) -> Any:
    """(gradient before the activation, of h0)."""
    slope = (outputs > 0).astype(outputs.dtype) if relu else 1 - outputs * outputs
    dz = np.empty_like(outputs)
    dh = g_h.copy()
    for span, n in steps(batch_sizes, not reverse):
        dh_now = dh[:n]
        dh_now += g_out[span]
        np.multiply(dh_now, slope[span], out=dz[span])
        np.matmul(dz[span], w_hh, out=dh_now)
    return dz, dh
