"""The view of a hook on the host: its arguments, and the tensors that it finds by name, as they were when it fired."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.base.tree import leaves
from undertow._src.compile.callbacks.container_mirrors import ContainerMirror, ContainerState
from undertow._src.compile.callbacks.hook_closures import bound_by
from undertow._src.compile.callbacks.tensor_mirrors import AliasMirror, HostMirror, MirrorState
from undertow._src.compile.callbacks.wrapper_mirrors import WrapperMirror, WrapperState
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.places import held_at, put
from undertow._src.compile.tracing.current_trace import running_trace
from undertow._src.compile.tracing.sparse_parts import Parts, is_sparse, parts_of_sparse
from undertow._src.compile.tracing.symbolic_scalars import SymbolicScalar
from undertow._src.engine.apply import place_operands
from undertow._src.tensor.core import TensorCore
from undertow._src.types.devices import device as Device
from undertow.nn.modules.module import Module
from undertow.optim.optimizer import Optimizer
from undertow.sparse.coo import make

if TYPE_CHECKING:
    from undertow._src.compile.callbacks.host_calls import Placed

HostTensors = dict[HostMirror, Any]  # the tensors that a hook sees


class _ShownNumber:
    """Stands for a number: the index of the captured value, and its type."""

    __slots__ = ("kind", "place")

    def __init__(self, place: int, kind: Any) -> None:
        self.place, self.kind = place, kind


class _Contents(list[Any]):
    """Stands for the contents of a list, deque or set, element by element."""


class Kept:
    """Stands for what a pack hook on the host returned, which stays there until the unpack hook is called with it."""

    __slots__ = ("value", "spec")

    def __init__(self, spec: jax.ShapeDtypeStruct) -> None:
        self.value: Any = None
        self.spec = spec  # the metadata of the saved tensor


class ShownCall(NamedTuple):
    """A hook, with its arguments and tensors in a call of the program."""

    hook: Any
    args: tuple[Any, ...]
    tensors: HostTensors


class HookView:
    """The view of one hook. Tensors are mirrors (`host_mirrors`), in their states when the hook fired."""

    def __init__(
        self, hook: Any, args: Any, found: list[Any], places: Sequence[tuple[Any, Any]], captures_all: bool
    ) -> None:
        trace = running_trace()
        self._mirrors = trace.placer.mirrors
        self._captures_all = captures_all  # also tensors from outside to which the step has not written
        self.captured: list[DeviceArray] = []
        self.only_if = None if trace.choice is None else self._capture(trace.choice)
        self.states: dict[HostMirror, MirrorState] = {}
        self._contents: dict[ContainerMirror, ContainerState] = {}
        self._over = self._mirrors.was_taken()
        # What hooks before this one may have kept.
        self._updates = [self._state_of(mirror) for mirror in self._mirrors.stale_mirrors()]
        self._updated_containers = [self._contents_of(each) for each in self._mirrors.stale_containers()]
        for tensor in found:
            self.seen(tensor, by_name=True)
        self._args = tuple([self._taken(arg) for arg in args])
        self._bound = bound_by(hook, self._taken)
        self._places = [(place, self._held_at(*place)) for place in places]  # its finds in Python's places
        # Leaves whose gradients hooks have seen, up to this one, and may hold.
        grads = [(leaf, gradient_of(leaf)) for leaf in trace.state.tensors if leaf._meta is not None]
        known = [(leaf, self._mirrors.known(grad)) for leaf, grad in grads if grad is not None]
        self.gradients = [(leaf, held) for leaf, held in known if held is not None]

    def _held_at(self, holder: Any, key: Any) -> Any:
        held = held_at(holder, key)
        return _Contents(map(self._taken, held)) if isinstance(key, slice) else self._taken(held)

    def _capture(self, array: DeviceArray) -> int:
        self.captured.append(array.copy())
        return len(self.captured) - 1

    def _state_of(self, mirror: HostMirror) -> MirrorState:
        state = self._mirrors.state_of(mirror, self._capture, self._captures_all)
        for each in (state, state.grad):
            if isinstance(each, WrapperState):
                self.states |= {inner.mirror: inner for inner in each.inner.values() if inner.mirror not in self.states}
        for each in (mirror, None if state.grad is None else state.grad.mirror):
            if isinstance(each, AliasMirror):
                self.seen(each.owner.kept)  # before it, so that the memory has its value from when the hook fired
        return state

    def seen(self, tensor: Any, by_name: bool = False) -> MirrorState:
        """Return the mirror's state that a hook sees of a tensor now."""
        if not WrapperMirror.is_for(tensor):
            place_operands((tensor,))
        mirror = self._mirrors.mirror_of(tensor, by_name)
        if mirror not in self.states:
            self.states[mirror] = self._state_of(mirror)
        return self.states[mirror]

    def _taken(self, value: Any) -> Any:
        if isinstance(value, SymbolicScalar):
            return _ShownNumber(self._capture(value.as_array()), value.kind)
        if isinstance(value, (Module, Optimizer)):
            for tensor in tensors_of(value):
                self.seen(tensor, by_name=True)
        if is_sparse(value):
            return Parts(*map(self._taken, parts_of_sparse(value)))
        if isinstance(value, TensorCore):
            return self.seen(value)
        return self._contents_of(self._mirrors.container_of(value)) if running_trace().is_own(value) else value

    def _contents_of(self, container: ContainerMirror) -> ContainerState:
        if container not in self._contents:
            contents = self._contents[container] = container.current_state()
            contents.parts = contents.each(self._taken)
        return self._contents[container]

    def only_variables(self) -> list[tuple[str, Any]] | None:
        """Return the mirrors of a statement's variables, if it sees only these and computed tensors."""
        others = (self._updates, self._updated_containers, self._places, self._over, self._bound, self.own())
        (variables,) = self._args
        if any(others) or self.only_if is not None or type(variables) is not ContainerState or len(self._contents) > 1:
            return None
        return [(part.key, part.value) for part in variables.parts]

    def own(self) -> list[MirrorState]:
        """Return the tensors from outside that it sees."""
        return [state for state in self._with_buffers() if state.mirror.itself]

    def tensors_from_outside(self) -> list[Any]:
        """Return those tensors themselves, during the trace."""
        return [state.mirror.kept for state in self.states.values() if state.mirror.itself]

    def computed(self) -> list[MirrorState]:
        """Return the tensors that the step has computed."""
        return [state for state in self._with_buffers() if not state.mirror.itself]

    def wrappers(self) -> list[MirrorState]:
        """Return the tensors that it sees without a buffer of their own."""
        return [state for state in self.states.values() if isinstance(state, WrapperState)]

    def _with_buffers(self) -> list[MirrorState]:
        return [state for state in self.states.values() if not isinstance(state, WrapperState)]

    def takes_effect(self, values: Sequence[Any]) -> bool:
        """Return whether the part of the step in which the hook fires takes effect."""
        return self.only_if is None or bool(values[self.only_if])

    @contextmanager
    def shown(self, hook: Any, values: list[Any], device: Device, placed: Placed) -> Iterator[ShownCall]:
        """Set everything that the hook sees to its state when the hook was called, inside the block."""
        before = [(place, held_at(*place)) for place, _ in self._places]
        self._mirrors.decide(self._over)
        try:
            for state in self._updates:
                state.update(values, device)
            tensors = {mirror: state.materialize(values, device) for mirror, state in self.states.items()}
            shown = Shown(placed, values, device, tensors)
            for contents in self._updated_containers:
                if contents.container.live is not None:
                    shown(contents)
            args = tuple(map(shown, self._args))
            put_in = [(place, shown(held)) for place, held in self._places]
            for (holder, key), value in put_in:
                put(holder, key, value)
            yield ShownCall(hook if self._bound is None else self._bound.bind(hook, shown), args, tensors)
            for (holder, key), value in put_in:
                if type(value) in (int, float) and held_at(holder, key) is not value:
                    raise CompileError(
                        f"undertow.compile: {placed} runs on the host, where it changes {key!r}, a number that the step "
                        "changes, too. Change it outside of the step, or in the step itself, with code that undertow can "
                        "follow (no getattr() of a name that is computed)."
                    )
        finally:
            for (holder, key), held in reversed(before):
                put(holder, key, held)
            for state in (*self._updates, *self.states.values()):
                state.restore()

    def values_of(self, tensors: HostTensors, given: list[Any]) -> list[Any]:
        """Return the values of tensors: of the hook's arguments, of tensors from outside, and of their gradients."""
        outside = [tensors[state.mirror] for state in self.own()]
        every = [*given, *outside, *map(gradient_of, outside)]
        return [None if each is None else np.array(each._array) for each in every]


