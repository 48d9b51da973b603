"""Attention: the function itself. The layer around it is in multi_head.py."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import check_tensor
from undertow._src.ops.dropout import torch_dropout
from undertow._src.ops.matmul import matmul
from undertow._src.ops.public import public
from undertow._src.rules import activation, scalars
from undertow._src.rules import attention as rules
from undertow._src.tensor.core import wrap
from undertow._src.types.dtypes import DTYPE_OF, float32

if TYPE_CHECKING:
    from undertow._tensor import Tensor

# PyTorch's kernels, and whether they may be used (`sdpa_kernel`). On the CPU there are two: "flash", one node of the graph,
# for most arguments, and "math", small steps for any.
kernels = dict.fromkeys(("flash", "math", "mem_efficient", "cudnn", "overrideable"), True)


def _check_operands(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> None:
    for place, (argument, given) in enumerate((("query", query), ("key", key), ("value", value)), 1):
        check_tensor(given, "scaled_dot_product_attention", argument, place)
    kinds = [DTYPE_OF[given._array.dtype].c_name for given in (query, key, value)]
    if len(set(kinds)) > 1:
        raise RuntimeError(
            f"Expected query, key, and value to have the same dtype, but got {kinds[0]}, {kinds[1]} and {kinds[2]}."
        )
    dims = [given._array.ndim for given in (query, key, value)]
    if min(dims) < 2:
        raise RuntimeError(
            f"Expected query, key, and value to all be  at least 2 dimensional, but they have {dims[0]}, "
            f"{dims[1]} and {dims[2]} dims."
        )
    if mask is None:
        return
    check_tensor(mask, "scaled_dot_product_attention", "attn_mask", 4)
    kind = mask._array.dtype
    if kind != np.bool_ and kind != query._array.dtype and kind != np.float32:
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query but is "
            f"{DTYPE_OF[kind].c_name}, and the query's {kinds[0]}."
        )
    if mask._array.ndim < 2:
        raise IndexError("Dimension out of range (expected to be in range of [-1, 0], but got -2)")


def _one_step(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float, enable_gqa: bool
) -> bool:
    """Whether attention is computed by one rule; everything else is composed, as in PyTorch."""
    shapes = [given._array.shape for given in (query, key, value)]
    if dropout_p or any(len(shape) != 4 or 0 in shape for shape in shapes):
        return False
    (batch, heads, _, width), (_, key_heads, length, _), _ = shapes
    if shapes[1][0] != batch or shapes[2][0] != batch or any(shape[3] != width for shape in shapes):
        return False
    if shapes[2][1:3] != (key_heads, length) or (key_heads != heads and not enable_gqa):
        return False
    if mask is not None and (mask._requires_grad or mask._array.ndim not in (2, 4)):
        return False
    if not DTYPE_OF[query._array.dtype].is_floating_point:
        return False
    return all(given._array.strides[3] == given._array.itemsize for given in (query, key, value))


@public
def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """softmax(query keyᵀ · scale + attn_mask) value, the mask boolean (True: look here) or added."""
    _check_operands(query, key, value, attn_mask)
    if enable_gqa:
        _check_groups(query, key, value)
    width = query._array.shape[-1]
    factor = (1 / math.sqrt(width) if width else math.inf) if scale is None else scale
    mask = _added(attn_mask, query)
    in_one = _one_step(query, key, value, attn_mask, dropout_p, enable_gqa) and _fits(mask, query, key)
    if query.device.type == "cpu":
        in_one = _chosen_kernel(in_one) == "flash"
    if in_one:
        return apply(
            rules.scaled_dot_product_attention, query, key, value, mask, dropout_p=dropout_p, is_causal=bool(is_causal),
            scale=factor,
        )  # fmt: skip
    if is_causal:
        if mask is not None:
            raise RuntimeError(
                "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
            )
        size = (query._array.shape[-2], key._array.shape[-2])
        mask = wrap(np.where(np.tri(*size, dtype=bool), 0, -np.inf).astype(query._array.dtype))
    return _composed(query, key, value, mask, dropout_p, factor, enable_gqa)


def _chosen_kernel(in_one: bool) -> str:
    """Return the kernel for a call on the CPU. `in_one`: whether one step can compute it."""
    if in_one and kernels["flash"]:
        return "flash"
    if kernels["math"]:
        return "math"
    if kernels["flash"]:
        raise RuntimeError(
            "No available kernel. Aborting execution. Allow SDPBackend.MATH too, which takes any arguments."
        )
    raise RuntimeError(
        "No viable backend for scaled_dot_product_attention was found. The CPU has SDPBackend.FLASH_ATTENTION and "
        "SDPBackend.MATH: allow one of them."
    )


def _check_groups(query: Tensor, key: Any, value: Any) -> None:
    heads = query._array.shape[-3] if query._array.ndim > 2 else 1
    for given in (key, value):
        if given._array.ndim > 2 and heads % given._array.shape[-3]:
            raise RuntimeError("Number of heads in key and value must divide the number of heads in query")


def _added(mask: Tensor | None, query: Tensor) -> Tensor | None:
    """Return a mask as the summand of the scores: 0 or −∞ for a boolean one."""
    if mask is None:
        return None
    if mask._array.dtype == np.bool_:
        return wrap(np.where(mask._array, 0, -np.inf).astype(query._array.dtype))
    return mask if mask._array.dtype == query._array.dtype else mask.to(query.dtype)


def _fits(mask: Tensor | None, query: Tensor, key: Tensor) -> bool:
    if mask is None:
        return True
    wanted = (*query._array.shape[:3], key._array.shape[2])
    have = (1,) * (4 - mask._array.ndim) + mask._array.shape
    return all(n in (1, m) for n, m in zip(have, wanted, strict=True))


def _composed(query: Any, key: Any, value: Any, mask: Any, dropout_p: float, factor: float, enable_gqa: bool) -> Tensor:
    """Compute attention step by step; the scale's root multiplies both factors of the scores, which keeps them small."""
    kind = query.dtype
    if kind.itemsize == 2:
        query, key, value, mask = (given if given is None else given.to(float32) for given in (query, key, value, mask))
        return _composed(query, key, value, mask, dropout_p, factor, enable_gqa).to(kind)
    root = math.sqrt(factor) if factor >= 0 else factor
    if enable_gqa and query._array.ndim > 2:
        key, value = (
            given.repeat_interleave(query._array.shape[-3] // given._array.shape[-3], -3) for given in (key, value)
        )
    scaled = apply(scalars.times, query, other=root)
    turned = key.transpose(-2, -1)
    if factor >= 0:
        turned = apply(scalars.times, turned, other=root)
    scores = matmul(scaled, turned)
    if mask is not None:
        scores = scores + mask
    rule = rules.safe_softmax if scores._array.shape[-1] else activation.softmax
    weights = apply(rule, scores, dim=scores._array.ndim - 1)
    if dropout_p:
        weights = torch_dropout(weights, dropout_p, True)
    return matmul(weights, value)
