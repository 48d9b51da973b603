"""Sparse tensors around a program, which computes with their parts: indices and values are ordinary tensors.

A sparse argument is taken apart before the step is traced, and put together again for the step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from undertow._src.base.tree import map_leaves
from undertow._src.tensor.core import TensorCore
from undertow.sparse.coo import make


class Parts(NamedTuple):
    """What a sparse tensor is made of."""

    places: Any
    items: Any
    sizes: Any
    coalesced: bool


def is_sparse(value: Any) -> bool:
    """Return whether a value is a tensor without an array of its own."""
    return isinstance(value, TensorCore) and not value._is_strided


def parts_of_sparse(tensor: Any) -> Parts:
    """Return a sparse tensor, taken apart."""
    return Parts(tensor._places, tensor._items, tensor._sizes, tensor._coalesced)


def apart(tree: Any) -> Any:
    """Return nested arguments with sparse tensors taken apart."""
    return map_leaves(lambda leaf: parts_of_sparse(leaf) if is_sparse(leaf) else leaf, tree)


def together(tree: Any) -> Any:
    """Return nested arguments with sparse tensors put together again."""
    return map_leaves(lambda leaf: make(*leaf) if type(leaf) is Parts else leaf, tree, ends=Parts)
