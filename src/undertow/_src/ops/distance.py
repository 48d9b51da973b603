"""Distances and angles between vectors, and the bilinear form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import check_tensor, wrap_dim
from undertow._src.ops.broadcasting import broadcast_tensors
from undertow._src.ops.numbers import lifted
from undertow._src.ops.public import public
from undertow._src.rules import distance as rules
from undertow._src.rules import scalars, vector_norm
from undertow._src.types.dtypes import DTYPE_OF, promote_types

if TYPE_CHECKING:
    from undertow._tensor import Tensor


@public
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-08) -> Tensor:
    """x1 · x2 / (|x1| |x2|) along a dim, lengths no less than eps."""
    check_tensor(x1, "cosine_similarity", "x1", 1)
    check_tensor(x2, "cosine_similarity", "x2", 2)
    common = promote_types(x1.dtype, x2.dtype)
    if not common.is_floating_point:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {common.scalar_name}")
    first, second = broadcast_tensors(x1, x2)
    axis = wrap_dim(dim, first._array.ndim)
    # Floats in their own dtype.
    first, second = [x if x.dtype.is_floating_point else x.to(common) for x in (first, second)]
    return (_unit(first, axis, eps) * _unit(second, axis, eps)).sum(axis)


def _unit(x: Tensor, axis: int, eps: float) -> Tensor:
    """x over its length. A length below eps counts as eps, but its slope as its own."""
    length = apply(vector_norm.linalg_vector_norm, x, ord=2, dim=(axis,), keepdim=True).clone()
    np.maximum(length._array, eps, out=length._array, casting="unsafe")
    return x / length


@public
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-06, keepdim: bool = False) -> Tensor:
    """Return the p-norm of x1 − x2 + eps along the last dim."""
    check_tensor(x1, "pairwise_distance", "x1", 1)
    check_tensor(x2, "pairwise_distance", "x2", 2)
    apart = apply(scalars.plus, lifted(x1 - x2, eps), other=eps)
    axis = wrap_dim(-1, apart._array.ndim)
    return apply(vector_norm.norm, apart, ord=float(p), dim=(axis,) if apart._array.ndim else (), keepdim=bool(keepdim))


@public
def pdist(input: Tensor, p: float = 2) -> Tensor:
    """Return the p-norm distances of all pairs of rows."""
    check_tensor(input, "pdist")
    if input._array.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input._array.ndim}D")
    if not DTYPE_OF[input._array.dtype].is_floating_point:
        raise RuntimeError("pdist only supports floating-point dtypes")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    first, second = np.triu_indices(len(input._array), 1)
    return apply(rules.pdist, input, p=float(p), first=first, second=second)


@public
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1ᵀ weight input2 + bias for every output of the weight."""
    for place, (argument, value) in enumerate((("input1", input1), ("input2", input2), ("weight", weight)), 1):
        check_tensor(value, "bilinear", argument, place)
    one, two, size = input1._array.shape, input2._array.shape, weight._array.shape
    if len(one) != len(two):
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {len(one)} and {len(two)}")
    for dim, (n, m) in enumerate(zip(one[:-1], two[:-1], strict=True)):
        if n != m:
            raise RuntimeError(f"bilinear(): input batch dimensions do not match at dim {dim}: got {n} and {m}")
    if len(size) > 3:
        raise RuntimeError(f"number of dimensions must match. The weight has {len(size)}, a bilinear form has 3.")
    for argument, have, want in zip(("input1", "input2"), (one[-1], two[-1]), size[1:], strict=False):
        if have != want:
            raise RuntimeError(
                f"bilinear(): {argument} size does not match weight size: got {have} but expected {want}"
            )
    if bias is not None and bias._array.shape[0] != size[0]:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias._array.shape[0]} but expected {size[0]}"
        )
    operands = {"input1": input1, "input2": input2, "weight": weight} | ({} if bias is None else {"bias": bias})
    kinds = {name: DTYPE_OF[value._array.dtype] for name, value in operands.items()}
    if len(set(kinds.values())) > 1:
        given = ", ".join(f"{name}: {kind.c_name}" for name, kind in kinds.items())
        raise RuntimeError(f"All tensors must have the same dtype, got {given}")
    flat1, flat2 = input1.reshape(-1, one[-1]), input2.reshape(-1, two[-1])
    result = apply(rules.trilinear, flat1, weight, flat2).reshape(*one[:-1], size[0])
    return result if bias is None else result + bias
