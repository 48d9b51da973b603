"""`torch._weights_only_unpickler`: the safe unpickler under PyTorch's names; see `serialization/weights_only.py`."""

from __future__ import annotations

import builtins
import io
from collections.abc import Callable
from typing import IO, Any

from undertow.serialization.named_in import NameReader
from undertow.serialization.rebuild import REBUILD
from undertow.serialization.safe_globals import ALLOWED, added_by_name
from undertow.serialization.safe_globals import add_safe_globals as _add_safe_globals  # noqa: F401
from undertow.serialization.safe_globals import clear_safe_globals as _clear_safe_globals  # noqa: F401
from undertow.serialization.safe_globals import get_safe_globals as _get_safe_globals  # noqa: F401
from undertow.serialization.safe_globals import remove_safe_globals as _remove_safe_globals  # noqa: F401
from undertow.serialization.safe_globals import safe_globals as _safe_globals  # noqa: F401
from undertow.serialization.weights_only import Reader

__all__ = ["Unpickler", "get_globals_in_pkl", "load"]


class Unpickler:
    """Builds the objects of a pickle that refers only to allowed names."""

    def __init__(self, file: IO[bytes], *, encoding: str = "bytes") -> None:
        self.file, self.encoding = file, encoding

    def persistent_load(self, pid: Any) -> Any:
        raise ValueError("the pickle refers to a storage: set `persistent_load` to a function that loads it")

    def load(self) -> Any:
        """Return the next object of the file."""
        here = self.file.tell()
        self.file.seek(0, io.SEEK_END)
        length = self.file.tell()
        self.file.seek(here)
        return Reader(self.file, length, self.persistent_load).load()


def load(file: IO[bytes], *, encoding: str = "ASCII") -> Any:
    """Return the next object of a file."""
    return Unpickler(file, encoding=encoding).load()


def get_globals_in_pkl(file: IO[bytes]) -> set[str]:
    """Return the full names of the classes and functions that a pickle refers to."""
    builtin = {name: f"builtins.{name}" for name in vars(builtins)}
    return {builtin.get(name, name) for name in NameReader(file.read()).load()}


def _get_user_allowed_globals() -> dict[str, Any]:
    """Return the classes and functions that the user allowed, by name."""
    return added_by_name()


def _get_allowed_globals() -> dict[str, Any]:
    """Return the globals that are always allowed."""
    return dict(ALLOWED)


def _tensor_rebuild_functions() -> set[Callable[..., Any]]:
    """Return the functions that rebuild tensors from a file."""
    functions: set[Any] = set(REBUILD.values())
    return functions
