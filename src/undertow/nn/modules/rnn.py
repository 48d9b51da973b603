"""Recurrent layers: RNN, LSTM, GRU and their cells."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any, Self

from undertow._src.base.sites import warn
from undertow._src.ops.recurrent import (
    gru,
    gru_cell,
    gru_layer,
    lstm,
    lstm_cell,
    lstm_layer,
    relu_layer,
    rnn_relu,
    rnn_relu_cell,
    rnn_tanh,
    rnn_tanh_cell,
    stacked,
    tanh_layer,
    transposed_output,
)  # fmt: skip
from undertow._src.overrides import torch_function
from undertow._src.tensor.creation import empty, zeros
from undertow._src.types.aliases import Device
from undertow._src.types.dtypes import dtype
from undertow._tensor import Tensor
from undertow.nn import init
from undertow.nn.modules.module import Module
from undertow.nn.parameter import Parameter
from undertow.nn.utils.rnn import PackedSequence, sizes_of

_LAYERS = {"LSTM": lstm_layer, "GRU": gru_layer, "RNN_TANH": tanh_layer, "RNN_RELU": relu_layer}
_FUNCTIONS = {"LSTM": lstm, "GRU": gru, "RNN_TANH": rnn_tanh, "RNN_RELU": rnn_relu}
_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}

_LISTS = ("_flat_weights_names", "_all_weights", "_flat_weights")  # computed on demand here


def _apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """Return the slices of a tensor along a dim, permuted."""
    return tensor.index_select(dim, permutation)


class RNNBase(Module):
    """A stack of recurrent layers, in one or both directions."""

    __constants__ = [
        "mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional", "proj_size",
    ]  # fmt: skip

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: Device = None, dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.mode, self.input_size, self.hidden_size = mode, input_size, hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        _check_kinds(input_size, bias, batch_first)
        _check_options(mode, hidden_size, num_layers, dropout, proj_size)
        if mode not in _GATES:
            raise ValueError(f"Unrecognized RNN mode: {mode}")
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
        """Draw all weights uniformly from +-1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Do nothing: weights need no contiguous copy."""

    @property
    def all_weights(self) -> list[list[Any]]:
        """Return the weights of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _all_weights(self) -> list[list[str]]:
        """Return the names of the weights of each layer and direction."""
        names = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if self.bias else [])]
        names += ["weight_hr"] if self.proj_size else []
        return [
            [name + suffix for name in names] for layer in range(self.num_layers) for suffix in self._suffixes(layer)
        ]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        """Return the weights that the layers compute with: the parameters, unless a program replaced them."""
        given = self.__dict__.get("_given_weights")
        return [getattr(self, name) for name in self._flat_weights_names] if given is None else given

    @_flat_weights.setter
    def _flat_weights(self, weights: list[Any]) -> None:
        self.__dict__["_given_weights"] = weights

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if "_given_weights" in self.__dict__ and name in self._flat_weights_names:
            del self.__dict__["_given_weights"]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        self.__dict__.pop("_given_weights", None)
        return super()._apply(fn, recurse)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with PyTorch's lists of weights, which it pickles."""
        lists = {name: getattr(self, name) for name in _LISTS}
        return {name: value for name, value in self.__dict__.items() if name != "_given_weights"} | lists

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = {name: value for name, value in state.items() if name not in _LISTS}
        super().__setstate__({"proj_size": 0, **state})

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

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Return the shape of h for an input that is packed (with batch sizes) or has a batch dim."""
        return self._state_shape(input, batch_sizes, self.proj_size or self.hidden_size)

    def _state_shape(self, input: Tensor, batch_sizes: Tensor | None, size: int) -> tuple[int, int, int]:
        batch = input.size(0 if self.batch_first else 1) if batch_sizes is None else int(batch_sizes[0])
        return (self.num_layers * (2 if self.bidirectional else 1), batch, size)

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raise for an input of the wrong dtype or size."""
        weight = self.weight_ih_l0
        if input.dtype != weight.dtype:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). Pass "
                f"input.to({weight.dtype}), or make the layer .to({input.dtype})"
            )
        wanted = 3 if batch_sizes is None else 2
        if input.dim() != wanted:
            raise RuntimeError(f"input must have {wanted} dimensions, got {input.dim()}")
        if input.size(-1) != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def check_hidden_size(
        self, hx: Tensor, expected_hidden_size: tuple[int, int, int], msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """Raise for a state of a different size."""
        if tuple(hx.shape) != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: Tensor, batch_sizes: Tensor | None) -> None:
        """Raise for an input or a state that does not fit."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor) -> Any:
        """Return the state with its batch permuted."""
        if permutation is None:
            return hx
        return self._map_state(hx, lambda part: _apply_permutation(part, permutation))

    def _initial_state(self, input: Tensor, batch_sizes: Tensor | None) -> Tensor:
        """Return the initial state, zeros."""
        return zeros(self.get_expected_hidden_size(input, batch_sizes), dtype=input.dtype, device=input.device)

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        if isinstance(input, PackedSequence):
            data, batch_sizes, order, back = input
            hx = self._initial_state(data, batch_sizes) if hx is None else self.permute_hidden(hx, order)
            self.check_forward_args(data, hx, batch_sizes)
            found = self._offered(data, hx, batch_sizes)
            output, last = self._run(data, hx, sizes_of(batch_sizes)) if found is None else found
            return PackedSequence(output, batch_sizes, order, back), self.permute_hidden(last, back)
        batched = self._is_batched(input, hx)
        if not batched:
            input = input.unsqueeze(0 if self.batch_first else 1)
            hx = self._map_state(hx, lambda part: part.unsqueeze(1))
        if hx is None:
            hx = self._initial_state(input, None)
        self.check_forward_args(input, hx, None)
        found = self._offered(input, hx, None)
        if found is not None:
            output, last = found
            return found if batched else (output.squeeze(1), self._map_state(last, lambda part: part.squeeze(1)))
        data = input.transpose(0, 1) if self.batch_first else input
        length, batch = data.shape[:2]
        if not length:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        output, last = self._run(data, hx, (batch,) * length)
        if not batched:
            return output.squeeze(1), self._map_state(last, lambda part: part.squeeze(1))
        return (transposed_output(output, self.mode.lower()) if self.batch_first else output), last

    def _is_batched(self, input: Tensor, hx: Any) -> bool:
        if input.dim() not in (2, 3):
            kind = "RNN" if self.mode.startswith("RNN") else self.mode
            tensor = " tensor" if kind == "RNN" else ""
            raise ValueError(f"{kind}: Expected input to be 2D or 3D, got {input.dim()}D{tensor} instead")
        batched = input.dim() == 3
        if hx is not None:
            self._check_state_rank(hx, "batched 3-D" if batched else "unbatched 2-D", input.dim())
        return batched

    def _check_state_rank(self, hx: Tensor, kind: str, rank: int) -> None:
        if hx.dim() != rank:
            raise RuntimeError(f"For {kind} input, hx should also be {rank}-D but got {hx.dim()}-D tensor")

    def _map_state(self, hx: Any, change: Callable[[Tensor], Tensor]) -> Any:
        if hx is None:
            return None
        return tuple([change(part) for part in hx]) if isinstance(hx, tuple) else change(hx)

    def _offered(self, input: Tensor, hx: Any, batch_sizes: Tensor | None) -> Any:
        """Return the result of a `__torch_function__` override of this layer's function, or None if there is none."""
        state, weights = tuple(hx) if self.mode == "LSTM" else (hx,), self._flat_weights
        if not torch_function.has_override((input, *state, *weights)):
            return None
        given = state if self.mode == "LSTM" else hx
        how = (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        if batch_sizes is None:
            output, *last = _FUNCTIONS[self.mode](input, given, weights, *how, self.batch_first)
        else:
            output, *last = _FUNCTIONS[self.mode](input, batch_sizes, given, weights, *how)
        return output, tuple(last) if self.mode == "LSTM" else last[0]

    def _run(self, data: Tensor, hx: Any, sizes: tuple[int, ...]) -> tuple[Any, Any]:
        """Return outputs and last state; data has time first, or is packed."""
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        found = dict(zip(self._flat_weights_names, self._flat_weights))
        weights = [
            tuple([found.get(kind + suffix) for kind in kinds])
            for layer in range(self.num_layers)
            for suffix in self._suffixes(layer)
        ]
        chance = self.dropout if self.training else 0.0
        state = tuple(hx) if self.mode == "LSTM" else (hx,)
        output, last = stacked(_LAYERS[self.mode], data, state, weights, sizes, self.bidirectional, chance)
        return output, tuple(last) if self.mode == "LSTM" else last[0]


def _check_kinds(input_size: object, bias: object, batch_first: object) -> None:
    for name, flag in (("bias", bias), ("batch_first", batch_first)):
        if not isinstance(flag, bool):
            raise TypeError(f"{name} should be of type bool, got: {type(flag).__name__}")
    if not isinstance(input_size, int):
        raise TypeError(f"input_size should be of type int, got: {type(input_size).__name__}")
    if input_size <= 0:
        raise ValueError("input_size must be greater than zero")


def _check_options(mode: str, hidden_size: object, num_layers: int, dropout: object, proj_size: int) -> None:
    if not isinstance(dropout, numbers.Number) or not 0 <= dropout <= 1 or isinstance(dropout, bool):  # type: ignore[operator]
        raise ValueError("dropout should be a number in range [0, 1] representing how likely an element is set to zero")
    if dropout > 0 and num_layers == 1:  # type: ignore[operator]
        warn(
            "dropout option adds dropout after all but last recurrent layer, so with one layer it does nothing; "
            f"dropout={dropout} and num_layers={num_layers} were given"
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


class RNN(_OneState):
    """h' = tanh (or relu) of W_ih x + b_ih + W_hh h + b_hh."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if len(args) > 3:
            nonlinearity, args = args[3], args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__("RNN_TANH" if nonlinearity == "tanh" else "RNN_RELU", *args, **kwargs)
        self.nonlinearity = nonlinearity


class GRU(_OneState):
    """Gated recurrent units."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("GRU", *args, **kwargs)


class LSTM(RNNBase):
    """Long short-term memory; its state is the pair (h, c)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Return the shape of c, which is not projected."""
        return self._state_shape(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden: Tensor, batch_sizes: Tensor | None) -> None:
        """Raise for an input or a state that does not fit."""
        self.check_input(input, batch_sizes)
        sizes = self.get_expected_hidden_size(input, batch_sizes), self.get_expected_cell_size(input, batch_sizes)
        for nr, size in enumerate(sizes):
            self.check_hidden_size(hidden[nr], size, f"Expected hidden[{nr}] size {{}}, got {{}}")

    def _initial_state(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        return (
            zeros(self.get_expected_hidden_size(input, batch_sizes), dtype=input.dtype, device=input.device),
            zeros(self.get_expected_cell_size(input, batch_sizes), dtype=input.dtype, device=input.device),
        )

    def _check_state_rank(self, hx: Any, kind: str, rank: int) -> None:
        if hx[0].dim() != rank or hx[1].dim() != rank:
            raise RuntimeError(
                f"For {kind} input, hx and cx should also be {rank}-D but got ({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
            )


# --- cells: one step


class RNNCellBase(Module):
    """One step of a recurrent layer."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Device = None,
        dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        wide = num_chunks * hidden_size
        self.weight_ih = Parameter(empty((wide, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(empty((wide, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(empty((wide,), device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights uniformly from +-1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if "bias" in self.__dict__ and self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else text + f", nonlinearity={nonlinearity}"

    def _batched(self, input: Tensor, state: Tensor | None = None, *, which: str = "hidden") -> bool:
        """Whether the input has a batch dim; input and state may have one or not."""
        for name, given in (("input", input), (which, state)):
            if given is not None and given.dim() not in (1, 2):
                raise ValueError(f"{type(self).__name__}: Expected {name} to be 1D or 2D, got {given.dim()}D instead")
        return input.dim() == 2

    def _step(self, function: Callable[..., Tensor], input: Tensor, hx: Any) -> Any:
        """Run one step of a function of an input and one state; no state means zeros."""
        batched = self._batched(input, hx)
        rows = input if batched else input.unsqueeze(0)
        if hx is None:
            state = zeros((rows.shape[0], self.hidden_size), dtype=rows.dtype, device=rows.device)
        else:
            state = hx if batched else hx.unsqueeze(0)
        output = function(rows, state, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return output if batched else output.squeeze(0)


class RNNCell(RNNCellBase):
    """One step of RNN."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device: Device = None,
        dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Any = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(rnn_tanh_cell if self.nonlinearity == "tanh" else rnn_relu_cell, input, hx)


class GRUCell(RNNCellBase):
    """One step of GRU."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Device = None, dtype: dtype | None = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Any = None) -> Tensor:
        return self._step(gru_cell, input, hx)


class LSTMCell(RNNCellBase):
    """One step of LSTM; returns the pair (h, c)."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Device = None, dtype: dtype | None = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        batched = self._batched(input)
        for nr, state in enumerate(hx if hx is not None else ()):
            self._batched(input, state, which=f"hx[{nr}]")
        rows = input if batched else input.unsqueeze(0)
        if hx is None:
            nothing = zeros((rows.shape[0], self.hidden_size), dtype=rows.dtype, device=rows.device)
            states: Any = (nothing, nothing)
        else:
            states = hx if batched else (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        h, c = lstm_cell(rows, states, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return (h, c) if batched else (h.squeeze(0), c.squeeze(0))


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """Call `tensor.index_select` (a deprecated name)."""
    warn("`apply_permutation` is deprecated, please use `tensor.index_select(dim, permutation)` instead", FutureWarning)
    return _apply_permutation(tensor, permutation, dim)
