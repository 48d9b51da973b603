"""Hooks that only compute, with branches on values: `if g.norm() > 1: return g / g.norm()`.

Each path through such a hook is traced, and the program chooses among the results. That is exact, because a path that is
not taken has no effects. It costs a few operations, while the program would have to wait for a hook on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import Buffer, TraceAborted
from undertow._src.arrays.namespaces import namespace_of
from undertow._src.base.modes import no_grad
from undertow._src.compile.tracing.data_dependent_branches import Decisions
from undertow._src.tensor.core import TensorCore, wrap

MOST_WAYS = 16


class TooManyWays(Exception):
    """A hook can't be traced path by path."""


class HookBranches:
    """The paths through a hook. While one is traced, this gives the outcomes of its branches."""

    def __init__(self, decisions: Decisions, call: Callable[[], Any], unchanged: Any) -> None:
        self._decisions, self._call, self._unchanged = decisions, call, unchanged
        self.chosen: list[Buffer] = []  # of tensors that the result is on some paths, and not on others
        self._answers: list[bool] = []  # of the path that is being traced
        self._conditions: list[Any] = []
        self._known: dict[int, bool] = {}  # by the id of a value
        self._ways = 0

    def result(self) -> Any:
        """Return the hook's result, which the program chooses among its paths. Raise TooManyWays if that is impossible."""
        return self._chosen([])

    def decide(self, value: Any) -> bool:
        """Return whether a value is true, on the path that is being traced."""
        if id(value) not in self._known:
            place = len(self._conditions)
            if place == MOST_WAYS:  # each condition has two branches; this may be a loop that never ends
                raise TooManyWays
            self._conditions.append(value)
            if place == len(self._answers):
                self._answers.append(True)
            self._known[id(value)] = self._answers[place]
        return self._known[id(value)]

    def _chosen(self, answers: list[bool]) -> Any:
        """Return the result after some outcomes: of the path on which all later ones are true, or of one that leaves it."""
        result, conditions = self._follow(answers)
        for place in reversed(range(len(answers), len(conditions))):
            other = self._chosen([*answers, *[True] * (place - len(answers)), False])
            result = self._select(conditions[place], result, other)
        return result

    def _follow(self, answers: list[bool]) -> tuple[Any, list[Any]]:
        """Trace one path; return the result, and the conditions on it."""
        self._ways += 1
        if self._ways > MOST_WAYS:
            raise TooManyWays
        self._answers, self._conditions, self._known = [*answers], [], {}
        outer, self._decisions.branches = self._decisions.branches, self
        try:
            return self._call(), self._conditions
        except Exception as error:
            if isinstance(error, TraceAborted):
                raise
            raise TooManyWays from None  # only some calls raise
        finally:
            self._decisions.branches = outer

    def _select(self, condition: Any, yes: Any, no: Any) -> Any:
        if yes is None and no is None:
            return None
        yes, no = (self._unchanged if each is None else each for each in (yes, no))
        if isinstance(yes, tuple) and isinstance(no, tuple) and len(yes) == len(no):
            return tuple([self._select_one(condition, *pair) for pair in zip(yes, no)])
        return self._select_one(condition, yes, no)

    def _select_one(self, condition: Any, yes: Any, no: Any) -> Any:
        if yes is no:
            return yes
        if not (isinstance(yes, TensorCore) and isinstance(no, TensorCore)):
            raise TooManyWays
        arrays = [each._array for each in (yes, no)]
        if any(type(each) is not DeviceArray for each in arrays) or yes._requires_grad or no._requires_grad:
            raise TooManyWays
        if (yes.shape, yes.dtype, yes.device, yes.stride()) != (no.shape, no.dtype, no.device, no.stride()):
            raise TooManyWays
        self.chosen += [each.buffer for each in arrays]
        with no_grad():
            single = DeviceArray(jnp.reshape(condition, ()) != 0)
            chosen = namespace_of(arrays).where(single, *arrays)
            chosen.lie_with(arrays[0].strides)
            return wrap(chosen)
