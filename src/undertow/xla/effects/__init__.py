"""What running a Python function does besides computing with tensors, found by reading its source.

A compiled step runs its Python code once, while it is traced. So before a hook runs it must be known whether its code
prints, counts, collects or stores: such a hook has to run at every step.

    analyse(lambda g: g.clamp(-1, 1), ["tensor"]).pure           # True
    analyse(lambda g: log.append(g.norm()), ["tensor"]).effects  # appends to `log`

Nothing of the user's is run. Whatever cannot be read or followed counts as an effect: a function said to be pure is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from undertow._tensor import Tensor
from undertow.nn import Module
from undertow.xla.effects.findings import Effect, Effects, Place, Read
from undertow.xla.effects.interpreter import Interpreter
from undertow.xla.effects.state import Chain, Frame, TooLarge
from undertow.xla.effects.values import (
    EMPTY,
    MODULE,
    NONE,
    ONE,
    OPAQUE,
    OPTIMIZER,
    PLAIN,
    TENSOR,
    TENSORS,
    Arguments,
    Atom,
    Fresh,
    Known,
    Value,
)  # fmt: skip

__all__ = [
    "Called", "Chain", "Effect", "Effects", "Exactly", "Kind", "Parts", "Place", "Read", "Reading", "analyse",
    "analyse_module", "kind_of", "read", "together",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Exactly:
    """An argument that is known already: the module of a module hook, the optimizer of an optimizer hook."""

    value: Any


@dataclass(frozen=True, eq=False)
class Parts:
    """An argument that is a tuple of several kinds of things."""

    kinds: tuple[Kind, ...]


Kind = Literal["tensor", "tensors", "module", "optimizer", "plain", "none", "other"] | Exactly | Parts
Called = tuple[Callable[..., Any], Sequence[Kind], dict[str, Kind]]  # a function, and what is known of its arguments
_ATOMS = {
    "tensor": TENSOR, "tensors": TENSORS, "module": MODULE, "optimizer": OPTIMIZER, "plain": PLAIN, "none": NONE,
    "other": OPAQUE,
}  # fmt: skip
_MOST_ROUNDS = 25


def analyse(
    function: Callable[..., Any], arguments: Sequence[Kind] = (), keywords: dict[str, Kind] | None = None
) -> Effects:
    """Reads a function, with everything of the user's that it calls, and says what running it does."""
    return read(function, arguments, keywords).effects


@dataclass(frozen=True, eq=False)
class Reading:
    """What an analysis found, and by which statements.

    origins: each effect with the statements that it comes about by, from the outermost function on; written: ids of
    statements that write into tensors or draw random numbers of undertow's, or call what does; frames: the functions that
    were gone through; changes: by the id of a statement, the objects made by the code itself that it changes.
    """

    effects: Effects
    origins: list[tuple[Effect, list[Chain]]]
    written: set[int]
    frames: list[Frame]
    changes: dict[int, set[Atom]]


def read(
    function: Callable[..., Any], arguments: Sequence[Kind] = (), keywords: dict[str, Kind] | None = None,
    skipped: frozenset[int] = frozenset(),
) -> Reading:  # fmt: skip
    """The same with all that is known; statements with these ids are left out."""
    name = getattr(function, "__name__", type(function).__name__)
    given = Arguments(
        [_value(kind, f"argument {number}") for number, kind in enumerate(arguments)],
        {name: _value(kind, name) for name, kind in (keywords or {}).items()},
    )
    interpreter = Interpreter()
    interpreter.skipped = skipped
    result = EMPTY
    try:
        for _ in range(_MOST_ROUNDS):
            interpreter.changed = False
            interpreter.unbound.clear()
            result = interpreter.call_atom(Known(function, name), given, None)
            if not interpreter.changed:
                break
        else:
            raise TooLarge
    except (TooLarge, RecursionError):
        interpreter.frame = None
        interpreter.may_write = True
        interpreter.effect("call", "is too large to follow", None, field="unknown")
    effects = interpreter.findings(result)
    origins = [(effect, interpreter.origins[key]) for key, effect in zip(interpreter.effect_keys(), effects.effects)]
    written = interpreter.written | interpreter.drawn
    return Reading(effects, origins, written, list(interpreter.frames.values()), interpreter.changes)


def together(readings: Sequence[Reading]) -> Reading:
    """What several functions do, as if one called them all."""
    if len(readings) == 1:
        return readings[0]
    found = [each.effects for each in readings]
    effects = Effects(
        effects=tuple([effect for each in found for effect in each.effects]),
        returns=None,
        reads=tuple([read for each in found for read in each.reads]),
        holds=tuple([read for each in found for read in each.holds]),
        places=tuple([place for each in found for place in each.places]),
        writes=any(each.writes for each in found),
        names=tuple([name for each in found for name in each.names]),
        functions=tuple([function for each in found for function in each.functions]),
        draws=any(each.draws for each in found),
    )
    changes: dict[int, set[Atom]] = {}
    for each in readings:
        for statement, atoms in each.changes.items():
            changes.setdefault(statement, set()).update(atoms)
    origins = [origin for each in readings for origin in each.origins]
    frames = [frame for each in readings for frame in each.frames]
    return Reading(effects, origins, set().union(*[each.written for each in readings]), frames, changes)


def analyse_module(module: Module, arguments: Sequence[Kind] = ("tensor",)) -> Effects:
    """The same for a module's call: its forward and, through it, those of the modules below. Hooks are not included."""
    return analyse(module, arguments)


def kind_of(value: Any) -> Kind:
    """The kind of an argument that is there to be looked at."""
    if isinstance(value, Tensor):
        return "tensor"
    if value is None:
        return "none"
    if isinstance(value, (tuple, list)) and all(each is None or isinstance(each, Tensor) for each in value):
        return "tensors"
    return Exactly(value)


def _value(kind: Kind, name: str) -> Value:
    if isinstance(kind, Exactly):
        return frozenset([Known(kind.value, name)])
    if isinstance(kind, Parts):
        return frozenset([Fresh(tuple, [_value(part, name) for part in kind.kinds])])
    return ONE[_ATOMS[kind]]
