"""The outputs of a program: where each call leaves its results."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.numpy import namespace as numpy_xp
from undertow._src.compile.callbacks.host_mirrors import HostMirrors
from undertow._src.compile.callbacks.kept_memory import part_of, parts_of
from undertow._src.compile.guards.places import ABSENT, put
from undertow._src.compile.lowering.lowered import Lowered, Origins
from undertow._src.compile.lowering.two_sizes import Cuts
from undertow._src.compile.program_inputs import NumberInput
from undertow._src.compile.tracing.arguments import view_again
from undertow._src.compile.tracing.capture import Capture
from undertow._src.compile.tracing.results import Rebuilt
from undertow._src.compile.tracing.symbolic_scalars import SymbolicScalar
from undertow._src.tensor.core import InferenceStorage, Storage, TensorCore, wrap
from undertow._tensor import Tensor


class ProgramOutputs:
    """Put a program's results where the step leaves them."""

    def __init__(self, capture: Capture, lowered: Lowered, numbers: NumberInput) -> None:
        self._buffers, self._donors, self._pack = lowered.outputs, lowered.inputs.donors, lowered.inputs.pack
        self._origins, self._left = lowered.origins, lowered.left
        self._way_back, self._passed_on = lowered.way_back, lowered.passed_on
        self._given, self._bumps = capture.inputs.given, capture.bumps
        self._mirrors = capture.callbacks.mirrors
        self._numbers = numbers
        self._call_numbers: list[float] = []
        self._first_donated = lowered.outputs.n_known + (self._pack is not None)
        self._first_made = self._first_donated + sum([donor.n_arrays for donor in self._donors])
        self._is_one_tensor = self._leaves_one_tensor(lowered.left.result)

    def fill(self, results: list[Any]) -> None:
        """Put results into the buffers that the step makes, where callbacks find them."""
        if self._left.has_numbers:
            self._call_numbers = self._numbers.of_call()
        for buffer, value in zip(self._buffers.made, results[self._first_made :]):
            buffer.value, buffer.host = value, None
            buffer.writes += 1

    def cut(self, results: list[Any], cuts: Cuts) -> list[Any]:
        """Return results without padding, where sizes vary."""
        first = self._first_made
        return [*results[:first], *cuts.cut(results[first:], self._buffers.made)]

    def put(self, results: list[Any], arguments: list[Any]) -> Any:
        """Put the other results where the step leaves them, and return what it returns."""
        self.put_values(results, arguments)
        return self.leave(arguments)

    def put_values(self, results: list[Any], arguments: list[Any]) -> None:
        """Put results into buffers from before the step and into gradients."""
        self._put_written(results, arguments)
        first = self._first_donated
        for donor in self._donors:
            donor.receive(results[first : first + donor.n_arrays])
            first += donor.n_arrays

    def leave(self, arguments: list[Any]) -> Any:
        """Leave the rest: numbers, and Python objects. Return what the step returns."""
        self._numbers.change()
        if self._is_one_tensor:
            made = self._left.result
            result = wrap(made._array.like(made._array.buffer.value))
            result._edge, result._requires_grad = made._edge, made._requires_grad
            return result
        return self._leave(arguments)

    def _put_written(self, results: list[Any], arguments: list[Any]) -> None:
        """Write to buffers from before the step, arguments included."""
        for place, buffer in self._buffers.written:
            if buffer.host is None:
                buffer.value = results[place]
            else:
                buffer.host[...] = results[place]
            buffer.writes += 1
        if self._pack is not None:
            self._pack.receive(results[self._buffers.n_known])
        replacements = dict(self._mirrors.replaced)
        for place, argument in self._buffers.arguments:
            tensor, value = arguments[argument], results[place]
            replaced = replacements.pop(id(tensor), None)
            if replaced is not None:  # by a hook
                replaced.put_in_place(value)
                value = jax.numpy.asarray(replaced.value)
            _write(tensor._array, value)
        for replaced in replacements.values():  # of gradients that the step reaches through other objects, too
            replaced.put_in_place(np.array(replaced.first._array))
            _write(replaced.first._array, jax.numpy.asarray(replaced.value))
        for storage, bumps in self._bumps:
            storage.version += bumps

    def _leave(self, arguments: list[Any]) -> Any:
        """Store what the step leaves in Python objects, and return what it returns."""
        left, given = self._left, self._given
        passed_on = {id(given.tensors[place]): arguments[place] for place in self._passed_on}
        renewed = _NewTensors(self._origins, given.tensors, self._mirrors, self._call_numbers, passed_on)
        shown = self._mirrors.made() if self._mirrors.containers else ()
        rebuilt = Rebuilt(renewed, left.known, left.own_objects, shown)
        for place, (holder, key, value) in enumerate(left.entries):
            if place not in left.only_if or left.only_if[place].buffer.value:
                key = rebuilt(key) if isinstance(key, SymbolicScalar) else key  # `counts[index.item()] += 1`
                put(holder, key, value if value is ABSENT else rebuilt(value))
        if given.changes:
            given.change(arguments, renewed)
        result = rebuilt(left.result)
        if self._way_back is not None:
            numbers = self._call_numbers if left.has_numbers else []
            self._way_back.claim([result, *map(rebuilt, left.parts()[1:])], arguments, numbers)
        return result

    def _leaves_one_tensor(self, result: Any) -> bool:
        """Return whether the step leaves, besides gradients and writes, only one tensor with its own buffer."""
        origins = self._origins
        return (
            type(result) is Tensor
            and type(result._array) is DeviceArray
            and not vars(result)
            and result._array._parent is None
            and id(result._array.buffer) not in origins.known | origins.arguments.keys()
            and id(result) not in origins.adopted
            and (result._storage is None or result._storage.version == 0)
            and (result._meta is None or (result._meta.grad is None and not result._meta.retains))
            and not (self._left.entries or self._given.changes or self._way_back or self._mirrors.tensors)
        )


