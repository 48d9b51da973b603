"""The tensors that a step is called with. Each call may pass new ones, so a trace sees stand-ins for them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from operator import is_
from typing import Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import Buffer
from undertow._src.base.modes import no_grad
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.carried_state import Renewed
from undertow._src.compile.guards.input_checks import InputChecks
from undertow._src.compile.guards.reachability import Reached
from undertow._src.compile.tracing.argument_graphs import ArgumentGraphs
from undertow._src.compile.tracing.records import ChangedRecord, Kinds
from undertow._src.compile.tracing.results import values_in
from undertow._src.compile.tracing.sparse_parts import is_sparse, parts_of_sparse
from undertow._src.engine.apply import apply
from undertow._src.engine.node import edge_of
from undertow._src.tensor.core import TensorCore, wrap


class Arguments:
    """Stand-ins for a call's tensors, and what the step does to the tensors themselves.

    A stand-in starts a graph of its own. A tensor that the step reaches anyway (a parameter, say) stands for itself.
    Gradients, also of the step's own tensors, are arguments too, because most steps make new ones. So are tensors
    in places where each call leaves new ones (see `carried_state`).
    """

    def __init__(self, given: Iterable[Any], state: Reached, replaced: Iterable[tuple[Any, Any]] = ()) -> None:
        self.renewed = Renewed(replaced, state)
        self._owners = [
            tensor for tensor in state.tensors if _grad(tensor) is not None and id(_grad(tensor)) not in state.seen
        ]  # the step's own tensors with gradients, which are new in each step
        self._state = {id(tensor): -1 - place for place, tensor in enumerate(state.tensors)}
        self._given = [leaf for leaf in given if isinstance(leaf, TensorCore)]
        self.n_given = len(self._given)
        self.pattern = self.aliases(self._given)
        self._stand_ins: dict[int, Any] = {}
        self._nodes: list[Any] = []  # of stand-ins, kept alive: they have the arguments' node hooks
        # Memories of stand-ins for views on a device, and the whole ones.
        self._parts: list[tuple[DeviceArray, Buffer]] = []
        # The stand-ins: of the arguments, their gradients, carried state and its gradients.
        self.tensors: list[Any] = []
        for place, tensor in enumerate(self._given):
            self._stand_ins.setdefault(id(tensor), tensor if self.pattern[place] < 0 else self._stand_in_for(tensor))
            self.tensors.append(self._stand_ins[id(tensor)])
        self._own = [place for place, alias in enumerate(self.pattern) if alias == place]
        self.with_grads = [place for place in self._own if _grad(self._given[place]) is not None]
        self.tensors += [
            _grad(tensor) for tensor in (*[self.tensors[place] for place in self.with_grads], *self._owners)
        ]
        renewed = self.renewed.tensors()
        self._first_renewed = len(self.tensors)
        for tensor in renewed:
            self._stand_ins.setdefault(id(tensor), self._stand_in_for(tensor))
        self.tensors += [self._stand_ins[id(tensor)] for tensor in renewed]
        self._end_of_renewed = len(self.tensors)
        self.tensors += [grad for grad in map(_grad, self.tensors[self._first_renewed :]) if grad is not None]
        self.has_gradients = len(self.tensors) > len(self._given)
        self.renewed_pattern = self.aliases([*self._given, *renewed])
        self.graphs = ArgumentGraphs([(self._stand_ins[id(each)], each) for each in (*self._given, *renewed)])
        self._flags = [tensor._requires_grad for tensor in self.tensors]
        self._grads = [_grad(tensor) for tensor in self.tensors]
        self._hooks = [_hooks(tensor) for tensor in self.tensors]
        self._versions = [tensor._get_storage().version for tensor in self.tensors]
        self._counted_anyway = {id(tensor._get_storage()) for tensor in state.tensors}  # see `Capture.bumps`
        self.shared: list[
            tuple[int, Any]
        ] = []  # arguments that share a buffer with other arguments, or with a tensor of the step
        self.changes: list[Callable[[list[Any], Callable[[Any], Any]], None]] = []

    def aliases(self, tensors: Sequence[Any]) -> list[int]:
        """Return for each tensor its first place among the arguments, or its number among the step's own tensors."""
        first: dict[int, int] = {}
        return [
            self._state.get(id(tensor)) or first.setdefault(id(tensor), place) for place, tensor in enumerate(tensors)
        ]

    def _stand_in_for(self, tensor: Any) -> Any:
        leaf, whole = _stand_in(tensor), tensor._array
        if type(whole) is DeviceArray and whole._parent is not None:
            leaf._array = whole.like(whole.value)
            self._parts.append((leaf._array, whole.buffer))
        if hooks_on_node(tensor._meta):
            node, _ = edge_of(leaf)
            node._extras = tensor._meta.accumulator()._extras
            self._nodes.append(node)
        return leaf

    def stand_in(self, value: Any) -> Any:
        """Return the stand-in of an argument."""
        return self._stand_ins[id(value)] if isinstance(value, TensorCore) else value

    def pairs(self) -> tuple[list[Any], list[Any]]:
        """Return the tensors of this call with their stand-ins."""
        return self._given, self.tensors[: self.n_given]

    def and_gradients(self, arguments: Sequence[Any]) -> list[Any]:
        """Return the arguments, followed by the gradients that the program reads and by carried state."""
        given = [arguments[place]._meta.grad for place in self.with_grads]
        given += self.gradients()
        if self.renewed.places:
            renewed = self.renewed.tensors()
            given += [*renewed, *[grad for grad in map(_grad, renewed) if grad is not None]]
        return [*arguments, *given]

    @property
    def count(self) -> int:
        """Return the number of tensors among the arguments; gradients come after them."""
        return len(self.pattern)

    def gradients(self) -> list[Any]:
        """Return the gradients of the step's own tensors."""
        return [None if owner._meta is None else owner._meta.grad for owner in self._owners]

    def separate(self) -> list[int]:
        """Return the places of arguments with a separate buffer."""
        shared = {each for pair in self.shared for each in pair if type(each) is int}
        return [place for place in self._own if place not in shared]

    def own(self) -> dict[int, int]:
        """Return the places of the stand-ins, by id."""
        places: dict[int, int] = {}
        for place in (*self._own, *range(len(self.pattern), len(self.tensors))):
            places.setdefault(id(self.tensors[place]), place)
        return places

    def tell(self, input_checks: InputChecks, as_it_was: Callable[[Any], Any]) -> None:
        """Record which arrays of the trace stand for arguments."""
        input_checks.arguments = [_Before(as_it_was(given._array)) for given in self._given]
        for place in self._own:
            if type(self.tensors[place]._array) is DeviceArray:
                input_checks.argument(self.tensors[place]._array, place)

    def stands_in(self, place: int) -> bool:
        """Return whether the trace saw a stand-in here, and not one of the step's own gradients."""
        return place < len(self.pattern) + len(self.with_grads) or place >= self._first_renewed

    def note_changes(self) -> None:
        """After the trace, record the gradients that arrived, flags that were set, and writes to count."""
        own = self.own()
        renewed = range(self._first_renewed, self._end_of_renewed)
        for place in (*self._own, *[place for place in renewed if own[id(self.tensors[place])] == place]):
            tensor = self.tensors[place]
            self._note_gradient(place, _grad(tensor))
            if _hooks(tensor) != self._hooks[place]:
                raise CompileError(
                    f"undertow.compile: the step leaves other hooks on argument {place} than it found there. Register "
                    "hooks before the call, or remove them in the step (`handle.remove()`)."
                )
            if tensor._requires_grad != self._flags[place] and tensor._edge is None:
                self.changes.append(_set_flag(place, tensor._requires_grad))
        noted = set(self._counted_anyway)
        for place in own.values():
            storage = self.tensors[place]._get_storage()
            bumps = storage.version - self._versions[place]
            if bumps and id(storage) not in noted:
                noted.add(id(storage))
                storage.version = self._versions[place]
                self.changes.append(_bump(place, bumps))
        self._given.clear()  # they belong to the first call
        self._stand_ins.clear()
        self.graphs.finish()

    def _note_gradient(self, place: int, now: Any) -> None:
        if now is self._grads[place]:
            return
        if id(self.tensors[place]) not in self.graphs.computed:
            self.changes.append(_set_grad(place, now))
        else:
            raise self._reached(place)

    def _reached(self, place: int) -> CompileError:
        name, cure = f"argument {place}", "compile the code that computes it as well, hand over argument.detach()"
        if place >= self.count:
            name = f"what {self.renewed.name_of(self.tensors[place])} held before"
            cure = "keep it with detach()"
        return CompileError(
            f"undertow.compile: a backward pass inside the step reaches {name}, which was computed outside of it: "
            f"{cure}, or call backward() outside."
        )

    def note_targets(self, reached: Sequence[Any], targets: Sequence[Any]) -> None:
        """Refuse graphs of arguments that lead from a backward pass to its targets."""
        place = self.graphs.note_targets(reached, targets, self.own())
        if place is not None:
            raise self._reached(place)

    def refuse_overlaps(self, known: Container[int]) -> None:
        """Refuse writes to memory that arguments on a device share: there, views are separate buffers of the program."""
        wholes = [whole for _, whole in self._parts]
        for part, whole in self._parts:
            shared = id(whole) in known or wholes.count(whole) > 1
            if (shared and part.buffer.writes) or (id(whole) in known and whole.writes):
                raise _overlap(part, "another one")

    def change(self, arguments: list[Any], renewed: Callable[[Any], Any]) -> None:
        """Change a call's tensors as the step does."""
        for change in self.changes:
            change(arguments, renewed)


