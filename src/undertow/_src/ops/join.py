"""Public functions that join tensors: cat, stack and their relatives, grids, blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations as _combinations
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.namespaces import namespace_of
from undertow._src.base.modes import local, slow_path
from undertow._src.base.sites import warn_once
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import as_int, tensor_list, wrap_dim
from undertow._src.engine.node import edge_of
from undertow._src.engine.outputs import into
from undertow._src.engine.rule_node import node_class
from undertow._src.engine.views import refresh_view
from undertow._src.ops.broadcasting import atleast_1d, atleast_2d, atleast_3d, expand_to
from undertow._src.ops.image_order import has_channels_last, ordered_like
from undertow._src.ops.public import public
from undertow._src.ops.shape import reshape_to
from undertow._src.rules import arrange as rules
from undertow._src.rules.index import index_select
from undertow._src.rules.rule import Rule, Spec
from undertow._src.tensor.core import wrap
from undertow._src.types.dtypes import DTYPE_OF, get_default_dtype, promote

if TYPE_CHECKING:
    from undertow._tensor import Tensor


def common_dtype(tensors: tuple[Any, ...]) -> np.dtype[Any] | None:
    """Return the common dtype that tensors are cast to, or None if they share one."""
    first = tensors[0]._array.dtype
    for tensor in tensors:
        if tensor._array.dtype != first:
            break
    else:
        return None
    found = DTYPE_OF[first]
    for tensor in tensors:
        found = promote(found, DTYPE_OF[tensor._array.dtype])
    return found.numpy


def _cat(tensors: tuple[Any, ...], dim: int) -> Tensor:
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    shape = tensors[0]._array.shape
    for tensor in tensors:
        if tensor._array.shape != shape:
            dim = _check_cat(tensors, dim)
            break
    else:
        if not shape:
            raise RuntimeError("zero-dimensional tensor (at position 0) cannot be concatenated")
        dim = wrap_dim(dim, len(shape))
    result = joined(rules.cat, tensors, {"dim": dim, "dtype": common_dtype(tensors)})
    if len(shape) > 3 and all(has_channels_last(tensor._array) for tensor in tensors):
        return ordered_like(result, tensors[0])
    return result


def _check_cat(tensors: tuple[Any, ...], dim: int) -> int:
    """Refuse shapes that can't be concatenated along a dim, and wrap the dim."""
    for place, tensor in enumerate(tensors):
        if not tensor._array.ndim:
            raise RuntimeError(f"zero-dimensional tensor (at position {place}) cannot be concatenated")
    first = next((tensor for tensor in tensors if not rules.is_skipped(tensor._array.shape)), tensors[0])
    shape = first._array.shape
    dim = wrap_dim(dim, len(shape))
    for place, tensor in enumerate(tensors):
        other = tensor._array.shape
        if other == shape or rules.is_skipped(other):
            continue
        if len(other) != len(shape):
            raise RuntimeError(f"Tensors must have same number of dimensions: got {len(shape)} and {len(other)}")
        for axis, (n, m) in enumerate(zip(shape, other, strict=True)):
            if n != m and axis != dim:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected size {n} but got size {m} for "
                    f"tensor number {place} in the list."
                )
    return dim


def joined(rule: Rule, tensors: tuple[Any, ...], statics: dict[str, Any]) -> Tensor:
    """`apply` for a rule that joins tensors and saves nothing but their shapes, in its usual case: no rare mode is on."""
    if slow_path.count or (slow_path.dispatcher is not None and slow_path.dispatcher.takes(tensors)):
        return apply(rule, *tensors, **statics)
    arrays = [tensor._array for tensor in tensors]
    result = wrap(rule.forward(namespace_of(arrays), *arrays, **statics))
    modes = local.modes
    if not modes.grad_enabled:
        return result
    edges: list[Any] = []
    recorded = False
    for tensor in tensors:
        if tensor._view is not None:
            refresh_view(tensor)
        if tensor._requires_grad:
            edges.append(tensor._edge or edge_of(tensor))
            recorded = True
        else:
            edges.append(None)
    if recorded:
        specs = tuple([Spec(array.shape, array.dtype) for array in arrays])
        make = rule.node_class or node_class(rule)
        result._edge = (make(tuple(edges), next(modes.sequence), (), tuple(statics.values()), (specs,)), 0)
        result._requires_grad = True
    return result


