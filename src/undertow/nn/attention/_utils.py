"""Steps of PyTorch's attention on masks of its own kind."""

from __future__ import annotations

import math
from typing import Any


def _input_requires_grad(*tensors: Any) -> bool:
    return any(tensor.requires_grad for tensor in tensors)


def _calculate_scale(head_dim_size: int, scale: float | None) -> float:
    """The factor of the scores: the given one, or one over the root of the width of a head."""
    return 1.0 / math.sqrt(head_dim_size) if scale is None else scale


def _validate_sdpa_input(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, allow_lowp_kv: bool = False,
) -> None:  # fmt: skip
    """Queries, keys and values must be of one dtype and device and have two dims or more."""
    if not allow_lowp_kv and (query.dtype != key.dtype or query.dtype != value.dtype):
        raise ValueError(
            "Expected query, key, and value to have the same dtype, "
            f"but got query.dtype: {query.dtype}, key.dtype: {key.dtype}, and value.dtype: {value.dtype} instead."
        )
    if query.device != key.device or query.device != value.device:
        raise ValueError(
            "Expected query, key, and value to have the same device type, "
            f"but got query.device: {query.device}, key.device: {key.device}, and value.device: {value.device} instead."
        )
    if query.dim() < 2 or key.dim() < 2 or value.dim() < 2:
        raise ValueError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{query.dim()}, key.dim: {key.dim()} and value.dim: {value.dim()} instead."
        )
