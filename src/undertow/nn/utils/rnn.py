"""Batches of sequences of different lengths: padded, packed, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from undertow._src.arrays.device.array import is_known, values_known
from undertow._src.arrays.device.memory import NeedsValue
from undertow._src.arrays.device.placement import Home, accelerator_among
from undertow._src.base import tracer
from undertow._src.base.sites import user_site
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import wrap_dim
from undertow._src.ops.sort import argsort
from undertow._src.rules import index as rules
from undertow._src.rules.rule import twin
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.dtypes import DTYPE_OF, float16, float32, float64, int8, int16, int32, int64, uint8
from undertow._tensor import Tensor

_taken_rows = twin(rules.index, "PackPaddedSequenceBackward0")


class PackedSequence_(NamedTuple):
    """What a PackedSequence is made of."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(PackedSequence_):
    """Sequences concatenated step by step: step t holds rows of the first batch_sizes[t] sequences, longest first."""

    def __new__(
        cls, data: Tensor, batch_sizes: Tensor | None = None, sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:  # fmt: skip
        return super().__new__(cls, *_packed_sequence_init_args(data, batch_sizes, sorted_indices, unsorted_indices))

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Return the packed sequence with its data moved or cast."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        return type(self)(data, self.batch_sizes, self.sorted_indices, self.unsorted_indices)

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        return self.to(*args, **{"device": "cpu", **kwargs} if not args else kwargs)

    def cuda(self, *args: object, **kwargs: object) -> PackedSequence:
        """Raise, because there is no GPU."""
        return self.to(*args, **{"device": "cuda", **kwargs} if not args else kwargs)

    def double(self) -> PackedSequence:
        return self.to(float64)

    def float(self) -> PackedSequence:
        return self.to(float32)

    def half(self) -> PackedSequence:
        return self.to(float16)

    def long(self) -> PackedSequence:
        return self.to(int64)

    def int(self) -> PackedSequence:
        return self.to(int32)

    def short(self) -> PackedSequence:
        return self.to(int16)

    def char(self) -> PackedSequence:
        return self.to(int8)

    def byte(self) -> PackedSequence:
        return self.to(uint8)

    def pin_memory(self) -> PackedSequence:
        return self

    @property
    def is_cuda(self) -> bool:
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        return False


def sizes_of(batch_sizes: Tensor) -> tuple[int, ...]:
    """Return the batch sizes as a tuple of integers."""
    return tuple(batch_sizes.tolist())


def _packed_sequence_init_args(
    data: Tensor, batch_sizes: Tensor | None = None, sorted_indices: Tensor | None = None,
    unsorted_indices: Tensor | None = None,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """Return the fields of a packed sequence; the inverse of the sorting is computed if it is not given."""
    if batch_sizes is None:
        if not (isinstance(data, (list, tuple)) and len(data) == 2):
            raise AssertionError("Expected data to be a list or tuple of length 2")
        data, batch_sizes = data
    if unsorted_indices is None:
        unsorted_indices = invert_permutation(sorted_indices)
    return data, batch_sizes, sorted_indices, unsorted_indices


_packed_sequence_init = PackedSequence


def bind(optional: object, fn: Callable[[Any], Any]) -> Any:
    """Return `fn(optional)`, or None for None."""
    return None if optional is None else fn(optional)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the inverse of a permutation."""
    if permutation is None:
        return None
    order = permutation._array
    inverse = np.empty_like(order)
    inverse[order] = np.arange(order.size, dtype=order.dtype)
    return wrap(inverse)


def _where_rows_are(batch_sizes: tuple[int, ...]) -> tuple[Any, Any]:
    """Return the step and the sequence of each packed row."""
    step = np.repeat(np.arange(len(batch_sizes)), batch_sizes)
    sequence = np.concatenate([np.arange(size) for size in batch_sizes])
    return wrap(step), wrap(sequence)


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a padded batch, time first unless batch_first; lengths must decrease unless enforce_sorted is off."""
    if not isinstance(lengths, TensorCore):
        lengths = wrap(np.asarray(lengths, np.int64))
    counts = lengths._array.astype(np.int64)
    if counts.ndim != 1:
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {counts.ndim}D cpu "
            f"{DTYPE_OF[lengths._array.dtype].scalar_name} tensor"
        )
    if not values_known(counts) and not is_known(counts):
        held = tracer.running().guarded_value(lengths._array)
        counts = None if held is None else held.astype(np.int64)
    if counts is None:
        raise NeedsValue(
            f"lengths of packed sequences decide about shapes, and at {user_site() or 'an unknown line'} they are known "
            "only when the program runs. Hand them over as a list of ints (other lengths make another program), or compute "
            "with the padded batch and a mask."
        )
    order = None
    if not enforce_sorted:
        order = argsort(wrap(counts), descending=True)
        counts = counts[order._array]
        order = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, order)
    if batch_first:
        input = input.transpose(0, 1)
    if not input._array.size:
        raise RuntimeError("Cannot pack empty tensors.")
    if counts.size != input.shape[wrap_dim(1, input.dim())]:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {counts.size} (batch_size={input.shape[1]})"
        )
    if counts.size and counts.min() <= 0:
        raise RuntimeError("Length of all samples has to be greater than 0; in 'lengths' one is not")
    if np.any(counts[:-1] < counts[1:]):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True, and it is not. "
            "You can pass `enforce_sorted=False`: the sequences are then sorted, and put back in order when unpacked."
        )
    if counts[0] > input.shape[0]:
        raise IndexError(
            f"select(): index {input.shape[0]} out of range for tensor of size {list(input.shape)} at dimension 0: the "
            f"length {counts[0]} is longer than the padded sequences"
        )
    sizes = tuple([int((counts > step).sum()) for step in range(int(counts[0]))])
    with Home(accelerator_among([input])):
        rows = _where_rows_are(sizes)
    data = apply(_taken_rows, input, *rows)
    return PackedSequence(data, wrap(np.asarray(sizes, np.int64)), order, None)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Any, Any]:
    """Return a padded batch and the lengths, from a packed one."""
    sizes = sizes_of(sequence.batch_sizes)
    longest = len(sizes)
    if total_length is not None:
        if total_length < longest:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence; "
                f"that is {longest}, and total_length={total_length}"
            )
        longest = total_length
    data = sequence.data
    padded = data.new_full((longest, sizes[0], *data.shape[1:]), padding_value)
    padded = padded.index_put(_where_rows_are(sizes), data)
    lengths = wrap(np.asarray([sum(size > nr for size in sizes) for nr in range(sizes[0])], np.int64))
    if batch_first:
        padded = padded.transpose(0, 1)
    back = sequence.unsorted_indices
    if back is not None:
        return padded.index_select(0 if batch_first else 1, back), lengths[back.cpu()]
    return padded, lengths


