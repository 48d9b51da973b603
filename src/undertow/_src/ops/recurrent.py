"""Recurrent layers as functions: stacks of layers over whole sequences, and single steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.base.modes import local
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import invalid_combination, must_be, scalar_name, wrap_dim
from undertow._src.ops.activation import relu
from undertow._src.ops.copied_parts import unsafe_chunk
from undertow._src.ops.dropout import dropout
from undertow._src.ops.elementwise import sigmoid, tanh
from undertow._src.ops.join import cat, stack
from undertow._src.ops.matmul import linear
from undertow._src.ops.public import overloaded, public
from undertow._src.ops.shape import transpose
from undertow._src.rules import rnn as rules
from undertow._src.rules import shape as shape_rules
from undertow._src.rules.rule import Rule, twin
from undertow._src.tensor.core import TensorCore

if TYPE_CHECKING:
    from undertow._tensor import Tensor

Tensors = tuple[Any, ...]
# (data, state, weights, batch sizes, reverse) -> (outputs, *last state), for one direction of one layer.
# Weights are (w_ih, w_hh, b_ih, b_hh, w_hr), with None for those that a layer lacks.
Layer = Callable[[Any, Tensors, Tensors, tuple[int, ...], bool], Tensors]

# PyTorch joins the steps of packed sequences with `cat`, other steps with `stack`, unless oneDNN runs the layer.
_lstm_stacked, _lstm_packed = twin(rules.lstm, "StackBackward0"), twin(rules.lstm, "CatBackward0")
_gru_packed, _rnn_packed = twin(rules.gru, "CatBackward0"), twin(rules.rnn, "CatBackward0")
_NOT_BY_ONEDNN = (np.dtype(np.float64), np.dtype(np.float16))
_turned = twin(shape_rules.transpose, "TransposeBackward1", view=True)


def lstm_layer(data: Tensor, state: Tensors, weights: Tensors, sizes: tuple[int, ...], reverse: bool) -> Tensors:
    """Long short-term memory."""
    if data._array.ndim == 2:
        rule = _lstm_packed
    else:
        array = data._array
        plain = array.dtype in _NOT_BY_ONEDNN or array.size == 0 or weights[4] is not None
        rule = _lstm_stacked if plain else rules.lstm
    return apply(rule, data, *state, *weights, batch_sizes=sizes, reverse=reverse)


def gru_layer(data: Tensor, state: Tensors, weights: Tensors, sizes: tuple[int, ...], reverse: bool) -> Tensors:
    """Gated recurrent units."""
    rule = _gru_packed if data._array.ndim == 2 else rules.gru
    return apply(rule, data, *state, *weights[:4], batch_sizes=sizes, reverse=reverse)


def _plain_layer(rectified: bool) -> Layer:
    def layer(data: Tensor, state: Tensors, weights: Tensors, sizes: tuple[int, ...], reverse: bool) -> Tensors:
        rule: Rule = _rnn_packed if data._array.ndim == 2 else rules.rnn
        return apply(rule, data, *state, *weights[:4], relu=rectified, batch_sizes=sizes, reverse=reverse)

    return layer


tanh_layer, relu_layer = _plain_layer(False), _plain_layer(True)


def _check_dtypes(data: Any, state: Tensors) -> None:
    """Refuse a state whose dtype is not the data's; autocast casts both."""
    for part in state:
        if part._array.dtype != data._array.dtype and local.modes.autocast is None:
            raise RuntimeError(
                f"mat1 and mat2 must have the same dtype, but got {scalar_name(part)} and {scalar_name(data)}: the hidden "
                "state and the input"
            )


