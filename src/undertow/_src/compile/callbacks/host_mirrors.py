"""Host mirrors: tensors on the host that stand for a program's tensors in hooks, as in eager mode.

A tensor of the trace has one mirror (`tensor_mirrors.py`). In each call of the program, the mirror is one tensor for all
hooks: a tensor from outside is its own mirror, and a tensor that the program computes gets a new one. So a hook keeps the
tensor that the next hook gets and that the step returns, and if the step goes on writing to it, the hook's tensor changes,
too. Mirrors of tensors that share a buffer share one.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import Buffer
from undertow._src.compile.callbacks.container_mirrors import ContainerMirror
from undertow._src.compile.callbacks.kept_memory import Memory, Taken, parts_of
from undertow._src.compile.callbacks.tensor_mirrors import (
    AliasMirror,
    ExternalMirror,
    HostMirror,
    MirrorState,
    Replaced,
)
from undertow._src.compile.callbacks.wrapper_mirrors import WrapperMirror
from undertow._src.compile.errors import CompileError
from undertow._src.compile.tracing.current_trace import running_trace
from undertow._src.engine.apply import place_operands
from undertow._src.types.devices import cpu

if TYPE_CHECKING:
    from undertow._src.compile.callbacks.host_calls import HostCall, Placed
    from undertow._src.compile.guards.rollback import TensorMarks


class HostMirrors:
    """The mirrors of the tensors and containers of a trace."""

    def __init__(self) -> None:
        self.tensors: list[HostMirror] = []
        self.containers: dict[int, ContainerMirror] = {}
        self._by_id: dict[int, HostMirror] = {}
        self._arguments: dict[int, int] = {}  # places of the arguments, by the tensors of the trace that stand for them
        self._present: Sequence[Any] = ()
        self._memories: WeakKeyDictionary[Buffer, Memory] = WeakKeyDictionary()
        self._taken: list[Taken] = []  # since the last call on the host
        self.marks: TensorMarks | None = None  # during the trace: the state of tensors from outside before it
        self._counted: set[int] = set()  # storages that currently have the version of a hook call
        self._inside = False  # whether the mirrors know what calls inside the program have seen, or those after it
        # In this call: calls on the host that have returned tensors; leaves to which hooks gave a different gradient, by
        # the id of the earlier one.
        self.answered: list[HostCall] = []
        self.replaced: dict[int, Replaced] = {}

    def calls_of(self, inside: bool) -> None:
        """From now on, place calls inside the program, or calls after it.

        All calls inside are made first. So a call changes what later calls of its own run find, even if a call of the
        other run stands between them in the trace.
        """
        if inside is not self._inside:
            self._inside = inside
            for mirror in self.tensors:
                mirror.change_runs()
            for container in self.containers.values():
                container.change_runs()

    def expect(self, arguments: dict[int, int]) -> None:
        """Record which tensors of the trace stand for which arguments."""
        self._arguments = arguments

    def is_argument(self, value: Any) -> bool:
        """Return whether a tensor of the trace stands for an argument."""
        return id(value) in self._arguments

    def begin(self, arguments: Sequence[Any]) -> None:
        """Begin a call of the program with these arguments."""
        self._present = arguments
        self.answered.clear()
        self.replaced.clear()
        for mirror in self.tensors:
            mirror.begin()
        for container in self.containers.values():
            container.begin()

    def end(self) -> None:
        """Forget everything that belongs to the call."""
        self.begin(())

    def references_to(self, tensor: Any) -> int:
        """Count the mirrors' references to a tensor of the trace."""
        mirror = self._by_id.get(id(tensor))
        if mirror is None or mirror.kept is not tensor or mirror.itself:
            return 0
        views = [each.kept._view for each in self.tensors]
        own = sum(view is not None and view.base is tensor for view in views)
        containers = [*self.containers.values()]
        return 1 + own + sum(container.references_to(tensor, containers) for container in containers)

    def take(self, shown: Any, gradient: Any, has_aliases: bool) -> None:
        """Let a leaf's gradient take over the buffer of a tensor.

        Each call checks whether code on the host has seen that tensor and holds it.
        """
        mirror = self._by_id.get(id(shown))
        if mirror is not None and mirror.kept is shown:
            del self._memories[shown._array.buffer]
            heir = self.mirror_of(gradient)
            heir.writes, mirror.memory.is_over = mirror.writes, True
            self._taken.append(Taken(mirror, heir, has_aliases))

    def refuse_writes(self) -> None:
        """Raise if hooks of this call have written to tensors that other hooks have kept."""
        for mirror in self.tensors:
            mirror.memory.refuse_writes()

    def over(self) -> list[Any]:
        """Return the tensors of the trace whose buffers were taken over."""
        return [mirror.kept for mirror in self.tensors if mirror.memory.is_over]

    def was_taken(self) -> list[Taken]:
        """Return the tensors that were taken over since the last call of this method."""
        taken, self._taken = self._taken, []
        return taken

    def decide(self, taken: list[Taken]) -> None:
        """Check what hooks of this call have kept."""
        for each in taken:
            each.decide(self.answered, [*self.containers.values()])

    def replace(self, mirror: HostMirror, leaf: Any, gradient: Any, who: Placed) -> None:
        """Record that a hook of this call replaced the gradient of a leaf that it saw."""
        if mirror.has_aliases:
            raise CompileError(
                f"undertow.compile: {who} runs on the host and sets .grad to another tensor, while a hook in the program "
                "keeps an alias of the old one, which would change with it. Write to .grad in place, or keep a clone()."
            )
        if isinstance(mirror, ExternalMirror):
            first = mirror.find()
            last = self.replaced.get(id(first))
            value = np.array(first._array) if last is None else last.value
            self.replaced[id(first)] = Replaced(first, leaf, gradient, value)
        mirror.replace_by(gradient)

    def host_tensor_of(self, tensor: Any) -> Any:
        """Return the tensor that mirrors one of the trace in this call, if something keeps it."""
        mirror = self._by_id.get(id(tensor))
        return None if mirror is None or mirror.tensor() is not tensor else mirror.host_tensor()

    def known(self, tensor: Any) -> tuple[HostMirror | None, Memory] | None:
        """Return the mirror of a tensor that the trace made, if there is one, and its memory, if hooks have seen it."""
        array = tensor._array
        memory = self._memories.get(array.buffer) if type(array) is DeviceArray and array._parent is None else None
        mirror = self._by_id.get(id(tensor))
        return None if memory is None else (mirror if mirror is not None and mirror.kept is tensor else None, memory)

    def mirror_of(self, tensor: Any, known_by_name: bool = False) -> HostMirror:
        """Return the mirror of a tensor of the trace."""
        mirror = self._by_id.get(id(tensor))
        if mirror is None or mirror.tensor() is not tensor:
            mirror = self._by_id[id(tensor)] = self._new(tensor, known_by_name)
            self.tensors.append(mirror)
        return mirror

    def _new(self, tensor: Any, known_by_name: bool) -> HostMirror:
        place = self._arguments.get(id(tensor))
        if WrapperMirror.is_for(tensor):
            return WrapperMirror(tensor, is_outside=self.marks is not None and self.marks.knows(tensor))
        if place is not None:
            return ExternalMirror(tensor, lambda: self._present[place], self._counted, *self._before(tensor))
        is_outside = running_trace().memory.is_from_outside(tensor)
        if is_outside or (known_by_name and not running_trace().memory.is_made(tensor)):
            return ExternalMirror(tensor, lambda: tensor, self._counted, *self._before(tensor))
        whole, parts = parts_of(tensor._array)
        base = None if tensor._view is None else self.mirror_of(tensor._view.base)
        owner = None if running_trace().memory.is_made(tensor) else running_trace().memory.owner_of(whole.buffer)
        if owner is not None:
            its = self.mirror_of(owner)
            assert isinstance(its, ExternalMirror)
            if running_trace().lengths is not None and id(owner) in self._arguments:
                raise CompileError(
                    "undertow.compile: a hook or a statement on the host is shown a part of an argument whose size varies "
                    "(`dynamic`). Show it a clone(), or compile without `dynamic`."
                )
            return AliasMirror(tensor, its, parts, base)
        memory = self._memories.setdefault(whole.buffer, Memory(whole.buffer.strides, whole.device is cpu))
        return HostMirror(tensor, memory, parts, base)

    def _before(self, tensor: Any) -> tuple[Any, int]:
        """Return the edge and the version of a tensor from outside, before the trace."""
        return (tensor._edge, tensor._get_storage().version) if self.marks is None else self.marks.before(tensor)

    def stand_on(self, buffer: Buffer) -> bool:
        """Whether calls on the host see tensors over a buffer of the trace."""
        return buffer in self._memories

    def memory_at(self, buffer: Buffer) -> Any:
        """Return the array that stands for a buffer of the trace in this call, if something holds it."""
        memory = self._memories.get(buffer)
        return None if memory is None else memory.array()

    def container_of(self, value: Any) -> ContainerMirror:
        """Return the mirror of a container or an object of the trace."""
        if id(value) not in self.containers:
            self.containers[id(value)] = ContainerMirror(value)
        return self.containers[id(value)]

    def aliases(self) -> list[Any]:
        """Return the tensors from outside of which code on the host may keep an alias, and such aliases."""
        kinds = (AliasMirror, ExternalMirror)
        return [each.kept for each in self.tensors if isinstance(each, kinds) and each.is_seen_at_home]

    def stale_mirrors(self) -> list[HostMirror]:
        """Return mirrors that have changed since a hook saw them: the hook may have kept the tensors."""
        return [mirror for mirror in self.tensors if not mirror.itself and mirror.has_changed()]

    def stale_containers(self) -> list[ContainerMirror]:
        """Return mirrors of containers that have changed since a hook saw them."""
        return [container for container in self.containers.values() if container.has_changed()]

    def is_stale(self, tensor: Any) -> bool:
        """Return whether a tensor has changed since a hook saw it."""
        mirror = self._by_id.get(id(tensor))
        return mirror is not None and mirror.kept is tensor and mirror.has_changed()

    def is_up_to_date(self) -> bool:
        """Return whether nothing has changed since a hook saw it."""
        return not (self._taken or self.stale_mirrors() or self.stale_containers())

    def state_of(self, mirror: HostMirror, capture: Callable[[DeviceArray], int], always: bool) -> MirrorState:
        """Return the state of a mirror at this point of the trace.

        `capture` keeps its value; that of a tensor from outside only if `always` or if it was written to.
        """
        tensor = mirror.kept
        if isinstance(mirror, WrapperMirror):
            return self._with_grad(mirror.state(self, capture, always), capture, always)
        mirror.writes = tensor._array.buffer.writes
        has_moved = mirror.itself and running_trace().memory.has_moved(tensor)
        mirror.is_seen_at_home = mirror.is_seen_at_home or not has_moved
        has_changed = mirror.writes or has_moved
        place = whole = capture(tensor._array) if always or not mirror.itself or has_changed else None
        if place is not None and tensor._array._parent is not None and type(mirror) is HostMirror:
            whole = capture(parts_of(tensor._array)[0])
        return self._with_grad(MirrorState(mirror, place, whole, mirror.writes), capture, always)

    def _with_grad(self, state: MirrorState, capture: Callable[[DeviceArray], int], always: bool) -> MirrorState:
        """Return a state, with that of the tensor's gradient."""
        mirror = state.mirror
        tensor = mirror.kept
        state.retains = mirror.retains = tensor._meta is not None and tensor._meta.retains
        mirror.grad = None if tensor._meta is None else tensor._meta.grad
        if mirror.grad is not None:
            if not WrapperMirror.is_for(mirror.grad):
                place_operands((mirror.grad,))
            state.grad = self.state_of(self.mirror_of(mirror.grad), capture, always)
        return state

    def finish(self) -> None:
        """Forget the trace, which has ended."""
        self.marks = None
        for mirror in self.tensors:
            mirror.forget_trace()

    def leave(self, left: Container[int]) -> None:
        """Forget all containers and objects of the trace except those that the step leaves."""
        for place, container in self.containers.items():
            container.value = container.value if place in left else None
            container.forget_turns()

    def changed_containers(self) -> list[Any]:
        """Return the containers of the trace whose counterparts hooks of this call have changed."""
        return [container.value for container in self.containers.values() if container.is_changed_on_host()]

    def made(self) -> dict[int, Any]:
        """Return the containers and objects of this call, by the ids of the trace's containers that the step leaves."""
        return {
            place: container.live
            for place, container in self.containers.items()
            if container.value is not None and container.live is not None
        }
