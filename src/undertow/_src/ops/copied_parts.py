"""Parts of a tensor that are separate tensors, no views: copies of parts, and parts with an untracked shared storage."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.numpy import namespace as numpy_xp
from undertow._src.base.modes import local
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import as_int, as_ints, check_tensor, only_named, spread_ints, wrap_dim
from undertow._src.engine.outputs import into
from undertow._src.engine.record import record
from undertow._src.ops.index import check_fits_part
from undertow._src.ops.public import public
from undertow._src.ops.reduce import sum as sum_over
from undertow._src.ops.shape import view_to
from undertow._src.ops.slicing import as_strided, chunk, split, split_with_sizes, start_of, strides_wanted
from undertow._src.rules import index as index_rules
from undertow._src.rules.rule import twin
from undertow._src.tensor.core import InferenceStorage, wrap

if TYPE_CHECKING:
    from undertow._src.types.aliases import _size
    from undertow._tensor import Tensor

_twin = cache(twin)


def apart(input: Tensor, views: Any, node: Callable[[str], str], copied: bool) -> Any:
    """Return views of an alias of the input as separate tensors, with a node named after the view's.

    The views' last step says by which rule they were taken, and so what their gradient is.
    """
    several = isinstance(views, tuple)
    parts = views if several else (views,)
    if not parts:
        return ()
    rule, statics, _, _ = parts[0]._view.steps[-1]
    results = tuple([wrap(numpy_xp.contiguous(part._array) if copied else part._array) for part in parts])
    if local.modes.inference:
        for result in results:
            result._storage = InferenceStorage()
    if rule.gradients[0] is not None:
        record(_twin(rule, node(rule.node_name)), (input,), (input._array,), results, len(results), statics, 0)
    return results if several else results[0]


def alias_of(input: Tensor) -> Any:
    """Return an untracked alias, to take views of."""
    return wrap(input._array)


# --- untracked: the parts share storage, but a write to one counts for that one only


def _unsafe(node: str) -> str:
    return "Unsafe" + node


@public
def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Any, ...]:
    """`split` without the record that keeps gradients right when a part is written to."""
    check_tensor(input, "unsafe_split")
    size = as_int(split_size, "unsafe_split", "split_size", 2)
    return apart(input, split(alias_of(input), size, dim), _unsafe, copied=False)


@public
def unsafe_split_with_sizes(input: Tensor, split_sizes: _size, dim: int = 0) -> tuple[Any, ...]:
    """`split_with_sizes` without the record that keeps gradients right when a part is written to."""
    check_tensor(input, "unsafe_split_with_sizes")
    sizes = as_ints(split_sizes, "unsafe_split_with_sizes", "split_sizes", 2)
    return apart(input, split_with_sizes(alias_of(input), sizes, dim), _unsafe, copied=False)


@public
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """`chunk` without the record that keeps gradients right when a part is written to."""
    check_tensor(input, "unsafe_chunk")
    return apart(input, chunk(alias_of(input), chunks, dim), _unsafe, copied=False)


# --- copies


@public
def narrow_copy(input: Tensor, dim: int, start: int, length: int, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of the range of a dim that begins at start and has a length."""
    check_tensor(input, "narrow_copy")
    start, length = as_int(start, "narrow_copy", "start", 3), as_int(length, "narrow_copy", "length", 4)
    shape = input._array.shape
    place = wrap_dim(as_int(dim, "narrow_copy", "dim", 2), len(shape))
    start = start_of(start, length, shape[place])
    compute = lambda: apart(
        input, alias_of(input).narrow(place, start, length), lambda node: "NarrowCopyBackward0", copied=True
    )
    return compute() if out is None else into(out, compute, (input,), "narrow_copy")


@public
def as_strided_scatter(
    input: Tensor, src: Tensor, size: _size, stride: _size, storage_offset: int | None = None
) -> Tensor:
    """Return a copy with what `as_strided` would view replaced."""
    check_tensor(src, "as_strided_scatter", "src", 2)
    statics = strides_wanted(input, size, stride, storage_offset, "as_strided_scatter")
    check_fits_part(as_strided(alias_of(input), size, stride, storage_offset), src)
    if input.requires_grad and not input.is_contiguous():
        raise RuntimeError(
            "as_strided_scatter is currently only supported for contiguous inputs, if they require grad."
        )
    return apply(index_rules.as_strided_scatter, input, src, **statics)


@public
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1, out: Tensor | None = None) -> Tensor:
    """Return the positions of the first `size` elements that are not zero, a row for each, and rows of `fill_value`."""
    check_tensor(input, "nonzero_static")
    size = as_int(size, "nonzero_static", "size")
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    places = np.argwhere(input._array)[:size]
    found = np.full((size, input._array.ndim), as_int(fill_value, "nonzero_static", "fill_value"), np.int64)
    found[: len(places)] = places
    result = wrap(found)
    return result if out is None else into(out, lambda: result, (), "nonzero_static")


# --- the opposite of expanding


@public
def sum_to_size(self: Tensor, *size: Any, **named: Any) -> Tensor:
    """Return the tensor summed over the dims along which `size` would have to be expanded to have its shape."""
    if named:
        size = (*size, *only_named(named, "sum_to_size", "size"))
    wanted, have = spread_ints(size, "sum_to_size", "size"), self._array.shape
    lead = len(have) - len(wanted)
    if lead < 0 or any(n not in (1, m) for n, m in zip(wanted, have[lead:], strict=True)):
        raise RuntimeError(f"size {{{list(wanted)}}} is not expandable to size {{{list(have)}}}.")
    dims = [dim for dim in range(len(have)) if dim < lead or (wanted[dim - lead] == 1 and have[dim] != 1)]
    if not dims:
        return self
    if not wanted:
        return sum_over(self)
    summed = sum_over(self, dims, keepdim=True)
    return view_to(summed, wanted) if lead else summed
