"""Dataclasses among a step's arguments: each call brings another one, so what they hold counts, as in a dict.

A record is taken apart before the step is traced, and the step sees another one of stand-ins. One that the step changes is
no such record but state of the user's: it stands for itself, as objects of other classes do. So do those of a step that
can't be compiled otherwise.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, NamedTuple

from undertow.tree import leaves, map_leaves
from undertow.xp.device_memory import Stops


class Record(NamedTuple):
    """What a dataclass consists of."""

    kind: Any
    values: dict[str, Any]


class ChangedRecord(Stops, RuntimeError):
    """The step changes a record that it was given."""

    def __init__(self, kind: type) -> None:
        super().__init__(
            f"undertow.compile: the step changes a {kind.__name__} among its arguments on the host, which would not be "
            f"seen outside. Reach the {kind.__name__} by its name instead of as an argument."
        )
        self.kind = kind


def is_record(value: Any, whole: Container[type] = ()) -> bool:
    """Whether a value is a dataclass that is equal to others with the same contents, and not one of some classes."""
    kind = type(value)
    if kind.__hash__ is not None or not hasattr(kind, "__dataclass_fields__") or kind in whole:
        return False
    return kind.__dictoffset__ != 0 and not isinstance(value, (tuple, list, dict))


def kinds_of_records(tree: Any, whole: Container[type] = ()) -> set[type]:
    """The classes of records among nested arguments."""
    return {type(leaf) for leaf in leaves(tree) if is_record(leaf, whole)}


def records_apart(tree: Any, whole: Container[type] = ()) -> Any:
    """Nested arguments with records taken apart."""

    def apart(leaf: Any) -> Any:
        return Record(type(leaf), records_apart(vars(leaf), whole)) if is_record(leaf, whole) else leaf

    return map_leaves(apart, tree)


def records_together(tree: Any) -> Any:
    """Nested arguments with records put together again."""

    def made(part: Any) -> Any:
        if type(part) is not Record:
            return part
        record = object.__new__(part.kind)
        vars(record).update(records_together(part.values))
        return record

    return map_leaves(made, tree, ends=Record)
