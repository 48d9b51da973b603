"""Looking up rows of a table: embedding and embedding_bag."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.device.array import checked, values_known
from undertow._src.arrays.namespaces import namespace_of
from undertow._src.base.modes import local
from undertow._src.base.sites import warn
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import check_tensor, must_be
from undertow._src.engine.writes import check_writable, write
from undertow._src.ops.public import public
from undertow._src.ops.scatter import all_below
from undertow._src.rules import embedding as rules
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.dtypes import DTYPE_OF
from undertow._src.types.sizes import size_of

if TYPE_CHECKING:
    from undertow._tensor import Tensor


def _check_indices(indices: Tensor, name: str, argument: str = "indices", position: int = 1) -> None:
    if indices._array.dtype not in (np.int64, np.int32):
        kind = DTYPE_OF[indices._array.dtype].scalar_name
        raise RuntimeError(
            f"Expected tensor for argument #{position} '{argument}' to have one of the following scalar types: Long, Int; "
            f"but got torch.{kind}Tensor instead (while checking arguments for {name})"
        )


def _check_range(indices: object, count: int) -> None:
    def check(indices: np.ndarray) -> None:
        if indices.size and not all_below(indices, count):
            raise IndexError("index out of range in self")

    checked(check, indices)


def _check_empty_table(indices: Any, count: int) -> None:
    """Raise PyTorch's error for a table without elements."""
    if count == 0:
        raise RuntimeError("index_select(): self indexing axis dim should be positive")
    if values_known(indices) and not all_below(indices, count):
        wrong = indices[(indices < 0) | (indices >= count)].reshape(-1)[0]
        raise RuntimeError(f"INDICES element is out of DATA bounds, id={wrong} axis_dim={count}")


@public
def torch_embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """Return the rows of `weight` that the indices name; `sparse`: its gradient holds these rows only."""
    check_tensor(weight, "embedding", "weight", 1)
    check_tensor(indices, "embedding", "indices", 2)
    if weight._array.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    _check_indices(indices, "embedding")
    if 0 in weight._array.shape and indices._array.size:
        _check_empty_table(indices._array, weight._array.shape[0])
    _check_range(indices._array, weight._array.shape[0])
    return apply(
        rules.embedding, weight, indices, padding_idx=padding_idx, scale_grad_by_freq=bool(scale_grad_by_freq),
        sparse=bool(sparse),
    )  # fmt: skip


torch_embedding.__name__ = torch_embedding.__qualname__ = "embedding"
torch_embedding.__module__ = "undertow"


@public
def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Any:
    """Scale down, in place, the selected rows that are longer than `max_norm`."""
    check_tensor(input, "embedding_renorm_", "self", 1)
    _check_indices(indices, "embedding_renorm_", position=2)
    if input._array.ndim != 2:
        raise RuntimeError(
            f"Expected 2-dimensional tensor, but got {input._array.ndim}-dimensional tensor for argument #1 'self' (while "
            "checking arguments for embedding_renorm_)"
        )
    check_writable(input, input._requires_grad and local.modes.grad_enabled)
    table = input._array
    _check_range(indices._array, table.shape[0])
    if not values_known(table, indices._array):
        return write(input, _shortened(table, indices._array.reshape(-1), max_norm, norm_type))
    rows = np.unique(indices._array)
    lengths = np.linalg.norm(table[rows].astype(np.float64), ord=norm_type, axis=1)
    long = lengths > max_norm
    if long.any():
        shortened = table.copy()
        factors = max_norm / (lengths[long] + 1e-7)
        shortened[rows[long]] = (table[rows[long]] * factors[:, None]).astype(table.dtype)
        write(input, shortened)
    return input


def _shortened(table: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    """Run `embedding_renorm_` without reading values."""
    sizes = np.abs(table.astype(np.float64))
    lengths = sizes.max(1) if norm_type == math.inf else (sizes**norm_type).sum(1) ** (1 / norm_type)
    named = namespace_of([table]).add_rows(np.ones(indices.size, np.float32), indices, table.shape[0]) > 0
    factors = np.where(named & (lengths > max_norm), max_norm / (lengths + 1e-7), 1)
    return (table * factors[:, None]).astype(table.dtype)


def _renormalize(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> None:
    modes = local.modes
    before, modes.grad_enabled = modes.grad_enabled, False
    try:
        embedding_renorm_(weight, indices, max_norm, norm_type)
    finally:
        modes.grad_enabled = before


@public
def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """Return the rows of `weight` that `input` names; the row `padding_idx` gets no gradient."""
    if padding_idx is None:
        padding_idx = -1
    else:
        padding_idx = _padding_row(padding_idx, weight)
    if max_norm is not None:
        _renormalize(weight, input, max_norm, norm_type)
    return torch_embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def _padding_row(padding_idx: int, weight: Tensor) -> int:
    count = weight._array.shape[0]
    if not -count <= padding_idx < count:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return padding_idx if padding_idx >= 0 else padding_idx + count


# --- bags


def _bag_padding(padding_idx: int, weight: Tensor) -> int:
    count = weight._array.shape[0]
    if not -count <= padding_idx < count:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, -{count} through {count - 1}, but got {padding_idx}"
        )
    return _padding_row(padding_idx, weight)


def _check_weights(weight: Tensor, samples: Tensor | None) -> None:
    kind = DTYPE_OF[weight._array.dtype]
    if not kind.is_floating_point:
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, BFloat16, Float, "
            f"Double; but got torch.{kind.scalar_name}Tensor instead (while checking arguments for embedding_bag)"
        )
    if samples is not None and samples._array.dtype != weight._array.dtype:
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "
            f"'per_sample_weights'; but type torch.{kind.scalar_name}Tensor does not equal "
            f"torch.{DTYPE_OF[samples._array.dtype].scalar_name}Tensor (while checking arguments for embedding_bag)"
        )