def stacked(
    layer: Layer, data: object, state: Tensors, weights: Sequence[Tensors], sizes: tuple[int, ...], bidirectional: bool,
    chance: float,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """Layers on top of each other, each in one or both directions: the outputs of the last and the last states of all.

    `chance` is the probability of dropping an element between two layers.
    """
    _check_dtypes(data, state)
    last: list[list[Any]] = [[] for _ in state]
    directions = 2 if bidirectional else 1
    for first in range(0, len(weights), directions):
        outputs = []
        for nr in range(first, first + directions):
            output, *finals = layer(data, tuple([part[nr] for part in state]), weights[nr], sizes, nr > first)
            outputs.append(output)
            for kept, final in zip(last, finals, strict=True):
                kept.append(final)
        data = outputs[0] if len(outputs) == 1 else cat(outputs, -1)
        if chance and first + directions < len(weights):
            data = dropout(data, chance, True)
    return data, [stack(kept, 0) for kept in last]


# --- functions


def _by_layer(name: str, params: Sequence[Tensor], biases: bool, projected: bool, count: int) -> list[Tensors]:
    """Return the weights of each layer and direction out of one list."""
    each = 2 + 2 * biases + projected
    if len(params) != count * each:
        raise RuntimeError("got an incorrect number of RNN parameters")
    grouped = []
    for place in range(0, len(params), each):
        group = tuple(params[place : place + each])
        grouped.append((*group[:2], *(group[2:4] if biases else (None, None)), group[-1] if projected else None))
    return grouped


def _run(name: str, layer: Layer, args: Tensors) -> tuple[Any, list[Any]]:
    """(input, hx, params, …, batch_first), or (data, batch_sizes, hx, params, …) for packed sequences."""
    if len(args) != 9:
        raise invalid_combination(name, args)
    packed = isinstance(args[1] if name == "lstm" else args[2], TensorCore)
    if packed:
        data, batch_sizes, hx, params, biases, layers, chance, train, bidirectional = args
        batch_first, sizes = False, tuple(batch_sizes._array.tolist())
    else:
        data, hx, params, biases, layers, chance, train, bidirectional, batch_first = args
    if name == "lstm":
        if len(hx) != 2:
            raise RuntimeError("lstm expects two hidden states")
        state = tuple(hx)
    elif isinstance(hx, TensorCore):
        state = (hx,)
    else:
        raise invalid_combination(name, args)
    projected = name == "lstm" and state[0]._array.shape[2] != state[1]._array.shape[2]
    count = layers * (2 if bidirectional else 1)
    weights = _by_layer(name, params, biases, projected, count)
    if state[0]._array.shape[0] < count:
        raise RuntimeError("Expected more hidden states in stacked_rnn")
    if not packed:
        data = transpose(data, 0, 1) if batch_first else data
        sizes = (data._array.shape[1],) * data._array.shape[0]
        for part in state:
            if part._array.shape[1] != data._array.shape[1]:
                raise RuntimeError(
                    f"The size of tensor a ({data._array.shape[1]}) must match the size of tensor b "
                    f"({part._array.shape[1]}) at the non-singleton dimension 0"
                )
    output, last = stacked(layer, data, state, weights, sizes, bool(bidirectional), chance if train else 0.0)
    return (transposed_output(output, name) if batch_first else output), last


def transposed_output(output: Tensor, name: str) -> Tensor:
    """Return (time, batch, …) as (batch, time, …); PyTorch does so in place, except for the LSTM."""
    return transpose(output, 0, 1) if name == "lstm" else apply(_turned, output, dim0=0, dim1=1)


@overloaded
def lstm(*args: object) -> tuple[Any, Any, Any]:
    """Layers of long short-term memory: outputs, last h, last c."""
    output, (h, c) = _run("lstm", lstm_layer, args)
    return output, h, c


@overloaded
def gru(*args: object) -> tuple[Any, Any]:
    """Layers of gated recurrent units: outputs, last h."""
    output, (h,) = _run("gru", gru_layer, args)
    return output, h


@overloaded
def rnn_tanh(*args: object) -> tuple[Any, Any]:
    """Layers of tanh(W_ih x + b_ih + W_hh h + b_hh): outputs, last h."""
    output, (h,) = _run("rnn_tanh", tanh_layer, args)
    return output, h


@overloaded
def rnn_relu(*args: object) -> tuple[Any, Any]:
    """Layers of relu(W_ih x + b_ih + W_hh h + b_hh): outputs, last h."""
    output, (h,) = _run("rnn_relu", relu_layer, args)
    return output, h


# --- single steps


def _check_step(input: Tensor, states: Tensors, w_ih: Tensor, w_hh: Tensor) -> None:
    rows, wanted = input._array.shape, w_ih._array.shape[1]
    if rows[1] != wanted:
        raise RuntimeError(f"input has inconsistent input_size: got {rows[1]} expected {wanted}")
    for nr, state in enumerate(states):
        have = state._array.shape
        if have[0] != rows[0]:
            raise RuntimeError(f"Input batch size {rows[0]} doesn't match hidden{nr} batch size {have[0]}")
        if have[wrap_dim(1, len(have))] != w_hh._array.shape[1]:
            raise RuntimeError(
                f"hidden{nr} has inconsistent hidden_size: got {have[1]}, expected {w_hh._array.shape[1]}"
            )


def _check_weights(w_ih: Any, w_hh: Tensor, gates: int) -> None:
    wanted = gates * w_hh._array.shape[1]
    for name, weight in (("weight_ih", w_ih), ("weight_hh", w_hh)):
        if weight._array.shape[0] != wanted:
            raise RuntimeError(
                f"{name} first dim must be {gates} * hidden_size = {wanted}, but got {weight._array.shape[0]}"
            )


@public
def lstm_cell(
    input: Tensor, hx: object, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> tuple[Any, Any]:
    """One step of long short-term memory: h and c."""
    if not isinstance(hx, (tuple, list)):
        raise must_be("tuple of Tensors", hx, "lstm_cell", "hx", 2)
    if len(hx) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    h, c = hx
    _check_weights(w_ih, w_hh, 4)
    _check_step(input, (h, c), w_ih, w_hh)
    gates = linear(input, w_ih, b_ih) + linear(h, w_hh, b_hh)
    let_in, forget, new, let_out = unsafe_chunk(gates, 4, 1)
    cell = sigmoid(forget) * c + sigmoid(let_in) * tanh(new)
    return sigmoid(let_out) * tanh(cell), cell


@public
def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of gated recurrent units."""
    _check_step(input, (hx,), w_ih, w_hh)
    _check_weights(w_ih, w_hh, 3)
    reset_x, update_x, new_x = unsafe_chunk(linear(input, w_ih, b_ih), 3, 1)
    reset_h, update_h, new_h = unsafe_chunk(linear(hx, w_hh, b_hh), 3, 1)
    reset, update = sigmoid(reset_h + reset_x), sigmoid(update_h + update_x)
    new = tanh(new_x + new_h * reset)
    return (hx - new) * update + new


def _plain_cell(input: Tensor, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Tensor:
    _check_weights(w_ih, w_hh, 1)
    _check_step(input, (hx,), w_ih, w_hh)
    return linear(hx, w_hh, b_hh) + linear(input, w_ih, b_ih)


@public
def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of tanh(W_ih x + b_ih + W_hh h + b_hh)."""
    return tanh(_plain_cell(input, hx, w_ih, w_hh, b_ih, b_hh))


@public
def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of relu(W_ih x + b_ih + W_hh h + b_hh)."""
    return relu(_plain_cell(input, hx, w_ih, w_hh, b_ih, b_hh))
