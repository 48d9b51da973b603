"""Save a state dict from all ranks together."""

from __future__ import annotations

import copy
import os
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import Any

from undertow._src.base.sites import warn
from undertow._src.base.tree import map_leaves
from undertow._src.distributed.joining import is_available, is_initialized
from undertow._src.distributed.state import default_group, member
from undertow._src.distributed.subgroups import new_group
from undertow._src.tensor.core import TensorCore
from undertow.distributed.checkpoint._agreement import Agreement
from undertow.distributed.checkpoint.api import CheckpointException
from undertow.distributed.checkpoint.default_planner import DefaultSavePlanner
from undertow.distributed.checkpoint.filesystem import FileSystemWriter
from undertow.distributed.checkpoint.metadata import Metadata
from undertow.distributed.checkpoint.planner import SavePlan, SavePlanner
from undertow.distributed.checkpoint.stateful import Stateful
from undertow.distributed.checkpoint.storage import StorageWriter

__all__ = ["AsyncCheckpointerType", "AsyncSaveResponse", "async_save", "save", "save_state_dict"]

Dict = dict[str, Any]
PathLike = str | os.PathLike[str]


class AsyncCheckpointerType(Enum):
    """What `async_save` writes in. Here it is always a thread."""

    THREAD = "thread"
    PROCESS = "process"


@dataclass
class AsyncSaveResponse:
    """Futures of an asynchronous save whose stager returns a future: of the copy, and of the whole save."""

    staging_completion: Future[Any]
    upload_completion: Future[Any]


def is_alone(no_dist: bool, purpose: str) -> bool:
    """Whether this process saves or loads without other ranks; warn if there is no group."""
    if no_dist or (is_available() and is_initialized()):
        return no_dist
    warn(
        "torch.distributed is disabled, unavailable or uninitialized, assuming the intent is to "
        f"{purpose} in a single process."
    )
    return True


def save(
    state_dict: Dict,
    *,
    checkpoint_id: PathLike | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:
    """Save a state dict: all ranks of a group call it, and each writes a part. Return the checkpoint's metadata.

    Objects with `state_dict` and `load_state_dict` are saved by these. An existing checkpoint stays as it is until the new
    one is complete.
    """
    _refuse_apart(use_collectives)
    agreement = Agreement(process_group, is_alone(no_dist, "save"))
    return _save(_plain(state_dict), _writer(storage_writer, checkpoint_id), planner, agreement)


def _refuse_apart(use_collectives: bool) -> None:
    if not use_collectives:
        raise NotImplementedError(
            "undertow's ranks agree on one checkpoint: leave out use_collectives=False, or save each rank's part to a "
            "folder of its own with no_dist=True"
        )


def save_state_dict(
    state_dict: Dict,
    storage_writer: StorageWriter,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: SavePlanner | None = None,
) -> Metadata:
    """Save a state dict: the older name of `save`."""
    warnings.warn(
        "'save_state_dict' is deprecated and will be removed in future versions. Please use 'save' instead.",
        FutureWarning,
        stacklevel=2,
    )
    storage_writer.reset()
    agreement = Agreement(process_group, is_alone(no_dist, "save"), coordinator_rank)
    return _save(_plain(state_dict), storage_writer, planner, agreement)


def _writer(storage_writer: StorageWriter | None, checkpoint_id: PathLike | None) -> StorageWriter:
    if storage_writer is None:
        if checkpoint_id is None:
            raise RuntimeError("`checkpoint_id` must be specified if storage_reader/storage_writer is None.")
        return FileSystemWriter(checkpoint_id)
    storage_writer.reset(checkpoint_id)
    return storage_writer


def _plain(state_dict: Dict) -> Dict:
    """Return a state dict with those of the objects in it."""
    return {key: value.state_dict() if isinstance(value, Stateful) else value for key, value in state_dict.items()}


def _save(state_dict: Dict, writer: StorageWriter, planner: SavePlanner | None, agreement: Agreement) -> Metadata:
    planner = DefaultSavePlanner() if planner is None else planner
    plans: list[SavePlan] = []

    def plan_locally() -> SavePlan:
        planner.set_up_planner(state_dict, writer.storage_meta(), agreement.is_coordinator)
        writer.set_up_storage_writer(agreement.is_coordinator)
        return writer.prepare_local_plan(planner.create_local_plan())

    plans = agreement.all("plan", plan_locally)

    def plan_globally() -> tuple[list[SavePlan], Metadata]:
        planned, metadata = planner.create_global_plan(plans)
        return writer.prepare_global_plan(planned), metadata

    planned, metadata = agreement.once("plan", plan_globally)
    results: list[Any] = []

    def write() -> Any:
        return writer.write_data(planner.finish_plan(planned[agreement.rank]), planner).wait()

    def finish() -> Metadata:
        writer.finish(metadata, results)
        return metadata

    try:
        results = agreement.all("write", write)
        return agreement.once("finish", finish)
    except CheckpointException:
        if isinstance(writer, FileSystemWriter):
            writer.discard()
        raise


# --- in a thread

_groups: dict[Any, Any] = {}  # for each group, one of the same ranks that threads use


def async_save(
    state_dict: Dict,
    *,
    checkpoint_id: PathLike | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    async_checkpointer_type: AsyncCheckpointerType = AsyncCheckpointerType.THREAD,
    async_stager: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Future[Any] | AsyncSaveResponse:
    """Copy a state dict, and save the copy in a thread. The future's result is that of `save`.

    The thread uses a group of its own, so that the program may go on communicating.
    """
    _refuse_apart(use_collectives)
    alone = is_alone(no_dist, "save")
    agreement = Agreement(None if alone else _group_for_threads(process_group), alone)
    writer = _writer(storage_writer, checkpoint_id)
    plain = _plain(state_dict)
    staged = map_leaves(_copied, plain) if async_stager is None else async_stager.stage(plain)
    pool = ThreadPoolExecutor(1, thread_name_prefix="undertow checkpoint")

    def run() -> Metadata:
        found = staged.result() if isinstance(staged, Future) else staged
        return _save(found, writer, planner, agreement)

    upload = pool.submit(run)
    pool.shutdown(wait=False)
    if not isinstance(staged, Future):
        return upload
    return AsyncSaveResponse(staged, upload)


def _group_for_threads(group: Any) -> Any:
    chosen = default_group() if group is None else member(group)
    if chosen not in _groups and chosen is not None:
        _groups[chosen] = new_group(list(chosen.ranks))
    return _groups[chosen]


def _copied(leaf: Any) -> Any:
    return leaf.detach().cpu().clone() if isinstance(leaf, TensorCore) else copy.deepcopy(leaf)
