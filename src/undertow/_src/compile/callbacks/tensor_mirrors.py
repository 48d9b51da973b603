"""Host mirrors of the trace's tensors: in each call, one tensor on the host shows the values of each."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import laid_out
from undertow._src.arrays.device.placement import HostedArray, hosted
from undertow._src.base.modes import local
from undertow._src.compile.callbacks.kept_memory import Memory, Part, WeakMemory, nothing_held, part_of
from undertow._src.compile.errors import CompileError
from undertow._src.compile.tracing.arguments import view_again
from undertow._src.engine.node import Node
from undertow._src.tensor.core import InferenceStorage, wrap
from undertow._src.types.devices import cpu
from undertow._src.types.devices import device as Device


class GraphPosition(NamedTuple):
    """The properties of a tensor's place in the graph that hooks can see."""

    requires_grad: bool
    node_name: str  # of the node that computed it
    output_nr: int

    @staticmethod
    def of(tensor: Any) -> GraphPosition:
        node, number = tensor._edge or (None, 0)
        return GraphPosition(tensor._requires_grad, "" if node is None else type(node).__name__, number)

    def edge(self) -> Any:
        """Return an edge that shows it, to a node without a graph."""
        return (gone(self.node_name)(self.output_nr + 1), self.output_nr) if self.node_name else None

    def show_on(self, tensor: Any) -> None:
        tensor._requires_grad, tensor._edge = self.requires_grad, self.edge()


class MirrorState:
    """The state of a mirror at one hook call: its captured value, and the tensor's other visible properties.

    Without a captured value, the mirror has its memory outside of the program, which the step has not yet written to.
    """

    __slots__ = (
        "mirror", "place", "whole", "writes", "retains", "position", "base_position", "grad", "kind",
        "inference", "version", "moved",
    )  # fmt: skip

    def __init__(self, mirror: HostMirror, place: int | None, whole: int | None, writes: int) -> None:
        self.mirror, self.place = mirror, place
        self.whole = whole  # the same for its whole memory, of which it may be a view
        self.writes = writes  # the number of writes to its memory so far
        self.retains = False
        self.position = GraphPosition.of(mirror.kept)
        self.base_position = mirror.base_position()  # of its base, if the step has made that
        self.grad: MirrorState | None = None
        tensor = mirror.kept
        self.kind: type = type(tensor)
        self.inference = type(tensor._storage) is InferenceStorage
        self.version = 0 if tensor._storage is None else tensor._storage.version
        self.moved = tensor._edge is not mirror.first_edge  # from outside: whether the step has given it a graph

    def materialize(self, values: list[Any], device: Device) -> Any:
        """Return the tensor on the host, in its state at this hook call."""
        host_tensor = self.mirror.materialize(self, values, device)
        self._show_grad(host_tensor, values, device)
        return host_tensor

    def update(self, values: list[Any], device: Device) -> None:
        """Update the tensor that a hook kept, or a view of it, to its value at this hook call."""
        self.mirror.refresh(self, values)
        host_tensor = self.mirror.host_tensor()
        if host_tensor is not None:
            self._show_grad(host_tensor, values, device)

    def _show_grad(self, host_tensor: Any, values: list[Any], device: Device) -> None:
        if self.grad is not None or self.retains or host_tensor._meta is not None:
            meta = host_tensor._get_meta()
            meta.grad = None if self.grad is None else self.grad.materialize(values, device)
            meta.retains = meta.retains or self.retains

    def restore(self) -> None:
        """Put tensors from outside back, after a hook."""
        self.mirror.restore()
        if self.grad is not None:
            self.grad.restore()


UNSEEN = (-1, None, False)  # writes, gradient and retains_grad of a tensor that no hook call of a run has seen


