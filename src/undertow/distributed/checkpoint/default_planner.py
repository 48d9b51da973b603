"""The planners that save and load use unless others are given."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.creation import empty
from undertow._src.types.sizes import Size
from undertow.distributed.checkpoint._chunks import local_of, narrowed, read_items, refuse_gaps, write_item
from undertow.distributed.checkpoint._flattening import Path, flatten, set_entry
from undertow.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorStorageMetadata,
)
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
from undertow.serialization import load, save

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner"]

_VERSION = "1.0.0"  # of the format


class DefaultSavePlanner(SavePlanner):
    """Saves every entry once: a chunk of a distributed tensor, or an entry that several ranks have, on one of them."""

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None,
        dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        self.mappings: dict[str, Path] = {}

    def set_up_planner(
        self, state_dict: dict[str, Any], storage_meta: StorageMeta | None = None, is_coordinator: bool = False
    ) -> None:
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten(state_dict)
        self.state_dict, self.is_coordinator = state_dict, is_coordinator

    def create_local_plan(self) -> SavePlan:
        items = [write_item(name, value, isinstance(value, TensorCore)) for name, value in self.state_dict.items()]
        self.plan = SavePlan(items, planner_data=self.mappings if self.flatten_state_dict else None)
        return self.plan

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        plans = _without_copies(all_plans, self.dedup_save_to_lowest_rank)
        described: dict[str, TensorStorageMetadata | BytesStorageMetadata] = {}
        numbered = [replace(plan, items=[_described(item, described) for item in plan.items]) for plan in plans]
        for name, stored in described.items():
            if isinstance(stored, TensorStorageMetadata):
                refuse_gaps(name, stored)
        mappings: Any = None
        if self.flatten_state_dict:
            mappings = {name: path for plan in all_plans for name, path in (plan.planner_data or {}).items()}
        return numbered, Metadata(described, planner_data=mappings, version=_VERSION)

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> Any:
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index: MetadataIndex) -> Any:
        """Return an entry, or this rank's part of it."""
        return local_of(self.state_dict[index.fqn])

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:
        """Return what is written for an entry: what is not a tensor as a BytesIO."""
        if write_item.type is WriteItemType.BYTE_IO:
            data = io.BytesIO()
            save(object, data)
            return data
        return object


def _described(item: WriteItem, described: dict[str, TensorStorageMetadata | BytesStorageMetadata]) -> WriteItem:
    """Add an item to the metadata, and return it with the number of its chunk."""
    name, data = item.index.fqn, item.tensor_data
    own: Any = BytesStorageMetadata() if data is None else TensorStorageMetadata(data.properties, data.size, [])
    stored: Any = described.setdefault(name, own)
    if type(stored) is not type(own) or (data is not None and stored.size != data.size):
        raise ValueError(
            f"the ranks have different entries of the name {name}: {_kind(stored)} and {_kind(own)}. Give them different "
            "names, or save the same kind of entry on every rank."
        )
    if data is None:
        return item
    stored.chunks.append(data.chunk)
    return replace(item, index=MetadataIndex(name, item.index.offset, len(stored.chunks) - 1))


def _kind(stored: TensorStorageMetadata | BytesStorageMetadata) -> str:
    return f"a tensor of shape {tuple(stored.size)}" if isinstance(stored, TensorStorageMetadata) else "no tensor"


def _without_copies(plans: list[SavePlan], to_lowest_rank: bool) -> list[SavePlan]:
    """Give each entry that several ranks have to one of them: to the one that writes the least so far."""
    owners: dict[MetadataIndex, list[int]] = {}
    sizes: dict[MetadataIndex, int] = {}
    for rank, plan in enumerate(plans):
        for item in plan.items:
            owners.setdefault(item.index, []).append(rank)
            sizes[item.index] = item.tensor_storage_size() or 1
    loads = [0] * len(plans)
    writers: dict[MetadataIndex, int] = {}
    for index, ranks in owners.items():
        writer = min(ranks) if to_lowest_rank else min(ranks, key=loads.__getitem__)
        writers[index] = writer
        loads[writer] += sizes[index]
    return [
        replace(plan, items=[item for item in plan.items if writers[item.index] == rank])
        for rank, plan in enumerate(plans)
    ]


