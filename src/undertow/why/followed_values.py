"""Where a value that left the graph goes: to a log, or back into tensors. It is followed through the source."""

from __future__ import annotations

import ast
from collections.abc import Callable, Set

from undertow.why.places import Place
from undertow.why.source import Source, Span, expression_span, name_called, source, span_of

Ran = Callable[[str], Set[Span]]  # maps a file to the expressions in it that ran as operations on tensors

_LOGS = frozenset(
    "print format write log info debug warning error add_scalar add_scalars add_histogram append extend update add put "
    "appendleft set_postfix set_description record observe".split()
)
_LOOKS = (ast.JoinedStr, ast.FormattedValue, ast.Compare, ast.Assert, ast.Yield, ast.Dict)
_GROWS = frozenset("append extend appendleft insert add update setdefault put push".split())
_MAKES_TENSORS = frozenset(
    "tensor as_tensor asarray from_numpy full full_like new_tensor Tensor FloatTensor DoubleTensor Variable fill_ "
    "Parameter backward".split()
)
_COMPREHENSIONS = frozenset(("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"))
_FAR = 6  # the number of variables that a value is followed through


def numbers_from(place: Place, ran: Ran) -> list[object]:
    """Return the expressions and variables that hold, or are computed from, a value that was passed to Python at a place.

    The value is followed through assignments, and through returns into callers, but not through operations on tensors.
    Keys: (file, span) of an expression, (file, function, variable).
    """
    found: list[object] = []
    outer: Place | None = place
    for _ in range(_FAR):
        node = None if outer is None else source(outer.file).expression(outer)
        if outer is None or node is None:
            break
        found.append((outer.file, span_of(outer)))
        if outer.function not in _COMPREHENSIONS:  # before Python 3.12 each has a frame of its own
            variables, returned = _tainted(source(outer.file), node, ran)
            found += [(outer.file, outer.function, variable) for variable in sorted(variables)]
            if not returned:
                break
        outer = outer.outer
    return found


