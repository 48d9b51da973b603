"""Plans of a save and of a load: which rank writes or reads what. Subclass a planner to change what is stored."""

from __future__ import annotations

import abc
import io
import operator
from dataclasses import dataclass
from enum import Enum, auto
from functools import reduce
from typing import Any

from undertow._src.types.sizes import Size
from undertow.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
)

__all__ = [
    "BytesIOWriteData", "LoadItemType", "LoadPlan", "LoadPlanner", "ReadItem", "SavePlan", "SavePlanner",
    "TensorWriteData", "WriteItem", "WriteItemType",
]  # fmt: skip


class WriteItemType(Enum):
    """A whole tensor, a chunk of a distributed one, or anything else."""

    TENSOR = auto()
    SHARD = auto()
    BYTE_IO = auto()


class LoadItemType(Enum):
    """A part of a tensor, or anything else."""

    TENSOR = auto()
    BYTE_IO = auto()


@dataclass(frozen=True)
class BytesIOWriteData:
    """The size of an entry that is not a tensor."""

    nbytes: int


@dataclass(frozen=True)
class TensorWriteData:
    """A chunk to write, and the tensor that it is part of."""

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: Size


@dataclass(frozen=True)
class WriteItem:
    """An entry that a rank writes."""

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: BytesIOWriteData | None = None
    tensor_data: TensorWriteData | None = None

    def tensor_storage_size(self) -> int | None:
        """Return the bytes of a tensor's chunk; None for anything else."""
        if self.tensor_data is None:
            return None
        return reduce(operator.mul, self.tensor_data.chunk.sizes, self.tensor_data.properties.dtype.itemsize)


@dataclass(frozen=True)
class ReadItem:
    """An entry, or the part of a stored chunk that goes to a part of a tensor."""

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: Size
    storage_index: MetadataIndex
    storage_offsets: Size
    lengths: Size


@dataclass(frozen=True)
class SavePlan:
    """What a rank writes."""

    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    """What a rank reads."""

    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner(abc.ABC):
    """Decides what each rank writes. Its methods are called in the order in which they are defined."""

    @abc.abstractmethod
    def set_up_planner(
        self, state_dict: dict[str, Any], storage_meta: StorageMeta | None = None, is_coordinator: bool = False
    ) -> None:
        """Take this rank's state dict."""

    @abc.abstractmethod
    def create_local_plan(self) -> SavePlan:
        """Return what this rank would write."""

    @abc.abstractmethod
    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Return each rank's plan, and the checkpoint's metadata. Only the coordinator calls this."""

    @abc.abstractmethod
    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """Take the plan that the coordinator made for this rank."""

    @abc.abstractmethod
    def resolve_data(self, write_item: WriteItem) -> Any:
        """Return what is to be written: a tensor, or a BytesIO."""


class LoadPlanner:
    """Decides what each rank reads. Its methods are called in the order in which they are defined."""

    @abc.abstractmethod
    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        """Take this rank's state dict, which is to be filled, and the checkpoint's metadata."""

    @abc.abstractmethod
    def create_local_plan(self) -> LoadPlan:
        """Return what this rank reads."""

    @abc.abstractmethod
    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """Return each rank's plan. Only the coordinator calls this."""

    @abc.abstractmethod
    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """Take the plan that the coordinator made for this rank."""

    @abc.abstractmethod
    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Take an entry that is not a tensor."""

    def resolve_bytes(self, read_item: ReadItem) -> io.BytesIO:
        """Return the buffer for an entry that is not a tensor."""
        raise NotImplementedError("LoadPlanner.resolve_bytes is not implemented")

    @abc.abstractmethod
    def resolve_tensor(self, read_item: ReadItem) -> Any:
        """Return the part of a tensor that is to be filled."""

    @abc.abstractmethod
    def commit_tensor(self, read_item: ReadItem, tensor: Any) -> None:
        """Take a part that has been filled."""
