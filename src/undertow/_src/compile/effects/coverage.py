"""Coverage: which code ran in the traces of a step. Of installed packages, nothing else is analyzed.

A step that calls a large package can reach far more code than it runs. A program stands for one path through the code, so
what no trace reached is not part of it. `recording` records which instructions ran; an expression or a statement of
a package none of whose instructions did is dead, and left out.
"""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterable
from types import CodeType, NoneType
from typing import Any, Literal

from undertow._src.compile.effects.values import MADE, NONE, ONE, PLAIN, TENSOR, Atom, Concrete, Simple, Value, is_plain
from undertow._tensor import Tensor
from undertow.nn import Parameter

Point = tuple[int, int]  # a line, and a column in it
Span = tuple[Point, Point]  # the position of an instruction in its file
Kind = Literal["tensor", "none", "plain", "other"]

RESULT = "return"  # instead of a parameter's name
_ONE_OF: dict[Kind, Simple] = {"tensor": TENSOR, "none": NONE, "plain": PLAIN}
_PARTS = (ast.Name, ast.Constant)  # which do nothing themselves, and may share an instruction with adjacent code


def spans_of(code: CodeType) -> list[Span | None]:
    """Return the span in the source of each code unit; None if unknown."""
    return [
        None if None in (line, end_line, column, end_column) else ((line, column), (end_line, end_column))  # type: ignore[misc]
        for line, end_line, column, end_column in code.co_positions()
    ]


class Coverage:
    """The instructions that ran, by file."""

    def __init__(self) -> None:
        self._ran: dict[str, set[Span]] = {}
        self._kinds: dict[tuple[str, int, str, str], set[Kind]] = {}  # of parameters and results, by function and name
        self._spans: dict[CodeType, list[Span]] = {}  # of all instructions of some code, and of code inside it
        self._begins: dict[CodeType, list[Point]] = {}
        self._dead: dict[int, tuple[CodeType, ast.AST, bool]] = {}  # the answers to the analyzer, by the ids of nodes
        self._kinds_at: dict[tuple[int, str], tuple[ast.AST, set[Kind]]] = {}  # the same by the id of the node and name
        # Ids of statements that run on the host, and reach different code there.
        self.hosted: frozenset[int] = frozenset()
        self.packages: dict[Any, tuple[CodeType, dict[str, Any]]] = {}  # code of packages that ran, and its globals

    def add(self, filename: str, spans: Iterable[Span | None]) -> bool:
        """Record instructions that ran. Return whether the analyzer had treated any of them as dead."""
        known = self._ran.setdefault(filename, set())
        before = len(known)
        known.update(span for span in spans if span is not None)
        if len(known) == before:
            return False
        told = [(code, node) for code, node, dead in self._dead.values() if dead and code.co_filename == filename]
        came_to = [node for code, node in told if not self._look(code, node)]
        for node in came_to:
            del self._dead[id(node)]
        return bool(came_to)

    def note_kind(self, code: CodeType, name: str, kind: Kind) -> bool:
        """Record what a parameter or a result was in a call. Return whether that is new."""
        kinds = self._kinds.setdefault((code.co_filename, code.co_firstlineno, code.co_name, name), set())
        if kind in kinds:
            return False
        kinds.add(kind)
        return True

    def narrowed(self, filename: str, node: Any, name: str, value: Value) -> Value:
        """Return a value without the kinds that a parameter or a result never had."""
        found = self._kinds_at.get((id(node), name))
        if found is None:
            first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
            kinds = self._kinds.setdefault((filename, first, getattr(node, "name", "<lambda>"), name), set())
            found = self._kinds_at[id(node), name] = node, kinds
        kinds = found[1]
        if not kinds or "other" in kinds:
            return value
        kept = frozenset(atom for atom in value if _kind_of(atom) in kinds)
        missing = kinds - {_kind_of(atom) for atom in kept}
        return kept.union(*(ONE[_ONE_OF[kind]] for kind in missing))

    def ran(self, filename: str, span: Span | None) -> bool:
        """Return whether an instruction ran."""
        return span is None or span in self._ran.get(filename, ())

    def is_dead(self, code: CodeType, node: ast.AST) -> bool:
        """Return whether a part of a function has instructions, none of which ran."""
        found = self._dead.get(id(node))
        if found is None:
            dead = not isinstance(node, _PARTS) and self._look(code, node)
            found = self._dead[id(node)] = code, node, dead
        return found[2]

    def _look(self, code: CodeType, node: Any) -> bool:
        if getattr(node, "end_col_offset", None) is None:
            return False
        if code not in self._spans:
            spans = self._spans[code] = sorted(_all_spans(code))
            self._begins[code] = [begin for begin, _ in spans]
        begin, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
        spans, ran = self._spans[code], self._ran.get(code.co_filename, ())
        has_any = False
        for place in range(bisect_left(self._begins[code], begin), len(spans)):
            if spans[place][0] > end:
                break
            if spans[place][1] <= end:
                has_any = True
                if spans[place] in ran:
                    return False
        return has_any


def _all_spans(code: CodeType) -> set[Span]:
    found = {span for span in spans_of(code) if span is not None}
    return found.union(*(_all_spans(each) for each in code.co_consts if isinstance(each, CodeType)))


def kind_of(value: Any) -> Kind:
    """Return the kind of a value that code gets."""
    kind = type(value)
    if kind is Tensor or kind is Parameter:
        return "tensor"
    return "none" if kind is NoneType else "plain" if is_plain(value) else "other"


def _kind_of(atom: Atom) -> Kind:
    if isinstance(atom, Concrete):
        return kind_of(atom.value)
    return (
        "tensor"
        if atom is TENSOR or atom is MADE
        else "none"
        if atom is NONE
        else "plain"
        if atom is PLAIN
        else "other"
    )
