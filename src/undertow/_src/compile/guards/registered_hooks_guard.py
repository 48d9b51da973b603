"""The guard on hooks: of modules, optimizers, leaves and their nodes, and those for all modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from undertow._src.base.hooks import CountedHooks
from undertow._src.compile.effects.objects import entries_of
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.guard import Check, Guard
from undertow._src.compile.guards.memory_words import Words
from undertow._src.compile.guards.places import ABSENT, change, held_at, same
from undertow._src.compile.guards.snapshot import Snapshot, hook_maps, same_hooks, same_map
from undertow._src.compile.guards.variable_guard import VariableGuard
from undertow._src.compile.tracing.arguments import hooks_on_node


class HookGuard(Guard):
    """Guard all hooks that a step may fire.

    Changes of hooks are counted process-wide: as long as the count is the same, only maps with hooks are compared, because
    `OrderedDict.__setitem__(hooks, …)` is not counted.
    """

    def __init__(self, snapshot: Snapshot, places: VariableGuard) -> None:
        state = snapshot.state
        learning = [tensor for tensor in state.tensors if tensor._requires_grad]
        self._snapshot, self._places = snapshot, places
        self._maps_of = [(tensor, hook_maps(tensor._meta)) for tensor in state.tensors]
        self._node_hooks = [(tensor, hooks_on_node(tensor._meta)) for tensor in learning]
        self._with_node_hooks = [each for each in self._node_hooks if each[1]]  # may go with their node, not counted
        self._grad_dtypes = [(tensor, _wanted(tensor._meta)) for tensor in learning]
        of_leaves = [hooks for _, own in self._maps_of for hooks in own if hooks is not None]
        self._outside = [*snapshot.hooks, *[(hooks, dict(hooks)) for hooks in of_leaves]]
        self.prepare()

    @property
    def watches(self) -> str:
        """Return the line for `explain`."""
        return "hooks on modules, optimizers, tensors and nodes"

    @property
    def number(self) -> int:
        """Return their number."""
        on_nodes = sum(len(hooks or ()) for _, hooks in self._node_hooks)
        return on_nodes + sum(len(held) for _, held in (*self._counted, *self._plain))

    def prepare(self) -> None:
        """Choose the maps to compare, after it is known which places are not guarded."""
        places = self._places
        maps = [
            (holder, held)
            for holder, held in self._snapshot.maps
            if type(holder) is CountedHooks and places.counts(holder) and places.counts_wholly(holder, held)
        ]
        maps += self._outside
        self._counted = [pair for pair in maps if type(pair[0]) is CountedHooks]
        self._plain = [pair for pair in maps if type(pair[0]) is not CountedHooks and pair[1]]
        notes = self._snapshot.state.notes_on_hooks
        self._empty = [holder for holder, held in maps if not held and id(holder) not in notes]
        self._filled = [(holder, held) for holder, held in self._counted if held]
        self._changes = -1  # the count at which all were unchanged

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether the hooks are the same, in the same order."""
        if CountedHooks.changes != self._changes and not self._compare():
            return False
        if any(map(len, self._empty)):
            return False
        for holder, held in (*self._filled, *self._plain):
            if not same_map(holder, held):
                return False
        for tensor, hooks in self._with_node_hooks:
            if not same_hooks(hooks_on_node(tensor._meta), hooks):
                return False
        return True

    def watch(self, words: Words) -> Check | None:
        """Watch the hooks in each map."""
        if self._plain or self._with_node_hooks:
            return self.hold
        for holder in self._empty:
            words.size_of(holder, 0)
        for holder, _ in self._filled:
            words.version_of(holder)
        return self._are_counted

    def _are_counted(self, arguments: Sequence[Any]) -> bool:
        """Return whether no hook was added or removed by methods that count."""
        return CountedHooks.changes == self._changes or self._compare()

    def _compare(self) -> bool:
        """Compare all hooks; if they are unchanged, store the count, so that none is compared until it changes."""
        changes = CountedHooks.changes
        for holder, held in self._counted:
            if not same_map(holder, held):
                return False
        for tensor, maps in self._maps_of:
            for own, hooks in zip(hook_maps(tensor._meta), maps):
                if own is not hooks and (own or hooks or _is_plain(own)):
                    return False
        if not all(same_hooks(hooks_on_node(tensor._meta), hooks) for tensor, hooks in self._node_hooks):
            return False
        if any(_wanted(tensor._meta) != dtype for tensor, dtype in self._grad_dtypes):
            return False
        self._changes = changes
        return True

    def reason(self) -> str:
        """Return a map of hooks that changed, in words."""
        names = {id(holder): name for holder, name in self._snapshot.state.maps}
        for holder, held in self._counted:
            for key in {**held, **entries_of(holder)} if id(holder) in names else ():
                if not same(held.get(key, ABSENT), held_at(holder, key)):
                    return f"{names[id(holder)]}: {change(key, held.get(key, ABSENT), held_at(holder, key))}"
        for holder, held in self._snapshot.hooks:
            if dict(holder) != held:
                return "the hooks on all modules or all optimizers changed"
        for tensor, hooks in self._snapshot.leaf_hooks:
            if not all(map(same_map, hook_maps(tensor._meta), hooks)):
                return f"the hooks on a tensor of shape {list(tensor._array.shape)} changed"
        for tensor, node_hooks in self._node_hooks:
            if not same_hooks(hooks_on_node(tensor._meta), node_hooks):
                return f"the hooks on the node of a leaf of shape {list(tensor._array.shape)} changed"
        for tensor, dtype in self._grad_dtypes:
            if _wanted(tensor._meta) != dtype:
                return f"grad_dtype of a tensor of shape {list(tensor._array.shape)} changed"
        return "the order of hooks changed"

    def refuse_changes(self) -> None:
        """Raise if the step changes the hooks on a tensor, its node or all modules: each call would do so again."""
        nodes = [tensor for tensor, hooks in self._node_hooks if not same_hooks(hooks_on_node(tensor._meta), hooks)]
        leaves = [
            tensor
            for tensor, hooks in self._snapshot.leaf_hooks
            if not all(map(same_map, hook_maps(tensor._meta), hooks))
        ]
        if nodes or leaves or any(not same_map(holder, held) for holder, held in self._snapshot.hooks):
            changed = [f"a tensor of shape {list(tensor._array.shape)}" for tensor in (*leaves, *nodes)]
            raise CompileError(
                f"undertow.compile: the step leaves other hooks on {[*changed, 'all modules or optimizers'][0]} than it "
                "found there, and each call would add to them. Register and remove hooks outside of the step; a hook for a "
                "single call has to be removed in the step (`handle.remove()`)."
            )


def _wanted(meta: Any) -> tuple[Any] | None:
    """Return the dtype that was set for a leaf's gradient, if any."""
    return None if meta is None or meta.grad_dtype is None else (meta.grad_dtype.dtype,)


def _is_plain(hooks: Any) -> bool:
    """Return whether it is a user's own map of hooks, whose changes are not counted."""
    return hooks is not None and type(hooks) is not CountedHooks
