"""Turn a checkpoint into a file of `torch.save`, and back."""

from __future__ import annotations

import os
from typing import Any

from undertow.distributed.checkpoint._agreement import Agreement
from undertow.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from undertow.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from undertow.distributed.checkpoint.state_dict_loader import _load
from undertow.distributed.checkpoint.state_dict_saver import _save
from undertow.serialization import load, save

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


def dcp_to_torch_save(dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: str | os.PathLike[str]) -> None:
    """Save all entries of a checkpoint with `torch.save`, as whole tensors. Call it in one process."""
    found: dict[str, Any] = {}
    _load(found, FileSystemReader(dcp_checkpoint_dir), _EmptyStateDictLoadPlanner(), Agreement(None, True))
    save(found, torch_save_path)


def torch_save_to_dcp(torch_save_path: str | os.PathLike[str], dcp_checkpoint_dir: str | os.PathLike[str]) -> None:
    """Save what a file of `torch.save` has as a checkpoint. Call it in one process; the file may run code."""
    _save(load(torch_save_path, weights_only=False), FileSystemWriter(dcp_checkpoint_dir), None, Agreement(None, True))
