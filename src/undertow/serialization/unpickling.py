"""Reading one pickle of a file, safely (`weights_only=True`) or with Python's unpickler."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import IO, Any

from undertow.serialization.limits import reason
from undertow.serialization.names import is_torch, undertow_object
from undertow.serialization.weights_only import Reader

# The errors that a damaged or malicious pickle can cause.
TRIPS = (
    AttributeError, IndexError, KeyError, LookupError, MemoryError, OverflowError, RecursionError, TypeError,
    UnicodeError, ValueError, ZeroDivisionError,
)  # fmt: skip


class Source:
    """How to read a file's pickles, and the file's name."""

    def __init__(self, f: Any, weights_only: bool, pickle_module: Any, load_args: dict[str, Any]) -> None:
        name = os.fspath(f) if isinstance(f, (str, os.PathLike)) else getattr(f, "name", None)
        self.label = f"'{name}'" if isinstance(name, str) else f"the given {type(f).__name__}"
        self.weights_only, self.pickle_module, self.load_args = weights_only, pickle_module, load_args
        self.callers_error: Exception | None = None  # raised by the caller's map_location, not by the file

    def restored(self, restore: Callable[[Any, str], Any], storage: Any, location: str) -> Any:
        """Return a storage at the location that map_location requests."""
        try:
            return restore(storage, location)
        except Exception as error:
            self.callers_error = error
            raise

    def unpickle(self, file: IO[bytes], length: int, persistent_load: Callable[[Any], Any]) -> Any:
        """Return the next pickle of a file of `length` bytes."""
        if self.weights_only:
            return self.read_safely(file, length, persistent_load)
        try:
            unpickler = _unpickler_class(self.pickle_module)(file, **self.load_args)
            unpickler.persistent_load = persistent_load
            return unpickler.load()
        except Exception as error:
            error.add_note(f"while loading {self.label} with weights_only=False")
            raise

    def read_safely(self, file: IO[bytes], length: int, persistent_load: Callable[[Any], Any]) -> Any:
        """Return the next pickle, as data only."""
        return self.run(Reader(file, length, persistent_load))

    def run(self, reader: Reader) -> Any:
        """Run a reader on its pickle; errors name the file."""
        try:
            return reader.load()
        except pickle.UnpicklingError as error:
            raise pickle.UnpicklingError(self._refusal(str(error))) from None
        except TRIPS as error:
            if error is self.callers_error:
                raise
            raise pickle.UnpicklingError(self._refusal(reason(error))) from None
        except RuntimeError as error:
            if self.label in str(error):
                raise
            raise RuntimeError(f"{error} In {self.label}.") from error

    def _refusal(self, reason: str) -> str:
        return (
            f"Weights only load failed. {self.label}: {reason}\n"
            "Nothing in the file was run. If you trust where it comes from, allow what it names with "
            "torch.serialization.add_safe_globals, or load it with weights_only=False, which runs whatever the file says."
        )


def _unpickler_class(pickle_module: Any) -> Any:
    class TorchUnpickler(pickle_module.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            return undertow_object(module, name) if is_torch(module) else super().find_class(module, name)

    return TorchUnpickler