class _NewTensors:
    """Make the tensors of one call from those of the trace."""

    def __init__(
        self, origins: Origins, stand_ins: list[Any], mirrors: HostMirrors, numbers: list[float], made: dict[int, Any]
    ) -> None:
        self._origins, self._stand_ins, self._mirrors, self._numbers = origins, stand_ins, mirrors, numbers
        self._made = made  # tensors, storages and buffers, by the ids of those of the trace

    def __call__(self, value: Any) -> Any:
        """Return a new tensor for a tensor of the step, this call's number for a number, and anything else unchanged."""
        if not isinstance(value, TensorCore):
            return value.of(self._numbers) if isinstance(value, SymbolicScalar) else value
        tensor = self._made.get(id(value))
        if tensor is None:
            if type(value._array) is not DeviceArray or id(value) in self._origins.adopted:
                return value
            if id(value._array.buffer) in self._origins.arguments:
                tensor = self._on_argument(value)
            else:
                tensor = self._mirrors.host_tensor_of(value)
                tensor = wrap(self._array(value._array)) if tensor is None else tensor
                if id(value._array.buffer) in self._origins.known:
                    tensor._view, tensor._storage = value._view, value._storage
                elif type(value._storage) is InferenceStorage:
                    tensor._storage = InferenceStorage()
                elif value._storage is not None and tensor._storage is None:  # which aliases share
                    tensor._storage = self._made.setdefault(id(value._storage), Storage())
                    tensor._storage.version = value._storage.version
            self._made[id(value)] = tensor
            if type(tensor) is not type(value):
                tensor.__class__ = type(value)
            tensor._edge, tensor._requires_grad = value._edge, value._requires_grad
            if value._meta is not None:
                meta = tensor._get_meta()
                meta.retains = value._meta.retains
                if value._meta.grad is not None:
                    meta.grad = self(value._meta.grad)
        return tensor

    def _on_argument(self, value: Any) -> Any:
        """Return a tensor over the buffer of an argument: a view of it, or the argument without its graph."""
        if value._view is not None:
            return view_again(self(value._view.base), value._view.steps)
        tensor = self._made[id(self._stand_ins[self._origins.arguments[id(value._array.buffer)]])].detach()
        tensor._array = _part_of(tensor._array, value._array)
        return tensor

    def _array(self, array: DeviceArray) -> Any:
        """Return the array of a new tensor: a buffer, or a view of one."""
        if id(array.buffer) in self._origins.known:
            now = self._origins.owners[id(array.buffer)]._array  # which may be on the host
            return array if type(now) is DeviceArray and now.buffer is array.buffer else _part_of(now, array)
        whole, parts = parts_of(array)
        if id(array.buffer) not in self._made:
            kept = self._mirrors.memory_at(array.buffer)
            self._made[id(array.buffer)] = whole.like(array.buffer.value) if kept is None else kept
        return part_of(self._made[id(array.buffer)], parts)


def _write(array: Any, value: Any) -> None:
    if type(array) is DeviceArray and array._parent is None and array.buffer.host is None:
        array.buffer.value = value
        array.buffer.writes += 1
    else:
        array[...] = value


def _part_of(whole: Any, traced: DeviceArray) -> Any:
    """Return the part of an array that was a view in the trace."""
    if traced._parent is None:
        return whole
    above = _part_of(whole, traced._parent)
    return above.view_by(traced._take, traced._put) if type(above) is DeviceArray else traced._take(numpy_xp, above)
