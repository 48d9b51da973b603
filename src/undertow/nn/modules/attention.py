"""Multi-head attention as a layer."""

from __future__ import annotations

from functools import partial
from typing import Any

from undertow._src.tensor.creation import empty
from undertow._src.types.aliases import Device
from undertow._src.types.dtypes import dtype
from undertow._tensor import Tensor
from undertow.nn import functional as F
from undertow.nn import init
from undertow.nn.modules.linear import NonDynamicallyQuantizableLinear
from undertow.nn.modules.module import Module
from undertow.nn.parameter import Parameter


class MultiheadAttention(Module):
    """Attention of queries over keys and values, in several parallel heads."""

    __module__ = "undertow.nn.modules.activation"  # PyTorch's module, which pickled files name
    __constants__ = ["batch_first"]

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
        device: Device = None, dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} "
                "instead"
            )
        super().__init__()
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads, self.dropout, self.batch_first = num_heads, dropout, batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        separate = {"q_proj_weight": embed_dim, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        if self._qkv_same_embed_dim:
            self.in_proj_weight = Parameter(empty((3 * embed_dim, embed_dim), **made))
            for name in separate:
                self.register_parameter(name, None)
        else:
            for name, width in separate.items():
                setattr(self, name, Parameter(empty((embed_dim, width), **made)))
            self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias", Parameter(empty(3 * embed_dim, **made)) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **made)
        if add_bias_kv:
            self.bias_k: Parameter | None = Parameter(empty((1, 1, embed_dim), **made))
            self.bias_v: Parameter | None = Parameter(empty((1, 1, embed_dim), **made))
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        weights = (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        for start, params in (
            (init.xavier_uniform_, weights),
            (partial(init.constant_, val=0.0), (self.in_proj_bias, self.out_proj.bias)),
            (init.xavier_normal_, (self.bias_k, self.bias_v)),
        ):
            for param in params:
                if param is not None:
                    start(param)

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("_qkv_same_embed_dim", True)  # missing in modules pickled before it existed
        super().__setstate__(state)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:  # fmt: skip
        turned = self.batch_first and query.dim() == 3
        if turned:
            query, key, value = self._time_first(query, key, value)
        output, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias,
            training=self.training, key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim, q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight, v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights, is_causal=is_causal,
        )  # fmt: skip
        return (output.transpose(1, 0), weights) if turned else (output, weights)

    def merge_masks(self, attn_mask: Tensor, key_padding_mask: Tensor, query: Tensor) -> tuple[Any, int | None]:
        """Merge the masks; return the mask and its kind: 1 padding only, 2 (batch, head, query, key), None no mask."""
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length = query.shape[:2]
        if attn_mask.dim() == 3:
            merged = attn_mask.view(batch, -1, length, length)
        else:
            merged = attn_mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            merged = merged + key_padding_mask.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1)
        return merged, 2

    @staticmethod
    def _time_first(query: Tensor, key: Tensor, value: Tensor) -> tuple[Any, Any, Any]:
        """Transpose the inputs. The same tensor given twice stays one, so that it is projected in one product."""
        if key is value:
            if query is key:
                query = query.transpose(1, 0)
                return query, query, query
            query, key = query.transpose(1, 0), key.transpose(1, 0)
            return query, key, key
        return query.transpose(1, 0), key.transpose(1, 0), value.transpose(1, 0)