def pad_sequence(
    sequences: Tensor | Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:  # fmt: skip
    """Return one tensor of sequences of different lengths, padded at the end (or, with "left", at the beginning)."""
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    parts = list(sequences.unbind(0)) if isinstance(sequences, TensorCore) else list(sequences)
    if not parts:
        raise RuntimeError("received an empty list of sequences")
    for nr, part in enumerate(parts):
        if not isinstance(part, TensorCore):
            raise TypeError(f"expected Tensor as element {nr} in argument 0, but got {type(part).__name__}")
    longest, rest = max(part.shape[0] for part in parts), parts[0].shape[1:]
    shape = (len(parts), longest) if batch_first else (longest, len(parts))
    padded = parts[0].new_full((*shape, *rest), padding_value)
    for nr, part in enumerate(parts):
        length = part.shape[0]
        place = slice(length) if padding_side == "right" else slice(longest - length, None)
        (padded.select(0, nr) if batch_first else padded.select(1, nr))[place].copy_(part)
    return padded


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Any]:
    """Return the sequences of a padded batch without their padding."""
    batch = padded_sequences if batch_first else padded_sequences.transpose_(0, 1)  # in place, as in PyTorch
    return [sequence[:length].clone() for sequence, length in zip(batch, lengths.tolist(), strict=True)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences of different lengths."""
    lengths = [sequence.shape[0] for sequence in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Any]:
    """Return the sequences of a packed batch."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
