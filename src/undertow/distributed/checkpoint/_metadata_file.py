"""The file `.metadata`: a pickle with PyTorch's names, read without running code."""

from __future__ import annotations

import pickle
from dataclasses import is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import IO, Any

from undertow._src.types.dtypes import dtype
from undertow.distributed.checkpoint.metadata import Metadata
from undertow.serialization.names import undertow_object
from undertow.serialization.safe_globals import added_by_name
from undertow.serialization.saving import _pickler_class

_RECORDS = "torch.distributed.checkpoint."  # the modules of the dataclasses that metadata consists of
_SAFE = ("torch.Size", "torch.serialization._get_layout", "collections.OrderedDict", "builtins.set")


def dump_metadata(metadata: Metadata, file: IO[bytes]) -> None:
    """Write metadata, as PyTorch reads it."""
    _pickler_class(pickle)(file, protocol=4).dump(metadata)


def load_metadata(file: IO[bytes]) -> Metadata:
    """Read metadata that undertow or PyTorch has written."""
    name = getattr(file, "name", "the file")
    try:
        found = _Reader(file).load()
    except Exception as error:
        raise pickle.UnpicklingError(f"{name} is no metadata of a checkpoint, or a damaged one: {error}") from None
    if not isinstance(found, Metadata):
        raise pickle.UnpicklingError(f"{name} is no metadata of a checkpoint, but {type(found).__name__}")
    return found


class _Reader(pickle.Unpickler):
    """Reads data, and no other classes than those of metadata and those that the user trusts."""

    def find_class(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        trusted = added_by_name()
        if full in trusted:
            return trusted[full]
        known = undertow_object(module, name) if module == "torch" or module.startswith("torch.") else None
        found = known if known is not None else super().find_class(module, name) if _is_path(module) else None
        if "." in name or not (full in _SAFE or _is_data(full, found)):
            raise pickle.UnpicklingError(
                f"it names {full}, which is not data. If you trust where it comes from, allow it "
                "with torch.serialization.add_safe_globals."
            )
        return found if found is not None else super().find_class(module, name)


def _is_path(module: str) -> bool:
    return module.partition(".")[0] == "pathlib"


def _is_data(full: str, found: object) -> bool:
    """Whether what a file names only holds values: a dtype, or a class of records, constants or paths."""
    if not isinstance(found, type):
        return isinstance(found, dtype)
    if full.startswith(_RECORDS):
        return is_dataclass(found) or issubclass(found, Enum)
    return issubclass(found, PurePath)
