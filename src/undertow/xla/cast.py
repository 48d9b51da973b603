"""Who plays a program's tensors on the host, where hooks see them as they were at the hook's turn.

A tensor that the trace saw is a *role*. In each call of the program one tensor plays it, whoever looks: what comes from
outside plays itself, and what the program computes is played by a new tensor. So what a hook keeps is one thing with what
the next hook is shown and with what the step returns, and if the step goes on writing to it, the hook's tensor changes too.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

import numpy as np

from undertow._core import wrap
from undertow.autograd.apply import settle
from undertow.autograd.node import Node
from undertow.devices import cpu
from undertow.devices import device as Device
from undertow.modes import local
from undertow.xla.errors import CompileError
from undertow.xla.kept_memory import Taken, WeakMemory
from undertow.xla.props import Prop
from undertow.xp.device_array import DeviceArray
from undertow.xp.device_memory import Watch

if TYPE_CHECKING:
    from undertow.xla.host_calls import HostCall, Placed


class Look:
    """A role at a turn: which captured value it shows, and what else is to be seen of the tensor.

    Without a value it is what its memory holds outside of the program, to which the step has not written by then.
    """

    __slots__ = ("role", "place", "writes", "requires_grad", "retains", "node_name", "grad")

    def __init__(self, role: Role, place: int | None, writes: int) -> None:
        self.role, self.place = role, place
        self.writes = writes  # to its memory so far
        self.requires_grad = self.retains = False
        self.node_name = ""  # of where it was computed
        self.grad: Look | None = None

    def dress(self, values: list[Any], device: Device | None) -> Any:
        """The tensor that plays the role, as it was at the turn. Without a device: on the CPU, while a program runs."""
        player = self.role.dress(self, None if self.place is None else values[self.place], device)
        self._show_grad(player, values, device)
        return player

    def update(self, values: list[Any], device: Device | None) -> None:
        """Has who keeps the tensor, or a view of it, find it as it was at the turn."""
        assert self.place is not None
        self.role.refresh(self, values[self.place])
        player = self.role.player()
        if player is not None:
            self._show_grad(player, values, device)

    def _show_grad(self, player: Any, values: list[Any], device: Device | None) -> None:
        if self.grad is not None or self.retains or player._meta is not None:
            meta = player._get_meta()
            meta.grad = None if self.grad is None else self.grad.dress(values, device)
            meta.retains = meta.retains or self.retains

    def undress(self) -> None:
        """After a hook: tensors from outside are what they were."""
        self.role.undress()
        if self.grad is not None:
            self.grad.undress()


class Role:
    """A tensor that the program computes, shown on the host."""

    itself = False  # whether a tensor from outside plays it

    def __init__(self, tensor: Any) -> None:
        self.tensor: Callable[[], Any] = ref(tensor)
        self.kept = tensor  # until the trace is over, for somebody may keep who plays it
        self.writes = 0  # to its memory, up to its last turn in the trace
        self.grad: Any = None  # which it had then
        self.retains = False
        self.has_aliases = False  # in the program
        self.is_over = False  # whether its memory is that of another role by now
        self.begin()

    def begin(self) -> None:
        """Before a call of the program: nobody plays it yet."""
        self._player: Callable[[], Any] = _nobody
        self._memory: Callable[[], Any] = _nobody  # which may be held longer: by a view, say
        self._worn = -1  # the writes up to the value that is in it

    def has_changed(self) -> bool:
        """Whether the step has written to it since its last turn, or has given it another gradient."""
        if self.is_over:
            return False
        meta = self.kept._meta
        other = meta is not None and (meta.grad is not self.grad or meta.retains is not self.retains)
        return other or self.kept._array.cell.writes != self.writes

    def present(self) -> Any:
        """Return the tensor that plays it in this call, if that is held still."""
        return self._player()

    def play(self, tensor: Any) -> None:
        """Has a tensor play it that a hook of this call has made."""
        self._player, self._memory, self._worn = ref(tensor), WeakMemory(tensor._array), 0

    def take_memory_of(self, other: Role) -> None:
        """Has it be played on the memory of another role, if anything holds that."""
        self._memory, self._worn = other._memory, other._worn

    def player(self) -> Any:
        """Return the tensor that plays it in this call, if that is held still, or an alias of it: a view, a NumPy array."""
        player, memory = self._player(), self._memory()
        if player is None and memory is not None:
            player = wrap(memory)
            self._player = ref(player)
        return player

    def dress(self, look: Look, value: Any, device: Device | None) -> Any:
        if self.refresh(look, value) is None:
            array = np.array(value) if device is None or device is cpu else DeviceArray(value, device)
            self._memory, self._worn = WeakMemory(array), look.writes
        player = self.player()
        player._requires_grad = look.requires_grad
        player._edge = (gone(look.node_name)(), 0) if look.node_name else None
        return player

    def refresh(self, look: Look, value: Any) -> Any:
        """Puts the value of a turn into the memory, if anybody holds it; the memory."""
        memory = self._memory()
        if memory is not None and self._worn != look.writes:
            memory[...] = value
            self._worn = look.writes
        return memory

    def undress(self) -> None:
        """After a hook: the value stays, for who keeps the tensor."""


class Itself(Role):
    """A tensor from outside: for the time of a hook it holds what it held at the hook's turn."""

    itself = True

    def __init__(self, tensor: Any, find: Callable[[], Any]) -> None:
        super().__init__(tensor)
        self.find = find  # the tensor, in a call of the program
        self._before: tuple[Any, ...] | None = None

    def begin(self) -> None:
        super().begin()
        self._instead: Any = None  # what a hook of this call has put into its place

    def play(self, tensor: Any) -> None:
        self._instead = tensor

    def player(self) -> Any:
        return None  # it stays where it is

    def refresh(self, look: Look, value: Any) -> Any:
        return None

    def dress(self, look: Look, value: Any, device: Device | None) -> Any:
        tensor = self.find() if self._instead is None else self._instead
        if self._before is not None:
            return tensor
        array = tensor._array
        marks = tensor._meta, None if tensor._meta is None else tensor._meta.grad
        host = array if type(array) is np.ndarray else None if array.cell.host is None else array.on_host()
        if host is not None:
            self._before = tensor, array, marks, host, None if value is None else host.copy()
            if value is not None:
                host[...] = value
        elif device is None:
            # The program is running.
            self._before = tensor, array, marks, None, None
            tensor._array = np.array(value)
            if array._parent is None and array.device is cpu:
                array.cell.host = tensor._array
        else:
            self._before = tensor, array, marks, None, array.cell.value
            if value is not None:
                array.write(value)
        return tensor

    def undress(self) -> None:
        if self._before is None:
            return
        tensor, array, (meta, grad), host, before = self._before
        self._before = None
        tensor._array, tensor._meta = array, meta
        if meta is not None:
            meta.grad = grad
        if host is not None:
            if before is not None:
                host[...] = before
            return
        cell = array.cell
        if before is not None:
            cell.value = before
        cell.writes += 1
        if cell.host is not None:  # the hook has looked
            looked = ref(cell.host)
            cell.host = None
            if looked() is not None:  # and keeps what it has seen, or a view of it
                cell.host = looked()
                cell.host[...] = cell.value
                if array._parent is None:
                    tensor._array = cell.host