@public
def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None, norm_type: float = 2,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """Sum, means or maxima of rows, a bag at a time: rows of a matrix of indices, or from one offset to the next."""
    if weight._array.dtype == np.int64 and isinstance(input, TensorCore) and input._array.dtype.kind == "f":
        warn(
            "Argument order of nn.functional.embedding_bag was changed. The input, which holds the indices, now "
            "comes before the weight."
        )
        input, weight = weight, input
    if per_sample_weights is not None and input._array.shape != per_sample_weights._array.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({size_of(per_sample_weights._array.shape)}) is not None, then it must "
            f"be of the input's shape ({size_of(input._array.shape)})"
        )
    if input._array.ndim not in (1, 2):
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input._array.ndim}")
    if weight._array.ndim != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight._array.ndim}")
    indices, starts, samples = _flat_bags(input, offsets, per_sample_weights)
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if samples is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got "
            f"mode={mode!r}): multiply the rows yourself, or take the sum."
        )
    padding = -1 if padding_idx is None else _bag_padding(padding_idx, weight)
    _check_weights(weight, samples)
    include_last_offset = include_last_offset and offsets is not None  # the rows of a matrix need no offset to end them
    if include_last_offset and not len(starts):
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    if include_last_offset and starts[-1] < indices._array.size:
        indices = indices[: int(starts[-1])]  # indices after the last bag are in none
        samples = None if samples is None else samples[: int(starts[-1])]
    if max_norm is not None:
        _renormalize(weight, indices, max_norm, norm_type)
    count, bags, scale = sorted_into_bags(indices, weight, starts, include_last_offset, padding, mode)
    return reduced_bags(indices, weight, mode, scale_grad_by_freq, samples, count, bags, scale, sparse, padding)


def _flat_bags(input: Tensor, offsets: Tensor | None, per_sample_weights: Tensor | None) -> tuple[Any, Any, Any]:
    """Return indices one after another, where each bag starts, and the indices' weights."""
    if input._array.ndim == 2:
        if offsets is not None:
            raise ValueError(
                f"if input is 2D, then offsets has to be None, as each row is a bag. It is of type {type(offsets)}"
            )
        rows, width = input._array.shape
        if width == 0:
            raise RuntimeError("step must be nonzero. Bags without any index need offsets, and their indices one dim.")
        starts = np.arange(0, rows * width, width)
        samples = None if per_sample_weights is None else per_sample_weights.reshape(-1)
        return input.reshape(-1), starts, samples
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if not isinstance(offsets, TensorCore):
        raise must_be("Tensor", offsets, "embedding_bag", "offsets")
    if offsets._array.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    _check_indices(offsets, "embedding_bag")  # PyTorch casts both to one dtype, and its error names the indices
    return input, offsets._array, per_sample_weights


def sorted_into_bags(
    indices: Tensor, weight: Tensor, starts: np.ndarray, include_last: bool, padding: int, mode: str
) -> tuple[int, Any, Any]:
    """How many bags there are, which one each index belongs to, and how much it counts (padding does not)."""
    _check_indices(indices, "embedding_bag")
    places, length = indices._array, indices._array.size
    known = values_known(starts, places)
    if known and len(starts) and starts[0] != 0:
        raise RuntimeError(
            f"offsets[0] has to be 0, i.e., the first sequence in the batch begins there. It is {starts[0]}"
        )
    if known and len(starts) and starts[-1] > length:
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length {length} but got offsets[-1] of {starts[-1]}"
        )
    count = weight._array.shape[0]
    # PyTorch's fast kernel has its own error text
    fast = weight._array.dtype != np.float64 and padding < 0 and mode != "max"
    wrong = np.flatnonzero((places < 0) | (places >= count)) if known else np.zeros(0, np.int64)
    if wrong.size:
        raise RuntimeError(
            f"Index {wrong[0]} of input takes value {places[wrong[0]]} which is not in the valid range [0, {count})"
            if fast else
            f"embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {places[wrong[0]]}"
        )  # fmt: skip
    starts = starts[:-1] if include_last else starts
    bags = np.searchsorted(starts, np.arange(length), side="right") - 1
    scale = np.ones(length, weight._array.dtype)
    if padding >= 0:
        scale = np.where(places == padding, scale.dtype.type(0), scale)
    return len(starts), bags, scale


def bag_sizes(bags: np.ndarray, scale: np.ndarray, count: int) -> np.ndarray:
    """How many indices that count each bag has."""
    return namespace_of([bags]).add_rows(scale.astype(np.float64), bags, count)


def reduced_bags(
    indices: Tensor, weight: Tensor, mode: str, scale_grad_by_freq: bool, samples: Tensor | None, count: int,
    bags: np.ndarray, scale: np.ndarray, sparse: bool, padding: int,
) -> Tensor:  # fmt: skip
    """One row for each bag: the sum, the mean or the maximum of the rows that its indices name."""
    if mode == "max":
        return apply(rules.bag_max, weight, indices, wrap(bags), wrap(scale), count=count)
    if mode == "mean":
        scale = (scale / np.maximum(bag_sizes(bags, scale, count), 1)[bags]).astype(scale.dtype)
    return apply(
        rules.bag_sum, weight, samples, indices, wrap(bags), wrap(scale), count=count,
        scale_grad_by_freq=bool(scale_grad_by_freq), sparse=bool(sparse), padding_idx=padding,
    )  # fmt: skip