class HostMirror:
    """The mirror of a tensor that the program computes."""

    itself = False  # whether it is a tensor from outside itself

    def __init__(self, tensor: Any, memory: Memory, parts: tuple[Part, ...], base: HostMirror | None = None) -> None:
        self.tensor: Callable[[], Any] = ref(tensor)
        self._base = base  # its base, and the steps to this view
        self._steps: Any = () if base is None else tensor._view.steps
        self._origin: str | None = None if base is None else tensor._view.origin
        self.memory, self._parts = memory, parts  # its base on the host, and the steps to this view
        self._is_apart = False  # whether those steps copy on the host
        self.kept = tensor  # until the end of the trace: a hook may keep the tensor on the host
        self.first_edge: Any = None  # of a tensor from outside, before the step; until the end of the trace
        self.writes = 0  # writes to its memory, up to the last hook call that saw it in the trace
        self.grad: Any = None  # its gradient then
        self.retains = False
        self._other_run: tuple[int, Any, bool] = UNSEEN  # the same, for the calls of the other run
        self.has_aliases = False  # in the program
        self.is_seen_at_home = False  # whether a hook call saw it before the step gave it other memory
        self.begin()

    def begin(self) -> None:
        """Forget the tensor of the last call, before the next call of the program."""
        self._host_tensor: Callable[[], Any] = nothing_held
        self.memory.begin()

    def has_changed(self) -> bool:
        """Return whether the step has written to it since a hook call last saw it, or has given it a different gradient."""
        if self.memory.is_over:
            return False
        meta = self.kept._meta
        other = meta is not None and (meta.grad is not self.grad or meta.retains is not self.retains)
        return other or self.kept._array.buffer.writes != self.writes

    def forget_trace(self) -> None:
        """Forget everything that was needed only during the trace."""
        self.kept = self.grad = self.first_edge = None
        self._other_run = UNSEEN

    def change_runs(self) -> None:
        """From now on, know what the calls of the other run have seen: see `HostMirrors.calls_of`."""
        self._other_run, (self.writes, self.grad, self.retains) = (
            (self.writes, self.grad, self.retains),
            self._other_run,
        )

    def present(self) -> Any:
        """Return the tensor on the host in this call, if something still holds it."""
        return self._host_tensor()

    def replace_by(self, tensor: Any) -> None:
        """Use a tensor that a hook of this call has made instead."""
        self._host_tensor = ref(tensor)
        self.memory.hold(tensor._array, np.array(tensor._array), 0)

    def host_tensor(self) -> Any:
        """Return the tensor on the host in this call, if something holds it or an alias of it: a view, a NumPy array."""
        host_tensor, memory = self._host_tensor(), self.memory.array()
        return host_tensor if memory is None else self.on(memory)

    def base_position(self) -> GraphPosition | None:
        """Return the graph position of its base, unless that is from outside."""
        has_base = self._base is not None and not self._base.itself
        return GraphPosition.of(self.kept._view.base) if has_base else None

    def on(self, memory: Any) -> Any:
        """Return the tensor on the host, over an array."""
        host_tensor = self._host_tensor()
        if host_tensor is None:
            if self._base is None:
                host_tensor = wrap(part_of(memory, self._parts))
            else:
                host_tensor = view_again(self._base.on(memory), self._steps)
                if host_tensor._view is not None:  # else there are no steps
                    host_tensor._view.origin = self._origin
            self._host_tensor = ref(host_tensor)
        return host_tensor

    def materialize(self, state: MirrorState, values: list[Any], device: Device) -> Any:
        memory = self.refresh(state, values)
        if memory is None:
            value = values[self._value_in(state)]
            memory = _memory_for(value, self.memory.strides, cpu if self.memory.is_on_cpu else device)
            if self._parts and not np.may_share_memory(part_of(memory, self._parts), memory):
                self._is_apart, self._parts, self._base = True, (), None
                self.memory = Memory(is_on_cpu=self.memory.is_on_cpu)
                return self.materialize(state, values, device)
            self.memory.hold(memory, value, state.writes)
        host_tensor = self.host_tensor()
        self._show(host_tensor, state)
        return host_tensor

    def _show(self, host_tensor: Any, state: MirrorState) -> None:
        state.position.show_on(host_tensor)
        if state.base_position is not None and host_tensor._view is not None:
            state.base_position.show_on(host_tensor._view.base)
        if type(host_tensor) is not state.kind:
            host_tensor.__class__ = state.kind
        if state.inference and type(host_tensor._storage) is not InferenceStorage:
            host_tensor._storage = InferenceStorage()
        elif not state.inference and (state.version or host_tensor._storage is not None):
            self._show_version(host_tensor, state)

    def _show_version(self, host_tensor: Any, state: MirrorState) -> None:
        host_tensor._get_storage().version = state.version

    def refresh(self, state: MirrorState, values: list[Any]) -> Any:
        """Put the value of a hook call into the memory if it is still held; return the memory."""
        return self.memory.refresh(values[self._value_in(state)], state.writes)

    def _value_in(self, state: MirrorState) -> int:
        place = state.place if self._is_apart else state.whole
        assert place is not None
        return place

    def restore(self) -> None:
        """Do nothing after a hook: it may have kept the tensor."""


