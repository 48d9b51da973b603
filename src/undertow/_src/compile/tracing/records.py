"""Records: objects among a step's arguments that are new in each call and are compared by what they hold.

Dataclasses and namespaces are records; objects of other classes are, if they hold tensors and a second one was passed.
A record is taken apart before the step is traced, and the step sees a copy made of stand-ins. One that the step changes is
not a record but the user's state: it stands for itself. So do those of a step that can't be compiled otherwise.
"""

from __future__ import annotations

import weakref
from argparse import Namespace
from collections import UserDict
from types import SimpleNamespace
from typing import Any, NamedTuple

from undertow._src.arrays.device.memory import TraceAborted
from undertow._src.base.tree import leaves, map_leaves
from undertow._src.compile.effects import purity
from undertow._src.tensor.core import TensorCore
from undertow.nn.modules.module import Module
from undertow.optim.optimizer import Optimizer


class Record(NamedTuple):
    """A record, taken apart: its class and its values."""

    kind: Any
    values: dict[str, Any]


class ChangedRecord(TraceAborted, RuntimeError):
    """The step changes a record that it was given."""

    def __init__(self, kind: type) -> None:
        super().__init__(
            f"undertow.compile: the step changes a {kind.__name__} among its arguments on the host, which would not be "
            f"seen outside. Reach the {kind.__name__} by its name instead of as an argument."
        )
        self.kind = kind


class Kinds:
    """Which classes among a step's arguments are records."""

    def __init__(self) -> None:
        self._whole: set[type] = set()  # classes whose objects stand for themselves
        self._apart: set[type] = set()  # classes of which more than one object was passed
        self._met: dict[type, weakref.ref[Any]] = {}

    def is_record(self, value: Any) -> bool:
        """Return whether a value is compared by its contents."""
        kind = type(value)
        if kind in self._apart:
            return True
        if kind.__hash__ is not None or kind.__dictoffset__ == 0 or kind in self._whole:
            return False
        known = hasattr(kind, "__dataclass_fields__") or kind in (SimpleNamespace, Namespace)
        return known and not isinstance(value, (tuple, list, dict))

    def meet(self, tree: Any) -> bool:
        """Record the objects of a call that is to be compiled. Return whether more classes are records now."""
        before = len(self._apart)
        for leaf in leaves(tree):
            kind = type(leaf)
            if kind not in self._whole and _is_plain_class(kind) and _holds_tensors(leaf):
                if self._met.setdefault(kind, weakref.ref(leaf))() is not leaf:
                    self._apart.add(kind)
        records = self._records_in(tree)
        if len({*map(id, records)}) < len(records):  # the step could notice that two are the same object
            return self.keep_whole(tree)
        return len(self._apart) > before

    def keep_whole(self, tree: Any) -> bool:
        """Let records among nested arguments stand for themselves; return False if there are none."""
        kinds = {*map(type, self._records_in(tree))}
        self._whole |= kinds
        self._apart -= kinds
        return bool(kinds)

    def _records_in(self, tree: Any) -> list[Any]:
        """Return the records in nested arguments and in other records; each as often as it is found."""
        found: list[Any] = []
        waiting = [tree]
        while waiting:
            for leaf in leaves(waiting.pop()):
                if self.is_record(leaf):
                    if not any(leaf is each for each in found):
                        waiting.append(vars(leaf))
                    found.append(leaf)
        return found

    def apart(self, tree: Any) -> Any:
        """Return nested arguments with records taken apart."""

        def apart(leaf: Any) -> Any:
            return Record(type(leaf), self.apart(vars(leaf))) if self.is_record(leaf) else leaf

        return map_leaves(apart, tree)


def _holds_tensors(value: Any) -> bool:
    return any(isinstance(each, TensorCore) for each in leaves(vars(value)))


def _is_plain_class(kind: Any) -> bool:
    """Return whether objects of a class of the user are nothing more than their attributes."""
    own = (TensorCore, Module, Optimizer)
    if issubclass(kind, UserDict):  # its entries are an attribute
        plain = (UserDict, *UserDict.__mro__)
        return not any(name in vars(each) for each in kind.__mro__ if each not in plain for name in _ACTING_METHODS)
    if (
        issubclass(kind, own)
        or kind.__new__ is not object.__new__
        or not kind.__dictoffset__
        or not kind.__weakrefoffset__
    ):
        return False
    hooked = any(name in vars(each) for each in kind.__mro__[:-1] for name in _ATTRIBUTE_METHODS)
    return not hooked and purity.origin_of(kind) == "user"


_ACTING_METHODS = ("__getattribute__", "__setattr__", "__slots__", "__next__", "__call__", "__hash__", "__new__")
_ATTRIBUTE_METHODS = ("__getattr__", "__getattribute__", "__setattr__", "__slots__", "__next__", "__call__", "__hash__")


def records_together(tree: Any) -> Any:
    """Return nested arguments with records put together again."""

    def made(part: Any) -> Any:
        if type(part) is not Record:
            return part
        record = SimpleNamespace() if part.kind is SimpleNamespace else object.__new__(part.kind)
        vars(record).update(records_together(part.values))
        return record

    return map_leaves(made, tree, ends=Record)
