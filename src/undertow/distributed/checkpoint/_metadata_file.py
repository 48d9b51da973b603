"""The file `.metadata`: a pickle with PyTorch's names, read without running code."""

from __future__ import annotations

import pickle
from typing import IO, Any

from undertow.distributed.checkpoint.metadata import Metadata
from undertow.serialization.names import undertow_object
from undertow.serialization.safe_globals import added_by_name
from undertow.serialization.saving import _pickler_class

_SAFE_MODULES = ("torch.distributed.checkpoint.", "torch.distributed.tensor.", "pathlib.")
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
        is_safe = full in _SAFE or f"{module}.".startswith(_SAFE_MODULES) or type(known).__name__ == "dtype"
        if not is_safe or "." in name:
            raise pickle.UnpicklingError(
                f"it names {full}, which is not data. If you trust where it comes from, allow it "
                "with torch.serialization.add_safe_globals."
            )
        return known if known is not None else super().find_class(module, name)
