"""The tensors that a step is called with. Each call may bring others, so a trace sees stand-ins for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from undertow._core import TensorCore, wrap
from undertow.autograd.apply import apply
from undertow.modes import no_grad
from undertow.xla.arriving import Arriving
from undertow.xla.errors import CompileError
from undertow.xla.reach import State, held_at
from undertow.xp.device import DeviceArray


class Arguments:
    """Stand-ins for a call's tensors, and what the step does to the tensors themselves.

    A stand-in begins a graph of its own. A tensor that the step reaches anyway (a parameter, say) stands for itself.
    Gradients, those of the step's own tensors included, are arguments too: mostly each step makes new ones. So are tensors
    in places where each step leaves another one: `self.average = 0.9 * self.average + ...`.
    """

    def __init__(self, given: Iterable[Any], state: State, replaced: Iterable[tuple[Any, Any]] = ()) -> None:
        self.places = [(holder, key) for holder, key in replaced if can_be_renewed(held_at(holder, key), state)]
        self._owners = [
            tensor for tensor in state.tensors if _grad(tensor) is not None and id(_grad(tensor)) not in state.seen
        ]  # the step's own tensors with gradients, which are others in each step
        self._state = {id(tensor): -1 - place for place, tensor in enumerate(state.tensors)}
        self._given = [leaf for leaf in given if isinstance(leaf, TensorCore)]
        self.n_given = len(self._given)
        self._pattern = self._aliases(self._given)
        self._stand_ins: dict[int, Any] = {}
        self.tensors: list[Any] = []  # what the trace sees: first the arguments, then their gradients
        for place, tensor in enumerate(self._given):
            alias = self._pattern[place]
            self.tensors.append(tensor if alias < 0 else self.tensors[alias] if alias < place else _stand_in(tensor))
            self._stand_ins[id(tensor)] = self.tensors[place]
        self._own = [place for place, alias in enumerate(self._pattern) if alias == place]
        self.with_grads = [place for place in self._own if _grad(self._given[place]) is not None]
        self.tensors += [_grad(tensor) for tensor in (*[self.tensors[place] for place in self.with_grads], *self._owners)]
        renewed = [held_at(*place) for place in self.places]
        self.tensors += renewed
        self.has_gradients = len(self.tensors) > len(self._given)
        self._renewed_pattern = self._aliases([*self._given, *renewed])
        self._looks = [look_of(tensor) for tensor in renewed]
        self._flags = [tensor._requires_grad for tensor in self.tensors]
        self._grads = [_grad(tensor) for tensor in self.tensors]
        self._versions = [tensor._get_storage().version for tensor in self.tensors]
        self.shared: list[tuple[int, Any]] = []  # an argument in the memory of another one, or of a tensor of the step
        self.changes: list[Callable[[list[Any], Callable[[Any], Any]], None]] = []

    def _aliases(self, tensors: list[Any]) -> list[int]:
        """For each tensor: its first place among the arguments, or which one of the step's own it is."""
        first: dict[int, int] = {}
        return [
            self._state.get(id(tensor)) or first.setdefault(id(tensor), place) for place, tensor in enumerate(tensors)
        ]

    def stand_in(self, value: Any) -> Any:
        """What the trace sees in the place of an argument."""
        return self._stand_ins[id(value)] if isinstance(value, TensorCore) else value

    def fit(self, arguments: list[Any]) -> bool:
        """Whether the same arguments are the same tensors as when the program was made."""
        if self.places:
            renewed = [held_at(*place) for place in self.places]
            if [look_of(tensor) for tensor in renewed] != self._looks:
                return False
            if self._aliases([*arguments, *renewed]) != self._renewed_pattern:
                return False
        return self._aliases(arguments) == self._pattern and all(
            memory_of(arguments[place]) == memory_of(arguments[other] if type(other) is int else other)
            for place, other in self.shared
        )

    def and_gradients(self, arguments: list[Any]) -> list[Any]:
        """The arguments, followed by the gradients that the program reads."""
        given = [arguments[place]._meta.grad for place in self.with_grads]
        given += [None if owner._meta is None else owner._meta.grad for owner in self._owners]
        return [*arguments, *given, *[held_at(*place) for place in self.places]]

    @property
    def count(self) -> int:
        """How many tensors the step is called with; gradients come behind them."""
        return len(self._pattern)

    def separate(self) -> list[int]:
        """Places of arguments that have a memory of their own."""
        shared = {each for pair in self.shared for each in pair if type(each) is int}
        return [place for place in self._own if place not in shared]

    def renewed(self) -> list[Any]:
        """The tensors in places where each step leaves another one."""
        return self.tensors[len(self.tensors) - len(self.places) :]

    def own(self) -> dict[int, int]:
        """Places of the stand-ins, by id."""
        places = [*self._own, *range(len(self._pattern), len(self.tensors))]
        return {id(self.tensors[place]): place for place in places}

    def tell(self, arriving: Arriving) -> None:
        """Says which arrays of the trace stand for arguments."""
        arriving.arguments = list(self._given)
        for place in self._own:
            if type(self.tensors[place]._array) is DeviceArray:
                arriving.argument(self.tensors[place]._array, place)

    def stands_in(self, place: int) -> bool:
        """Whether the trace saw a stand-in here, and not a gradient of the step's own, which stands for itself."""
        return place < len(self._pattern) + len(self.with_grads)

    def note_changes(self) -> None:
        """After the trace: gradients that arrived, flags that were set, writes that count."""
        for place in self._own:
            tensor = self.tensors[place]
            self._note_gradient(place, _grad(tensor))
            if tensor._requires_grad != self._flags[place] and tensor._edge is None:
                self.changes.append(_set_flag(place, tensor._requires_grad))
        for place in self.own().values():
            bumps = self.tensors[place]._get_storage().version - self._versions[place]
            if bumps:
                self.changes.append(_bump(place, bumps))
        self._given.clear()  # they are the first call's
        self._stand_ins.clear()

    def _note_gradient(self, place: int, now: Any) -> None:
        if now is self._grads[place]:
            return
        if self._given[place]._edge is not None:
            raise CompileError(
                f"undertow.compile: a backward pass inside the step reaches argument {place}, which was computed "
                "outside of it. Compile the code that computes it as well, hand over argument.detach(), or call backward() "
                "outside."
            )
        self.changes.append(_set_grad(place, now))

    def change(self, arguments: list[Any], renewed: Callable[[Any], Any]) -> None:
        """Does to a call's tensors what the step does to them."""
        for change in self.changes:
            change(arguments, renewed)