class DefaultLoadPlanner(LoadPlanner):
    """Fills the tensors of a state dict, each rank its part, and replaces the entries that are not tensors."""

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True, allow_partial_load: bool = False
    ) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.allow_partial_load = allow_partial_load
        self.mappings: dict[str, Path] = {}

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        self.original_state_dict = state_dict
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten(state_dict)
        self.state_dict, self.metadata, self.is_coordinator = state_dict, metadata, is_coordinator

    def create_local_plan(self) -> LoadPlan:
        assert self.metadata is not None
        known = self.metadata.state_dict_metadata
        items: list[ReadItem] = []
        for name, value in self.state_dict.items():
            if name in known:
                items += _items_of(name, known[name], value)
            elif not self.allow_partial_load:
                raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.{_like(name, known)}")
        return LoadPlan(items)

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        return global_plan

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        return central_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Set an entry that is not a tensor."""
        name, found = read_item.dest_index.fqn, load(value, weights_only=False)
        if self.flatten_state_dict:
            set_entry(self.original_state_dict, self.mappings[name], found)
        else:
            self.state_dict[name] = found

    def resolve_tensor(self, read_item: ReadItem) -> Any:
        return self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))

    def commit_tensor(self, read_item: ReadItem, tensor: Any) -> None:
        """Do nothing: the tensor is already filled."""

    def lookup_tensor(self, index: MetadataIndex) -> Any:
        """Return the tensor with this rank's part of an entry."""
        return local_of(self.state_dict[index.fqn])

    def transform_tensor(self, read_item: ReadItem, tensor: Any) -> Any:
        """Return the part of a tensor that an item fills."""
        return narrowed(tensor, read_item.dest_offsets, read_item.lengths)


def _items_of(name: str, stored: Any, value: Any) -> Iterable[ReadItem]:
    if not isinstance(stored, TensorStorageMetadata):
        index, nothing = MetadataIndex(name), Size((0,))
        return [ReadItem(LoadItemType.BYTE_IO, index, nothing, index, nothing, nothing)]
    if not isinstance(value, TensorCore):
        raise ValueError(
            f"Invalid checkpoint metadata for {name}, expected BytesStorageMetadata but found TensorStorageMetadata: a "
            f"tensor was saved, and the state dict to load into has {type(value).__name__}"
        )
    if tuple(value.shape) != tuple(stored.size):
        raise ValueError(f"Size mismatch between saved {stored.size} and current: {value.shape} for {name}")
    return read_items(name, stored, value)


def _like(name: str, known: Iterable[str]) -> str:
    """Return a hint: the names in the checkpoint that end like this one."""
    last = name.rpartition(".")[2]
    found = [each for each in known if each.rpartition(".")[2] == last][:3]
    return f" It has {', '.join(found)}." if found else ""


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Loads all entries of a checkpoint, or those whose names begin with one of `keys`, into an empty dict."""

    def __init__(self, keys: set[str] | None = None, *args: Any, **kwargs: Any) -> None:
        self.keys = keys
        super().__init__(*args, **kwargs)

    def _is_wanted(self, name: str, path: Path) -> bool:
        if self.keys is None or name in self.keys:
            return True
        return any(".".join(map(str, path[:count])) in self.keys for count in range(1, len(path)))

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        assert not state_dict and metadata is not None
        for name, stored in metadata.state_dict_metadata.items():
            path = (metadata.planner_data or {}).get(name, (name,))
            if self._is_wanted(name, path):
                value: Any = None
                if isinstance(stored, TensorStorageMetadata):
                    value = empty(stored.size, dtype=stored.properties.dtype)
                set_entry(state_dict, path, value)
        super().set_up_planner(state_dict, metadata, is_coordinator)