@public
def cat(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Concatenate tensors along a dim."""
    tensors = tensor_list(tensors, "cat")
    dim = as_int(dim, "cat", "dim", 2)
    return _cat(tensors, dim) if out is None else into(out, lambda: _cat(tensors, dim), tensors, "cat")


@public
def concat(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Concatenate tensors along a dim."""
    return cat(tensors, dim, out=out)


@public
def concatenate(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Concatenate tensors along a dim."""
    return cat(tensors, dim, out=out)


@public
def stack(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Stack tensors of one shape along a new dim."""
    tensors = tensor_list(tensors, "stack")
    dim = as_int(dim, "stack", "dim", 2)
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    shape = tensors[0]._array.shape
    dim = wrap_dim(dim, len(shape) + 1)
    for place, tensor in enumerate(tensors):
        if tensor._array.shape != shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and "
                f"{list(tensor._array.shape)} at entry {place}"
            )
    kind = common_dtype(tensors)
    if out is None:
        return joined(rules.stack, tensors, {"dim": dim, "dtype": kind})
    return into(out, lambda: joined(rules.stack, tensors, {"dim": dim, "dtype": kind}), tensors, "stack")


def _joined(name: str, doc: str, prepare: Callable[..., Any], dim: Callable[..., Any]) -> Callable[..., Any]:
    """`hstack` and its relatives: tensors made ready, then joined."""
    label = "vstack" if name == "row_stack" else name

    def function(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
        given = tensor_list(tensors, name)
        if not given:
            raise RuntimeError(f"{label} expects a non-empty TensorList")

        def compute() -> Tensor:
            ready = tuple(prepare(given))
            return _cat(ready, dim(ready))

        return compute() if out is None else into(out, compute, given, "cat")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return public(function)


def _columns(tensors: tuple[Any, ...]) -> list[Any]:
    return [tensor if tensor._array.ndim > 1 else reshape_to(tensor, (tensor._array.size, 1)) for tensor in tensors]


hstack = _joined("hstack", "Tensors side by side: along dim 1, or dim 0 if they have only one.", atleast_1d,
                 lambda ready: 0 if ready[0]._array.ndim == 1 else 1)  # fmt: skip
vstack = _joined("vstack", "Tensors below each other, as rows.", atleast_2d, lambda ready: 0)
row_stack = _joined("row_stack", "Tensors below each other, as rows.", atleast_2d, lambda ready: 0)
dstack = _joined("dstack", "Tensors behind each other, along dim 2.", atleast_3d, lambda ready: 2)
column_stack = _joined("column_stack", "Tensors side by side, as columns.", _columns, lambda ready: 1)


@public
def block_diag(*tensors: Tensor) -> Tensor:
    """Matrices along the diagonal of a larger one."""
    given = tensor_list(tensors, "block_diag")
    if not given:
        return wrap(np.empty((1, 0), get_default_dtype().numpy))
    for place, tensor in enumerate(given):
        if tensor._array.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {place} has "
                f"{tensor._array.ndim} dimensions"
            )
    return apply(rules.block_diag, *given, dtype=common_dtype(given))


@public
def meshgrid(*tensors: Tensor, indexing: str | None = None) -> tuple[Any, ...]:
    """Coordinates of a grid: each vector stretched over the dims of all."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    given = tensor_list(given, "meshgrid")
    if not given:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for tensor in given:
        if tensor._array.dtype != given[0]._array.dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    if indexing is None:
        warn_once("torch.meshgrid: in an upcoming release, it will be required to say which indexing is meant.")
        indexing = "ij"
    for tensor in given:
        if tensor._array.ndim > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {_shown(tensor)}")
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    axes = list(range(len(given)))  # the dim along which each vector varies
    if indexing == "xy" and len(given) >= 2:
        axes[0], axes[1] = 1, 0
    shape = tuple([given[axis]._array.size for axis in axes])
    grids = []
    for axis, tensor in zip(axes, given, strict=True):
        ones = tuple([-1 if axis == place else 1 for place in range(len(given))])
        grids.append(expand_to(reshape_to(tensor, ones), shape))
    return tuple(grids)


def _shown(tensor: Tensor) -> str:
    text = repr(tensor)
    return text[text.find("(") + 1 :].strip("[]()")


@public
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All ways to take one element of each vector, as rows."""
    given = tensor_list(tensors, "cartesian_prod")
    for tensor in given:
        if tensor._array.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(tensor._array.shape)}")
    if len(given) == 1:
        return given[0]
    return stack([reshape_to(grid, (-1,)) for grid in meshgrid(*given, indexing="ij")], 1)


@public
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All ways to take r elements of a vector, in order, as rows."""
    if input._array.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input._array.shape)}")
    r = as_int(r, "combinations", "r", 2)
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return wrap(np.empty(0, input._array.dtype))
    take = combinations_with_replacement if with_replacement else _combinations
    rows = np.array(list(take(range(input._array.size), r)), np.int64).reshape(-1, r)
    return stack([apply(index_select, input, wrap(rows[:, place].copy()), dim=0) for place in range(r)], 1)
