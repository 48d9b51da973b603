"""Where checkpoints are stored: the methods of a storage. `FileSystemWriter` and `FileSystemReader` use a folder."""

from __future__ import annotations

import abc
import os
from dataclasses import dataclass
from typing import Any

from undertow.distributed.checkpoint.metadata import Metadata, MetadataIndex, StorageMeta
from undertow.distributed.checkpoint.planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner
from undertow.futures import Future

__all__ = ["StorageReader", "StorageWriter", "WriteResult"]


@dataclass(frozen=True)
class WriteResult:
    """An entry that has been written: its size, and where it is."""

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageWriter(abc.ABC):
    """Writes checkpoints. Its methods are called in the order in which they are defined."""

    @abc.abstractmethod
    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begin a save."""

    @abc.abstractmethod
    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Take whether this rank is the coordinator."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Return this rank's plan with the storage's data."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Return all ranks' plans with the storage's data. Only the coordinator calls this."""

    @abc.abstractmethod
    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write what a plan has; return a future of the results."""

    @abc.abstractmethod
    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the metadata, after which the checkpoint exists. Only the coordinator calls this."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether this storage can have a checkpoint of this name."""

    def storage_meta(self) -> StorageMeta | None:
        """Return what identifies this save."""
        return None


class StorageReader(abc.ABC):
    """Reads checkpoints. Its methods are called in the order in which they are defined."""

    @abc.abstractmethod
    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begin a load."""

    @abc.abstractmethod
    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Return the checkpoint's metadata."""

    @abc.abstractmethod
    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Take the checkpoint's metadata."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Return this rank's plan with the storage's data."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Return all ranks' plans with the storage's data. Only the coordinator calls this."""

    @abc.abstractmethod
    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read what a plan has, and give it to the planner."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether this storage can have a checkpoint of this name."""
