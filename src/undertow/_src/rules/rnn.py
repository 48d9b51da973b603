"""Recurrent layers, one direction of one layer at a time, each with a closed-form gradient of the whole sequence.

Inputs are packed (see arrays/numpy/rnn.py), or (time, batch, features) where all sequences are equally long. The
input's part of the gates and all weight gradients are single matrix products; only the recurrence itself goes step by
step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from undertow._src.rules.rule import op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace

Arrays = tuple[Any, ...]


def _rows(xp: Namespace, x: Array) -> Array:
    """Merge time and batch into one axis."""
    return x if x.ndim == 2 else xp.reshape(x, (-1, x.shape[-1]))


def _as_given(xp: Namespace, rows: Array, input: Array) -> Array:
    """Return rows in the shape of the input."""
    return rows if input.ndim == 2 else xp.reshape(rows, (*input.shape[:-1], rows.shape[-1]))


def _shares(xp: Namespace, input: Array, w_ih: Array, *biases: object) -> Array:
    """Return the part of the gates of every step that input and biases contribute."""
    share = xp.matmul(input, xp.transpose(w_ih, (1, 0)))
    for bias in biases:
        if bias is not None:
            share = share + bias
    return share


def _product(xp: Namespace, g: Array, x: Array) -> Array:
    """Return the gradient of W in x W^T."""
    return xp.matmul(xp.transpose(g, (1, 0)), x)


# --- LSTM


def _lstm(
    xp: Namespace, input: Array, h0: Array, c0: Array, w_ih: Array, w_hh: Array, b_ih: Array, b_hh: Array, w_hr: Array,
    batch_sizes: object, reverse: bool,
) -> Arrays:  # fmt: skip
    shares = _shares(xp, _rows(xp, input), w_ih, b_ih, b_hh)
    output, *rest = xp.lstm_scan(shares, h0, c0, w_hh, w_hr, batch_sizes, reverse)
    return _as_given(xp, output, input), *rest


def _lstm_grad(
    xp: Namespace, g: Any, needs: Sequence[bool], input: Array, h0: object, c0: object, w_ih: Array, w_hh: Array,
    b_ih: object, b_hh: object, w_hr: Any, gates: Array, c_before: Array, tanh_c: Array, h_before: Array, wide_h: Any,
    batch_sizes: Sequence[int], reverse: bool,
) -> Arrays:  # fmt: skip
    dz, dh, dc, arrived = xp.lstm_scan_grad(
        _rows(xp, g[0]), g[1], g[2], gates, c_before, tanh_c, w_hh, w_hr, batch_sizes, reverse
    )
    bias = xp.sum(dz, axis=0) if needs[5] or needs[6] else None
    return (
        _as_given(xp, xp.matmul(dz, w_ih), input) if needs[0] else None,
        dh,
        dc,
        _product(xp, dz, _rows(xp, input)) if needs[3] else None,
        _product(xp, dz, h_before) if needs[4] else None,
        bias,
        bias,
        _product(xp, arrived, wide_h) if needs[7] else None,
    )


lstm = op(
    "mkldnn_rnn_layer",
    lambda xp, input, h0, c0, w_ih, w_hh, b_ih, b_hh, w_hr, *, batch_sizes, reverse: _lstm(
        xp, input, h0, c0, w_ih, w_hh, b_ih, b_hh, w_hr, batch_sizes, reverse
    ),
    promote="same",
    outputs=3,
    hidden=("gates", "c_before", "tanh_c", "h_before", "wide_h"),
    joint=_lstm_grad,
)

# --- GRU


def _gru(
    xp: Namespace, input: Array, h0: Array, w_ih: Array, w_hh: Array, b_ih: Array, b_hh: Array, batch_sizes: object,
    reverse: bool,
) -> Arrays:  # fmt: skip
    size = w_hh.shape[1]
    gx = _shares(xp, _rows(xp, input), w_ih, b_ih)
    inner = xp.zeros_like(h0[:1])
    if b_hh is not None:
        # The new gate's hidden bias is inside the product with r; the other two may join the input's part.
        gx = gx + xp.concatenate([b_hh[: 2 * size], xp.zeros_like(b_hh[2 * size :])], 0)
        inner = b_hh[2 * size :]
    output, *rest = xp.gru_scan(gx, h0, w_hh, inner, batch_sizes, reverse)
    return _as_given(xp, output, input), *rest


def _gru_grad(
    xp: Namespace, g: Any, needs: Sequence[bool], input: Array, h0: object, w_ih: Array, w_hh: Array, b_ih: object,
    b_hh: object, gates: Array, hidden_n: Array, h_before: Array, batch_sizes: Sequence[int], reverse: bool,
) -> Arrays:  # fmt: skip
    dx, dhid, dh = xp.gru_scan_grad(_rows(xp, g[0]), g[1], gates, hidden_n, h_before, w_hh, batch_sizes, reverse)
    return (
        _as_given(xp, xp.matmul(dx, w_ih), input) if needs[0] else None,
        dh,
        _product(xp, dx, _rows(xp, input)) if needs[2] else None,
        _product(xp, dhid, h_before) if needs[3] else None,
        xp.sum(dx, axis=0) if needs[4] else None,
        xp.sum(dhid, axis=0) if needs[5] else None,
    )


gru = op(
    "gru",
    lambda xp, input, h0, w_ih, w_hh, b_ih, b_hh, *, batch_sizes, reverse: _gru(
        xp, input, h0, w_ih, w_hh, b_ih, b_hh, batch_sizes, reverse
    ),
    node="StackBackward0",
    promote="same",
    outputs=2,
    hidden=("gates", "hidden_n", "h_before"),
    joint=_gru_grad,
)

# --- the plain recurrent layer


def _rnn(
    xp: Namespace, input: Array, h0: Array, w_ih: Array, w_hh: Array, b_ih: Array, b_hh: Array, relu: bool,
    batch_sizes: object, reverse: bool,
) -> Arrays:  # fmt: skip
    output, *rest = xp.rnn_scan(_shares(xp, _rows(xp, input), w_ih, b_ih, b_hh), h0, w_hh, relu, batch_sizes, reverse)
    return _as_given(xp, output, input), *rest


def _rnn_grad(
    xp: Namespace, g: Any, needs: Sequence[bool], input: Array, h0: object, w_ih: Array, w_hh: Array,
    b_ih: object, b_hh: object, result: Any, h_before: Array, relu: bool, batch_sizes: Sequence[int], reverse: bool,
) -> Arrays:  # fmt: skip
    dz, dh = xp.rnn_scan_grad(_rows(xp, g[0]), g[1], _rows(xp, result[0]), w_hh, relu, batch_sizes, reverse)
    bias = xp.sum(dz, axis=0) if needs[4] or needs[5] else None
    return (
        _as_given(xp, xp.matmul(dz, w_ih), input) if needs[0] else None,
        dh,
        _product(xp, dz, _rows(xp, input)) if needs[2] else None,
        _product(xp, dz, h_before) if needs[3] else None,
        bias,
        bias,
    )


rnn = op(
    "rnn",
    lambda xp, input, h0, w_ih, w_hh, b_ih, b_hh, *, relu, batch_sizes, reverse: _rnn(
        xp, input, h0, w_ih, w_hh, b_ih, b_hh, relu, batch_sizes, reverse
    ),
    node="StackBackward0",
    promote="same",
    outputs=2,
    hidden=("h_before",),
    joint=_rnn_grad,
)
