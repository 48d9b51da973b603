"""Checkpoints in a folder: a file of each rank, and `.metadata`, in the format of PyTorch's.

NOTE atomic. A save never writes to a file of an earlier one: its files get numbers that are free. Only when all of them are
on disk is `.metadata` replaced, by renaming, and then the earlier files are removed. So a save that is interrupted
leaves the earlier checkpoint as it was.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

from undertow._src.base.sites import warn
from undertow.distributed.checkpoint._chunks import narrowed
from undertow.distributed.checkpoint._metadata_file import dump_metadata, load_metadata
from undertow.distributed.checkpoint.metadata import Metadata, StorageMeta
from undertow.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from undertow.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from undertow.futures import Future
from undertow.serialization import load, save
from undertow.serialization.atomic import replacing

__all__ = ["FileSystemReader", "FileSystemWriter", "SerializationFormat"]

_METADATA = ".metadata"
_ENDING = ".distcp"


class SerializationFormat(Enum):
    """The format of the data files."""

    TORCH_SAVE = "torch_save"
    SAFETENSORS = "safetensors"


@dataclass
class _StorageInfo:
    """Where an entry is: the file, and the bytes in it."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: Sequence[str] | None = None


@dataclass
class _StoragePrefix:
    """How the names of a rank's files begin."""

    prefix: str


class FileSystemWriter(StorageWriter):
    """Writes checkpoints to a folder that all ranks have."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
        _extensions: Any = None,
        serialization_format: SerializationFormat = SerializationFormat.TORCH_SAVE,
    ) -> None:
        if serialization_format is not SerializationFormat.TORCH_SAVE:
            raise NotImplementedError("undertow writes checkpoints in the format TORCH_SAVE only")
        if _extensions:
            raise NotImplementedError("undertow writes checkpoints as they are: leave out _extensions")
        self.single_file_per_rank, self.sync_files, self.overwrite = single_file_per_rank, sync_files, overwrite
        self.thread_count = thread_count
        self.path = Path(path)
        self.save_id = str(uuid4())
        self._made: list[Path] = []  # files of this save

    @property
    def checkpoint_id(self) -> str | os.PathLike[str]:
        """The folder."""
        return self.path

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        if checkpoint_id is not None:
            self.path = Path(checkpoint_id)
        self._made = []
        self.save_id = str(uuid4())

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self.is_coordinator = is_coordinator

    def storage_meta(self) -> StorageMeta:
        return StorageMeta(checkpoint_id=self.path, save_id=self.save_id)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        self.path.mkdir(parents=True, exist_ok=True)
        if (self.path / _METADATA).exists():
            if not self.overwrite:
                raise RuntimeError(f"Checkpoint already exists and {self.overwrite=}. It is in {self.path}.")
            warn(f"Detected an existing checkpoint in {self.path}, overwriting since {self.overwrite=}.")
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        return [replace(plan, storage_data=_StoragePrefix(f"__{rank}_")) for rank, plan in enumerate(plans)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        items = sorted(plan.items, key=lambda item: item.type is not WriteItemType.BYTE_IO)
        files = [items] if self.single_file_per_rank else [[item] for item in items]
        results: list[WriteResult] = []
        names = self._free_names(plan.storage_data.prefix)
        for part in files:
            if part:
                name = next(names)
                with open(self.path / name, "xb") as file:
                    self._made.append(self.path / name)
                    results += [_written(item, planner.resolve_data(item), file, name) for item in part]
                    if self.sync_files:
                        file.flush()
                        os.fsync(file.fileno())
        future: Future[list[WriteResult]] = Future()
        future.set_result(results)
        return future

    def _free_names(self, prefix: str) -> Iterator[str]:
        for number in count():
            name = f"{prefix}{number}{_ENDING}"
            if not (self.path / name).exists():
                yield name

    def discard(self) -> None:
        """Remove this rank's files: the save has failed, on this rank or on a different one."""
        for path in self._made:
            with contextlib.suppress(OSError):
                path.unlink()

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        metadata.storage_data = {result.index: result.storage_data for each in results for result in each}
        metadata.storage_meta = self.storage_meta()
        earlier = _files_of(self.path)
        with replacing(str(self.path / _METADATA)) as file:
            dump_metadata(metadata, file)
        for name in earlier - {info.relative_path for info in metadata.storage_data.values()}:
            with contextlib.suppress(OSError):
                os.unlink(self.path / name)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        path = Path(checkpoint_id)
        return "://" not in str(checkpoint_id) and any(
            each.exists() and os.access(each, os.W_OK) for each in path.parents
        )


