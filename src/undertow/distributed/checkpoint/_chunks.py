"""The part of a tensor that this rank has, and how stored parts overlap with it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from undertow._src.distributed.dtensor.dtensor import DTensor
from undertow._src.distributed.dtensor.placements import Partial
from undertow._src.distributed.dtensor.spec import local_part
from undertow._src.types.sizes import Size
from undertow.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from undertow.distributed.checkpoint.planner import (
    BytesIOWriteData,
    LoadItemType,
    ReadItem,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)


def chunk_of(tensor: Any) -> ChunkStorageMetadata:
    """Return the part of a tensor that this rank has: all of it, unless it is distributed."""
    if not isinstance(tensor, DTensor):
        return ChunkStorageMetadata(Size([0] * tensor.dim()), Size(tensor.shape))
    sizes, offsets = local_part(tensor.shape, tensor.device_mesh, tensor.placements)
    return ChunkStorageMetadata(Size(offsets), Size(sizes))


def local_of(tensor: Any) -> Any:
    """Return the tensor with this rank's part."""
    return tensor._local_tensor if isinstance(tensor, DTensor) else tensor


def write_item(name: str, value: Any, is_tensor: bool) -> WriteItem:
    """Return how an entry is written."""
    if not is_tensor:
        return WriteItem(MetadataIndex(name), WriteItemType.BYTE_IO, bytes_io_data=BytesIOWriteData(0))
    if isinstance(value, DTensor) and any(isinstance(each, Partial) for each in value.placements):
        raise ValueError(
            f"Any checkpointing related operations are not supported for DTensor with partial placements: {name} has "
            f"{value.placements}. Call redistribute() first."
        )
    chunk = chunk_of(value)
    kind = WriteItemType.SHARD if isinstance(value, DTensor) else WriteItemType.TENSOR
    data = TensorWriteData(chunk, TensorProperties.create_from_tensor(value), Size(value.shape))
    return WriteItem(MetadataIndex(name, chunk.offsets), kind, tensor_data=data)


def read_items(name: str, stored: TensorStorageMetadata, tensor: Any) -> Iterator[ReadItem]:
    """Yield what to read for this rank's part of a tensor: its overlap with each stored chunk."""
    own = chunk_of(tensor)
    for number, chunk in enumerate(stored.chunks):
        starts = [max(one, other) for one, other in zip(own.offsets, chunk.offsets, strict=True)]
        ends = [
            min(start + size, other + length)
            for start, size, other, length in zip(own.offsets, own.sizes, chunk.offsets, chunk.sizes, strict=True)
        ]
        if any(end <= start for start, end in zip(starts, ends, strict=True)):
            continue
        yield ReadItem(
            LoadItemType.TENSOR,
            MetadataIndex(name, own.offsets, 0),
            Size([start - begin for start, begin in zip(starts, own.offsets, strict=True)]),
            MetadataIndex(name, chunk.offsets, number),
            Size([start - begin for start, begin in zip(starts, chunk.offsets, strict=True)]),
            Size([end - start for start, end in zip(starts, ends, strict=True)]),
        )


def narrowed(tensor: Any, offsets: Sequence[int], lengths: Sequence[int]) -> Any:
    """Return the part of a tensor that begins at `offsets`."""
    for dim, (start, length) in enumerate(zip(offsets, lengths, strict=True)):
        if tensor.shape[dim] != length:
            tensor = tensor.narrow(dim, start, length)
    return tensor


def refuse_gaps(name: str, stored: TensorStorageMetadata) -> None:
    """Raise unless the chunks fill the tensor."""
    filled = sum(math.prod(chunk.sizes) for chunk in stored.chunks)
    if filled != math.prod(stored.size):
        raise ValueError(
            f"Failed to validate global plan: the ranks have {filled} elements of {name}, whose shape is "
            f"{tuple(stored.size)}, in {len(stored.chunks)} chunks. All ranks of its mesh have to take part in the save."
        )
