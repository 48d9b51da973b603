"""The elementwise operations that optimizers are written with, for many parameters in one XLA program.

An optimizer's rule is a closure of plain options and of numbers that change from step to step, such as the learning rate.
The options are part of the program; the numbers are its inputs, so that a program is compiled once and not at every step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import Deferred
from undertow._src.arrays.jax import deferred
from undertow._src.arrays.jax.elementwise import sign, where
from undertow._src.arrays.jax.tracing import platform_of

Array = Any
Rule = Callable[..., tuple[Array, ...]]

_MOST = 256  # programs that are kept
_OPTIONS = (bool, int, float, str, type(None))
_one_at_a_time = threading.Lock()
_programs: dict[Hashable, _Program] = {}


class _Number(NamedTuple):
    """Stands for a number that is an input of the program."""

    place: int


class _Program:
    """The steps of some parameters as a program: of the numbers, and of each parameter, its gradient and its buffers."""

    def __init__(self, steps: FusedSteps, rule: Rule, sizes: tuple[int, ...], platform: str) -> None:
        self._steps, self._rule, self._sizes, self.platform = steps, rule, sizes, platform
        self.jitted = jax.jit(self.traced)
        self.counts: list[int] | None = None  # how many arrays the rule returns for each parameter, once traced

    def traced(self, numbers: Array, *arrays: Array) -> list[Array]:
        """Return the new parameters and buffers."""
        given = iter(arrays)
        made = self._steps.apply(self._rule, numbers, [[next(given) for _ in range(size)] for size in self._sizes])
        self.counts = [len(each) for each in made]
        return [value for each in made for value in each]

    def run(self, numbers: np.ndarray[Any, Any], arrays: list[DeviceArray]) -> Sequence[Array]:
        """Make the steps, together with the calls that were put off before."""
        if Deferred.calls and self.counts is not None and all(array.size <= deferred.SMALL for array in arrays):
            return deferred.run_last(self, [numbers, *arrays], sum(self.counts))
        Deferred.run()
        return self.jitted(numbers, *[array.value for array in arrays])


class FusedSteps:
    """The operations of one rule. A number that is noted is an input of the program; see `optim._arithmetic`."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self._numbers: list[Any] = []
        self._inputs: Any = None  # the numbers as the program's input, while it is traced

    def scalar(self, value: Any) -> Any:
        return value

    def number(self, value: Any) -> _Number:
        self._numbers.append(value)
        return _Number(len(self._numbers) - 1)

    def key_of(self, rule: Any) -> Hashable | None:
        """Return what a program for the rule depends on; None if it can't be one program: a number may be a tensor."""
        if not all(type(number) in (int, float) for number in self._numbers):
            return None
        held = [cell.cell_contents for cell in rule.__closure__ or () if cell.cell_contents is not self]
        plain = all(type(each) is _Number or type(each) in _OPTIONS for each in held)
        return (rule.__code__, self.dtype, *[(type(each), each) for each in held]) if plain else None

    def run(self, key: Hashable, rule: Rule, arrays: list[list[DeviceArray]]) -> list[list[Array]]:
        """Return what the rule makes of each parameter, its gradient and its buffers, in one call of a program."""
        sizes = tuple(map(len, arrays))
        with _one_at_a_time:
            program = _programs.get((key, sizes))
            if program is None:
                program = _programs[key, sizes] = _Program(self, rule, sizes, platform_of(arrays[0][0].value))
                if len(_programs) > _MOST:
                    del _programs[next(iter(_programs))]
            values = iter(
                program.run(np.array(self._numbers, self.dtype), [each for group in arrays for each in group])
            )
            return [[next(values) for _ in range(count)] for count in program.counts or ()]

    def apply(self, rule: Rule, numbers: Array, arrays: list[list[Array]]) -> list[tuple[Array, ...]]:
        """Return what the rule makes of each parameter, while a program is traced."""
        self._inputs = numbers
        return [rule(*each) for each in arrays]

    def _of(self, value: Any) -> Array:
        return self._inputs[value.place] if type(value) is _Number else value

    def add(self, a: Array, b: Array, weight: Any = None) -> Array:
        b = self._of(b)
        return a + (b if weight is None else b * self._of(weight))

    def mul(self, a: Array, b: Any) -> Array:
        return a * self._of(b)

    def div(self, a: Any, b: Any) -> Array:
        return self._of(a) / self._of(b)

    def lerp_(self, a: Array, b: Array, weight: Any) -> Array:
        return a + (b - a) * self._of(weight)

    def addcmul_(self, a: Array, b: Array, c: Array, weight: Any) -> Array:
        return a + b * c * self._of(weight)

    def addcdiv_(self, a: Array, b: Array, c: Array, weight: Any) -> Array:
        return a + b / c * self._of(weight)

    def maximum_(self, a: Array, b: Array) -> Array:
        return jnp.maximum(a, b)

    def clamp_(self, a: Array, low: Any, high: Any) -> Array:
        return jnp.minimum(jnp.maximum(a, self._of(low)), self._of(high))

    def copy_(self, a: Array, b: Array) -> Array:
        return b

    def neg(self, a: Array) -> Array:
        return -a

    def sqrt(self, a: Array) -> Array:
        return jnp.sqrt(a)

    def abs(self, a: Array) -> Array:
        return jnp.abs(a)

    def sign(self, a: Array) -> Array:
        return sign(a)

    def where(self, condition: Array, a: Any, b: Any) -> Array:
        return where(condition, self._of(a), self._of(b))

    add_, mul_, sqrt_ = add, mul, sqrt
