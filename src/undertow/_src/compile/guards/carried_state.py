"""Places in which each call leaves new tensors: a hidden state, a running average, the loss of the last call.

The value in such a place works like an argument: the trace sees stand-ins, and each call passes the current value to the
program. It may be a tensor, with or without a graph, or containers of tensors.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.compile.effects import purity
from undertow._src.compile.effects.objects import instance_dict
from undertow._src.compile.guards.guard import Guard
from undertow._src.compile.guards.places import PLAIN, Place, Slots, held_at, place_at, put
from undertow._src.compile.guards.reachability import Reached
from undertow._src.compile.tracing.results import FIXED, Rebuilt, parts_of, tensors_in
from undertow._src.tensor.core import TensorCore

DEPTH = 5  # how deep containers are searched


class Renewed(Guard):
    """Guard such places: their tensors must have the same signatures as in the trace."""

    def __init__(self, places: Iterable[tuple[Any, Any]], state: Reached) -> None:
        self.places = list(places)
        self._known = {place_at(*place) for place in self.places}  # keys may be tensors, which == compares by value
        held = [held_at(*place) for place in self.places]
        self._looks = [look_of(value) for value in held]
        self._without_shapes = [look_of(value, shapes=False) for value in held]
        self._with_shapes = [True] * len(held)
        self._held: list[Any] = []  # the values in the places, while the trace finds stand-ins there
        self._shown: list[Any] = []  # the stand-ins in the places
        self._shown_tensors: list[list[Any]] = []
        self._shown_grads: list[list[Any]] = []
        self._arrays: list[list[Any]] = []  # their arrays
        self._asked: list[bool] = []  # whether code used a shape
        self.set_again: list[tuple[Any, Any, Any]] = []  # places that the step has set to the value that was there
        self.refused: list[Place] = []  # places that have to be guarded instead
        for place, value, look in zip(self.places, held, self._looks):
            if look is None or any(id(tensor) in state.seen for tensor in tensors_in(value)):
                self.refused.append(place_at(*place))

    def tensors(self) -> list[Any]:
        """Return the tensors that are now in the places."""
        return [tensor for place in self.places for tensor in _tensors(held_at(*place))]

    @property
    def watches(self) -> str:
        """Return the line for `explain`."""
        return f"dtypes and shapes of state that is carried from call to call: {', '.join(map(_name, self.places))}"

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether the places have the values that the program expects."""
        return not self.reason()

    def reason(self) -> str:
        """Return a place with an unexpected value, in words; empty if there is none."""
        for place, look, shapes in zip(self.places, self._looks, self._with_shapes):
            if look_of(held_at(*place), shapes) != look:
                return f"{_name(place)} holds tensors of a different kind or shape than when the step was compiled"
        return ""

    def holds_place(self, holder: Any, key: Any) -> bool:
        """Return whether a place is one of these."""
        return place_at(holder, key) in self._known

    # --- while the step is traced

    def show(self, stand_in: Callable[[Any], Any]) -> None:
        """Put stand-ins into the places."""
        rebuilt = Rebuilt(stand_in, ())
        self._held = [held_at(*place) for place in self.places]
        self._shown = [rebuilt(value) for value in self._held]
        self._shown_tensors = [tensors_in(value) for value in self._shown]
        self._shown_grads = [[each._meta.grad for each in tensors if each._meta] for tensors in self._shown_tensors]
        for place, value in zip(self.places, self._shown):
            put(*place, value)
        self._arrays = []
        for tensors, grads in zip(self._shown_tensors, self._shown_grads):
            arrays = [each._array for each in (*tensors, *grads) if each is not None]
            self._arrays.append(arrays)
            for array in arrays:
                if type(array) is DeviceArray:
                    array.forget_shape()

    def stand_ins(self) -> dict[Place, Any]:
        """Return the stand-ins in the places."""
        return {place_at(*place): value for place, value in zip(self.places, self._shown)}

    def untouched(self) -> dict[Place, tuple[Any, Any]]:
        """Return the values in the places before the trace, and their stand-ins in the trace."""
        return {place_at(*place): (held, shown) for place, held, shown in zip(self.places, self._held, self._shown)}

    def take_back(self) -> None:
        """Restore the values that the step has not replaced. A container that it wrote to may be held elsewhere, too."""
        self._asked = [
            not all(type(each) is DeviceArray and each.forgets_shape() for each in own) for own in self._arrays
        ]
        for place, held, shown, before in zip(self.places, self._held, self._shown, self._shown_tensors):
            now = held_at(*place)
            if now is shown:
                put(*place, held)
            elif now is held:
                self.set_again.append((*place, held))
            if [*map(id, tensors_in(shown))] != [*map(id, before)]:
                self.refused.append(place_at(*place))

    def restore(self) -> None:
        """Restore all values."""
        for place, held in zip(self.places, self._held):
            put(*place, held)

    def name_of(self, stand_in: Any) -> str:
        """Return the place in which the trace found a tensor, in words."""
        for place, tensors in zip(self.places, self._shown_tensors):
            if any(tensor is stand_in for tensor in tensors):
                return _name(place)
        return "something"

    def shown(self) -> set[int]:
        """Return the ids of all stand-ins in the places."""
        found: set[int] = set()
        waiting = list(self._shown)
        while waiting:
            value = waiting.pop()
            if not isinstance(value, PLAIN) and id(value) not in found:
                found.add(id(value))
                if not isinstance(value, FIXED):
                    waiting += parts_of(value)
        return found

    def finish(self, is_read: Callable[[Any], bool]) -> None:
        """Drop shapes that the trace did not use, of tensors that the program does not read."""
        for number, tensors in enumerate(self._shown_tensors):
            if not self._asked[number] and not any(map(is_read, (*tensors, *self._shown_grads[number]))):
                self._with_shapes[number] = False
                self._looks[number] = self._without_shapes[number]
        self._held, self._arrays = [], []