def _written(item: WriteItem, value: Any, file: Any, name: str) -> WriteResult:
    """Write an entry to the end of a file."""
    start = file.tell()
    if item.type is WriteItemType.BYTE_IO:
        file.write(value.getbuffer())
    else:
        tensor = value.detach().cpu()
        if tensor.untyped_storage().nbytes() != tensor.numel() * tensor.itemsize:
            tensor = tensor.clone()  # a view: only its own elements are written
        save(tensor, file)
    length = file.tell() - start
    return WriteResult(item.index, length, _StorageInfo(name, start, length))


def _files_of(path: Path) -> set[str]:
    """Return the data files of the checkpoint in a folder, if there is one that can be read."""
    try:
        with open(path / _METADATA, "rb") as file:
            stored = load_metadata(file).storage_data
        return {
            info.relative_path for info in stored.values() if os.path.basename(info.relative_path) == info.relative_path
        }
    except (OSError, pickle.UnpicklingError, AttributeError):
        return set()


class FileSystemReader(StorageReader):
    """Reads checkpoints from a folder."""

    def __init__(self, path: str | os.PathLike[str], _extension_registry: Any = None) -> None:
        self.path = Path(path)
        self.storage_data: Any = None
        self.load_id = str(uuid4())

    @property
    def checkpoint_id(self) -> str | os.PathLike[str]:
        """The folder."""
        return self.path

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        self.storage_data = None
        if checkpoint_id is not None:
            self.path = Path(checkpoint_id)
        self.load_id = str(uuid4())

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        path = self.path / _METADATA
        try:
            with open(path, "rb") as file:
                metadata = load_metadata(file)
        except FileNotFoundError:
            there = (
                "which has no such file: a save to it was not completed" if self.path.exists() else "which is missing"
            )
            raise FileNotFoundError(f"no checkpoint: there is no {_METADATA} in {self.path}, {there}") from None
        if metadata.storage_meta is None:
            metadata.storage_meta = StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self.storage_data = metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        by_file: dict[str, list[ReadItem]] = {}
        for item in plan.items:
            by_file.setdefault(self.storage_data[item.storage_index].relative_path, []).append(item)
        for name, items in by_file.items():
            with open(self.path / name, "rb") as file:
                for item in items:
                    self._read(item, file, planner)
        future: Future[None] = Future()
        future.set_result(None)
        return future

    def _read(self, item: ReadItem, file: Any, planner: LoadPlanner) -> None:
        """Read an entry, or a part of a chunk, and give it to the planner."""
        info = self.storage_data[item.storage_index]
        file.seek(info.offset)
        data = io.BytesIO(file.read(info.length))
        if data.getbuffer().nbytes != info.length:
            raise RuntimeError(
                f"{item.storage_index.fqn} can't be read: {self.path / info.relative_path} ends before byte "
                f"{info.offset + info.length}. It was cut off, or belongs to a different checkpoint."
            )
        if item.type is LoadItemType.BYTE_IO:
            planner.load_bytes(item, data)
            return
        part = narrowed(load(data, map_location="cpu", weights_only=True), item.storage_offsets, item.lengths)
        target = planner.resolve_tensor(item).detach()
        if target.shape != part.shape:
            raise AssertionError(
                f"req {item.storage_index} mismatch sizes {target.shape} vs {part.shape}: the planner's tensor does not fit"
            )
        target.copy_(part)
        planner.commit_tensor(item, target)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return FileSystemWriter.validate_checkpoint_id(checkpoint_id)
