"""What the file `.metadata` of a checkpoint holds: every entry's kind, shape and chunks, and where each chunk is stored."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from undertow._src.types.dtypes import dtype as dtype_type
from undertow._src.types.dtypes import float32
from undertow._src.types.layouts import (
    channels_last,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    strided,
)
from undertow._src.types.sizes import Size

__all__ = [
    "BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "MetadataIndex", "StorageMeta", "TensorProperties",
    "TensorStorageMetadata",
]  # fmt: skip


@dataclass
class ChunkStorageMetadata:
    """A part of a tensor: where it begins, and its shape."""

    offsets: Size
    sizes: Size


class _MEM_FORMAT_ENCODING(Enum):
    """Memory formats as numbers, as they are stored."""

    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


_FORMATS: dict[memory_format, _MEM_FORMAT_ENCODING] = dict(
    zip((contiguous_format, channels_last, preserve_format), _MEM_FORMAT_ENCODING, strict=True)
)


@dataclass
class TensorProperties:
    """What is known of a tensor besides its shape."""

    dtype: dtype_type = field(default_factory=lambda: float32)
    layout: layout = field(default_factory=lambda: strided)
    requires_grad: bool = False
    memory_format: memory_format = field(default_factory=lambda: contiguous_format)
    pin_memory: bool = False

    def __getstate__(self) -> tuple[Any, ...]:
        return self.dtype, self.layout, self.requires_grad, _FORMATS[self.memory_format], self.pin_memory

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.dtype, self.layout, self.requires_grad, number, self.pin_memory = state
        self.memory_format = next(each for each, code in _FORMATS.items() if code is number)

    @staticmethod
    def create_from_tensor(tensor: Any) -> TensorProperties:
        """Return the properties of a tensor."""
        return TensorProperties(tensor.dtype, tensor.layout, tensor.requires_grad)


@dataclass
class TensorStorageMetadata:
    """A tensor: its properties, its shape, and the chunks that it is stored in."""

    properties: TensorProperties
    size: Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """An entry that is not a tensor, which is stored as a pickle."""


@dataclass
class StorageMeta:
    """What identifies a checkpoint, a save and a load."""

    checkpoint_id: str | os.PathLike[str] | None = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """A checkpoint's entries, and what planner and storage add to them."""

    state_dict_metadata: dict[str, TensorStorageMetadata | BytesStorageMetadata]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


@dataclass(frozen=True)
class MetadataIndex:
    """The name of an entry, or of the chunk that begins at `offset`. `index` is a hint: the number of the chunk."""

    fqn: str
    offset: Size | None = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __post_init__(self) -> None:
        if self.offset is not None:
            object.__setattr__(self, "offset", Size(self.offset))
