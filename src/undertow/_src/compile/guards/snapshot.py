"""What everything that a step reaches held at one moment.

Before a call a glance at the same places tells whether anything is another object than it was, in which case the program
at hand does not fit; after the trace it tells what the step left where.
"""

from __future__ import annotations

import sys
from abc import get_cache_token
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from operator import attrgetter, contains, getitem, is_
from typing import Any

import numpy as np

from undertow._src.base.hooks import CountedHooks
from undertow._src.compile.effects.objects import entries_of, held_by, instance_dict, keys_in
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.code import Code
from undertow._src.compile.guards.graph_guards import Histories
from undertow._src.compile.guards.places import (
    ABSENT,
    Change,
    Numbers,
    Place,
    change,
    changes_in,
    contents_of,
    held_at,
    place_at,
    put,
    put_back,
    refill,
    same,
)
from undertow._src.compile.guards.reachability import GLOBAL_HOOKS, WATCHED_BYTES, Look, Reached
from undertow._src.compile.guards.settings import LOOKS
from undertow._src.compile.tracing.arguments import hooks_on_node


class Snapshot:
    """What every watched place held at one moment."""

    def __init__(self, state: Reached) -> None:
        self.state = state
        self.maps = [(holder, entries_of(holder)) for holder, _ in state.maps]
        self.lists = [(holder, list(held_by(holder))) for holder, _ in state.lists]
        self.arrays = [(array, array.copy("C")) for array, _ in state.arrays]
        self.cells = [(cell, contents_of(cell)) for cell, _ in state.cells]
        self.globals = [(holder, name, held_at(holder, name)) for holder, name in state.globals]
        self.loaded = [(sys.modules, name, sys.modules.get(name, ABSENT)) for name in state.loaded]
        asked = [Look(name, LOOKS[name]) for name in sorted(state.mentioned & LOOKS.keys())]
        if "initial_seed" in state.mentioned:
            asked += [Look("the seed of a generator", generator.initial_seed) for generator in state.generators]
        if state.mentions_kinds():
            asked.append(Look("which classes are registered with abstract ones", get_cache_token))
        self._looks_at = [(look, look.get()) for look in (*state.looks, *asked)]
        self._owners = [owner for owner, _ in state.owners]
        self._dicts = [attributes for _, attributes in state.owners]
        self.grads = [(tensor, tensor._meta.grad if tensor._meta is not None else None) for tensor in state.tensors]
        self.flags = [(tensor, tensor._requires_grad) for tensor in state.tensors]
        self.hooks = [(holder, dict(holder)) for holder in GLOBAL_HOOKS]
        self.leaf_hooks = [(tensor, [dict(own or ()) for own in _hook_maps(tensor._meta)]) for tensor in state.tensors]
        self.watches_gradients = True
        self._holders = {id(holder) for holder, _ in (*self.maps, *self.lists)}
        self._covered = {place_at(each, None)[0] for each, _ in (*self.maps, *self.lists, *self.cells, *self.arrays)}
        self._covered_names = {place_at(names, name) for names, name, _ in self.globals}
        self._learning = [tensor for tensor in state.tensors if tensor._requires_grad]
        self._frozen = [tensor for tensor in state.tensors if not tensor._requires_grad]
        self._looks = [(tensor, _look_of(tensor._meta and tensor._meta.grad)) for tensor in self._learning]
        self._maps_of = [(tensor, _hook_maps(tensor._meta)) for tensor in state.tensors]
        self._node_hooks = [(tensor, hooks_on_node(tensor._meta)) for tensor in self._learning]
        self._grad_dtypes = [(tensor, _wanted(tensor._meta)) for tensor in self._learning]
        self._with_node_hooks = [each for each in self._node_hooks if each[1]]  # they may go with their node, uncounted
        self._kinds = [*map(type, state.modules)]
        self._code = Code(state)
        self.histories = Histories(state.tensors)
        leaf_hooks = [hooks for _, own in self._maps_of for hooks in own if hooks is not None]
        self._hook_maps = [*self.hooks, *[(hooks, dict(hooks)) for hooks in leaf_hooks]]
        self._ignored: set[Place] = set()
        self.ignore(state.replaced)

    def ignore(self, places: Iterable[Place]) -> None:
        """Make up the glance before a call: all that places hold, one value after the other, beside what they held.

        Some places do not count: those of tensors that each step makes anew (`arguments` looks at them), and those that
        only hooks on the host change and read.
        """
        self._ignored.update(places)
        watched = [*self._hook_maps]
        self._partly: list[tuple[Any, dict[Any, Any]]] = []
        for holder, held in self.maps:
            if self._counts(holder):
                keys = {**held, **entries_of(holder)} if self._ignored else ()
                counting = all(self._counts(holder, key) for key in keys)
                (watched if counting else self._partly).append((holder, held))
        self._counted = [(holder, held) for holder, held in watched if type(holder) is CountedHooks]
        self._changes = -1  # of hooks, up to which these are known to be as they were
        watched = [pair for pair in watched if type(pair[0]) is not CountedHooks]
        filled = [(holder, held) for holder, held in watched if held]
        # Of maps of hooks the sizes are glanced at, too: `OrderedDict.__setitem__(hooks, …)` goes past those who count.
        empty = [holder for holder, held in (*watched, *self._counted) if not held]
        self._empty = [held_by(holder) for holder in empty if id(holder) not in self.state.notes_on_hooks]
        glanced = [(held_by(holder), [*held.values()]) for holder, held in filled]
        self._partly_lists: list[tuple[Any, list[Any]]] = []
        for items, kept in self.lists:
            if self._counts(items):
                counting = all(self._counts(items, place) for place in range(len(kept))) if self._ignored else True
                (glanced if counting else self._partly_lists).append((held_by(items) if counting else items, kept))
        own = {
            id(held) for module in self.state.modules for held in _own_maps(module)
        }  # no name is another one's there
        named = [all(type(key) is str for key in held) for _, held in filled]
        glanced += [(keys_in(holder), [*held]) for (holder, held), by_name in zip(filled, named) if not by_name]
        by_name = [pair for pair, is_by_name in zip(filled, named) if is_by_name and id(pair[0]) not in own]
        self._named = [keys_in(holder) for holder, _ in by_name]
        self._names = [tuple(held) for _, held in by_name]
        self._places = [where for where, _ in glanced]
        hooked = [(holder, held) for holder, held in self._counted if held]
        self._sized = [*self._places, *[holder for holder, _ in hooked]]
        self._sizes = [len(held) for _, held in (*glanced, *hooked)]
        self._values = [*chain.from_iterable([held for _, held in glanced])]
        self._cells = [(cell, was) for cell, was in self.cells if self._counts(cell)]
        names = (*self.globals, *self.loaded, *self._code.names)
        self._globals = [each for each in names if self._counts(each[0], each[1])]
        present = [each for each in self._globals if each[2] is not ABSENT]
        self._present = _columns([each for each in present if isinstance(each[0], dict)], 3)
        self._attributes = _columns([each for each in present if not isinstance(each[0], dict)], 3)
        self._absent = _columns([each[:2] for each in self._globals if each[2] is ABSENT], 2)
        self._arrays = [(array, contents) for array, contents in self.arrays if self._counts(array)]

    def _counts(self, holder: Any, key: Any = None) -> bool:
        return place_at(holder, key) not in self._ignored

    def large_arrays_in(self, memories: list[Any]) -> set[Place]:
        """Large arrays whose memory the program reads as that of tensors: what they hold is an input."""
        large = [array for array, _ in self.arrays if array.nbytes > WATCHED_BYTES]
        return {place_at(each, None) for each in large if any(np.may_share_memory(each, memory) for memory in memories)}

    def holds(self) -> bool:
        """Whether every place holds what it held."""
        if CountedHooks.changes != self._changes and not self._hooks_hold():
            return False
        if any(map(len, self._empty)) or [*map(len, self._sized)] != self._sizes:
            return False
        if [*map(type, self.state.modules)] != self._kinds or not self._code.holds():
            return False
        if any(map(_REQUIRES_GRAD, self._frozen)) or not all(map(_REQUIRES_GRAD, self._learning)):
            return False
        if not all(map(is_, chain.from_iterable(self._places), self._values)):  # numbers may be equal and not the same
            if not all(map(same, chain.from_iterable(self._places), self._values)):
                return False
        if [*map(tuple, self._named)] != self._names:
            return False
        for holder, held in self._partly:
            if self._changed_key(holder, held) is not ABSENT:
                return False
        for items, kept in self._partly_lists:
            if self._changed_item(items, kept):
                return False
        for cell, was in self._cells:
            now = contents_of(cell)
            if now is not was and not same(now, was):
                return False
        try:
            for get, (homes, names, kept) in ((dict.__getitem__, self._present), (getitem, self._attributes)):
                if not all(map(is_, map(get, homes, names), kept)) and not all(map(same, map(get, homes, names), kept)):
                    return False
        except KeyError:  # a name is gone
            return False
        if any(map(contains, *self._absent)):
            return False
        if not all(map(is_, map(_ATTRIBUTES, self._owners), self._dicts)):
            return False
        for look, was in self._looks_at:
            if not look.alike(look.get(), was):
                return False
        for array, contents in self._arrays:
            if not _equal(array, contents):
                return False
        if self.watches_gradients:
            for tensor, look in self._looks:
                meta = tensor._meta
                grad = None if meta is None else meta.grad
                if grad is None:
                    if look is not None:
                        return False
                elif not (
                    look and grad._is_strided and grad._requires_grad is look[1] and grad._array.dtype is look[0]
                ):
                    if _look_of(grad) != look:  # dtypes may be equal and not the same
                        return False
        if self.histories.difference():
            return False
        return all(_same_hooks(hooks_on_node(tensor._meta), hooks) for tensor, hooks in self._with_node_hooks)

    def _hooks_hold(self) -> bool:
        """Whether modules, optimizers and leaves have the hooks they had; then nobody asks until hooks change somewhere."""
        changes = CountedHooks.changes
        for holder, held in self._counted:
            if len(holder) != len(held) or not all(
                map(is_, chain(holder, holder.values()), chain(held, held.values()))
            ):
                return False
        for tensor, maps in self._maps_of:
            for own, hooks in zip(_hook_maps(tensor._meta), maps):
                if own is not hooks and (own or hooks or _is_plain(own)):
                    return False
        if not all(_same_hooks(hooks_on_node(tensor._meta), hooks) for tensor, hooks in self._node_hooks):
            return False
        if any(_wanted(tensor._meta) != dtype for tensor, dtype in self._grad_dtypes):
            return False
        self._changes = changes
        return True

    def difference(self) -> str:
        """Return what is not as it was, in words; for `explain` and for warnings. What the program itself can see
        comes first.
        """
        found = [*self._differences()]
        return min(found, key=lambda each: each[0])[1] if found else "something changed"

    def _differences(self) -> Iterator[tuple[bool, str]]:
        """(whether it is about a name that is not public, what is not as it was)."""
        names = {id(holder): name for holder, name in (*self.state.maps, *self.state.lists)}
        for holder, held in self.maps:
            key = self._changed_key(holder, held) if self._counts(holder) else ABSENT
            if key is not ABSENT:
                private = isinstance(key, str) and key.startswith("_")
                said = change(key, held.get(key, ABSENT), held_at(holder, key))
                yield private, f"{names.get(id(holder), '')}: {said}"
        for items, kept in self.lists:
            if self._counts(items) and self._changed_item(items, kept):
                yield False, self._change_in(items, kept, names.get(id(items), ""))
        for (cell, name), (_, was) in zip(self.state.cells, self.cells):
            if not same(contents_of(cell), was) and self._counts(cell):
                yield False, change(name, was, contents_of(cell))
        for holder, name, was in self._globals:
            if not same(held_at(holder, name), was):
                yield False, change(name, was, held_at(holder, name))
        for owner, attributes in zip(self._owners, self._dicts):
            if owner.__dict__ is not attributes:
                yield False, f"the attributes of a {type(owner).__name__} are in another dict"
        for look, was in self._looks_at:
            if not look.alike(look.get(), was):
                yield False, change(look.name, was, look.get())
        for (array, name), (_, contents) in zip(self.state.arrays, self.arrays):
            if not _equal(array, contents) and self._counts(array):
                yield False, f"the NumPy array {name} changed"
        for holder, held in self.hooks:
            if dict(holder) != held:
                yield False, "the hooks on all modules or all optimizers changed"
        for tensor, grad in self.grads:
            now = None if tensor._meta is None else tensor._meta.grad
            if self.watches_gradients and _look_of(now) != _look_of(grad):
                had = "had no gradient" if grad is None else "had a gradient"
                has = "has none" if now is None else "has one" if grad is None else "has another"
                shape = list(tensor._array.shape)
                yield False, f"a parameter of shape {shape} {had} when the step was compiled, and now {has}"
        for tensor, hooks in self.leaf_hooks:
            if not all(map(_same_map, _hook_maps(tensor._meta), hooks)):
                yield False, f"the hooks on a tensor of shape {list(tensor._array.shape)} changed"
        for tensor, node_hooks in self._node_hooks:
            if not _same_hooks(hooks_on_node(tensor._meta), node_hooks):
                yield False, f"the hooks on the node of a leaf of shape {list(tensor._array.shape)} changed"
        for tensor, dtype in self._grad_dtypes:
            if _wanted(tensor._meta) != dtype:
                yield False, f"grad_dtype of a tensor of shape {list(tensor._array.shape)} changed"
        for module, kind in zip(self.state.modules, self._kinds):
            if type(module) is not kind:
                yield False, f"a {kind.__name__} is a {type(module).__name__} now"
        if not self._code.holds():
            yield False, self._code.difference()
        if self.histories.difference():
            yield False, self.histories.difference()
        for tensor, flag in self.flags:
            if tensor._requires_grad != flag:
                yield False, f"requires_grad of a tensor of shape {list(tensor._array.shape)} changed"

    def _changed_key(self, holder: Any, held: dict[Any, Any]) -> Any:
        """Return the first key of a mapping under which there is something else than there was; ABSENT if there is none."""
        for key in {**held, **entries_of(holder)}:
            if not same(held.get(key, ABSENT), held_at(holder, key)) and self._counts(holder, key):
                return key
        return ABSENT

    def _changed_item(self, items: Any, kept: list[Any]) -> bool:
        """Whether a list, deque or set holds anything else than it held."""
        now = held_by(items)
        if len(now) != len(kept):
            return True
        pairs = enumerate(zip(now, kept))
        return any(now is not was and not same(now, was) and self._counts(items, place) for place, (now, was) in pairs)

    def _change_in(self, items: Any, kept: list[Any], name: str) -> str:
        """Return what is not as it was in a list, deque or set, in words."""
        if len(items) != len(kept) or isinstance(items, set):
            return (
                f"{name} had {len(kept)} entries and has {len(items)}" if len(items) != len(kept) else f"{name} changed"
            )
        names = items.names if isinstance(items, Numbers) else [f"{name}[{place}]" for place in range(len(kept))]
        changed = ((names[place], *pair) for place, pair in enumerate(zip(kept, items)) if not same(*pair))
        return change(*next(changed))

    def watches(self, owner: Any) -> bool:
        """Whether what an object holds is looked at before each call."""
        return id(owner) in self._holders or id(instance_dict(owner)) in self._holders

    def changed_numbers(self) -> dict[Place, tuple[Any, Any]]:
        """Places that hold another number of the same kind than they held."""
        held = [(holder, key, value) for holder, held in self.maps for key, value in held.items()]
        held += [(holder, place, value) for holder, kept in self.lists for place, value in enumerate(kept)]
        held += [(cell, None, value) for cell, value in self.cells]
        held += [*self.globals]
        numbers = [(holder, key, value) for holder, key, value in held if type(value) in (int, float)]
        numbers = [each for each in numbers if not isinstance(each[0], set)]
        return {
            place_at(holder, key): (holder, key)
            for holder, key, value in numbers
            if type(held_at(holder, key)) is type(value)
            and not same(held_at(holder, key), value)
            and self._counts(holder)
            and self._counts(holder, key)
        }

    def covers(self, holder: Any, key: Any = None) -> bool:
        """Whether a place, or a whole container, is one of those that were remembered."""
        owner, key = place_at(holder, key)
        return owner in self._covered or (owner, key) in self._covered_names

    def changes(self) -> Iterator[Change]:
        """Yield each place that holds a different object than it held: entries, whole lists, arrays, cells, globals."""
        for holder, held in self.maps:
            yield from changes_in(holder, held)
        for into, kept in self.lists:
            if _differs(held_by(into), kept):
                yield Change(into, slice(None), kept, list(held_by(into)))
        for array, contents in self.arrays:
            if not _equal(array, contents):
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
        """Put everything back, as it was before the trace. What can't be is named, when all the rest is done."""
        failures = [
            *_put_back_each(put_back, [pair for pair in self.maps if _differs_in_entries(*pair)]),
            *_put_back_each(refill, [pair for pair in self.lists if _differs(held_by(pair[0]), pair[1])]),
            *_put_back_each(_fill_array, [pair for pair in self.arrays if not _equal(*pair)]),
        ]
        for cell, contents in self.cells:
            if contents is not contents_of(cell):
                put(cell, None, contents)
        for holder, name, value in self.globals:
            if held_at(holder, name) is not value:
                put(holder, name, value)
        for tensor, hook_maps in self.leaf_hooks:
            for own, before in zip(_hook_maps(tensor._meta), hook_maps):
                if own is not None and not _same_map(own, before):
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
                f"undertow.compile: the step changes `{name}` in a way that can't be taken back ({error}), and tracing it "
                "has done so once. Change it outside of the step."
            ) from error


