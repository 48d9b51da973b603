"""Small helpers of PyTorch's table of operators; the table itself (`op_db`) is not here."""

from __future__ import annotations

from typing import Any

from undertow.random import randn

L, M, S, XS = 20, 10, 5, 3


def mask_not_all_zeros(shape: Any) -> Any:
    """A random mask that lets something through."""
    if not len(shape):
        raise AssertionError("a mask of one element cannot be random")
    while True:
        mask = randn(shape).gt(0)
        if mask.any():
            return mask