class _Before:
    """An argument of the call that is traced, as it was before. A tensor would become an output of the program."""

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array


class Handed:
    """Lists, dicts, records and sparse tensors among the arguments. The step gets copies of stand-ins, so it may not change
    them."""

    def __init__(self, arguments: Any, kinds: Kinds) -> None:
        # With their contents, and the class of the record around them.
        self._held: list[tuple[Any, list[Any], Any]] = []
        self._records: list[tuple[Any, Any]] = []
        stack: list[tuple[Any, Any]] = [(arguments, None)]
        while stack:
            value, around = stack.pop()
            inside: Any = ()
            if kinds.is_record(value):
                around = around or type(value)
                self._records.append((value, around))
                value = vars(value)
                inside = value.values()
            elif isinstance(value, (tuple, list, dict)):
                inside = value.values() if isinstance(value, dict) else value
            if isinstance(value, (list, dict)) or is_sparse(value):
                self._held.append((value, _contents(value), around))
            stack += [(part, around) for part in inside]

    def refuse_to_leave(self, tree: Any, known: Container[int]) -> None:
        """Raise if the step stores a record: each call would have to store its own."""
        own = {id(value): kind for value, kind in self._records if type(value).__hash__ is not None}
        kinds = tuple({type(value) for value, _ in self._records})
        for value in values_in(tree, known, kinds) if own else ():
            if id(value) in own:
                raise ChangedRecord(own[id(value)])

    def ids(self) -> set[int]:
        """Return the ids of all of them."""
        return {id(value) for value, *_ in (*self._held, *self._records)}

    def refuse_changes(self, later: Iterable[Any] = (), contents: Iterable[Any] = ()) -> None:
        """Raise if one has changed, or if code on the host will change it (`contents`: the whole lists and dicts)."""
        changed, found = [*map(id, later)], [*map(id, contents)]
        for value, record in self._records:
            if id(value) in changed:
                raise ChangedRecord(record)
        for value, before, record in self._held:
            now = _contents(value)
            of_host = id(value) in changed or (record is None and id(value) in found)
            if len(now) != len(before) or not all(map(is_, now, before)) or of_host:
                if record is not None:
                    raise ChangedRecord(record)
                raise CompileError(
                    f"undertow.compile: the step changes a {type(value).__name__} among its arguments, and the caller "
                    "would not see the change. Return the new values, change a copy, or use the "
                    f"{type(value).__name__} by a global or closure name instead of as an argument."
                )