def can_be_renewed(tensor: Any, state: State) -> bool:
    """Whether a tensor is one of those that a step makes: a leaf of which nothing but its value counts."""
    return isinstance(tensor, TensorCore) and id(tensor) not in state.seen and look_of(tensor) is not None


def look_of(tensor: Any) -> Any:
    """What a program depends on in such a tensor; None if it is no such tensor."""
    if not isinstance(tensor, TensorCore) or tensor._requires_grad or tensor._edge is not None or tensor._view is not None:
        return None
    meta = tensor._meta
    if meta is not None and (meta.grad is not None or meta.hooks or meta.post_hooks):
        return None
    return type(tensor), tensor._array.shape, tensor._array.dtype, tensor.device


def view_again(tensor: Any, steps: Any) -> Any:
    """The view of another tensor that is taken by the same steps."""
    with no_grad():
        for rule, statics, _, place in steps:
            tensor = apply(rule, tensor, **statics)
            tensor = tensor[place] if rule.outputs != 1 else tensor
    return tensor


def memory_of(tensor: Any) -> Any:
    """What two tensors have in common that show the same memory in the same way."""
    array = tensor._array
    if type(array) is DeviceArray:
        return id(array.cell), id(array._parent)
    return array.__array_interface__["data"][0], array.shape, array.strides


def refuse_overlaps(written: list[Any], arrays: list[Any]) -> None:
    """Memories that a program would take for separate ones must not overlap if one of them is written to."""
    for array in written:
        for other in arrays:
            if other is not array and np.may_share_memory(array, other) and np.shares_memory(array, other):
                raise CompileError(
                    f"undertow.compile: the step writes to a tensor of shape {list(array.shape)} that shares memory with "
                    f"another one, of shape {list(other.shape)}, of which it is not a view known to undertow. Take one as "
                    "a view of the other inside the step, or clone() it."
                )


def _grad(tensor: Any) -> Any:
    return None if tensor._meta is None else tensor._meta.grad


def _stand_in(tensor: Any) -> Any:
    leaf = wrap(tensor._array)
    leaf._requires_grad = tensor._requires_grad
    if tensor._edge is None and tensor._meta is not None:
        meta = leaf._get_meta()
        meta.hooks, meta.post_hooks = tensor._meta.hooks, tensor._meta.post_hooks
        if tensor._meta.grad is not None:
            meta.grad = wrap(tensor._meta.grad._array)
    return leaf


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
