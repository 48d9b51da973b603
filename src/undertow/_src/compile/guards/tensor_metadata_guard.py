"""Properties of a tensor besides value, shape and dtype: whether it is a leaf or a view, how often it was written to.

A trace sees stand-ins for a call's tensors, which start graphs of their own. If the step's code names one of these
properties, a stand-in must have the tensor's, and the tensors of later calls must have those of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from operator import attrgetter, methodcaller
from typing import Any

from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.guard import Guard

FACTS: dict[str, Callable[[Any], Any]] = {
    "is_leaf": attrgetter("is_leaf"),
    "grad_fn": lambda tensor: type(tensor.grad_fn).__name__,
    "output_nr": attrgetter("output_nr"),
    "retains_grad": attrgetter("retains_grad"),
    "_version": attrgetter("_version"),
    "_base": lambda tensor: tensor._base is not None,
    "_is_view": methodcaller("_is_view"),
    "storage_offset": methodcaller("storage_offset"),
    "is_inference": methodcaller("is_inference"),
    "is_conj": methodcaller("is_conj"),
    "is_neg": methodcaller("is_neg"),
}
_IN_A_TRACE = {"storage_offset": 0, "is_conj": False, "is_neg": False}  # of every tensor in a trace


class FactGuard(Guard):
    """Guard the properties that the step's code names."""

    def __init__(self, mentioned: Container[str], own: Iterable[Any]) -> None:
        self.names = [name for name in FACTS if name in mentioned]
        self._own = list(own) if self.names else []  # tensors that the step reaches otherwise
        self._before: list[Any] = []

    def compare(self, given: list[Any], stand_ins: list[Any]) -> None:
        """Record the properties before a trace; raise if a stand-in's are different."""
        for name in self.names:
            for tensor, stand_in in (*zip(given, stand_ins), *zip(self._own, self._own)):
                answer, traced = FACTS[name](tensor), _IN_A_TRACE.get(name, FACTS[name](stand_in))
                if answer != traced:
                    raise CompileError(
                        f"undertow.compile: the step's code uses `.{name}`, which is {answer!r} for a tensor of shape "
                        f"{list(tensor.shape)}. A program is given only the tensor's values, so there it would be "
                        f"{traced!r}. Pass `.{name}` to the step as an argument, or give the step tensor.detach().clone()."
                    )
        self._before = self._answers(given)

    @property
    def watches(self) -> str:
        """Return the line for `explain`."""
        return f"{self._named('and')} of tensors"

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether the properties of a call's tensors, and of the step's own, are unchanged."""
        return not self.names or self._answers(arguments) == self._before

    def reason(self) -> str:
        """Return the properties, one of which changed, in words."""
        return f"{self._named('or')} of a tensor changed"

    def _named(self, word: str) -> str:
        return f" {word} ".join(f"`.{name}`" for name in self.names)

    def _answers(self, given: Sequence[Any]) -> list[Any]:
        return [FACTS[name](tensor) for name in self.names for tensor in (*given, *self._own)]
