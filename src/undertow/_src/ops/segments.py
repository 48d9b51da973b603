"""`segment_reduce`: sums, means, products and extremes of runs of a tensor, whose lengths are given."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import as_int, check_tensor, must_be, no_kernel, wrap_dim
from undertow._src.ops.numbers import is_number
from undertow._src.ops.public import public
from undertow._src.rules import segments as rules
from undertow._src.tensor.core import wrap
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._tensor import Tensor

_NAMES = {"sum": "sum", "mean": "mean", "prod": "prod", "max": "amax", "amax": "amax", "min": "amin", "amin": "amin"}
_OF_NOTHING = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": -math.inf, "amin": math.inf}


def _lengths(data: Any, lengths: Any, offsets: Any, axis: int, unsafe: bool) -> tuple[Any, Any]:
    """How long each run is, and where it starts."""
    given = lengths if lengths is not None else offsets
    if given is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    array = given._array
    if axis != array.ndim - 1:
        raise RuntimeError(f"segment_reduce(): Expected axis to be the last dimension of lengths but got {axis}.")
    if lengths is not None and not unsafe:
        if array.size and array.min() < 0:
            raise RuntimeError("lengths contains negative value!")
        if (array.sum(-1) != data._array.shape[axis]).any():
            raise RuntimeError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when "
                "!unsafe."
            )
    if array.dtype not in (np.int64, np.int32):
        raise no_kernel("_segment_reduce_lengths_cpu_kernel1", given)
    if lengths is None:
        return np.diff(array, axis=-1), array[..., :-1]
    return array, np.cumsum(array, -1) - array


@public
def segment_reduce(
    data: Tensor, reduce: str, *, lengths: Tensor | None = None, indices: Tensor | None = None,
    offsets: Tensor | None = None, axis: int = 0, unsafe: bool = False, initial: Any = None,
) -> Tensor:  # fmt: skip
    """One number for each run of a dim, all runs together making up the dim: sum, mean, prod, max or min.

    `initial` joins every run, and is what an empty one gives.
    """
    check_tensor(data, "segment_reduce", "data")
    if not isinstance(reduce, str):
        raise must_be("str", reduce, "segment_reduce", "reduce", 2)
    if initial is not None and not is_number(initial):
        raise must_be("Number", initial, "segment_reduce", "initial")
    axis = wrap_dim(as_int(axis, "segment_reduce", "axis"), data._array.ndim)
    if reduce not in _NAMES:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    counts, starts = _lengths(data, lengths, offsets, axis, unsafe)
    if not DTYPE_OF[data._array.dtype].is_floating_point:
        raise no_kernel("_segment_reduce_cpu", data)
    how, count = _NAMES[reduce], counts.shape[-1]
    # The segment of every element, and one past the last for elements that belong to none.
    places = np.arange(data._array.shape[axis])
    inside = (places >= starts[..., None]) & (places < (starts + counts)[..., None])
    runs = np.where(inside.any(-2), inside.argmax(-2), count)
    tail = (1,) * (data._array.ndim - axis - 1)
    first = _OF_NOTHING[how] if initial is None else float(initial)
    empty = math.nan if how == "mean" and initial is None else first
    return apply(
        rules.segment_reduce, data, wrap(runs.reshape(runs.shape + tail)),
        wrap(counts.reshape(counts.shape + tail).copy()),  # it may be written to later
        reduce=how, axis=axis, initial=first, empty=empty,
    )  # fmt: skip
