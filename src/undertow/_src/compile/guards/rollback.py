"""Put back everything that a trace changes outside of the program.

The step's Python code runs only in the trace. What it left is recorded (`LeftState`), and each call of the program
leaves the same, the first call included. So a trace itself changes nothing: neither one that becomes a program, nor one
that is repeated with a better plan, nor one that fails.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from undertow._src.compile.guards.carried_state import Renewed
from undertow._src.compile.guards.places import Stores, put_back
from undertow._src.compile.guards.snapshot import Snapshot
from undertow._src.compile.tracing.counters import Counters
from undertow._src.compile.tracing.lr_schedulers import Schedules
from undertow._src.compile.tracing.optimizer_options import Options


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

    def __call__(self) -> None:
        """Restore everything: first the stores recorded during the trace, then the snapshot."""
        with ExitStack() as steps:  # the last one first; a failure does not stop the others
            steps.callback(self._counters.restore)
            steps.callback(self._renewed.restore)
            steps.callback(self._entry.restore)
            for holder, held in self._stores:
                steps.callback(put_back, holder, held)
            steps.callback(self._options.restore)
            steps.callback(self._schedules.rewind)


class TensorMarks:
    """What a trace changes in tensors besides their values: versions of their storages, and their edges."""

    def __init__(self, tensors: list[Any], arguments: list[Any]) -> None:
        storages = {
            id(storage): storage for storage in [tensor._get_storage() for tensor in tensors]
        }  # aliases share one
        self._versions = [(storage, storage.version) for storage in storages.values()]
        self._edges = [(tensor, tensor._edge, tensor._requires_grad) for tensor in (*tensors, *arguments)]
        self._n_outside = len(tensors)  # those before the arguments
        self._before = {id(tensor): (edge, tensor._get_storage().version) for tensor, edge, _ in self._edges}

    def before(self, tensor: Any) -> tuple[Any, int]:
        """Return the edge and the version of a tensor from outside before the trace."""
        return self._before.get(id(tensor)) or (tensor._edge, tensor._get_storage().version)

    def knows(self, tensor: Any) -> bool:
        """Whether a tensor is from outside."""
        return id(tensor) in self._before

    def restore(self) -> None:
        """Restore everything after a failed trace."""
        self.restore_versions()
        for tensor, edge, flag in self._edges:
            tensor._edge, tensor._requires_grad = edge, flag
            # Of arguments too, which share it with stand-ins.
            tensor._get_storage().version = self._before[id(tensor)][1]

    def restore_versions(self) -> None:
        """Restore the versions: each call raises them by `bumps`."""
        for storage, version in self._versions:
            storage.version = version

    def restore_flags(self) -> None:
        """Restore which leaves require gradients: each call sets what the step leaves (`LeftState`)."""
        for tensor, edge, flag in self._edges[: self._n_outside]:
            if tensor._edge is None and edge is None:
                tensor._requires_grad = flag

    def bumps(self) -> list[tuple[Any, int]]:
        """Return the storages whose versions the step raised, and by how much."""
        return [(storage, storage.version - was) for storage, was in self._versions if storage.version != was]