def _differs_in_entries(now: Any, before: dict[Any, Any]) -> bool:
    return _differs(held_by(now), before.values()) or _differs(keys_in(now), before)


def _differs(now: Any, before: Any) -> bool:
    return len(now) != len(before) or not all(map(is_, now, before))


def _put_back_each(
    put_one_back: Callable[[Any, Any], None], pairs: list[tuple[Any, Any]]
) -> Iterator[tuple[Any, Exception]]:
    """Yield what refuses to be what it was, and how."""
    for holder, held in pairs:
        try:
            put_one_back(holder, held)
        except Exception as error:
            yield holder, error


def _fill_array(array: Any, contents: Any) -> None:
    array[...] = contents


_REQUIRES_GRAD = attrgetter("_requires_grad")
_ATTRIBUTES = attrgetter("__dict__")


def _columns(rows: list[tuple[Any, ...]], width: int) -> list[list[Any]]:
    return [[row[place] for row in rows] for place in range(width)]


def _look_of(grad: Any) -> Any:
    """Return what a program depends on in a gradient, which is another tensor in each step."""
    if grad is None:
        return None
    if not grad._is_strided:
        raise CompileError(
            f"undertow.compile: a tensor of the step's own has a sparse gradient, of shape {list(grad.shape)}. Programs "
            "keep gradients dense: clear it (zero_grad()) before the call, or make it so (grad.to_dense())."
        )
    return grad._array.dtype, grad._requires_grad