class Shown:
    """Give the objects for the parts of a call's arguments; make tensors that do not exist yet."""

    def __init__(self, placed: Placed, values: list[Any], device: Device, tensors: HostTensors | None = None) -> None:
        self._placed, self._values, self._device = placed, values, device
        self._tensors: HostTensors = {} if tensors is None else tensors
        self._begun: set[ContainerState] = set()

    def __call__(self, part: Any) -> Any:
        if isinstance(part, MirrorState):
            if part.mirror not in self._tensors:
                self._tensors[part.mirror] = part.materialize(self._values, self._device)
            return self._tensors[part.mirror]
        if type(part) is _ShownNumber:
            return part.kind(self._values[part.place])
        if type(part) is ContainerState:
            return self._container(part)
        if type(part) is _Contents:
            return [*map(self, part)]
        if type(part) is Parts:
            return make(*map(self, part))
        return part.value if type(part) is Kept else part

    def _container(self, contents: ContainerState) -> Any:
        if contents not in self._begun:
            self._begun.add(contents)
            contents.container.prepare()
            contents.container.show(contents.each(self), contents.changed, self._placed)
        return contents.container.live


def tensors_of(holder: Any) -> Iterator[Any]:
    """Return the tensors that a module or an optimizer keeps."""
    if isinstance(holder, Module):
        for each in (*holder.parameters(), *holder.buffers()):
            yield from tensors_of(each)
    elif isinstance(holder, Optimizer):
        for group in holder.param_groups:
            yield from group["params"]
        for kept in holder.state.values():
            yield from (each for each in leaves(kept) if isinstance(each, TensorCore))
    elif is_sparse(holder):
        yield from parts_of_sparse(holder)[:2]
    elif isinstance(holder, TensorCore):
        yield holder


def tensors_in(given: Any) -> list[Any]:
    """Return the tensors in nested arguments."""
    return [each for each in leaves(given) if isinstance(each, TensorCore)]


def gradient_of(tensor: Any) -> Any:
    """Return a tensor's gradient, without the bookkeeping of `.grad`."""
    return None if tensor._meta is None else tensor._meta.grad
