"""The Transformer and its parts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from undertow._src.arrays.device.array import values_known
from undertow._src.base.modes import is_grad_enabled
from undertow._src.base.sites import warn
from undertow._src.ops.arrange import triu
from undertow._src.ops.multi_head import additive_masks
from undertow._src.tensor.creation import full
from undertow._src.types.aliases import Device
from undertow._src.types.dtypes import dtype
from undertow._tensor import Tensor
from undertow.nn import functional as F
from undertow.nn import init
from undertow.nn.modules.activation import GELU, ReLU
from undertow.nn.modules.attention import MultiheadAttention
from undertow.nn.modules.container import ModuleList
from undertow.nn.modules.dropout import Dropout
from undertow.nn.modules.linear import Linear
from undertow.nn.modules.module import Module
from undertow.nn.modules.normalization import LayerNorm

Activation = str | Callable[[Any], Any]


def _generate_square_subsequent_mask(size: int, device: Device = None, dtype: dtype | None = None) -> Tensor:
    """Return a mask with -inf above the diagonal: each position attends to itself and to earlier ones."""
    return triu(full((size, size), float("-inf"), dtype=dtype, device=device), diagonal=1)


def _get_activation_fn(activation: str) -> Callable[[Any], Any]:
    found: Any = {"relu": F.relu, "gelu": F.gelu}.get(activation)
    if found is None:
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return found


def _get_clones(module: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


def _detect_is_causal_mask(mask: Tensor | None, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Whether a mask is the causal one, as the caller says or as its values show."""
    if is_causal is not None or mask is None:
        return bool(is_causal)
    if not values_known(mask._array):
        return False  # only a hint: without it the mask is used as it is
    causal = _generate_square_subsequent_mask(mask.size(-2) if size is None else size, dtype=mask.dtype)
    return mask.size() == causal.size() and bool((mask == causal).all())


def _get_seq_len(src: Tensor, batch_first: bool) -> int:
    return src.size(1) if src.dim() == 3 and batch_first else src.size(0)


