"""Public functions with one index per element, along a dim: gather, scatter and its reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray, checked, values_known
from undertow._src.arrays.namespaces import run_formula
from undertow._src.base.sites import warn_once
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import as_element, as_int, check_tensor, invalid_combination, no_kernel, wrap_dim
from undertow._src.engine.outputs import into
from undertow._src.engine.writes import apply_in_place
from undertow._src.ops.public import overloaded, public
from undertow._src.rules import index as rules
from undertow._src.rules.rule import op
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._src.types.aliases import Number
    from undertow._tensor import Tensor

_UNSIGNED = {8: np.uint64, 4: np.uint32}


def all_below(index: np.ndarray, n: int) -> bool:
    """Whether all indices of a non-empty array are at least 0 and below n."""
    kind = _UNSIGNED.get(index.itemsize)
    if type(index) is np.ndarray and kind is not None:
        return bool(_max(index.view(kind), axis=None) < n)  # negative ones look huge
    if type(index) is DeviceArray:
        known = index.buffer.range
        if known is not None and known.least >= 0 and known.greatest < n and known.is_of(index.buffer):
            return True
        within = run_formula((all_below, n, ()), lambda xp, index: xp.all((index >= 0) & (index < n)), index)
        if within is not NotImplemented:
            return bool(within)
    return index.min() >= 0 and index.max() < n


_max = np.maximum.reduce


def check_in_range(
    index: np.ndarray, n: int, dim: int, prefix: str = "", error: type[Exception] = RuntimeError, negative: bool = False
) -> None:
    """Refuse an index that points outside a dim of n elements."""
    if not values_known(index):
        checked(lambda index: check_in_range(index, n, dim, prefix, error, negative), index)
        return
    if not index.size:
        return
    if not negative and all_below(index, n):
        return
    outside = (index < (-n if negative else 0)) | (index >= n)
    if outside.any():
        first = index[outside].reshape(-1)[0]
        raise error(f"{prefix}index {int(first)} is out of bounds for dimension {dim} with size {n}")


def _with_dims(index: Tensor, ndim: int) -> Tensor:
    """Return the index; PyTorch accepts an empty one of any rank and dtype, so give that the right ones."""
    if not index._array.size and index._array.dtype.kind not in "iu":
        index = wrap(np.empty(index._array.shape, np.int64))
    if not index._array.ndim and ndim == 1:
        return index.reshape(1)
    if index._array.size or index._array.ndim == ndim:
        return index
    return wrap(np.empty((0,) * max(ndim, 1), index._array.dtype))


def _check_index(index: Tensor, name: str) -> None:
    check_tensor(index, name, "index", 3)
    if index._array.size and index._array.dtype not in (np.int64, np.int32):
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")


@public
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False, out: Tensor | None = None) -> Tensor:
    """out[i][j] = input[index[i][j]][j] for dim 0, and so on for the other dims."""
    check_tensor(input, "gather")
    array = input._array
    dim = wrap_dim(as_int(dim, "gather", "dim", 2), array.ndim)
    _check_index(index, "gather")
    picks = index._array
    if picks.size:
        if max(picks.ndim, 1) != max(array.ndim, 1):
            raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
        for axis, (n, m) in enumerate(zip(picks.shape, array.shape, strict=False)):
            if axis != dim and n > m:
                raise RuntimeError(
                    f"Size does not match at dimension {axis} expected index {list(picks.shape)} to be no larger "
                    f"than {list(array.shape)}, except in dimension {dim}"
                )
        check_in_range(picks, array.shape[dim] if array.ndim else 1, dim)

    def compute() -> Tensor:
        chosen = index if picks.size else _with_dims(index, array.ndim)
        found = apply(rules.gather, input, chosen, dim=dim, sparse_grad=sparse_grad)
        return found if found._array.shape == picks.shape else found.reshape(picks.shape)

    return compute() if out is None else into(out, compute, (input, index), "gather")


def _check_scatter(input: Tensor, dim: object, index: Any, src: object, name: str) -> int:
    check_tensor(input, name)
    array = input._array
    dim = wrap_dim(as_int(dim, name, "dim", 2), array.ndim)
    _check_index(index, "scatter" if name != "scatter_reduce" else "scatter_reduce")
    picks = index._array
    if isinstance(src, TensorCore) and src._array.dtype != array.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    if not picks.size:
        return dim
    if max(picks.ndim, 1) != max(array.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as self tensor")
    other = src._array if isinstance(src, TensorCore) else None
    if other is not None and 0 < other.ndim < picks.ndim:
        wrap_dim(other.ndim, other.ndim)
    if other is not None and max(picks.ndim, 1) != max(other.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    beyond = any(n > m for axis, (n, m) in enumerate(zip(picks.shape, array.shape, strict=False)) if axis != dim)
    if other is None and beyond:
        raise RuntimeError(
            f"Expected index {list(picks.shape)} to be no larger than self {list(array.shape)} apart from dimension {dim}"
        )
    if other is not None and (beyond or any(n > m for n, m in zip(picks.shape, other.shape or (1,), strict=False))):
        raise RuntimeError(
            f"Expected index {list(picks.shape)} to be no larger than self {list(array.shape)} apart from dimension {dim} "
            f"and to be no larger size than src {list(other.shape)}"
        )
    check_in_range(picks, array.shape[dim] if array.ndim else 1, dim)
    return dim


def _used(src: Any, index: Any, target: Any) -> Any:
    """Return the part of a source that an index uses; its gradient has that shape, and a tangent must have it too."""
    shape = index._array.shape
    if not (src._requires_grad or target._requires_grad) or not shape:
        return src
    if src._array.shape == shape or src._array.ndim != len(shape):
        return src
    return src[tuple([slice(n) for n in shape])]


def _not_implemented(xp: Any, g: object) -> Any:
    raise RuntimeError("derivative for aten::scatter is not implemented")


# scatter(reduce=) is older than scatter_reduce and was never given a derivative.
_FOLDS = {"add": "sum", "multiply": "prod"}
_scatter_folded = op(
    "scatter", lambda xp, self, src, index, *, dim, reduce: xp.scatter_reduce(self, dim, index, src, reduce, True),
    node="NotImplemented", self=_not_implemented, src=_not_implemented,
)  # fmt: skip


def _scatter_call(
    run: Callable[..., Any], input: Tensor, dim: object, index: Tensor, src: object, value: Any, reduce: str | None,
    name: str,
) -> Tensor:  # fmt: skip
    """`scatter` and `scatter_`: with a source tensor or a number, written over or folded in."""
    if src is None:
        src = value
    if not isinstance(src, (TensorCore, bool, int, float, complex, np.generic)):
        raise invalid_combination(name, (dim, index, src))
    if reduce is not None and reduce not in _FOLDS:
        raise RuntimeError("reduce argument must be either add or multiply.")
    dim = _check_scatter(input, dim, index, src, "scatter")
    index = _with_dims(index, input._array.ndim)
    if isinstance(src, TensorCore):
        if reduce is not None:
            warn_once(
                "The reduce argument of torch.scatter with Tensor src is deprecated: torch.scatter_reduce has "
                "these reductions and more."
            )
            return run(_scatter_folded, input, src, index, dim=dim, reduce=_FOLDS[reduce])
        return run(rules.scatter, input, _used(src, index, input), index, dim=dim)
    element = as_element(src, DTYPE_OF[input._array.dtype])
    if reduce is not None:
        wide = wrap(np.full(index._array.shape, element, input._array.dtype))
        return run(_scatter_folded, input, wide, index, dim=dim, reduce=_FOLDS[reduce])
    return run(rules.scatter_value, input, index, dim=dim, value=element)


@overloaded
def scatter(
    input: Tensor, dim: int, index: Tensor, src: Tensor | None = None, *, value: Number | complex | None = None,
    reduce: str | None = None, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return a copy with src's elements written where an index along a dim points."""

    def compute() -> Tensor:
        return _scatter_call(apply, input, dim, index, src, value, reduce, "scatter")

    return compute() if out is None else into(out, compute, (input, index, src), "scatter")