class ExternalMirror(HostMirror):
    """The mirror of a tensor from outside. While a hook runs, it is in the state in which eager code would call the hook.

    The state is its value, requires_grad, edge and version.
    """

    itself = True

    def __init__(self, tensor: Any, find: Callable[[], Any], counted: set[int], edge: Any, version: int) -> None:
        super().__init__(tensor, Memory(), ())
        self.find = find  # the tensor, in a call of the program
        self._before: tuple[Any, ...] | None = None
        self._counted = counted  # storages that show a hook call's version: several tensors may have one
        self.first_edge, self._first_version = edge, version
        self._undo: Callable[[], None] | None = None

    def begin(self) -> None:
        super().begin()
        self._instead: Any = None  # the tensor by which a hook of this call has replaced it

    def replace_by(self, tensor: Any) -> None:
        if (
            self._instead is not None and self._before is not None
        ):  # made in this call: it keeps the value that it has now
            self._before = *self._before[:-1], None
        self._instead = tensor

    def host_tensor(self) -> Any:
        return None  # its memory stays

    def on(self, memory: Any) -> Any:
        return self.find() if self._instead is None else self._instead

    def refresh(self, state: MirrorState, values: list[Any]) -> Any:
        return None

    def materialize(self, state: MirrorState, values: list[Any], device: Device) -> Any:
        tensor = self.on(None)
        if self._before is not None:
            return tensor
        if self._instead is None:
            self._undo = self._mark(tensor, state)
        value = None if state.place is None else values[state.place]
        array = tensor._array
        marks = tensor._meta, None if tensor._meta is None else tensor._meta.grad
        host = array if isinstance(array, np.ndarray) else None if array.buffer.host is None else array.on_host()
        if host is not None:
            self._before = tensor, array, marks, host, None if value is None else host.copy()
            if value is not None:
                host[...] = value
        elif local.modes.device_is_busy:
            self._before = tensor, array, marks, None, None
            tensor._array = _memory_for(value, array.strides, array.device)
            if array._parent is None and array.device is cpu:
                array.buffer.host = tensor._array
        else:
            self._before = tensor, array, marks, None, array.buffer.value
            if value is not None:
                array.write(value)
        return tensor

    def _mark(self, tensor: Any, state: MirrorState) -> Callable[[], None]:
        """Set a tensor's properties, besides its value, to those of a hook call; return a function that restores them."""
        flag, edge, shown = tensor._requires_grad, tensor._edge, tensor._edge
        if state.moved:
            shown = state.position.edge()
        tensor._requires_grad, tensor._edge = state.position.requires_grad, shown
        uncount = self.count(state.version)

        def undo() -> None:
            if tensor._requires_grad is state.position.requires_grad:  # else the hook has set it
                tensor._requires_grad = flag
            if tensor._edge is shown:
                tensor._edge = edge
            uncount()

        return undo

    def version_at(self, traced: int) -> int:
        """Return this call's version for `traced`, the trace's version at the same point."""
        storage = self.on(None)._get_storage()
        return storage.version + (0 if id(storage) in self._counted else traced - self._first_version)

    def count(self, traced: int) -> Callable[[], None]:
        """Set the storage's version to that of a hook call (`traced` in the trace); return a function that restores it."""
        storage = self.on(None)._get_storage()
        bumps = self.version_at(traced) - storage.version
        storage.version += bumps
        self._counted.add(id(storage))

        def undo() -> None:
            storage.version -= bumps
            self._counted.discard(id(storage))

        return undo

    def restore(self) -> None:
        if self._undo is not None:
            self._undo()
            self._undo = None
        if self._before is None:
            return
        tensor, array, (meta, grad), host, before = self._before
        self._before = None
        shown = WeakMemory(tensor._array) if type(tensor._array) is HostedArray and tensor._array is not host else None
        tensor._array, tensor._meta = array, meta
        if shown is not None and shown() is not None:
            raise CompileError(
                f"undertow.compile: a hook that the program waits for keeps an alias (detach(), a view, .data) of a tensor "
                f"of shape {list(array.shape)} on {array.device}, which would not change with it. Keep a clone(), or let "
                "another hook, which returns and writes nothing, keep it."
            )
        if meta is not None:
            meta.grad = grad
        if host is not None:
            if before is not None:
                host[...] = before
            return
        buffer = array.buffer
        if before is not None:
            buffer.value = before
        buffer.writes += 1
        if buffer.host is not None:  # the hook has seen it
            looked = ref(buffer.host)
            buffer.host = None
            if looked() is not None:  # and keeps it, or a view of it
                buffer.host = looked()
                buffer.host[...] = buffer.value
                if array._parent is None:
                    tensor._array = buffer.host


