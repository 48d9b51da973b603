"""A snapshot of everything that a step reaches.

After a trace it tells what the step changed, and undoes it; `state_guards` makes guards of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import is_
from typing import Any

import numpy as np

from undertow._src.compile.effects.objects import entries_of, held_by, instance_dict, keys_in
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.places import (
    ABSENT,
    ORDINARY,
    Change,
    Place,
    changes_in,
    contents_of,
    held_at,
    place_at,
    put,
    put_back,
    refill,
)
from undertow._src.compile.guards.reachability import GLOBAL_HOOKS, WATCHED_BYTES, Reached


class Snapshot:
    """The contents of every place at one moment."""

    def __init__(self, state: Reached) -> None:
        self.state = state
        self.maps = [(holder, entries_of(holder)) for holder, _ in state.maps]
        self.lists = [(holder, list(held_by(holder))) for holder, _ in state.lists]
        self.arrays = [(array, array.copy("C")) for array, _ in state.arrays]
        self.cells = [(cell, contents_of(cell)) for cell, _ in state.cells]
        self.globals = [(holder, name, held_at(holder, name)) for holder, name in state.globals]
        self.grads = [(tensor, tensor._meta.grad if tensor._meta is not None else None) for tensor in state.tensors]
        self.flags = [(tensor, tensor._requires_grad) for tensor in state.tensors]
        self.hooks = [(holder, dict(holder)) for holder in GLOBAL_HOOKS]
        self.leaf_hooks = [(tensor, [dict(own or ()) for own in hook_maps(tensor._meta)]) for tensor in state.tensors]
        self._holders = {id(holder) for holder, _ in (*self.maps, *self.lists)}
        self._covered = {place_at(each, None)[0] for each, _ in (*self.maps, *self.lists, *self.cells, *self.arrays)}
        self._covered_names = {place_at(names, name) for names, name, _ in self.globals}

    def large_arrays_in(self, memories: list[Any]) -> set[Place]:
        """Return large NumPy arrays under tensors that the program reads: their values are inputs."""
        large = [array for array, _ in self.arrays if array.nbytes > WATCHED_BYTES]
        return {place_at(each, None) for each in large if any(np.may_share_memory(each, memory) for memory in memories)}

    def watches(self, owner: Any) -> bool:
        """Return whether the contents of an object are compared before each call."""
        return id(owner) in self._holders or id(instance_dict(owner)) in self._holders

    def covers(self, holder: Any, key: Any = None) -> bool:
        """Return whether a place, or a whole container, is in the snapshot."""
        owner, key = place_at(holder, key)
        return owner in self._covered or (owner, key) in self._covered_names

    def changes(self) -> Iterator[Change]:
        """Yield each place whose object has changed: entries, whole lists, arrays, cells, globals."""
        for holder, held in self.maps:
            if not (type(holder) in ORDINARY and len(holder) == len(held) == 0):  # most of them are hooks' maps
                yield from changes_in(holder, held)
        for into, kept in self.lists:
            if _differs(held_by(into), kept):
                yield Change(into, slice(None), kept, list(held_by(into)))
        for array, contents in self.arrays:
            if not equal_arrays(array, contents):
                yield Change(array, ..., contents, array.copy())
        for cell, before in self.cells:
            now = contents_of(cell)
            if now is not before:
                yield Change(cell, None, before, now)
        for names, name, before in self.globals:
            now = names.get(name, ABSENT)
            if now is not before:
                yield Change(names, name, before, now)

    def restore(self) -> None:
        """Restore everything to its state before the trace. Then raise an error that names what can't be restored."""
        failures = [
            *_put_back_each(put_back, [pair for pair in self.maps if _differs_in_entries(*pair)]),
            *_put_back_each(refill, [pair for pair in self.lists if _differs(held_by(pair[0]), pair[1])]),
            *_put_back_each(_fill_array, [pair for pair in self.arrays if not equal_arrays(*pair)]),
        ]
        for cell, contents in self.cells:
            if contents is not contents_of(cell):
                put(cell, None, contents)
        for holder, name, value in self.globals:
            if held_at(holder, name) is not value:
                put(holder, name, value)
        for tensor, its_hooks in self.leaf_hooks:
            for own, before in zip(hook_maps(tensor._meta), its_hooks):
                if own is not None and not same_map(own, before):
                    put_back(own, before)
        for hooks, before in self.hooks:
            if [*hooks.values()] != [*before.values()]:
                put_back(hooks, before)
        for tensor, grad in self.grads:
            if tensor._meta is not None:
                tensor._meta.grad = grad
        if failures:
            holder, error = failures[0]
            named = (*self.state.maps, *self.state.lists, *self.state.arrays)
            name = next(name for each, name in named if each is holder)
            raise CompileError(
                f"undertow.compile: the step changes `{name}` in a way that can't be undone ({error}), and tracing the "
                "step has changed it once. Change it outside of the step."
            ) from error


def _differs_in_entries(now: Any, before: dict[Any, Any]) -> bool:
    return _differs(held_by(now), before.values()) or _differs(keys_in(now), before)


def _differs(now: Any, before: Any) -> bool:
    return len(now) != len(before) or not all(map(is_, now, before))


def _put_back_each(
    put_one_back: Callable[[Any, Any], None], pairs: list[tuple[Any, Any]]
) -> Iterator[tuple[Any, Exception]]:
    """Restore each place; yield those that can't be restored, with the error."""
    for holder, held in pairs:
        try:
            put_one_back(holder, held)
        except Exception as error:
            yield holder, error


def _fill_array(array: Any, contents: Any) -> None:
    array[...] = contents


def hook_maps(meta: Any) -> tuple[Any, Any]:
    """Return the maps of a leaf's hooks, if it has had any."""
    return (None, None) if meta is None else (meta.hooks, meta.post_hooks)


def same_hooks(now: list[Any] | None, before: list[Any] | None) -> bool:
    """Return whether two lists have the same hooks, compared by identity."""
    return now is before or (len(now or ()) == len(before or ()) and all(map(is_, now or (), before or ())))


def same_map(now: Any, before: dict[int, Any]) -> bool:
    """Return whether a map has the same hooks as before, in the same order."""
    return same_hooks([*(now or ()), *(now or {}).values()], [*before, *before.values()])


def equal_arrays(array: Any, contents: Any) -> bool:
    """Return whether a NumPy array has the same bytes as a contiguous copy of it."""
    if array.shape != contents.shape or array.nbytes <= WATCHED_BYTES:
        return array.shape == contents.shape and array.tobytes() == contents.tobytes()
    words = np.uint64 if array.nbytes % 8 == 0 else np.uint8
    return np.array_equal(np.ascontiguousarray(array).reshape(-1).view(words), contents.reshape(-1).view(words))
