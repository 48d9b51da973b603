"""The recurrent layers of numpy/rnn.py as expressions over the vocabulary, step by step, for a recorded backward."""

from __future__ import annotations

from typing import Any

from undertow._src.arrays.numpy.rnn import Sizes, steps


def _sigmoid(xp: Any, x: Any) -> Any:
    return 0.5 * xp.tanh(0.5 * x) + 0.5


def _columns(x: Any, k: int, size: int) -> Any:
    return x[:, k * size : (k + 1) * size]


def _renew(xp: Any, state: Any, new: Any, n: int) -> Any:
    """Return the state with its first n rows replaced: sequences that have ended, or not begun, keep theirs."""
    return new if n == state.shape[0] else xp.concatenate([new, state[n:]], 0)


def _in_order(xp: Any, parts: list[Any], reverse: bool) -> Any:
    """Return the results of the steps, concatenated in order of time."""
    return xp.concatenate(parts[::-1] if reverse else parts, 0)


def lstm_scan(
    xp: Any, gx: Any, h0: Any, c0: Any, w_hh: Any, w_hr: Any, batch_sizes: Sizes, reverse: bool
) -> tuple[Any, ...]:
    size = gx.shape[1] // 4
    weight = xp.transpose(w_hh, (1, 0))
    h, c = h0, c0
    outputs, all_gates, c_before, tanh_c, h_before, wide_h = ([] for _ in range(6))  # type: ignore[var-annotated]
    for span, n in steps(batch_sizes, reverse):
        h_now, c_now = h[:n], c[:n]
        z = gx[span] + xp.matmul(h_now, weight)
        i, f, o = (_sigmoid(xp, _columns(z, k, size)) for k in (0, 1, 3))
        g = xp.tanh(_columns(z, 2, size))
        new_c = f * c_now + i * g
        squashed = xp.tanh(new_c)
        wide = o * squashed
        new_h = wide if w_hr is None else xp.matmul(wide, xp.transpose(w_hr, (1, 0)))
        h, c = _renew(xp, h, new_h, n), _renew(xp, c, new_c, n)
        gates = xp.concatenate([i, f, g, o], 1)
        made = (new_h, gates, c_now, squashed, h_now, wide)
        for kept, part in zip((outputs, all_gates, c_before, tanh_c, h_before, wide_h), made, strict=True):
            kept.append(part)
    out, gates, before, squashed, h_was, wide = (
        _in_order(xp, kept, reverse) for kept in (outputs, all_gates, c_before, tanh_c, h_before, wide_h)
    )
    return out, h, c, gates, before, squashed, h_was, wide


def lstm_scan_grad(
    xp: Any, g_out: Any, g_h: Any, g_c: Any, gates: Any, c_before: Any, tanh_c: Any, w_hh: Any, w_hr: Any,
    batch_sizes: Sizes, reverse: bool,
) -> tuple[Any, ...]:  # fmt: skip
    size = gates.shape[1] // 4
    dh, dc = g_h, g_c
    slopes, arrived = [], []
    for span, n in steps(batch_sizes, not reverse):
        i, f, g, o = (_columns(gates[span], k, size) for k in range(4))
        squashed = tanh_c[span]
        total = dh[:n] + g_out[span]
        back = total if w_hr is None else xp.matmul(total, w_hr)
        dc_now = dc[:n] + back * o * (1 - squashed * squashed)
        dz = xp.concatenate(
            [
                dc_now * g * i * (1 - i),
                dc_now * c_before[span] * f * (1 - f),
                dc_now * i * (1 - g * g),
                back * squashed * o * (1 - o),
            ],
            1,
        )
        dh, dc = _renew(xp, dh, xp.matmul(dz, w_hh), n), _renew(xp, dc, dc_now * f, n)
        slopes.append(dz)
        arrived.append(total)
    return _in_order(xp, slopes, not reverse), dh, dc, _in_order(xp, arrived, not reverse)


def gru_scan(xp: Any, gx: Any, h0: Any, w_hh: Any, b_hn: Any, batch_sizes: Sizes, reverse: bool) -> tuple[Any, ...]:
    size = gx.shape[1] // 3
    weight = xp.transpose(w_hh, (1, 0))
    h = h0
    outputs, all_gates, hidden_n, h_before = ([] for _ in range(4))  # type: ignore[var-annotated]
    for span, n in steps(batch_sizes, reverse):
        h_now = h[:n]
        x, part = gx[span], xp.matmul(h_now, weight)
        r = _sigmoid(xp, _columns(x, 0, size) + _columns(part, 0, size))
        z = _sigmoid(xp, _columns(x, 1, size) + _columns(part, 1, size))
        fresh = _columns(part, 2, size) + b_hn
        new = xp.tanh(_columns(x, 2, size) + r * fresh)
        h_new = (1 - z) * new + z * h_now
        h = _renew(xp, h, h_new, n)
        made = (h_new, xp.concatenate([r, z, new], 1), fresh, h_now)
        for kept, item in zip((outputs, all_gates, hidden_n, h_before), made, strict=True):
            kept.append(item)
    out, gates, fresh, h_was = (_in_order(xp, kept, reverse) for kept in (outputs, all_gates, hidden_n, h_before))
    return out, h, gates, fresh, h_was


def gru_scan_grad(
    xp: Any, g_out: Any, g_h: Any, gates: Any, hidden_n: Any, h_before: Any, w_hh: Any, batch_sizes: Sizes,
    reverse: bool,
) -> tuple[Any, ...]:  # fmt: skip
    size = gates.shape[1] // 3
    dh = g_h
    to_x, to_hidden = [], []
    for span, count in steps(batch_sizes, not reverse):
        r, z, n = (_columns(gates[span], k, size) for k in range(3))
        total = dh[:count] + g_out[span]
        dn = total * (1 - z) * (1 - n * n)
        dr = dn * hidden_n[span] * r * (1 - r)
        dz = total * (h_before[span] - n) * z * (1 - z)
        dhid = xp.concatenate([dr, dz, dn * r], 1)
        dh = _renew(xp, dh, total * z + xp.matmul(dhid, w_hh), count)
        to_x.append(xp.concatenate([dr, dz, dn], 1))
        to_hidden.append(dhid)
    return _in_order(xp, to_x, not reverse), _in_order(xp, to_hidden, not reverse), dh


def rnn_scan(xp: Any, gx: Any, h0: Any, w_hh: Any, relu: bool, batch_sizes: Sizes, reverse: bool) -> tuple[Any, ...]:
    weight = xp.transpose(w_hh, (1, 0))
    h = h0
    outputs, h_before = [], []
    for span, n in steps(batch_sizes, reverse):
        h_now = h[:n]
        z = gx[span] + xp.matmul(h_now, weight)
        new = xp.maximum(z, xp.zeros_like(z)) if relu else xp.tanh(z)
        h = _renew(xp, h, new, n)
        outputs.append(new)
        h_before.append(h_now)
    return _in_order(xp, outputs, reverse), h, _in_order(xp, h_before, reverse)


def rnn_scan_grad(
    xp: Any, g_out: Any, g_h: Any, outputs: Any, w_hh: Any, relu: bool, batch_sizes: Sizes, reverse: bool
) -> tuple[Any, ...]:
    dh = g_h
    slopes = []
    for span, n in steps(batch_sizes, not reverse):
        out = outputs[span]
        total = dh[:n] + g_out[span]
        dz = xp.where(out > 0, total, xp.zeros_like(total)) if relu else total * (1 - out * out)
        dh = _renew(xp, dh, xp.matmul(dz, w_hh), n)
        slopes.append(dz)
    return _in_order(xp, slopes, not reverse), dh
