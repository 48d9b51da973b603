"""Private helpers of PyTorch's attention."""

from __future__ import annotations

import math
from typing import Any

from undertow._tensor import Tensor


def _input_requires_grad(*tensors: Tensor) -> bool:
    return any(tensor.requires_grad for tensor in tensors)


def _calculate_scale(head_dim_size: int, scale: float | None) -> float:
    """Return the factor of the scores: the given one, or 1 / sqrt(head dimension)."""
    return 1.0 / math.sqrt(head_dim_size) if scale is None else scale


def _validate_sdpa_input(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, allow_lowp_kv: bool = False,
) -> None:  # fmt: skip
    """Check that queries, keys and values share dtype and device and have two dims or more."""
    inputs = (query, key, value)
    same: dict[str, list[Any]] = {"device type": [tensor.device for tensor in inputs]}
    if not allow_lowp_kv:
        same = {"dtype": [tensor.dtype for tensor in inputs], **same}
    for kind, found in same.items():
        if found.count(found[0]) != len(found):
            raise ValueError(
                f"Expected query, key, and value to have the same {kind}, but theirs are {_listed(found)}."
            )
    dims = [tensor.dim() for tensor in inputs]
    if min(dims) < 2:
        raise ValueError(
            f"Expected query, key, and value to all be  at least 2 dimensional, but they have {_listed(dims)} dims."
        )


def _listed(values: list[Any]) -> str:
    return "{}, {} and {}".format(*values)