@overloaded
def scatter_(
    self: Tensor, dim: int, index: Tensor, src: Tensor | None = None, *, value: Number | complex | None = None,
    reduce: str | None = None,
) -> Tensor:  # fmt: skip
    """Write src's elements where an index along a dim points."""
    return _scatter_call(apply_in_place, self, dim, index, src, value, reduce, "scatter_")


@public
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return a copy with src's elements added where an index along a dim points."""
    check_tensor(src, "scatter_add", "src", 4)
    dim = _check_scatter(input, dim, index, src, "scatter_add")
    index = _with_dims(index, input._array.ndim)

    def compute() -> Tensor:
        return apply(rules.scatter_add, input, _used(src, index, input), index, dim=dim)

    return compute() if out is None else into(out, compute, (input, index, src), "scatter_add")


@public
def scatter_add_(self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Add src's elements where an index along a dim points."""
    check_tensor(src, "scatter_add_", "src", 3)
    dim = _check_scatter(self, dim, index, src, "scatter_add")
    index = _with_dims(index, self._array.ndim)
    return apply_in_place(rules.scatter_add, self, _used(src, index, self), index, dim=dim)


def _check_reduce(input: Tensor, dim: object, index: object, src: object, reduce: str) -> int:
    check_tensor(src, "scatter_reduce", "src", 4)
    if reduce not in ("sum", "prod", "mean", "amax", "amin", "max", "min"):
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if reduce == "mean" and input._array.dtype.kind == "b":
        raise no_kernel("scatter_gather_tensor_cpu_reduce_mean", input)
    return _check_scatter(input, dim, index, src, "scatter_reduce")


@public
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return a copy with src's elements folded in where an index along a dim points: sum, prod, mean, amax or amin."""
    dim = _check_reduce(input, dim, index, src, reduce)
    index = _with_dims(index, input._array.ndim)

    def compute() -> Tensor:
        used = _used(src, index, input)
        return apply(rules.scatter_reduce, input, used, index, dim=dim, reduce=reduce, include_self=include_self)

    return compute() if out is None else into(out, compute, (input, index, src), "scatter_reduce")


@public
def scatter_reduce_(
    self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Reduce src's elements into the positions of an index along a dim."""
    dim = _check_reduce(self, dim, index, src, reduce)
    index = _with_dims(index, self._array.ndim)
    used = _used(src, index, self)
    return apply_in_place(rules.scatter_reduce, self, used, index, dim=dim, reduce=reduce, include_self=include_self)


class ScatterMethods(TensorCore):
    """Gather and scatter as methods of a tensor."""

    __slots__ = ()

    gather, scatter, scatter_, scatter_add, scatter_add_ = gather, scatter, scatter_, scatter_add, scatter_add_
    scatter_reduce, scatter_reduce_ = scatter_reduce, scatter_reduce_
