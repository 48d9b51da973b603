"""Load a state dict on all ranks together."""

from __future__ import annotations

import os
import warnings
from typing import Any

from undertow._src.base.modes import no_grad
from undertow.distributed.checkpoint._agreement import Agreement
from undertow.distributed.checkpoint.default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from undertow.distributed.checkpoint.filesystem import FileSystemReader
from undertow.distributed.checkpoint.planner import LoadPlan, LoadPlanner
from undertow.distributed.checkpoint.state_dict_saver import is_alone
from undertow.distributed.checkpoint.stateful import Stateful
from undertow.distributed.checkpoint.storage import StorageReader

__all__ = ["load", "load_state_dict"]

Dict = dict[str, Any]
PathLike = str | os.PathLike[str]


def load(
    state_dict: Dict,
    *,
    checkpoint_id: PathLike | None = None,
    storage_reader: StorageReader | None = None,
    planner: LoadPlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Fill a state dict from a checkpoint: all ranks of a group call it, and each reads what it needs.

    Tensors are filled in place, whatever number of ranks saved them; other entries are replaced. Objects with
    `state_dict` and `load_state_dict` are loaded by these.
    """
    agreement = Agreement(process_group, is_alone(no_dist, "load"))
    reader = _reader(storage_reader, checkpoint_id)
    plain = {
        key: value.state_dict() if isinstance(value, Stateful) else value for key, value in sorted_items(state_dict)
    }
    _load(plain, reader, planner, agreement)
    for key, value in sorted_items(state_dict):
        if isinstance(value, Stateful):
            value.load_state_dict(plain[key])
        else:
            state_dict[key] = plain[key]


def sorted_items(state_dict: Dict) -> list[tuple[Any, Any]]:
    """Return entries in an order that all ranks have, since an object's `state_dict` may communicate."""
    return sorted(state_dict.items(), key=lambda item: str(item[0]))


def load_state_dict(
    state_dict: Dict,
    storage_reader: StorageReader,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: LoadPlanner | None = None,
) -> None:
    """Fill a state dict: the older name of `load`."""
    warnings.warn(
        "'load_state_dict' is deprecated and will be removed in future versions. Please use 'load' instead.",
        FutureWarning,
        stacklevel=2,
    )
    storage_reader.reset()
    _load(state_dict, storage_reader, planner, Agreement(process_group, is_alone(no_dist, "load"), coordinator_rank))


def _load_state_dict_from_keys(
    keys: set[str] | str | None = None,
    *,
    checkpoint_id: PathLike | None = None,
    storage_reader: StorageReader | None = None,
    process_group: Any = None,
) -> Dict:
    """Return the entries of a checkpoint whose names begin with one of the keys; None: all entries."""
    agreement = Agreement(process_group, is_alone(False, "load"))
    found: Dict = {}
    planner = _EmptyStateDictLoadPlanner({keys} if isinstance(keys, str) else keys or None)
    _load(found, _reader(storage_reader, checkpoint_id), planner, agreement)
    return found


def _reader(storage_reader: StorageReader | None, checkpoint_id: PathLike | None) -> StorageReader:
    if storage_reader is None:
        if checkpoint_id is None:
            raise RuntimeError("`checkpoint_id` must be specified if storage_reader/storage_writer is None.")
        return FileSystemReader(checkpoint_id)
    storage_reader.reset(checkpoint_id)
    return storage_reader


def _load(state_dict: Dict, reader: StorageReader, planner: LoadPlanner | None, agreement: Agreement) -> None:
    planner = DefaultLoadPlanner() if planner is None else planner

    def plan_locally() -> LoadPlan:
        metadata = reader.read_metadata()
        planner.set_up_planner(state_dict, metadata, agreement.is_coordinator)
        reader.set_up_storage_reader(metadata, agreement.is_coordinator)
        return reader.prepare_local_plan(planner.create_local_plan())

    plans = agreement.all("plan", plan_locally)
    planned = agreement.once("plan", lambda: reader.prepare_global_plan(planner.create_global_plan(plans)))

    def read() -> None:
        with no_grad():
            reader.read_data(planner.finish_plan(planned[agreement.rank]), planner).wait()

    agreement.all("read", read)
