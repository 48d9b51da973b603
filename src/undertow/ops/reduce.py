"""Public reductions and the tensor methods made of them."""

from __future__ import annotations

from typing import Any

from undertow.autograd.apply import apply
from undertow.ops.public import public
from undertow.rules import reduce as rules


@public
def sum(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The sum of all elements, or over the given dims."""
    if dim is None:
        return apply(rules.sum_all, input)
    ndim = input._array.ndim
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    return apply(rules.sum, input, dim=tuple([d % ndim for d in dims]), keepdim=keepdim)


class ReduceMethods:
    """Reductions as methods of a tensor."""

    __slots__ = ()

    sum = sum
