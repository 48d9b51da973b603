"""The guards on all that a step reaches: one for each kind of thing."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from undertow._src.compile.guards.code_guard import CodeGuard
from undertow._src.compile.guards.graph_guards import GraphGuard
from undertow._src.compile.guards.guard import Guard
from undertow._src.compile.guards.places import ABSENT, Place
from undertow._src.compile.guards.registered_hooks_guard import HookGuard
from undertow._src.compile.guards.setting_guard import SettingGuard
from undertow._src.compile.guards.snapshot import Snapshot
from undertow._src.compile.guards.tensor_guards import ArrayGuard, GradientGuard, LayoutGuard, RequiresGradGuard
from undertow._src.compile.guards.variable_guard import VariableGuard


class StateGuards:
    """Guard what a snapshot recorded. Made at the same moment as the snapshot, before the step is traced."""

    def __init__(self, snapshot: Snapshot) -> None:
        state = snapshot.state
        self.snapshot = snapshot
        self._ignored: set[Place] = set(state.replaced)
        loaded = [(sys.modules, name, sys.modules.get(name, ABSENT)) for name in state.loaded]
        self._code = CodeGuard(state)
        self.places = VariableGuard(snapshot, [*snapshot.globals, *loaded, *self._code.names], self._ignored)
        self.hooks = HookGuard(snapshot, self.places)
        self._settings = SettingGuard(state)
        self._arrays = ArrayGuard(snapshot.arrays, state.arrays, self._ignored)
        self._gradients = GradientGuard(state.tensors)
        self.watches_gradients = True  # whether the step reads a `.grad`
        self.graphs = GraphGuard(state.tensors)
        self._requires_grad = RequiresGradGuard(state.tensors)
        self.layouts = LayoutGuard(state.tensors)

    def ignore(self, places: Iterable[Place]) -> None:
        """Leave places out of the guards.

        Those are places of tensors that each step makes (`carried_state` guards them), and those that only hooks on
        the host change and read.
        """
        self._ignored.update(places)
        self.places.prepare()
        self.hooks.prepare()
        self._arrays.prepare()

    def note_results(self) -> None:
        """Record what cached functions keep after the trace."""
        self._code.note_results()

    def __iter__(self) -> Iterator[Guard]:
        """Yield those that have something to watch."""
        state: Any = self.snapshot.state
        yield self.hooks
        yield self.places
        if self._settings.looks:
            yield self._settings
        if state.arrays:
            yield self._arrays
        if self.watches_gradients and state.tensors:
            yield self._gradients
        yield self._code
        if not self.graphs.is_empty():
            yield self.graphs
        if state.tensors:
            yield self._requires_grad
            yield self.layouts