class AliasMirror(HostMirror):
    """The mirror of a tensor that shares the memory of one from outside, or is a view of it."""

    def __init__(
        self, tensor: Any, owner: ExternalMirror, parts: tuple[Part, ...], base: HostMirror | None = None
    ) -> None:
        super().__init__(tensor, Memory(), parts, base)
        self.owner = owner
        self._uncount: Callable[[], None] | None = None

    def has_changed(self) -> bool:
        return False  # its memory stays, as its owner's does

    def host_tensor(self) -> Any:
        return self.present()

    def materialize(self, state: MirrorState, values: list[Any], device: Device) -> Any:
        host_tensor = self.on(self.owner.on(None)._array)
        self._show(host_tensor, state)
        return host_tensor

    def _show_version(self, host_tensor: Any, state: MirrorState) -> None:
        """Set a version relative to the owner's, which differs in each call."""
        if host_tensor._storage is self.owner.on(None)._storage:
            self._uncount = self.owner.count(state.version)
        else:
            host_tensor._get_storage().version = self.owner.version_at(state.version)

    def restore(self) -> None:
        if self._uncount is not None:
            self._uncount()
            self._uncount = None


def _memory_for(value: Any, strides: tuple[int, ...] | None, device: Device) -> Any:
    """Return new memory for a value; on the host while a program keeps the device busy."""
    if device is not cpu and not local.modes.device_is_busy:
        return DeviceArray(value, device)
    memory = laid_out(value, strides)
    return memory if device is cpu else hosted(memory, device)


class Replaced(NamedTuple):
    """A gradient from outside that a hook has replaced."""

    first: Any  # the old one
    leaf: Any
    gradient: Any  # the current one
    value: Any  # of the old one, to which the step no longer writes

    def put_in_place(self, value: Any) -> None:
        """Leave the current gradient with the value that the program computed for it."""
        self.gradient._array[...] = value
        self.leaf._meta.grad = self.gradient


class Gone(Node):
    """Stand for the node of a tensor that was computed inside a program, which leaves no graph."""

    __slots__ = ("_n_outputs",)
    _hides_inputs = True

    def __init__(self, n_outputs: int) -> None:
        self._edges = ()
        self._order = next(local.modes.sequence)
        self._extras = None
        self._tensor_hooks = None
        self._n_outputs = n_outputs

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """Raise: its graph is in the program."""
        raise CompileError(
            "undertow.compile: a hook or a statement on the host reads next_functions of a tensor that the program "
            "computed, and a program has no graph. Read it in a hook or a statement that does nothing else."
        )

    def _run(self, xp: Any, g: Any, needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        raise CompileError(
            "undertow.compile: this tensor was computed in a compiled step and kept by a hook or a statement that runs on "
            "the host: there is no graph to go back through. Return it from the step by itself, or call backward inside "
            "the step."
        )


def has_marks(tensor: Any) -> bool:
    """Return whether a mirror of a computed tensor has new hooks, or `retain_grad()` was called on it."""
    meta, node = tensor._meta, None if tensor._edge is None else tensor._edge[0]
    if meta is not None and (meta.hooks or meta.post_hooks):
        return True
    if not isinstance(node, Gone):
        return False
    extras = node._extras
    return bool(node._tensor_hooks) or (
        extras is not None and bool(extras.pre_hooks or extras.post_hooks or extras.retained)
    )


@cache
def gone(name: str) -> type[Gone]:
    """Return a class of nodes with the name that eager code would show."""
    return type(name, (Gone,), {"__slots__": ()})