def _own_maps(module: Any) -> tuple[Any, ...]:
    """Return the mappings that a module itself keeps its parts in."""
    return vars(module), module._parameters, module._buffers, module._modules


def _hook_maps(meta: Any) -> tuple[Any, Any]:
    """Where a leaf's hooks are kept, if it has had any."""
    return (None, None) if meta is None else (meta.hooks, meta.post_hooks)


def _wanted(meta: Any) -> tuple[Any] | None:
    """Return the dtype that a leaf wants its gradient in, if it has said so."""
    return None if meta is None or meta.grad_dtype is None else (meta.grad_dtype.dtype,)


def _same_hooks(now: list[Any] | None, before: list[Any] | None) -> bool:
    """Whether two lists are of the same hooks, which may equal others."""
    return now is before or (len(now or ()) == len(before or ()) and all(map(is_, now or (), before or ())))


def _same_map(now: Any, before: dict[int, Any]) -> bool:
    """Whether a map holds the hooks that it held, in their order."""
    return _same_hooks([*(now or ()), *(now or {}).values()], [*before, *before.values()])


def _is_plain(hooks: Any) -> bool:
    """Whether it is a map of the program's own, in which changes are not counted."""
    return hooks is not None and type(hooks) is not CountedHooks


def _equal(array: Any, contents: Any) -> bool:
    if array.shape != contents.shape or array.nbytes <= WATCHED_BYTES:
        return array.shape == contents.shape and array.tobytes() == contents.tobytes()
    words = np.uint64 if array.nbytes % 8 == 0 else np.uint8
    return np.array_equal(np.ascontiguousarray(array).reshape(-1).view(words), contents.reshape(-1).view(words))