class _Layer(Module):
    """What encoder and decoder layers share: attentions, a feed-forward block, a norm and a dropout for each of them."""

    __constants__ = ["norm_first"]
    _attentions: tuple[str, ...]
    self_attn: MultiheadAttention
    activation: Any
    norm1: LayerNorm
    norm2: LayerNorm
    dropout1: Dropout
    dropout2: Dropout

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: Device = None, dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        made: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        for name in self._attentions:
            attention = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **made)
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **made)
        self.norm_first = norm_first
        blocks = range(1, len(self._attentions) + 2)
        for block in blocks:
            setattr(self, f"norm{block}", LayerNorm(d_model, eps=layer_norm_eps, **made))
        for block in blocks:
            setattr(self, f"dropout{block}", Dropout(dropout))
        self._set_activation(activation)

    def _set_activation(self, activation: Activation) -> None:
        self.activation = _get_activation_fn(activation) if isinstance(activation, str) else activation

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "activation"):
            self.activation = F.relu

    def _feed_forward(self, x: Tensor, dropout: Dropout) -> Tensor:
        return dropout(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoderLayer(_Layer):
    """Self-attention, then a feed-forward block, each added to its input and normalized."""

    _attentions = ("self_attn",)

    def _set_activation(self, activation: Activation) -> None:
        super()._set_activation(activation)
        # PyTorch's numbers for activations with fused kernels; kept because tools read them.
        self.activation_relu_or_gelu = {F.relu: 1, F.gelu: 2}.get(self.activation, 0) or (
            1 if isinstance(self.activation, ReLU) else 2 if isinstance(self.activation, GELU) else 0
        )

    def forward(
        self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        padding, mask = additive_masks(src_key_padding_mask, src_mask, src, ("src_key_padding_mask", "src_mask"))
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), mask, padding, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, mask, padding, is_causal))
        return self.norm2(x + self._ff_block(x))

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        x = self.self_attn(
            x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, need_weights=False, is_causal=is_causal
        )[0]
        return self.dropout1(x)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self._feed_forward(x, self.dropout2)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention over the encoder's output, then a feed-forward block."""

    _attentions = ("self_attn", "multihead_attn")
    multihead_attn: MultiheadAttention
    norm3: LayerNorm
    dropout3: Dropout

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        x = tgt
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), memory, *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, memory, *other))
        return self.norm3(x + self._ff_block(x))

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        x = self.self_attn(
            x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal, need_weights=False
        )[0]
        return self.dropout1(x)

    def _mha_block(
        self, x: Tensor, mem: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        x = self.multihead_attn(
            x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal, need_weights=False
        )[0]
        return self.dropout2(x)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self._feed_forward(x, self.dropout3)


def _hindrance_to_skipping(layer: object) -> str:
    """Return why PyTorch would compute padded positions too; empty if it would skip them."""
    if not isinstance(layer, TransformerEncoderLayer):
        return "encoder_layer was not TransformerEncoderLayer"
    if layer.norm_first:
        return "encoder_layer.norm_first was True"
    attention = layer.self_attn
    if not attention.batch_first:
        return "encoder_layer.self_attn.batch_first was not True(use batch_first for better inference performance)"
    if attention.in_proj_bias is None:
        return "encoder_layer.self_attn was passed bias=False"
    if not layer.activation_relu_or_gelu:
        return "encoder_layer.activation_relu_or_gelu was not True"
    if layer.norm1.eps != layer.norm2.eps:
        return "encoder_layer.norm1.eps was not equal to encoder_layer.norm2.eps"
    return "encoder_layer.self_attn.num_heads is odd" if attention.num_heads % 2 else ""


class TransformerEncoder(Module):
    """A stack of encoder layers."""

    __constants__ = ["norm"]

    def __init__(
        self, encoder_layer: Module, num_layers: int, norm: Module | None = None, enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers, self.norm, self.enable_nested_tensor = num_layers, norm, enable_nested_tensor
        self.mask_check = mask_check
        hindrance = _hindrance_to_skipping(encoder_layer)
        self.use_nested_tensor = enable_nested_tensor and not hindrance
        if enable_nested_tensor and hindrance:
            warn(f"enable_nested_tensor is True, but self.use_nested_tensor is False because {hindrance}")

    def forward(
        self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:  # fmt: skip
        padding, mask = additive_masks(src_key_padding_mask, mask, src, ("src_key_padding_mask", "mask"))
        output = src
        causal = _detect_is_causal_mask(mask, is_causal, _get_seq_len(src, self.layers[0].self_attn.batch_first))
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=causal, src_key_padding_mask=padding)
        if mask is None and padding is not None and self._skips_padding(src, padding):
            output = output.masked_fill(padding.bool().unsqueeze(-1), 0.0)
        return output if self.norm is None else self.norm(output)

    def _skips_padding(self, src: Tensor, padding: Tensor) -> bool:
        """Whether PyTorch would skip padded positions, which leaves zeros there: never while training."""
        layer = self.layers[0]
        if not self.use_nested_tensor or layer.training or src.dim() != 3:
            return False
        if is_grad_enabled() and (src.requires_grad or any(param.requires_grad for param in layer.parameters())):
            return False
        padded = padding.bool()
        return not self.mask_check or not bool((padded[:, :-1] & ~padded[:, 1:]).any())  # all of it at the end


class TransformerDecoder(Module):
    """A stack of decoder layers."""

    __constants__ = ["norm"]

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        length = _get_seq_len(tgt, self.layers[0].self_attn.batch_first)
        options = {
            "tgt_mask": tgt_mask, "tgt_key_padding_mask": tgt_key_padding_mask,
            "tgt_is_causal": _detect_is_causal_mask(tgt_mask, tgt_is_causal, length),
            "memory_mask": memory_mask, "memory_key_padding_mask": memory_key_padding_mask,
            "memory_is_causal": memory_is_causal,
        }  # fmt: skip
        for layer in self.layers:
            tgt = layer(tgt, memory, **options)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """Encoder and decoder."""

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made)
            self.encoder = TransformerEncoder(TransformerEncoderLayer(*layer, **made), num_encoder_layers, norm)
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made)
            self.decoder = TransformerDecoder(TransformerDecoderLayer(*layer, **made), num_decoder_layers, norm)
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        self._check_sizes(src, tgt)
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        about_tgt = {
            "tgt_mask": tgt_mask, "tgt_key_padding_mask": tgt_key_padding_mask, "tgt_is_causal": tgt_is_causal,
        }  # fmt: skip
        about_memory = {
            "memory_mask": memory_mask, "memory_key_padding_mask": memory_key_padding_mask,
            "memory_is_causal": memory_is_causal,
        }  # fmt: skip
        return self.decoder(tgt, memory, **about_tgt, **about_memory)

    def _check_sizes(self, src: Tensor, tgt: Tensor) -> None:
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch) != tgt.size(batch):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if {src.size(-1), tgt.size(-1)} != {self.d_model}:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Device = None, dtype: dtype | None = None) -> Tensor:
        """Return the causal mask: -inf above the diagonal, zero elsewhere."""
        return _generate_square_subsequent_mask(sz, device, dtype)

    def _reset_parameters(self) -> None:
        for param in self.parameters():
            if param.dim() > 1:
                init.xavier_uniform_(param)