def _tainted(file: Source, node: ast.expr, ran: Ran) -> tuple[set[str], bool]:
    """Return (the variables of a function that are computed from an expression, whether the function returns one)."""
    scope, names = file.function(node), set[str]()
    spans = ran(file.name)

    def is_tensor(part: ast.AST) -> bool:
        return isinstance(part, (ast.BinOp, ast.Call)) and part is not node and expression_span(part) in spans

    inside = [outer for outer in file.around(node) if isinstance(outer, ast.expr)]
    stays_number = not any(map(is_tensor, inside))  # no operation on tensors takes it in its own statement

    def holds(value: ast.AST) -> bool:
        if value is node or value in inside:
            return stays_number
        parts = list(ast.walk(value))
        mentions = (isinstance(part, (ast.Name, ast.Attribute)) and ast.unparse(part) in names for part in parts)
        return not any(map(is_tensor, parts)) and any(mentions)

    returned = False
    for _ in range(3):
        for inner in ast.walk(scope):
            if isinstance(inner, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and inner.value is not None:
                if holds(inner.value):
                    names |= _targets(inner, holds)
            elif isinstance(inner, ast.Return) and inner.value is not None:
                returned = returned or holds(inner.value)
            elif isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr in _GROWS:
                if any(map(holds, inner.args)):
                    names.add(ast.unparse(inner.func.value))
    return names, returned


def _targets(statement: ast.Assign | ast.AugAssign | ast.AnnAssign, holds: Callable[[ast.AST], bool]) -> set[str]:
    """Return the variables that an assignment binds to values that hold something; of a tuple, the matching ones."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    found: set[str] = set()
    for target in targets:
        parts, values = getattr(target, "elts", [target]), getattr(statement.value, "elts", [statement.value])
        if len(parts) == len(values):
            found.update(ast.unparse(part) for part, value in zip(parts, values) if holds(value))
        else:
            found.update(ast.unparse(part) for part in parts)
    return found


def numbers_in(place: Place) -> list[object]:
    """Return the calls and variables in the expression that ran at a place, as keys of `Facts.leaving`."""
    node: ast.AST | None = source(place.file).expression(place)
    if node is None:
        node = source(place.file).statement(place)
    if isinstance(node, ast.AugAssign):
        node = node.value
    found: list[object] = []
    for part in ast.walk(node) if node is not None else ():
        if isinstance(part, ast.Call):
            found.append((place.file, expression_span(part)))
        elif isinstance(part, (ast.Name, ast.Attribute)) and isinstance(part.ctx, ast.Load):
            found.append((place.file, place.function, ast.unparse(part)))
    return found


def only_looked_at(place: Place | None, ran: Ran | None = None) -> bool:
    """Whether a value that was read at a place (item(), float()) is only printed, logged or compared.

    `ran`: the expressions of a file that ran as torch operations. A value that one of them takes is not only looked at.
    """
    if place is None:
        return False
    file = source(place.file)
    node: ast.AST | None = file.expression(place)
    if node is None:
        node = file.statement(place)
        return isinstance(node, ast.Expr) and _is_log(node.value)
    return _Looks(place, ran or (lambda file: frozenset())).only(node)


class _Looks:
    """Follows a value through the function that computes it, and on into the callers it is returned to."""

    def __init__(self, place: Place, ran: Ran, far: int = _FAR) -> None:
        self.file = source(place.file)
        self.outer = place.outer
        self.ran = ran
        self.far = far

    def only(self, node: ast.AST) -> bool:
        """Whether the value of an expression is only looked at."""
        return self._is_looked_at(node, frozenset(), self.far)

    def _caller_only_looks(self, far: int) -> bool:
        """Whether the caller only looks at what the function returns."""
        if self.outer is None or not far:
            return True
        caller = _Looks(self.outer, self.ran, far - 1)
        node = caller.file.expression(self.outer)
        return node is None or caller.only(node)

    def _is_looked_at(self, node: ast.AST, followed: frozenset[str], far: int) -> bool:
        """Follow a value outward through its expression, and from variable to variable."""
        start = node
        for outer in self.file.around(node):
            if isinstance(outer, (ast.BinOp, ast.Call)) and expression_span(outer) in self.ran(self.file.name):
                return False
            if isinstance(outer, ast.Attribute) and outer.attr in _MAKES_TENSORS:
                return False  # loss.backward()
            if isinstance(outer, ast.Call) and node is not outer.func:
                if name_called(outer) in _MAKES_TENSORS:
                    return False
                if isinstance(outer.func, ast.Attribute) and outer.func.attr in _GROWS:
                    return self._leads_nowhere(outer.func.value, outer, followed, far)
                if _is_log(outer):
                    return True
            if isinstance(outer, ast.Return):
                return self._caller_only_looks(far)
            if isinstance(outer, _LOOKS):
                return True
            if isinstance(outer, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
                target = outer.targets[0] if isinstance(outer, ast.Assign) else outer.target
                bound = _parts_bound(target, outer.value, start)
                return all(self._leads_nowhere(part, outer, followed, far) for part in bound)
            if isinstance(outer, ast.stmt):
                return True
            node = outer
        return True

    def _leads_nowhere(self, target: ast.expr, statement: ast.AST, followed: frozenset[str], far: int) -> bool:
        """Whether every use of a variable in its function only looks at it."""
        if not isinstance(target, ast.Name) or target.id in followed or not far:
            return True  # log["loss"] = ..., self.last = ...
        followed = followed | {target.id}
        for node in ast.walk(self.file.function(statement)):
            if isinstance(node, ast.Name) and node.id == target.id and isinstance(node.ctx, ast.Load):
                parent = self.file.parents.get(node)
                if isinstance(parent, ast.Attribute) and parent.attr in _GROWS:
                    continue  # this adds to the container and reads nothing
                if not self._is_looked_at(node, followed, far - 1):
                    return False
        return True


def _parts_bound(target: ast.expr, value: ast.expr | None, node: ast.AST) -> list[ast.expr]:
    """Return what an assignment binds to a part of its value: `a` for f(x) in `a, b = f(x), g(x)`."""
    if not isinstance(target, (ast.Tuple, ast.List)):
        return [target]
    values = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
    if len(values) == len(target.elts):
        return [part for part, given in zip(target.elts, values) if any(one is node for one in ast.walk(given))]
    return target.elts


def _is_log(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and name_called(node) in _LOGS
