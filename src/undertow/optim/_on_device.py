"""One program for the step of all parameters of a group that are on a device: an operation there costs its dispatch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import jax_module
from undertow._src.base import tracer
from undertow._src.engine.outputs import bump
from undertow._src.engine.writes import guards
from undertow.optim._arithmetic import Rule, on_tensors, recorded


class OnDevice:
    """Parameters whose step is put off until the end of their group, and then made by one program."""

    def __init__(self, rule_for: Callable[..., Rule]) -> None:
        self._rule_for = rule_for  # steps and age of a parameter -> its rule
        self._kind: Any = None  # what the waiting parameters have in common: dtype, device and age
        self._steps: Any = None
        self._rule: Any = None
        self._key: Any = None
        self._waiting: dict[int, list[Any]] = {}

    def put_off(self, age: Any, tensors: list[Any]) -> bool:
        """Return whether the step of a parameter, given with its gradient and its buffers, will be made by `run`."""
        param, grad = tensors[:2]
        array = param._array
        if tracer.current is not None or type(array) is not DeviceArray or array.dtype.char not in "fd":
            return False
        if not all(_is_whole(each._array, array) for each in tensors) or on_tensors(param, grad, False) is not recorded:
            return False
        kind = array.dtype, array.device, age
        if kind != self._kind or id(param) in self._waiting:
            self.run()
            self._begin(kind)
        if self._key is None:
            return False
        self._waiting[id(param)] = tensors
        return True

    def _begin(self, kind: tuple[Any, Any, Any]) -> None:
        self._kind = kind
        self._steps = jax_module("fused_steps").FusedSteps(kind[0])
        self._rule = self._rule_for(self._steps, age=kind[2])
        self._key = self._steps.key_of(self._rule)

    def run(self) -> None:
        """Make the steps that were put off."""
        waiting, self._waiting = [*self._waiting.values()], {}
        if not waiting:
            return
        for tensors in waiting:
            for guard in guards:
                guard.before_write(tensors[0])
        arrays = [[tensor._array for tensor in tensors] for tensors in waiting]
        for (param, _, *buffers), values in zip(waiting, self._steps.run(self._key, self._rule, arrays)):
            for tensor, value in zip((param, *buffers), values):
                tensor._array.write(value)
                bump(tensor)


def _is_whole(array: Any, like: Any) -> bool:
    """Whether two arrays are whole buffers of the same kind."""
    alike = type(array) is DeviceArray and array.dtype is like.dtype and array.device is like.device
    return alike and array._parent is None and array.buffer.host is None
