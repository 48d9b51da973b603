"""Single steps of gradients: operators by name, and small combinations that several formulas share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from undertow._src.overrides.dispatch.offering import aten, offer
from undertow._src.types.dtypes import DTYPE_OF

Formula = Callable[..., Any]
REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def do(name: str, *args: Any, **kwargs: Any) -> Any:
    """Dispatch an operator: `do("mul.Tensor", a, b)`."""
    return offer(aten(name), args, kwargs)


mul = lambda a, b: do("mul.Tensor", a, b)
div = lambda a, b: do("div.Tensor", a, b)
scaled = lambda a, number: do("mul.Scalar", a, number)
plus = lambda a, number: do("add.Scalar", a, number)
neg = lambda a: do("neg", a)
squared = lambda a: do("pow.Tensor_Scalar", a, 2)
times = lambda g, factor: g if factor == 1 else scaled(g, factor)


def like(g: Any) -> dict[str, Any]:
    """Return the options of a new tensor like this one."""
    return {"dtype": DTYPE_OF[g._array.dtype], "layout": g.layout, "device": g.device}


zero_like = lambda g: do("scalar_tensor", 0.0, **like(g))
new_zeros = lambda g, shape: do("new_zeros", g, list(shape), **like(g))


def dims_of(size: tuple[int, ...], dim: Any) -> list[int]:
    """Return the dims that were reduced, counted from the front."""
    if dim is None or dim == ():
        return list(range(len(size)))
    return sorted([axis % len(size) for axis in ([dim] if isinstance(dim, int) else dim)]) if size else []


def covers(size: tuple[int, ...], dim: Any) -> bool:
    """Whether everything was reduced."""
    return dim is None or dim == ()


def unsqueezed(g: Any, size: tuple[int, ...], dim: Any, keepdim: bool) -> Any:
    """Return a reduced gradient with the reduced dims put back, with size 1."""
    if not keepdim:
        for axis in dims_of(size, dim):
            g = do("unsqueeze", g, axis)
    return g


def reduced(size: tuple[int, ...], dim: Any) -> int:
    """Return how many elements were reduced to one."""
    return math.prod([size[axis] for axis in dims_of(size, dim)])


def sum_to(g: Any, shape: tuple[int, ...]) -> Any:
    """Return a gradient summed to the shape before broadcasting."""
    have = tuple(g.shape)
    extra = len(have) - len(shape)
    dims = [axis for axis in range(len(have)) if axis < extra or (shape[axis - extra] == 1 and have[axis] != 1)]
    if dims:
        g = do("sum.dim_IntList", g, dims, True)
    return do("view", g, list(shape)) if extra else g


def without_zeros(quotient: Any, divisor: Any) -> Any:
    """Return a quotient that is zero where the divisor is."""
    return do("masked_fill_.Scalar", quotient, do("eq.Scalar", divisor, 0), 0)