def _contents(value: Any) -> list[Any]:
    if is_sparse(value):
        return [*parts_of_sparse(value)]
    return [*value, *value.values()] if isinstance(value, dict) else [*value]


def view_again(tensor: Any, steps: Any) -> Any:
    """Return the view of a tensor that is taken by the same steps."""
    with no_grad():
        for rule, statics, _, place in steps:
            tensor = apply(rule, tensor, **statics)
            tensor = tensor[place] if rule.outputs != 1 else tensor
    return tensor


def memory_of(tensor: Any) -> Any:
    """Return a key that two tensors share if they are the same view of the same memory."""
    if tensor is None:  # a gradient that was freed
        return None
    array = tensor._array
    if type(array) is DeviceArray:
        return id(array.buffer), id(array._parent)
    return array.__array_interface__["data"][0], array.shape, array.strides


def with_common_span(arrays: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Yield the places of each two NumPy arrays whose spans of memory overlap, though the arrays need not."""
    spans = sorted(
        [
            (*np.lib.array_utils.byte_bounds(array), place)
            for place, array in enumerate(arrays)
            if isinstance(array, np.ndarray) and array.size > 0
        ]
    )
    for number, (_, end, place) in enumerate(spans, 1):
        while number < len(spans) and spans[number][0] < end:
            yield place, spans[number][2]
            number += 1


def refuse_overlaps(written: list[Any], arrays: list[Any]) -> None:
    """Refuse overlapping memory that the program would treat as distinct, if one part is written to."""
    ids = set(map(id, written))
    for place, other in with_common_span(arrays):
        one, another = sorted((arrays[place], arrays[other]), key=lambda array: id(array) not in ids)
        if id(one) in ids and one is not another and np.shares_memory(one, another):
            raise _overlap(one, f"another one, of shape {list(another.shape)}")


def _overlap(array: Any, other: str) -> CompileError:
    return CompileError(
        f"undertow.compile: the step writes to a tensor of shape {list(array.shape)} that shares memory with {other}, and "
        "undertow does not know one as a view of the other. Take the view inside the step, or clone() it."
    )


def hooks_on_node(meta: Any) -> list[Any] | None:
    """Return the hooks on the node that accumulates a leaf's gradient, if the node is alive."""
    node = None if meta is None or meta.accumulator is None else meta.accumulator()
    if node is None or node._extras is None:
        return None
    return [
        hook for hooks in (node._extras.pre_hooks, node._extras.post_hooks) for hook in (hooks or {}).values()
    ] or None


def _grad(tensor: Any) -> Any:
    return None if tensor._meta is None else tensor._meta.grad


def _stand_in(tensor: Any) -> Any:
    leaf = wrap(tensor._array)
    if type(leaf) is not type(tensor):
        leaf.__class__ = type(tensor)
    if tensor.__dict__:
        leaf.__dict__.update(tensor.__dict__)
    leaf._requires_grad = tensor._requires_grad
    if tensor._edge is None and tensor._meta is not None:
        meta = leaf._get_meta()
        meta.hooks, meta.post_hooks = tensor._meta.hooks, tensor._meta.post_hooks
        meta.grad_dtype = tensor._meta.grad_dtype
        if tensor._meta.grad is not None:
            meta.grad = wrap(tensor._meta.grad._array)
    return leaf


def _hooks(tensor: Any) -> list[int]:
    """Return the hooks on a leaf, by id."""
    meta = tensor._meta
    return [] if meta is None else [*map(id, [*(meta.hooks or {}).values(), *(meta.post_hooks or {}).values()])]


def _set_grad(place: int, value: Any) -> Callable[..., None]:
    def change(arguments: list[Any], renewed: Callable[[Any], Any]) -> None:
        arguments[place]._get_meta().grad = renewed(value)

    return change


def _set_flag(place: int, flag: bool) -> Callable[..., None]:
    def change(arguments: list[Any], renewed: Callable[[Any], Any]) -> None:
        arguments[place]._requires_grad = flag

    return change


def _bump(place: int, bumps: int) -> Callable[..., None]:
    def change(arguments: list[Any], renewed: Callable[[Any], Any]) -> None:
        arguments[place]._get_storage().version += bumps

    return change
