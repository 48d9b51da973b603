"""The reductions of the vocabulary on undertow's own tensors, for a backward pass that is itself recorded."""

from __future__ import annotations

from typing import Any

from undertow._src.engine.apply import apply
from undertow._src.rules import reduce as rules
from undertow._src.rules import vector_norm
from undertow._src.arrays.numpy.reduce import axes_of
from undertow._src.arrays.tensor.elementwise import real


def sum(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    if axis is None and not keepdims:
        return apply(rules.sum_all, x, dtype=dtype)
    return apply(rules.sum, x, dim=axes_of(axis, x._array.ndim), keepdim=keepdims, dtype=dtype)


def mean(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    if axis is None and not keepdims:
        return apply(rules.mean_all, x, dtype=dtype)
    return apply(rules.mean, x, dim=axes_of(axis, x._array.ndim), keepdim=keepdims, dtype=dtype)


max = lambda x, axis=None, keepdims=False: apply(rules.amax, x, dim=axes_of(axis, x._array.ndim), keepdim=keepdims)
min = lambda x, axis=None, keepdims=False: apply(rules.amin, x, dim=axes_of(axis, x._array.ndim), keepdim=keepdims)
any = lambda x, axis=None, keepdims=False: apply(rules.any, x, dim=axes_of(axis, x._array.ndim), keepdim=keepdims)
all = lambda x, axis=None, keepdims=False: apply(rules.all, x, dim=axes_of(axis, x._array.ndim), keepdim=keepdims)
argmax = lambda x, axis=None, keepdims=False: apply(rules.argmax, x, dim=axis, keepdim=keepdims)
argmin = lambda x, axis=None, keepdims=False: apply(rules.argmin, x, dim=axis, keepdim=keepdims)
max_with_index = lambda x, axis, keepdims: apply(rules.max, x, dim=axis, keepdim=keepdims)
min_with_index = lambda x, axis, keepdims: apply(rules.min, x, dim=axis, keepdim=keepdims)


def prod(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return apply(rules.prod_all, x) if axis is None else apply(rules.prod, x, dim=axis, keepdim=keepdims)


logsumexp = lambda x, axes, keepdims: apply(rules.logsumexp, x, dim=axes, keepdim=keepdims)


def abs_squared(x: Any) -> Any:
    """|x|², real also for complex x."""
    return real(x * x.conj()) if x._array.dtype.kind == "c" else x * x


sum_of_squares = lambda x, axis=None, keepdims=False: sum(abs_squared(x), axis, keepdims)


def sgn(x: Any) -> Any:
    """x / |x|, for complex x too."""
    return x.sgn()


pair_distances = lambda x1, x2, p: apply(vector_norm.cdist, x1, x2, p=p)
pair_distances_grad = lambda g, x1, x2, result, p: apply(vector_norm.cdist_backward, g, x1, x2, result, p=p)
