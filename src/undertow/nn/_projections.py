"""Steps of multi-head attention, under the private names that packages with their own attention import."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from undertow._src.base.sites import warn
from undertow._src.ops.activation import usual_dim
from undertow._src.ops.matmul import linear
from undertow._src.ops.multi_head import _check_shapes as _mha_shape_check  # noqa: F401
from undertow._src.ops.slicing import chunk, split
from undertow._src.tensor.core import TensorCore
from undertow._tensor import Tensor

if TYPE_CHECKING:
    from undertow._src.types.dtypes import dtype


def _in_projection_packed(q: Tensor, k: Tensor, v: Tensor, w: Tensor, b: Tensor | None = None) -> tuple[Any, ...]:
    """Return queries, keys and values projected by one weight that holds all three projections."""
    size = q.size(-1)
    if k is v and q is k:
        return chunk(linear(q, w, b), 3, -1)
    if k is v:
        weights = split(w, [size, 2 * size])
        biases = (None, None) if b is None else split(b, [size, 2 * size])
        return linear(q, weights[0], biases[0]), *chunk(linear(k, weights[1], biases[1]), 2, -1)
    biases = (None,) * 3 if b is None else chunk(b, 3)
    return tuple([linear(x, part, bias) for x, part, bias in zip((q, k, v), chunk(w, 3), biases, strict=True)])


def _in_projection(
    q: Tensor, k: Tensor, v: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, b_q: Tensor | None = None,
    b_k: Tensor | None = None, b_v: Tensor | None = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return queries, keys and values, each projected by its own weight."""
    return linear(q, w_q, b_q), linear(k, w_k, b_k), linear(v, w_v, b_v)


def _none_or_dtype(input: Tensor) -> dtype | None:
    """Return the dtype of a tensor, or None for None."""
    if input is None:
        return None
    if isinstance(input, TensorCore):
        return input.dtype
    raise RuntimeError("input to _none_or_dtype() must be None or torch.Tensor")


def _canonical_mask(
    mask: Tensor, mask_name: str, other_type: object, other_name: str, target_type: dtype, check_other: bool = True
) -> Tensor | None:
    """Return the mask to add to the scores: a boolean mask becomes minus infinity where it is true."""
    if mask is None:
        return None
    is_float = mask.is_floating_point()
    if not is_float and str(mask.dtype) != "torch.bool":
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype is not other_type:
        warn(f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead.")
    return mask if is_float else mask.new_zeros(mask.shape, dtype=target_type).masked_fill_(mask, -math.inf)


def _get_softmax_dim(name: str, ndim: int, stacklevel: int) -> int:
    """Return the dim that softmax uses if none is given."""
    return usual_dim(name, ndim)


def _verify_batch_size(size: Sequence[int]) -> None:
    """Raise if a batch has only one value per channel to normalize over."""
    if math.prod(size) // size[1] == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")
