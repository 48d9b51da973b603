"""Multi-head attention from its weights: projections in, attention in each head, projection out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.base.sites import warn
from undertow._src.ops.activation import functional_softmax
from undertow._src.ops.addmm import baddbmm
from undertow._src.ops.attention import scaled_dot_product_attention
from undertow._src.ops.dropout import dropout
from undertow._src.ops.join import cat
from undertow._src.ops.matmul import bmm, linear
from undertow._src.ops.pad import pad
from undertow._src.ops.public import public
from undertow._src.tensor.core import wrap
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._tensor import Tensor


def _check_shapes(query: Tensor, key: Tensor, value: Tensor, padding: Any, mask: Any, heads: int) -> bool:
    """Whether the inputs have a batch dim."""
    batched = query.dim() == 3
    if query.dim() not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor"
        )
    kind = "batched (3-D)" if batched else "unbatched (2-D)"
    if key.dim() != query.dim() or value.dim() != query.dim():
        raise AssertionError(
            f"For {kind} `query`, expected `key` and `value` to be {query.dim()}-D but found {key.dim()}-D and "
            f"{value.dim()}-D tensors respectively"
        )
    if padding is not None and padding.dim() != query.dim() - 1:
        raise AssertionError(
            f"For {kind} `query`, expected `key_padding_mask` to be `None` or {query.dim() - 1}-D but found "
            f"{padding.dim()}-D tensor instead"
        )
    if mask is not None and mask.dim() not in (2, 3):
        raise AssertionError(f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D, not {mask.dim()}-D")
    if mask is not None and not batched and mask.dim() == 3:
        expected = (heads, query.size(0), key.size(0))
        if tuple(mask.size()) != expected:
            raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {mask.size()}")
    return batched


def additive_masks(
    padding: Any, mask: Any, like: Any, names: tuple[str, str] = ("key_padding_mask", "attn_mask")
) -> tuple[Any, Any]:
    """Both masks as what is added to the scores. PyTorch wants them of one dtype."""
    added = _additive(padding, names[0], like)
    if padding is not None and mask is not None and padding.dtype != mask.dtype:
        warn(f"Support for mismatched {names[0]} and {names[1]} is deprecated. Use same type for both instead.")
    return added, _additive(mask, names[1], like)


def _additive(mask: Tensor | None, name: str, like: Tensor) -> Any:
    """Return 0 and −∞ for a boolean mask, in which True means masked."""
    if mask is None:
        return None
    kind = DTYPE_OF[mask._array.dtype]
    if kind.category == 0:
        return wrap(np.where(mask._array, -np.inf, 0).astype(like._array.dtype))
    if not kind.is_floating_point:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    return mask


def in_projection_packed(
    query: Tensor, key: Tensor, value: Tensor, weight: Tensor, bias: Tensor | None
) -> tuple[Any, Any, Any]:
    """Query, key and value through one weight that holds their three projections one above the other."""
    width = query.size(-1)
    if key is value:
        if query is key:
            joint = linear(query, weight, bias)
            parts = joint.unflatten(-1, (3, width)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
            return parts[0], parts[1], parts[2]
        own, shared = weight.split([width, width * 2])
        own_bias, shared_bias = (None, None) if bias is None else bias.split([width, width * 2])
        projected = linear(query, own, own_bias)
        joint = linear(key, shared, shared_bias)
        parts = joint.unflatten(-1, (2, width)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
        return projected, parts[0], parts[1]
    weights = weight.chunk(3)
    biases = (None, None, None) if bias is None else bias.chunk(3)
    first, second, third = (linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))
    return first, second, third


@public
def multi_head_attention_forward(
    query: Any, key: Any, value: Any, embed_dim_to_check: int, num_heads: int, in_proj_weight: Any, in_proj_bias: Any,
    bias_k: Any, bias_v: Any, add_zero_attn: bool, dropout_p: float, out_proj_weight: Any, out_proj_bias: Any,
    training: bool = True, key_padding_mask: Any = None, need_weights: bool = True, attn_mask: Any = None,
    use_separate_proj_weight: bool = False, q_proj_weight: Any = None, k_proj_weight: Any = None,
    v_proj_weight: Any = None, static_k: Any = None, static_v: Any = None, average_attn_weights: bool = True,
    is_causal: bool = False,
) -> Any:  # fmt: skip
    """Return what `nn.MultiheadAttention` computes: the attended values, and the weights (or None) if asked for."""
    batched = _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, batch, width = query.size()
    source = key.size(0)
    key_padding_mask, attn_mask = additive_masks(key_padding_mask, attn_mask, query)
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None  # the hint says it all
    else:
        is_causal = is_causal and key_padding_mask is None
    if width != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}")
    head = width // num_heads
    if head * num_heads != width:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {num_heads}")
    q, k, v = _projected(
        query, key, value, in_proj_weight, in_proj_bias, use_separate_proj_weight,
        (q_proj_weight, k_proj_weight, v_proj_weight),
    )  # fmt: skip
    attn_mask = _mask_of_heads(attn_mask, length, source, batch * num_heads)
    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError("bias cannot be added to static key or value.")
        k, v = cat([k, bias_k.repeat(1, batch, 1)]), cat([v, bias_v.repeat(1, batch, 1)])
        attn_mask, key_padding_mask = _one_wider(attn_mask), _one_wider(key_padding_mask)
    q = q.view(length, batch * num_heads, head).transpose(0, 1)
    k = _heads(k, static_k, "static_k", batch, num_heads, head)
    v = _heads(v, static_v, "static_v", batch, num_heads, head)
    if add_zero_attn:
        nothing = k.new_zeros((batch * num_heads, 1, head))
        k, v = cat([k, nothing], dim=1), cat([v, nothing], dim=1)
        attn_mask, key_padding_mask = _one_wider(attn_mask), _one_wider(key_padding_mask)
    source = k.size(1)
    if key_padding_mask is not None:
        attn_mask = _with_padding(attn_mask, key_padding_mask, batch, num_heads, source)
    chance = dropout_p if training else 0.0
    if not need_weights:
        attended = _attended(q, k, v, attn_mask, chance, is_causal, num_heads)
        output = _by_batch(linear(attended, out_proj_weight, out_proj_bias), length, batch)
        return (output, None) if batched else (output.squeeze(1), None)
    if is_causal and attn_mask is None:
        raise AssertionError("FIXME: is_causal not implemented for need_weights")
    weights = _weights(q, k, attn_mask, chance)
    attended = bmm(weights, v).transpose(0, 1).reshape(length * batch, width)
    output = _by_batch(linear(attended, out_proj_weight, out_proj_bias), length, batch)
    weights = weights.view(batch, num_heads, length, source)
    if average_attn_weights:
        weights = weights.mean(dim=1)
    return (output, weights) if batched else (output.squeeze(1), weights.squeeze(0))


def _by_batch(rows: Tensor, length: int, batch: int) -> Tensor:
    """Rows as (position, example, feature); there may be none."""
    return rows.view(length, batch, rows.size(1))


def _attended(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, chance: float, is_causal: bool, num_heads: int
) -> Tensor:
    """Return the attended values alone, row by row, the heads of each side by side."""
    rows, length, head = q.size()
    source, batch = k.size(1), rows // num_heads
    if mask is not None:
        one = mask.size(0) == 1 and mask.dim() == 3
        mask = mask.unsqueeze(0) if one else mask.view(batch, num_heads, -1, source)
    q = q.view(batch, num_heads, length, head)
    k, v = k.view(batch, num_heads, source, head), v.view(batch, num_heads, source, head)
    attended = scaled_dot_product_attention(q, k, v, mask, chance, is_causal)
    return attended.permute(2, 0, 1, 3).reshape(batch * length, num_heads * head)


def _weights(q: Tensor, k: Tensor, mask: Any, chance: float) -> Tensor:
    """Return the attention weights; dropout is applied to them."""
    scaled, keys = q * math.sqrt(1.0 / q.size(2)), k.transpose(-2, -1)
    weights = functional_softmax(bmm(scaled, keys) if mask is None else baddbmm(mask, scaled, keys), dim=-1)
    return dropout(weights, p=chance) if chance > 0 else weights


def _with_padding(mask: object, padding: Any, batch: int, num_heads: int, source: int) -> Any:
    """Return an additive mask of every head that also has the padding of each sequence in it."""
    for dim, (wanted, given) in enumerate(zip((batch, source), padding.shape, strict=True)):
        if wanted != given:
            raise AssertionError(f"Expected key_padded_mask.shape[{dim}] to be {wanted}, but got {given}")
    spread = padding.view(batch, 1, 1, source).expand(-1, num_heads, -1, -1).reshape(batch * num_heads, 1, source)
    return spread if mask is None else mask + spread


def _projected(
    query: Any, key: Any, value: Any, weight: Tensor | None, bias: Any, separate: bool, weights: tuple[Any, Any, Any]
) -> tuple[Any, Any, Any]:
    if separate:
        if tuple(key.shape[:2]) != tuple(value.shape[:2]):
            raise AssertionError(
                f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
            )
        for name, given in zip("qkv", weights, strict=True):
            if given is None:
                raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")
        biases = (None, None, None) if bias is None else bias.chunk(3)
        _check_projections(query, key, value, weights, biases)
        first, second, third = (linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))
        return first, second, third
    if tuple(key.shape) != tuple(value.shape):
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
    if weight is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    return in_projection_packed(query, key, value, weight, bias)


def _check_projections(query: Any, key: Any, value: Any, weights: Any, biases: Any) -> None:
    width = query.size(-1)
    named = zip(("query", "key", "value"), (query, key, value), weights, biases, strict=True)
    for name, x, weight, bias in named:
        for what, given, wanted in (("weights", weight, (width, x.size(-1))), ("bias", bias, (width,))):
            if given is not None and tuple(given.shape) != wanted:
                raise AssertionError(f"expecting {name} {what} shape of {wanted}, but got {given.shape}")


def _mask_of_heads(mask: Any, length: int, source: int, heads: int) -> Any:
    if mask is None:
        return None
    if mask.dim() == 2:
        if tuple(mask.shape) != (length, source):
            raise RuntimeError(f"The shape of the 2D attn_mask is {mask.shape}, but should be {(length, source)}.")
        return mask.unsqueeze(0)
    if tuple(mask.shape) != (heads, length, source):
        raise RuntimeError(f"The shape of the 3D attn_mask is {mask.shape}, but should be {(heads, length, source)}.")
    return mask


def _one_wider(mask: Any) -> Any:
    return None if mask is None else pad(mask, (0, 1))


def _heads(x: Tensor, static: Any, name: str, batch: int, heads: int, head: int) -> Tensor:
    """(length, batch, width) as (batch · head, length, channel), or what is given in its place."""
    if static is None:
        return x.view(x.shape[0], batch * heads, head).transpose(0, 1)
    if static.size(0) != batch * heads:
        raise AssertionError(f"expecting {name}.size(0) of {batch * heads}, but got {static.size(0)}")
    if static.size(2) != head:
        raise AssertionError(f"expecting {name}.size(2) of {head}, but got {static.size(2)}")
    return static
