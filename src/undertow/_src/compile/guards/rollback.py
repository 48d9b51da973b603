"""What a trace changes outside of the program, and how all of it is put back.

The step's Python code runs in the trace only. What it left where is noted (`LeftState`), and each call of the program
leaves it there, the first call too. So a trace itself leaves nothing behind: neither one that becomes a program, nor one
that is made again with a better plan, nor one that fails.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from undertow._src.compile.guards.carried_state import Renewed
from undertow._src.compile.guards.places import Stores, put_back
from undertow._src.compile.guards.snapshot import Snapshot
from undertow._src.compile.tracing.counters import Counters
from undertow._src.compile.tracing.options import Options
from undertow._src.compile.tracing.schedules import Schedules


class Rollback:
    """The Python state that a step reaches, as it was before the trace."""

    def __init__(
        self,
        entry: Snapshot,
        options: Options,
        counters: Counters,
        renewed: Renewed,
        schedules: Schedules,
        stores: Stores,
    ) -> None:
        self._entry, self._options, self._counters, self._renewed = entry, options, counters, renewed
        self._schedules, self._stores = schedules, stores
        self._numbers = options.values()

    def __call__(self) -> None:
        """Put everything back. The snapshot comes after the stores: these were noted while the trace was on."""
        with ExitStack() as steps:  # the last one first; one that fails does not keep the others from being done
            steps.callback(self._counters.restore)
            steps.callback(self._renewed.restore)
            steps.callback(self._entry.restore)
            for holder, held in self._stores:
                steps.callback(put_back, holder, held)
            steps.callback(self._options.put, self._numbers)
            steps.callback(self._schedules.rewind)


class TensorMarks:
    """What a trace changes in tensors besides their values: versions of their memory, and where they come from."""

    def __init__(self, tensors: list[Any], arguments: list[Any]) -> None:
        self._versions = [(storage, storage.version) for storage in [tensor._get_storage() for tensor in tensors]]
        self._edges = [(tensor, tensor._edge, tensor._requires_grad) for tensor in (*tensors, *arguments)]
        self._before = {id(tensor): (edge, tensor._get_storage().version) for tensor, edge, _ in self._edges}

    def before(self, tensor: Any) -> tuple[Any, int]:
        """Return the edge and the version that a tensor from outside had when the trace began."""
        return self._before.get(id(tensor)) or (tensor._edge, tensor._get_storage().version)

    def restore(self) -> None:
        """Put all of it back, after a trace that failed."""
        self.restore_versions()
        for tensor, edge, flag in self._edges:
            tensor._edge, tensor._requires_grad = edge, flag
            tensor._get_storage().version = self._before[id(tensor)][
                1
            ]  # of arguments too, which share it with stand-ins

    def restore_versions(self) -> None:
        """Put the versions back: each call raises them by `bumps`."""
        for storage, version in self._versions:
            storage.version = version

    def bumps(self) -> list[tuple[Any, int]]:
        """Return by how much the step raised which versions."""
        return [(storage, storage.version - was) for storage, was in self._versions if storage.version != was]