class Replaced(NamedTuple):
    """A gradient from outside in whose place a hook has put another one."""

    leaf: Any
    gradient: Any  # the one that is there now
    value: Any  # of the one from outside, which the step does not write to any more


class Cast:
    """The roles of a trace."""

    def __init__(self) -> None:
        self.roles: list[Role] = []
        self.props: dict[int, Prop] = {}
        self._by_id: dict[int, Role] = {}
        self._arguments: dict[int, int] = {}  # which tensors of the trace stand for those of a call
        self._present: Sequence[Any] = ()
        self._taken: list[Taken] = []  # since the last call on the host
        # In this call: calls on the host that have given something; leaves to which hooks gave another gradient, by the id
        # of the one before.
        self.answered: list[HostCall] = []
        self.replaced: dict[int, Replaced] = {}

    def expect(self, arguments: dict[int, int]) -> None:
        """Says which tensors of the trace are others in each call: their places among the arguments."""
        self._arguments = arguments

    def begin(self, arguments: Sequence[Any]) -> None:
        """A call of the program, with these arguments."""
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
        return 1 + sum(prop.references_to(tensor) for prop in self.props.values())

    def take(self, shown: Any, gradient: Any, has_aliases: bool) -> None:
        """A leaf's gradient takes over the memory of a tensor; whether that was shown on the host, and is held there, is
        found out in each call."""
        role = self._by_id.get(id(shown))
        if role is not None and role.kept is shown:
            heir = self.role_of(gradient)
            heir.writes, role.is_over = role.writes, True
            self._taken.append(Taken(role, heir, has_aliases))

    def over(self) -> list[Any]:
        """Tensors of the trace whose memory was taken over."""
        return [role.kept for role in self.roles if role.is_over]

    def was_taken(self) -> list[Taken]:
        """What was taken over since this was asked."""
        taken, self._taken = self._taken, []
        return taken

    def decide(self, taken: list[Taken]) -> None:
        """Finds out what hooks of this call have kept."""
        for each in taken:
            each.decide(self.answered, [*self.props.values()])

    def replace(self, role: Role, leaf: Any, gradient: Any, who: Placed) -> None:
        """A hook of this call has given a leaf another gradient than the one that it was shown."""
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
        return None if role is None or role.tensor() is not tensor else role.player()

    def role_of(self, tensor: Any, known_by_name: bool = False) -> Role:
        """The role that a tensor of the trace is."""
        role = self._by_id.get(id(tensor))
        if role is None or role.tensor() is not tensor:
            role = self._by_id[id(tensor)] = self._new(tensor, known_by_name)
            self.roles.append(role)
        return role

    def _new(self, tensor: Any, known_by_name: bool) -> Role:
        place = self._arguments.get(id(tensor))
        if place is not None:
            return Itself(tensor, lambda: self._present[place])
        if not Watch.trace.is_made(tensor) and (known_by_name or Watch.trace.is_from_outside(tensor)):
            return Itself(tensor, lambda: tensor)
        return Role(tensor)

    def prop_of(self, value: Any) -> Prop:
        """The prop that a container or an object of the trace is."""
        if id(value) not in self.props:
            self.props[id(value)] = Prop(value)
        return self.props[id(value)]

    def stale_roles(self) -> list[Role]:
        """Roles that are not what they were when they were shown: somebody may keep what he was shown."""
        return [role for role in self.roles if not role.itself and role.has_changed()]

    def stale_props(self) -> list[Prop]:
        """The same of props."""
        return [prop for prop in self.props.values() if prop.has_changed()]

    def is_stale(self, tensor: Any) -> bool:
        """Whether a tensor that was shown is not what it was then."""
        role = self._by_id.get(id(tensor))
        return role is not None and role.kept is tensor and role.has_changed()

    def is_up_to_date(self) -> bool:
        """Whether all that was shown is what it was then."""
        return not (self._taken or self.stale_roles() or self.stale_props())

    def look(self, role: Role, capture: Callable[[DeviceArray], int], always: bool) -> Look:
        """A role as it is at this point of the trace; `capture` keeps its value. Not always that of one from outside."""
        tensor = role.kept
        role.writes = tensor._array.cell.writes
        place = capture(tensor._array) if always or not role.itself or role.writes else None
        look = Look(role, place, role.writes)
        look.requires_grad = tensor._requires_grad
        look.node_name = "" if tensor._edge is None else type(tensor._edge[0]).__name__
        look.retains = role.retains = tensor._meta is not None and tensor._meta.retains
        role.grad = None if tensor._meta is None else tensor._meta.grad
        if role.grad is not None:
            settle((role.grad,))
            look.grad = self.look(self.role_of(role.grad), capture, always)
        return look

    def finish(self) -> None:
        """After the trace, which the roles need no more."""
        for role in self.roles:
            role.kept = role.grad = None

    def leave(self, left: Container[int]) -> None:
        """Forgets all containers and objects of the trace but those that the step leaves."""
        for place, prop in self.props.items():
            prop.value = prop.value if place in left else None
            prop.forget_turns()

    def changed_props(self) -> list[Any]:
        """Those that hooks of this call have changed, as the trace saw them."""
        return [prop.value for prop in self.props.values() if prop.is_changed_on_host()]

    def made(self) -> dict[int, Any]:
        """The containers and objects of this call, by the id of those that the step leaves."""
        return {place: prop.live for place, prop in self.props.items() if prop.value is not None and prop.live is not None}


def _nobody() -> None:
    """In the place of a weak reference."""


class Gone(Node):
    """Where a tensor was computed that somebody on the host keeps: inside a program, which leaves no graph behind."""

    __slots__ = ("_n_outputs",)

    def __init__(self) -> None:
        self._edges = ()
        self._order = next(local.modes.sequence)
        self._extras = None
        self._tensor_hooks = None
        self._n_outputs = 1

    def _run(self, xp: Any, g: Any, needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        raise RuntimeError(
            "this tensor was computed in a compiled step and kept by a hook or a statement that runs on the host: there is "
            "no graph to go back through. Return it from the step by itself, or call backward inside the step."
        )


@cache
def gone(name: str) -> type[Gone]:
    """The same under the name that eager code would show."""
    return type(name, (Gone,), {"__slots__": ()})
