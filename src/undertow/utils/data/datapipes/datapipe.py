"""Datasets that form a chain: a registered method of one creates the next."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

from undertow.utils.data.dataset import Dataset, IterableDataset

__all__ = ["IterDataPipe", "MapDataPipe", "functional_datapipe"]


class _Chained:
    """What both kinds of pipes share: `pipe.shuffle()` is `Shuffler(pipe)` if a class is registered as "shuffle"."""

    functions: ClassVar[dict[str, Callable[..., Any]]]

    def __getattr__(self, name: str) -> Any:
        if name in type(self).functions:
            return functools.partial(type(self).functions[name], self)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}")

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Register a method of this name that creates a pipe."""
        cls.functions[function_name] = function

    def __repr__(self) -> str:
        return type(self).__qualname__


class IterDataPipe(_Chained, IterableDataset[Any]):
    """A pipe that is iterated over."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}

    def reset(self) -> None:
        """Prepare for a new iteration; override this to reset state."""


class MapDataPipe(_Chained, Dataset[Any]):
    """A pipe that is indexed."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}


class DFIterDataPipe(IterDataPipe):
    """A pipe of data frames."""


class functional_datapipe:
    """Registers a class of pipes under the name of the method that creates it."""

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name

    def __call__(self, cls: Any) -> Any:
        base = IterDataPipe if issubclass(cls, IterDataPipe) else MapDataPipe
        if self.name in base.functions:
            raise Exception(f"Unable to add DataPipe function name {self.name} as it is already taken")
        base.register_function(self.name, cls)
        return cls
