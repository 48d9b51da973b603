"""What a Python function does besides computing with tensors, found by reading its source.

A compiled step runs its Python code once, while it is traced. So before a hook runs it must be known whether its code
prints, counts, collects or stores: such a hook has to run in every call.

    analyse(lambda g: g.clamp(-1, 1), ["tensor"]).pure           # True
    analyse(lambda g: log.append(g.norm()), ["tensor"]).effects  # appends to `log`

No user code is run. Whatever cannot be read or followed counts as an effect, so a function reported as pure is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from undertow._src.compile.effects.analysis_result import Reading, Summary, combined
from undertow._src.compile.effects.analyzer import Analyzer, TooLarge
from undertow._src.compile.effects.call_graph import Frame, Notes
from undertow._src.compile.effects.coverage import Coverage
from undertow._src.compile.effects.findings import Effect, Effects, Place, Read
from undertow._src.compile.effects.values import (
    EMPTY,
    MODULE,
    NONE,
    ONE,
    OPAQUE,
    OPTIMIZER,
    OWN,
    PLAIN,
    TENSOR,
    TENSORS,
    CallArguments,
    Concrete,
    Fresh,
    Value,
)
from undertow._tensor import Tensor

__all__ = [
    "Called",
    "Coverage",
    "Effect",
    "Effects",
    "Exactly",
    "Frame",
    "Kind",
    "Limits",
    "Notes",
    "Place",
    "Read",
    "Reading",
    "Summary",
    "TupleOf",
    "analyse",
    "combined",
    "kind_of",
    "read",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Exactly:
    """An argument that is known already: the module of a module hook, the optimizer of an optimizer hook."""

    value: Any


@dataclass(frozen=True, eq=False)
class TupleOf:
    """An argument that is a tuple of several kinds of things."""

    kinds: tuple[Kind, ...]


@dataclass
class Limits:
    """How far a reading goes."""

    most_steps: int | None = None
    coverage: Coverage | None = None  # the code that ran in traces, if the rest of packages is left out
    by_expression: bool = False  # whether to record facts about each expression, and not only about statements


Kind = Literal["tensor", "tensors", "module", "optimizer", "plain", "none", "other"] | Exactly | TupleOf
Called = tuple[Callable[..., Any], Sequence[Kind], dict[str, Kind]]  # a function, and the kinds of its arguments
TOO_LARGE = "is too large to follow"  # the effect of code that was not read to its end
_ATOMS = {
    "tensor": TENSOR, "tensors": TENSORS, "module": MODULE, "optimizer": OPTIMIZER, "plain": PLAIN, "none": NONE,
    "other": OPAQUE,
}  # fmt: skip


def analyse(
    function: Callable[..., Any], arguments: Sequence[Kind] = (), keywords: dict[str, Kind] | None = None
) -> Effects:
    """Read a function, with all user code that it calls, and return the effects of running it."""
    return read(function, arguments, keywords).effects


def read(
    function: Callable[..., Any], arguments: Sequence[Kind] = (), keywords: dict[str, Kind] | None = None,
    decides: bool = False, limits: Limits | None = None,
) -> Reading:  # fmt: skip
    """Return the whole reading; with `decides`, without code that a call with these values does not
    reach.
    """
    name = getattr(function, "__name__", type(function).__name__)
    given = CallArguments(
        [_value(kind, f"argument {number}") for number, kind in enumerate(arguments)],
        {name: _value(kind, name) for name, kind in (keywords or {}).items()},
    )
    limits = limits or Limits()
    values: dict[int, Value] | None = {} if limits.by_expression else None
    analyzer = Analyzer(decides, limits.coverage, limits.most_steps, values=values)

    def finished() -> Reading:
        result = EMPTY
        try:
            result = analyzer.analyze(Concrete(function, name), given)
        except (TooLarge, RecursionError):
            analyzer.give_up(TOO_LARGE)
        return Reading([analyzer.top], analyzer.log.order, _never_none(result), renewed, values or {})

    def renewed(node: Any) -> Reading:
        analyzer.forget(node)
        return finished()

    return finished()


def kind_of(value: Any) -> Kind:
    """Return the kind of an argument whose value is known."""
    if isinstance(value, Tensor):
        return "tensor"
    if value is None:
        return "none"
    if isinstance(value, (tuple, list)) and all(each is None or isinstance(each, Tensor) for each in value):
        return "tensors"
    return Exactly(value)


def _never_none(result: Value) -> bool | None:
    """Return False if a value is always None, True if never, None if that is unknown."""
    nothing = {atom for atom in result if atom is NONE or (isinstance(atom, Concrete) and atom.value is None)}
    if not result:
        return None
    if len(nothing) == len(result):
        return False
    return None if nothing or result & {OPAQUE, OWN} else True


def _value(kind: Kind, name: str) -> Value:
    if isinstance(kind, Exactly):
        return frozenset([Concrete(kind.value, name)])
    if isinstance(kind, TupleOf):
        return frozenset([Fresh(tuple, [_value(part, name) for part in kind.kinds])])
    return ONE[_ATOMS[kind]]
