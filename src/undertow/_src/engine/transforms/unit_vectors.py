"""The unit vectors of some tensors, and Jacobians from the derivatives along all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from undertow._src.tensor import creation


def unit_vectors(tensors: Sequence[Any]) -> list[Any]:
    """Return, for each tensor, its part of every unit vector of them all: shape (number of vectors, *its own)."""
    total = sum(tensor.numel() for tensor in tensors)
    vectors, start = [], 0
    for tensor in tensors:
        count = tensor.numel()
        part = creation.eye(count, dtype=tensor.dtype, device=tensor.device)
        if count < total:
            own, part = part, creation.zeros((total, count), dtype=tensor.dtype, device=tensor.device)
            part[start : start + count] = own
        vectors.append(part.reshape((total, *tensor.shape)))
        start += count
    return vectors


def rows(products: Any, outputs: Sequence[Any]) -> list[Any]:
    """Return the Jacobian of each output with respect to one input, from the products with all unit vectors."""
    counts = [output.numel() for output in outputs]
    parts = zip(products.split(counts), outputs, strict=True)
    return [part.reshape((*output.shape, *products.shape[1:])) for part, output in parts]


def columns(products: Any, inputs: Sequence[Any]) -> list[Any]:
    """Return the Jacobian of one output with respect to each input, from the products with all unit vectors."""
    counts = [value.numel() for value in inputs]
    parts = zip(products.split(counts), inputs, strict=True)
    return [part.movedim(0, -1).reshape((*products.shape[1:], *value.shape)) for part, value in parts]
