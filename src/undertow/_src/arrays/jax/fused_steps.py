"""The elementwise operations that optimizers are written with, for many parameters in one XLA program.

An optimizer's rule is a closure of plain options and of numbers that change from step to step, such as the learning rate.
The options are part of the program; the numbers are its inputs, so that a program is compiled once and not at every step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from undertow._src.arrays.jax.elementwise import sign, where

Array = Any
Rule = Callable[..., tuple[Array, ...]]

_MOST = 256  # programs that are kept
_OPTIONS = (bool, int, float, str, type(None))
_one_at_a_time = threading.Lock()
_programs: dict[Hashable, Callable[..., list[list[Array]]]] = {}


class _Number(NamedTuple):
    """Stands for a number that is an input of the program."""

    place: int


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

    def run(self, key: Hashable, rule: Rule, arrays: list[list[Array]]) -> list[list[Array]]:
        """Return what the rule makes of each parameter, its gradient and its buffers, in one call of a program."""
        with _one_at_a_time:
            program = _programs.get(key)
            if program is None:
                program = _programs[key] = jax.jit(lambda numbers, arrays: self._apply(rule, numbers, arrays))
                if len(_programs) > _MOST:
                    del _programs[next(iter(_programs))]
            return program(np.array(self._numbers, self.dtype), arrays)

    def _apply(self, rule: Rule, numbers: Array, arrays: list[list[Array]]) -> list[list[Array]]:
        self._inputs = numbers
        return [[*rule(*each)] for each in arrays]

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
