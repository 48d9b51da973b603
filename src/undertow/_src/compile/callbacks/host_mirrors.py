"""Who plays a program's tensors on the host, where hooks see them as they were at the hook's turn.

A tensor that the trace saw is a *role* (`roles.py`). In each call of the program one tensor plays it, whoever looks: what
comes from outside plays itself, and what the program computes is played by a new tensor. So what a hook keeps is one thing
with what the next hook is shown and with what the step returns, and if the step goes on writing to it, the hook's tensor
changes too. Tensors of one memory are played on one memory.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import Buffer, Watch
from undertow._src.compile.callbacks.container_mirrors import Prop
from undertow._src.compile.callbacks.kept_memory import Memory, Taken, parts_of
from undertow._src.compile.callbacks.roles import Alias, Itself, Look, Replaced, Role
from undertow._src.compile.errors import CompileError
from undertow._src.engine.apply import settle
from undertow._src.types.devices import cpu

if TYPE_CHECKING:
    from undertow._src.compile.callbacks.host_calls import HostCall, Placed
    from undertow._src.compile.guards.rollback import TensorMarks


class Cast:
    """The roles of a trace."""

    def __init__(self) -> None:
        self.roles: list[Role] = []
        self.props: dict[int, Prop] = {}
        self._by_id: dict[int, Role] = {}
        self._arguments: dict[int, int] = {}  # which tensors of the trace stand for those of a call
        self._present: Sequence[Any] = ()
        self._memories: WeakKeyDictionary[Buffer, Memory] = WeakKeyDictionary()
        self._device = cpu
        self._taken: list[Taken] = []  # since the last call on the host
        self.marks: TensorMarks | None = None  # during the trace: what tensors from outside were before it
        self._counted: set[int] = set()  # storages that show the version of a turn, at present
        # In this call: calls on the host that have given something; leaves to which hooks gave another gradient, by the id
        # of the one before.
        self.answered: list[HostCall] = []
        self.replaced: dict[int, Replaced] = {}

    def expect(self, arguments: dict[int, int]) -> None:
        """Says which tensors of the trace are others in each call: their places among the arguments."""
        self._arguments = arguments

    def begin(self, arguments: Sequence[Any]) -> None:
        """Return a call of the program, with these arguments."""
        self._present = arguments
        self.answered.clear()
        self.replaced.clear()
        for role in self.roles:
            role.begin()
        for prop in self.props.values():
            prop.begin()

    def end(self) -> None:
        """After the call."""
        self._present = ()
        self.answered.clear()
        self.replaced.clear()
        for role in self.roles:
            role.begin()
        for prop in self.props.values():
            prop.begin()

    def references_to(self, tensor: Any) -> int:
        """How often roles and props hold a tensor of the trace."""
        role = self._by_id.get(id(tensor))
        if role is None or role.kept is not tensor or role.itself:
            return 0
        views = [each.kept._view for each in self.roles]
        own = sum(view is not None and view.base is tensor for view in views)
        return 1 + own + sum(prop.references_to(tensor) for prop in self.props.values())

    def take(self, shown: Any, gradient: Any, has_aliases: bool) -> None:
        """Return a leaf's gradient takes over the memory of a tensor; whether that was shown on the host, and is
        held there, is
        found out in each call."""
        role = self._by_id.get(id(shown))
        if role is not None and role.kept is shown:
            del self._memories[shown._array.buffer]
            heir = self.role_of(gradient)
            heir.writes, role.memory.is_over = role.writes, True
            self._taken.append(Taken(role, heir, has_aliases))

    def refuse_writes(self) -> None:
        """Raise if hooks of this call have written to what others have kept."""
        for role in self.roles:
            role.memory.refuse_writes()

    def over(self) -> list[Any]:
        """Tensors of the trace whose memory was taken over."""
        return [role.kept for role in self.roles if role.memory.is_over]

    def was_taken(self) -> list[Taken]:
        """Return what was taken over since this was asked."""
        taken, self._taken = self._taken, []
        return taken

    def decide(self, taken: list[Taken]) -> None:
        """Find out what hooks of this call have kept."""
        for each in taken:
            each.decide(self.answered, [*self.props.values()])

    def replace(self, role: Role, leaf: Any, gradient: Any, who: Placed) -> None:
        """Return a hook of this call has given a leaf another gradient than the one that it was shown."""
        if role.has_aliases:
            raise CompileError(
                f"undertow.compile: {who} runs on the host and sets .grad, and a hook in the program keeps an alias of the "
                ".grad that was there, which would change. Write to .grad in place, or keep a clone()."
            )
        if isinstance(role, Itself):
            first = role.find()
            last = self.replaced.get(id(first))
            self.replaced[id(first)] = Replaced(leaf, gradient, np.array(first._array) if last is None else last.value)
        role.play(gradient)

    def player_of(self, tensor: Any) -> Any:
        """Who plays a tensor in this call, if somebody keeps that tensor."""
        role = self._by_id.get(id(tensor))
        player = None if role is None or role.tensor() is not tensor else role.player()
        return player if player is None or self._lasts(player._array) else None

    def role_of(self, tensor: Any, known_by_name: bool = False) -> Role:
        """Return the role that a tensor of the trace is."""
        role = self._by_id.get(id(tensor))
        if role is None or role.tensor() is not tensor:
            role = self._by_id[id(tensor)] = self._new(tensor, known_by_name)
            self.roles.append(role)
        return role

    def _new(self, tensor: Any, known_by_name: bool) -> Role:
        place = self._arguments.get(id(tensor))
        if place is not None:
            return Itself(tensor, lambda: self._present[place], self._counted, *self._before(tensor))
        if not Watch.trace.is_made(tensor) and (known_by_name or Watch.trace.is_from_outside(tensor)):
            return Itself(tensor, lambda: tensor, self._counted, *self._before(tensor))
        whole, parts = parts_of(tensor._array)
        base = None if tensor._view is None else self.role_of(tensor._view.base)
        owner = None if Watch.trace.is_made(tensor) else Watch.trace.owner_of(whole.buffer)
        if owner is not None:
            its = self.role_of(owner)
            assert isinstance(its, Itself)
            return Alias(tensor, its, parts, base)
        return Role(tensor, self._memories.setdefault(whole.buffer, Memory()), parts, base)

    def _before(self, tensor: Any) -> tuple[Any, int]:
        """Return the edge and the version of a tensor from outside, before the trace."""
        return (tensor._edge, tensor._get_storage().version) if self.marks is None else self.marks.before(tensor)

    def memory_at(self, buffer: Buffer) -> Any:
        """Return the array that a memory of the trace is in this call, if something holds it."""
        memory = self._memories.get(buffer)
        array = None if memory is None else memory.array()
        return array if array is None or self._lasts(array) else None

    def _lasts(self, array: Any) -> bool:
        """Whether it is where the program leaves results: while one runs on a GPU, hooks are shown copies on the CPU."""
        return self._device is cpu or type(array) is DeviceArray

    def prop_of(self, value: Any) -> Prop:
        """Return the prop that a container or an object of the trace is."""
        if id(value) not in self.props:
            self.props[id(value)] = Prop(value)
        return self.props[id(value)]

    def stale_roles(self) -> list[Role]:
        """Roles that are not what they were when they were shown: somebody may keep what he was shown."""
        return [role for role in self.roles if not role.itself and role.has_changed()]

    def stale_props(self) -> list[Prop]:
        """Return the same of props."""
        return [prop for prop in self.props.values() if prop.has_changed()]

    def is_stale(self, tensor: Any) -> bool:
        """Whether a tensor that was shown is not what it was then."""
        role = self._by_id.get(id(tensor))
        return role is not None and role.kept is tensor and role.has_changed()

    def is_up_to_date(self) -> bool:
        """Whether all that was shown is what it was then."""
        return not (self._taken or self.stale_roles() or self.stale_props())

    def look(self, role: Role, capture: Callable[[DeviceArray], int], always: bool) -> Look:
        """Return a role as it is at this point of the trace; `capture` keeps its value. Not always that of one
        from outside.
        """
        tensor = role.kept
        role.writes = tensor._array.buffer.writes
        place = whole = capture(tensor._array) if always or not role.itself or role.writes else None
        if place is not None and tensor._array._parent is not None and type(role) is Role:
            whole = capture(parts_of(tensor._array)[0])
        look = Look(role, place, whole, role.writes)
        look.requires_grad = tensor._requires_grad
        if tensor._edge is not None:
            look.node_name, look.output_nr = type(tensor._edge[0]).__name__, tensor._edge[1]
        look.retains = role.retains = tensor._meta is not None and tensor._meta.retains
        role.grad = None if tensor._meta is None else tensor._meta.grad
        if role.grad is not None:
            settle((role.grad,))
            look.grad = self.look(self.role_of(role.grad), capture, always)
        return look

    def finish(self) -> None:
        """After the trace, which the roles need no more."""
        self._device, self.marks = Watch.trace.device, None
        for role in self.roles:
            role.kept = role.grad = role.first_edge = None

    def leave(self, left: Container[int]) -> None:
        """Forgets all containers and objects of the trace but those that the step leaves."""
        for place, prop in self.props.items():
            prop.value = prop.value if place in left else None
            prop.forget_turns()

    def changed_props(self) -> list[Any]:
        """Those that hooks of this call have changed, as the trace saw them."""
        return [prop.value for prop in self.props.values() if prop.is_changed_on_host()]

    def made(self) -> dict[int, Any]:
        """Return the containers and objects of this call, by the id of those that the step leaves."""
        return {
            place: prop.live for place, prop in self.props.items() if prop.value is not None and prop.live is not None
        }
