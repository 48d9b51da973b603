"""Recurrent layers: RNN, LSTM, GRU and their cells."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any

from undertow._core import TensorCore
from undertow.autograd.apply import apply
from undertow.creation import empty, zeros
from undertow.nn import init
from undertow.nn.modules.module import Module
from undertow.nn.parameter import Parameter
from undertow.nn.utils.rnn import PackedSequence, sizes_of
from undertow.ops.recurrent import (
    gru_layer,
    lstm_layer,
    relu_layer,
    stacked,
    tanh_layer,
    transposed_output,
)
from undertow.rules import rnn as rules

_LAYERS = {"LSTM": lstm_layer, "GRU": gru_layer, "RNN_TANH": tanh_layer, "RNN_RELU": relu_layer}
_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


class RNNBase(Module):
    """A stack of recurrent layers, in one or both directions."""

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_options(mode, hidden_size, num_layers, dropout, proj_size)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        wide = _GATES[mode] * hidden_size
        output = proj_size or hidden_size
        directions = 2 if bidirectional else 1
        for layer in range(num_layers):
            given = input_size if layer == 0 else output * directions
            for suffix in self._suffixes(layer):
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (wide, given), "weight_hh": (wide, output)}
                if bias:
                    shapes |= {"bias_ih": (wide,), "bias_hh": (wide,)}
                if proj_size:
                    shapes |= {"weight_hr": (proj_size, hidden_size)}
                for name, shape in shapes.items():
                    setattr(self, name + suffix, Parameter(empty(shape, device=device, dtype=dtype)))
        self.reset_parameters()

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}", f"_l{layer}_reverse"][: 2 if self.bidirectional else 1]

    def reset_parameters(self) -> None:
        """Draws all weights uniformly from +-1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing to do: weights are used where they are."""

    @property
    def all_weights(self) -> list[list[Any]]:
        """The weights of each layer and direction."""
        return [
            [getattr(self, name + suffix) for name in self._weight_names()]
            for layer in range(self.num_layers)
            for suffix in self._suffixes(layer)
        ]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [
            name + suffix
            for layer in range(self.num_layers)
            for suffix in self._suffixes(layer)
            for name in self._weight_names()
        ]

    @property
    def _flat_weights(self) -> list[Any]:
        return [getattr(self, name) for name in self._flat_weights_names]

    def _weight_names(self) -> list[str]:
        names = ["weight_ih", "weight_hh"] + (["bias_ih", "bias_hh"] if self.bias else [])
        return names + (["weight_hr"] if self.proj_size else [])

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size != 0:
            text += f", proj_size={self.proj_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if self.batch_first is not False:
            text += f", batch_first={self.batch_first}"
        if self.dropout != 0:
            text += f", dropout={self.dropout}"
        if self.bidirectional is not False:
            text += f", bidirectional={self.bidirectional}"
        return text

    # --- running

    def _expected_hidden_size(self, batch: int, size: int) -> tuple[int, int, int]:
        return (self.num_layers * (2 if self.bidirectional else 1), batch, size)

    def _check_state(self, state: Any, expected: tuple[int, int, int], name: str) -> None:
        if tuple(state.shape) != expected:
            raise RuntimeError(f"Expected {name} size {expected}, got {list(state.shape)}")

    def _initial(self, data: Any, batch: int, hx: Any) -> tuple[Any, ...]:
        raise AssertionError("every recurrent layer has its own state")

    def _weights(self, suffix: str) -> tuple[Any, ...]:
        """The weights of one direction of one layer, None for those it lacks."""
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        return tuple([getattr(self, name + suffix) if hasattr(self, name + suffix) else None for name in names])

    def forward(self, input: Any, hx: Any = None) -> Any:
        packed = isinstance(input, PackedSequence)
        if packed:
            data, sizes, order, back = input.data, sizes_of(input.batch_sizes), input.sorted_indices, input.unsorted_indices
            batched = True
            batch = sizes[0]
            self._check_input(data)
            hx = self._permuted(hx, order)
        else:
            data, hx, batched = self._as_time_first(input, hx)
            self._check_input(data)
            length, batch = data.shape[0], data.shape[1]
            sizes, back = (batch,) * length, None
        state = self._initial(data, batch, hx)
        data, last = self._run(data, state, sizes)
        if packed:
            output: Any = PackedSequence(data, input.batch_sizes, input.sorted_indices, back)
            return output, self._finished(last, back, True)
        if not batched:
            data = data.squeeze(1)
        elif self.batch_first:
            data = transposed_output(data, self.mode.lower())
        return data, self._finished(last, None, batched)

    def _as_time_first(self, input: Any, hx: Any) -> tuple[Any, Any, bool]:
        """Time-first batched input and state, and whether the input came as a batch."""
        if input.dim() not in (2, 3):
            kind = "RNN" if self.mode.startswith("RNN") else self.mode
            tensor = " tensor" if kind == "RNN" else ""
            raise ValueError(f"{kind}: Expected input to be 2D or 3D, got {input.dim()}D{tensor} instead")
        batched = input.dim() == 3
        self._check_state_rank(hx, batched)
        if not batched:
            return input.unsqueeze(1), self._map_state(hx, lambda part: part.unsqueeze(1)), False
        return (input.transpose(0, 1) if self.batch_first else input), hx, True

    def _check_state_rank(self, hx: Any, batched: bool) -> None:
        if hx is not None and hx.dim() != (3 if batched else 2):
            kind = "batched 3-D" if batched else "unbatched 2-D"
            raise RuntimeError(
                f"For {kind} input, hx should also be {3 if batched else 2}-D but got {hx.dim()}-D tensor"
            )

    def _check_input(self, data: Any) -> None:
        weight = self.weight_ih_l0
        if data.dtype != weight.dtype:
            raise ValueError(
                f"RNN input dtype ({data.dtype}) does not match weight dtype ({weight.dtype}). Convert input: "
                f"input.to({weight.dtype}), or convert model: model.to({data.dtype})"
            )
        if data.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {data.shape[-1]}"
            )

    def _map_state(self, hx: Any, change: Any) -> Any:
        if hx is None:
            return None
        return tuple([change(part) for part in hx]) if isinstance(hx, tuple) else change(hx)

    def _permuted(self, hx: Any, order: Any) -> Any:
        return hx if order is None else self._map_state(hx, lambda part: part.index_select(1, order))

    def _run(self, data: Any, state: tuple[Any, ...], sizes: tuple[int, ...]) -> tuple[Any, list[Any]]:
        weights = [self._weights(suffix) for layer in range(self.num_layers) for suffix in self._suffixes(layer)]
        chance = self.dropout if self.training else 0.0
        return stacked(_LAYERS[self.mode], data, state, weights, sizes, self.bidirectional, chance)

    def _finished(self, last: list[Any], back: Any, batched: bool) -> Any:
        """The last state as the caller gave it: order, rank, and a tuple only for the LSTM."""
        state: Any = tuple(last) if len(last) > 1 else last[0]
        if back is not None:
            state = self._permuted(state, back)
        return state if batched else self._map_state(state, lambda part: part.squeeze(1))


def _check_options(mode: str, hidden_size: Any, num_layers: Any, dropout: Any, proj_size: int) -> None:
    if not isinstance(dropout, numbers.Number) or not 0 <= dropout <= 1 or isinstance(dropout, bool):  # type: ignore[operator]
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
        )
    if dropout > 0 and num_layers == 1:  # type: ignore[operator]
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
            f"greater than 1, but got dropout={dropout} and num_layers={num_layers}",
            stacklevel=4,
        )
    if not isinstance(hidden_size, int):
        raise TypeError(f"hidden_size should be of type int, got: {type(hidden_size).__name__}")
    if hidden_size <= 0:
        raise ValueError("hidden_size must be greater than zero")
    if num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


class _OneState(RNNBase):
    """Layers whose state is one tensor."""

    def __init__(self, mode: str, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__(mode, *args, **kwargs)

    def _initial(self, data: Any, batch: int, hx: Any) -> tuple[Any, ...]:
        expected = self._expected_hidden_size(batch, self.hidden_size)
        if hx is None:
            return (zeros(expected, dtype=data.dtype),)
        self._check_state(hx, expected, "hidden")
        return (hx,)


class RNN(_OneState):
    """h' = tanh (or relu) of W_ih x + b_ih + W_hh h + b_hh."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if len(args) > 3:
            self_nonlinearity, args = args[3], args[:3] + args[4:]
        else:
            self_nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if self_nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{self_nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__("RNN_TANH" if self_nonlinearity == "tanh" else "RNN_RELU", *args, **kwargs)
        self.nonlinearity = self_nonlinearity


class GRU(_OneState):
    """Gated recurrent units."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("GRU", *args, **kwargs)


class LSTM(RNNBase):
    """Long short-term memory; its state is the pair (h, c)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def _check_state_rank(self, hx: Any, batched: bool) -> None:
        if hx is None:
            return
        if isinstance(hx, TensorCore):
            hx = (hx[0], hx[1])  # type: ignore[index]
        rank = 3 if batched else 2
        if hx[0].dim() != rank or hx[1].dim() != rank:
            kind = "batched 3-D" if batched else "unbatched 2-D"
            raise RuntimeError(
                f"For {kind} input, hx and cx should also be {rank}-D but got ({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
            )

    def _initial(self, data: Any, batch: int, hx: Any) -> tuple[Any, ...]:
        expected_h = self._expected_hidden_size(batch, self.proj_size or self.hidden_size)
        expected_c = self._expected_hidden_size(batch, self.hidden_size)
        if hx is None:
            return zeros(expected_h, dtype=data.dtype), zeros(expected_c, dtype=data.dtype)
        self._check_state(hx[0], expected_h, "hidden[0]")
        self._check_state(hx[1], expected_c, "hidden[1]")
        return tuple(hx)


# --- cells: one step


class RNNCellBase(Module):
    """One step of a recurrent layer, as a module of its own."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        wide = num_chunks * hidden_size
        self.weight_ih = Parameter(empty((wide, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(empty((wide, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(empty((wide,), device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all weights uniformly from +-1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if "bias" in self.__dict__ and self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else text + f", nonlinearity={nonlinearity}"

    def _rows(self, input: Any, *states: Any) -> tuple[Any, list[Any], bool]:
        """Input and states as batches, zeros for states that were not given."""
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        for nr, state in enumerate(states):
            if state is not None and state.dim() not in (1, 2):
                which = "hidden" if len(states) == 1 else f"hx[{nr}]"
                raise ValueError(f"{name}: Expected {which} to be 1D or 2D, got {state.dim()}D instead")
        batched = input.dim() == 2
        rows = input if batched else input.unsqueeze(0)
        if rows.shape[1] != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {rows.shape[1]} expected {self.input_size}")
        ready = []
        for nr, state in enumerate(states):
            if state is None:
                ready.append(zeros((rows.shape[0], self.hidden_size), dtype=rows.dtype))
                continue
            whole = state if state.dim() == 2 else state.unsqueeze(0)
            if whole.shape[0] != rows.shape[0]:
                raise RuntimeError(
                    f"Input batch size {rows.shape[0]} doesn't match hidden{nr} batch size {whole.shape[0]}"
                )
            if whole.shape[1] != self.hidden_size:
                raise RuntimeError(
                    f"hidden{nr} has inconsistent hidden_size: got {whole.shape[1]}, expected {self.hidden_size}"
                )
            ready.append(whole)
        return rows, ready, batched

    def _weights(self) -> tuple[Any, ...]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh


class RNNCell(RNNCellBase):
    """One step of RNN."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None) -> Any:
        rows, (state,), batched = self._rows(input, hx)
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        relu = self.nonlinearity == "relu"
        output, _ = apply(
            rules.rnn, rows, state, *self._weights(), relu=relu, batch_sizes=(rows.shape[0],), reverse=False
        )
        return output if batched else output.squeeze(0)


class GRUCell(RNNCellBase):
    """One step of GRU."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> Any:
        rows, (state,), batched = self._rows(input, hx)
        output, _ = apply(rules.gru, rows, state, *self._weights(), batch_sizes=(rows.shape[0],), reverse=False)
        return output if batched else output.squeeze(0)


class LSTMCell(RNNCellBase):
    """One step of LSTM; gives the pair (h, c)."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> Any:
        rows, (h, c), batched = self._rows(input, *(hx if hx is not None else (None, None)))
        output, _, cell = apply(
            rules.lstm, rows, h, c, *self._weights(), None, batch_sizes=(rows.shape[0],), reverse=False
        )
        return (output, cell) if batched else (output.squeeze(0), cell.squeeze(0))
