"""Public shape functions and the tensor methods made of them."""

from __future__ import annotations

from typing import Any

from undertow.autograd.apply import apply
from undertow.ops.public import public
from undertow.rules import shape as rules


@public
def expand(input: Any, *size: Any) -> Any:
    """A view stretched along axes of size 1."""
    wanted = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    have = input._array.shape
    lead = len(wanted) - len(have)
    wanted = tuple([have[axis - lead] if n == -1 else n for axis, n in enumerate(wanted)])
    return apply(rules.expand, input, size=wanted)


@public
def reshape(input: Any, *shape: Any) -> Any:
    wanted = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    return apply(rules.view, input, size=wanted)


@public
def permute(input: Any, *dims: Any) -> Any:
    wanted = tuple(dims[0]) if len(dims) == 1 and not isinstance(dims[0], int) else dims
    return apply(rules.permute, input, dims=wanted)


@public
def clone(input: Any) -> Any:
    return apply(rules.clone, input)


class ShapeMethods:
    """Shape functions as methods of a tensor."""

    __slots__ = ()

    expand, view, reshape, permute, clone = expand, reshape, reshape, permute, clone