def look_of(value: Any, shapes: bool = True, grads: bool = True, depth: int = 0) -> Any:
    """Return the part of a value on which a program depends, if each call replaces the value; None if unknown."""
    if isinstance(value, TensorCore):
        return _look_of_tensor(value, shapes, grads) if value._is_strided else None
    if isinstance(value, PLAIN):
        return type(value), repr(value) if isinstance(value, float) else value  # 0.0 == -0.0, and nan != nan
    attributes = {**instance_dict(value), **Slots(value)} if purity.origin_of(type(value)) == "user" else {}
    if isinstance(value, dict):
        attributes.update(value)
        parts = list(attributes.values())
    elif isinstance(value, (tuple, list, deque)):
        parts = [*attributes.values(), *value]
    elif attributes and not isinstance(value, FIXED):
        parts = list(attributes.values())
    else:
        return None
    if depth > DEPTH or not all(isinstance(name, PLAIN) for name in attributes):
        return None
    looks = tuple([look_of(part, shapes, grads, depth + 1) for part in parts])
    return None if None in looks else (type(value), tuple(attributes), looks)


def _look_of_tensor(tensor: Any, shapes: bool, grads: bool) -> Any:
    array, meta, grad = tensor._array, tensor._meta, None
    if meta is not None:
        if meta.hooks or meta.post_hooks:
            return None
        if meta.grad is not None and grads:
            grad = _look_of_tensor(meta.grad, shapes, grads)
            if grad is None:
                return None
    look = (type(tensor), tensor._requires_grad, tensor._edge is None, array.dtype, tensor.device, grad)
    if not shapes:
        return look
    return *look, array.shape, None if array.flags.c_contiguous else array.strides


def _tensors(value: Any) -> list[Any]:
    return [value] if isinstance(value, TensorCore) else tensors_in(value)


def _name(place: tuple[Any, Any]) -> str:
    holder, key = place
    if isinstance(holder, (list, deque)):
        return f"entry {key} of a list"
    return "a variable" if key is None else f"`{key}`" if isinstance(key, str) else "an entry of a dict"
