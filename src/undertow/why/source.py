"""The program's source: the statement on a line, the expression that ran, and the code around it."""

from __future__ import annotations

import ast
import linecache
import os
from collections.abc import Callable, Iterator, Set
from functools import cached_property, lru_cache
from types import FrameType
from typing import Any

from undertow.why.places import Place, variables

_LOGS = frozenset(
    "print format write log info debug warning error add_scalar add_scalars add_histogram append extend update add put "
    "appendleft set_postfix set_description record observe".split()
)
_LOOKS = (ast.JoinedStr, ast.FormattedValue, ast.Compare, ast.Assert, ast.Yield, ast.Dict)
_GROWS = frozenset("append extend appendleft insert add update setdefault put push".split())
_DEFINITIONS = (ast.FunctionDef, ast.ClassDef)


Span = tuple[int | None, ...]  # line, column, end line, end column
Ran = Callable[[str], Set[Span]]  # maps a file to the expressions in it that ran as operations on tensors


def _span(node: ast.expr) -> Span:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def span_of(place: Place) -> Span:
    """Return the exact span of the expression that ran at a place."""
    return place.line, place.column, place.end_line, place.end_column


class Source:
    """One parsed file, with the parent of each syntax node."""

    def __init__(self, file: str) -> None:
        self.name = file
        self.lines = linecache.getlines(file)
        try:
            self.tree: ast.AST = ast.parse("".join(self.lines))
        except (SyntaxError, ValueError):
            self.tree = ast.Module([], [])
        self.parents: dict[ast.AST, ast.AST] = {}
        self.by_span: dict[Span, list[ast.AST]] = {}
        self.statements: dict[int, ast.stmt] = {}
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
            if isinstance(node, ast.expr):
                self.by_span.setdefault(_span(node), []).append(node)
            if isinstance(node, ast.stmt) and not isinstance(node, _DEFINITIONS):
                last = node.body[0].lineno - 1 if hasattr(node, "body") and node.body else node.end_lineno
                for line in range(node.lineno, (last or node.lineno) + 1):
                    self.statements[line] = node  # inner statements come later and replace outer ones

    def expression(self, place: Place) -> ast.expr | None:
        """Return the expression that ran at a place."""
        found = self.by_span.get(span_of(place))
        return found[0] if found else None  # type: ignore[return-value]

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes that contain a node, innermost first."""
        current: ast.AST | None = self.parents.get(node)
        while current is not None:
            yield current
            current = self.parents.get(current)

    @cached_property
    def loop_variables(self) -> frozenset[str]:
        """The names that loops and comprehensions of the file bind."""
        loops = [node for node in ast.walk(self.tree) if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension))]
        return frozenset(node.id for loop in loops for node in ast.walk(loop.target) if isinstance(node, ast.Name))

    def attribute_set(self, owner: str, name: str) -> int | None:
        """Return the line on which a class sets an attribute of its instances: `self.name = ...`."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ClassDef) and node.name == owner:
                for inner in ast.walk(node):
                    targets = inner.targets if isinstance(inner, ast.Assign) else [getattr(inner, "target", None)]
                    parts = [part for target in targets if target is not None for part in ast.walk(target)]
                    if any(isinstance(part, ast.Attribute) and ast.unparse(part) == f"self.{name}" for part in parts):
                        return inner.lineno  # type: ignore[attr-defined]
        return None

    @cached_property
    def imported(self) -> list[str]:
        """The files that this one imports from its own folder."""
        modules: list[str] = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                modules += [name.name for name in node.names]
            elif isinstance(node, ast.ImportFrom):
                inside = f"{node.module}." if node.module else ""
                modules += [node.module or "", *(inside + name.name for name in node.names)]
        folder = os.path.dirname(self.name)
        files = [os.path.join(folder, *module.split(".")) + ".py" for module in dict.fromkeys(modules) if module]
        return [file for file in files if os.path.isfile(file)]

    def statement(self, place: Place) -> ast.stmt | None:
        """Return the statement that ran at a place; of several on one line, the one with the expression that ran."""
        node = self.expression(place)
        for outer in () if node is None else self.around(node):
            if isinstance(outer, ast.stmt):
                return self.statements.get(place.line) if isinstance(outer, _DEFINITIONS) else outer
        return self.statements.get(place.line)

    def function(self, node: ast.AST) -> ast.AST:
        """Return the function (or module) that contains a node."""
        for outer in self.around(node):
            if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module)):
                return outer
        return self.tree

    def in_loop(self, node: ast.AST) -> bool:
        """Whether a node is inside a loop of its function."""
        for outer in self.around(node):
            if isinstance(outer, (ast.For, ast.While, ast.ListComp, ast.GeneratorExp)):
                return True
            if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                return False
        return False


@lru_cache(maxsize=256)
def source(file: str) -> Source:
    """Return the parsed source of a file."""
    return Source(file)


def call_at(place: Place) -> ast.Attribute | None:
    """Return the method that was called at a place: `net.fc1.register_forward_hook`, without its arguments."""
    node = source(place.file).expression(place)
    return node.func if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None


def called_at(place: Place) -> str:
    """Return the name of the function that was called at a place: `checkpoint` in `y = checkpoint(f, x)`."""
    node = source(place.file).expression(place)
    return _called(node) if isinstance(node, ast.Call) else ""


def receiver(place: Place) -> str:
    """Return what a method was called on, as source text: `net.fc1` in `net.fc1.register_forward_hook(f)`."""
    called = call_at(place)
    return "" if called is None else ast.unparse(called.value)


def owner_at(place: Place) -> str:
    """Return the object whose attribute was read at a place, if it is a plain lookup: `acts[0]` in `acts[0].grad`."""
    node = source(place.file).expression(place)
    if not isinstance(node, ast.Attribute) or not all(isinstance(part, _LOOKED_UP) for part in ast.walk(node.value)):
        return ""
    return ast.unparse(node.value)


_LOOKED_UP = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.UnaryOp, ast.USub, ast.Load)


def value_of(node: ast.expr, frame: FrameType) -> Any:
    """Return the value of an expression in a running function, if it only looks up names; None otherwise."""
    if not all(isinstance(part, _LOOKED_UP) for part in ast.walk(node)):
        return None
    try:
        return eval(compile(ast.Expression(node), "<why>", "eval"), frame.f_globals, variables(frame))
    except Exception:  # whatever the program's own attributes raise
        return None


def assigned(place: Place | None) -> str:
    """Return the variable that the statement at a place binds: `loss` for `loss = f(x)`; empty if not exactly one."""
    if place is None:
        return ""
    statement = source(place.file).statement(place)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target: ast.expr = statement.targets[0]
    elif isinstance(statement, (ast.AugAssign, ast.AnnAssign)):
        target = statement.target
    else:
        return ""
    return ast.unparse(target) if isinstance(target, (ast.Name, ast.Attribute, ast.Subscript)) else ""


def carried_over(place: Place) -> str:
    """Return the variable that the statement at a place reads and rebinds: `h` for `h = cell(x, h)`; empty if none."""
    statement = source(place.file).statement(place)
    if not isinstance(statement, ast.Assign):
        return ""
    parts = (ast.Name, ast.Attribute)
    bound = [ast.unparse(node) for target in statement.targets for node in ast.walk(target) if isinstance(node, parts)]
    read = {ast.unparse(node) for node in ast.walk(statement.value) if isinstance(node, parts)}
    return next((name for name in bound if name in read and name != "self"), "")


def bound_to(place: Place | None, position: int = 0, count: int = 1) -> str:
    """Return the variable that gets one of `count` results of the expression at a place: `h` in `y, h = rnn(x)`."""
    if place is None or not is_whole_value(place):
        return ""
    statement = source(place.file).statement(place)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(target, (ast.Tuple, ast.List)):
        return assigned(place)
    parts = target.elts[position : position + 1] if len(target.elts) == count else []
    return ast.unparse(parts[0]) if parts and isinstance(parts[0], (ast.Name, ast.Attribute)) else ""


_SHORT = 40  # characters of an expression that stands for a name


def text_of(place: Place | None) -> str:
    """Return the source text of the expression that ran at a place, if it is short."""
    node = None if place is None else source(place.file).expression(place)
    text = "" if node is None else ast.unparse(node)
    return text if len(text) <= _SHORT else ""


def outline_of(place: Place | None) -> str:
    """Return the source text of an expression with the arguments of calls left out: `0.5 * image_loss(...)`."""
    node = None if place is None else source(place.file).expression(place)
    text = "" if node is None else _outline(node)
    return text if len(text) <= _SHORT else ""


def _outline(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return f"{_outline(node.func)}(...)"
    if isinstance(node, ast.BinOp):
        left, right = ast.Name(_outline(node.left)), ast.Name(_outline(node.right))
        return ast.unparse(ast.BinOp(left, node.op, right))
    return ast.unparse(node)


def operand_at(place: Place | None, position: int) -> str:
    """Return the variable that is an argument or operand of the expression that ran at a place: `y` in `f(x, y)`."""
    node = None if place is None else source(place.file).expression(place)
    parts = [node.left, node.right] if isinstance(node, ast.BinOp) else node.args if isinstance(node, ast.Call) else []
    part = parts[position] if position < len(parts) else None
    return ast.unparse(part) if isinstance(part, (ast.Name, ast.Attribute)) else ""


def goes_to_numpy(place: Place | None) -> bool:
    """Whether the result of the expression at a place is turned into an array at once: `x.detach().cpu().numpy()`."""
    node: ast.AST | None = None if place is None else source(place.file).expression(place)
    for outer in () if node is None or place is None else source(place.file).around(node):
        if not isinstance(outer, (ast.Attribute, ast.Call)):
            return False
        if isinstance(outer, ast.Attribute) and outer.attr == "numpy":
            return True
    return False


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
        return isinstance(part, (ast.BinOp, ast.Call)) and part is not node and _span(part) in spans

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
            found.append((place.file, _span(part)))
        elif isinstance(part, (ast.Name, ast.Attribute)) and isinstance(part.ctx, ast.Load):
            found.append((place.file, place.function, ast.unparse(part)))
    return found


def is_whole_value(place: Place | None) -> bool:
    """Whether the expression that ran at a place is the whole right side of an assignment."""
    if place is None:
        return False
    statement = source(place.file).statement(place)
    node = source(place.file).expression(place)
    return node is not None and isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is node


# --- values that left the graph

_MAKES_TENSORS = frozenset(
    "tensor as_tensor asarray from_numpy full full_like new_tensor Tensor FloatTensor DoubleTensor Variable fill_ "
    "Parameter backward".split()
)
_COMPREHENSIONS = frozenset(("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"))
_FAR = 6  # the number of variables that a value is followed through


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
            if isinstance(outer, (ast.BinOp, ast.Call)) and _span(outer) in self.ran(self.file.name):
                return False
            if isinstance(outer, ast.Attribute) and outer.attr in _MAKES_TENSORS:
                return False  # loss.backward()
            if isinstance(outer, ast.Call) and node is not outer.func:
                if _called(outer) in _MAKES_TENSORS:
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


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _is_log(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _called(node) in _LOGS


# --- reads of .grad


def expects_none(place: Place | None) -> bool:
    """Whether `.grad` is read to check that it is None: in an assert, `all(… is None)` or `any(… is not None)`."""
    if place is None:
        return False
    file = source(place.file)
    node: ast.AST | None = file.expression(place)
    if node is None:
        return False
    test: type[ast.cmpop] | None = None
    for outer in file.around(node):
        if isinstance(outer, ast.Compare) and len(outer.ops) == 1 and isinstance(outer.ops[0], (ast.Is, ast.IsNot)):
            test = type(outer.ops[0])
        if isinstance(outer, ast.Assert):
            return test is ast.Is
        if isinstance(outer, ast.Call) and isinstance(outer.func, ast.Name):
            if outer.func.id == "all":
                return test is ast.Is
            if outer.func.id == "any":
                return test is ast.IsNot
        if isinstance(outer, ast.stmt):
            return False
    return False


def is_guard(place: Place | None) -> bool:
    """Whether `.grad` is read only to be compared with None."""
    if place is None:
        return False
    file = source(place.file)
    node = file.expression(place)
    parent = None if node is None else file.parents.get(node)
    return isinstance(parent, ast.Compare) and any(isinstance(op, (ast.Is, ast.IsNot)) for op in parent.ops)


# --- functions


def hands_back(place: Place) -> bool:
    """Whether a function returns what it computes at a place: `return f(x)`, or `y = f(x)` and then `return y`."""
    file = source(place.file)
    node, statement = file.expression(place), file.statement(place)
    inside = None if node is None else file.function(node)
    if isinstance(inside, ast.Lambda):
        return inside.body is node
    if isinstance(statement, ast.Return):
        return True
    name = assigned(place) if isinstance(statement, ast.Assign) else ""
    scope = file.function(statement) if statement is not None and name else ast.Module([], [])
    returns = [node for node in ast.walk(scope) if isinstance(node, ast.Return)]
    return any(node.value is not None and ast.unparse(node.value) == name for node in returns)


def uncalled(files: list[str], method: str) -> Place | None:
    """Return a statement that names a method and does not call it: `optimizer.step`."""
    for file in files:
        for node in ast.walk(source(file).tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Attribute) and node.value.attr == method:
                return Place(file, node.lineno, "", (None, None, None), None)
    return None


def backward_after(place: Place, root: str) -> Place | None:
    """Return the statement `root.backward()` that comes after a place in its function."""
    file = source(place.file)
    statement = file.statement(place)
    for node in ast.walk(file.function(statement)) if statement is not None else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward":
            if node.lineno > place.line and ast.unparse(node.func.value) == root:
                return Place(place.file, node.lineno, place.function, (None, None, None), None)
    return None


def is_bare(place: Place) -> bool:
    """Whether the statement at a place is a call whose result is dropped."""
    statement = source(place.file).statement(place)
    return isinstance(statement, ast.Expr) and statement.value is source(place.file).expression(place)


def return_lines(file: str, first_line: int) -> list[int]:
    """Return the lines of the return statements of the function whose def (or first decorator) is on a line."""
    return [inner.lineno for inner in ast.walk(function_at(file, first_line)) if isinstance(inner, ast.Return)]


def lines_that_write(file: str, first_line: int) -> list[int]:
    """Return the lines of a function, given by its first line, that write in place: `x.mul_(y)`, `x[0] = 1`."""
    found: list[int] = []
    for node in ast.walk(function_at(file, first_line)):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        called = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
        writes = called.endswith("_") and not called.endswith("__")
        if writes or isinstance(target, ast.Subscript) or isinstance(node, ast.AugAssign):
            found.append(node.lineno)  # type: ignore[attr-defined]
    return sorted(found)


def function_at(file: str, first_line: int) -> ast.AST:
    """Return the function whose def (or first decorator) is on a line, or the first lambda there."""
    found: ast.AST = ast.Module([], [])
    for node in ast.walk(source(file).tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if first_line in [node.lineno, *(decorator.lineno for decorator in node.decorator_list)]:
                return node
        elif isinstance(node, ast.Lambda) and node.lineno == first_line and isinstance(found, ast.Module):
            found = node
    return found


def def_line(file: str, first_line: int) -> int:
    """Return the line of the `def` itself, below its decorators."""
    return getattr(function_at(file, first_line), "lineno", first_line)


def reads_of_grad(file: str) -> set[str]:
    """Return the expressions of a file whose `.grad` is read somewhere."""
    return {
        ast.unparse(node.value)
        for node in ast.walk(source(file).tree)
        if isinstance(node, ast.Attribute) and node.attr == "grad" and isinstance(node.ctx, ast.Load)
    }


def checks_requires_grad(place: Place | None) -> bool:
    """Whether `.grad` is read under a test of `requires_grad`: in `[p.grad for p in … if not p.requires_grad]`."""
    if place is None:
        return False
    file = source(place.file)
    node: ast.AST | None = file.expression(place)
    tests: list[ast.expr] = []
    for outer in file.around(node) if node is not None else ():
        if isinstance(outer, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            tests += [test for loop in outer.generators for test in loop.ifs]
        elif isinstance(outer, (ast.If, ast.IfExp)):
            tests.append(outer.test)
        elif isinstance(outer, (ast.FunctionDef, ast.Lambda)):
            break
    parts = [part for test in tests for part in ast.walk(test)]
    return any(isinstance(part, ast.Attribute) and part.attr == "requires_grad" for part in parts)


def only_clears(place: Place) -> bool:
    """Whether `.grad` is read only to be zeroed: `if p.grad is not None: p.grad.zero_()`."""
    file = source(place.file)
    statement = file.statement(place)
    if isinstance(statement, ast.If):
        text = "\n".join(ast.unparse(inner) for inner in statement.body)
        return "zero_()" in text or text.endswith(".grad = None")
    return isinstance(statement, ast.Expr) and ast.unparse(statement).endswith(("zero_()", "zero_(),"))


def attribute_set_to(files: list[str], name: str) -> Place | None:
    """Return the first statement of some files that sets an attribute: `x.name = ...` or `setattr(x, "name", ...)`."""
    for file in files:
        for node in ast.walk(source(file).tree):
            targets = node.targets if isinstance(node, ast.Assign) else []
            call = node.args if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setattr" else []
            if any(isinstance(target, ast.Attribute) and target.attr == name for target in targets) or any(
                isinstance(argument, ast.Constant) and argument.value == name for argument in call
            ):
                return Place(file, getattr(node, "lineno", 0), "", (None, None, None), None)
    return None


# --- notes


def every_so_often(place: Place) -> bool:
    """Whether the statement at a place, or one that calls it, runs under a test with a remainder: `if i % 4 == 0:`."""
    for outer in place.chain():
        file = source(outer.file)
        node = file.statement(outer)
        for around in file.around(node) if node is not None else ():
            if isinstance(around, ast.If) and any(isinstance(part, ast.Mod) for part in ast.walk(around.test)):
                return True
    return False


def in_parts(place: Place, after: Place) -> bool:
    """Whether a statement runs in a loop over parts of a batch (`for x in xs.chunk(4):`) that does not contain `after`."""
    file = source(place.file)
    node, last = file.statement(place), file.statement(after)
    for around in file.around(node) if node is not None and place.file == after.file else ():
        if isinstance(around, ast.For) and all(part is not last for part in ast.walk(around)):
            return any(isinstance(part, ast.Call) and _called(part) in ("chunk", "split", "tensor_split")
                       for part in ast.walk(around.iter))  # fmt: skip
    return False


def keyword(place: Place, name: str) -> object:
    """Return the constant that a call at a place is given for a keyword argument, if any."""
    node = source(place.file).expression(place)
    given = node.keywords if isinstance(node, ast.Call) else []
    values = [argument.value for argument in given if argument.arg == name]
    return values[0].value if values and isinstance(values[0], ast.Constant) else None


def alias_of(files: list[str], name: str) -> Place | None:
    """Return the statement that gives an object a further name: `target = policy`, `self.target = net`."""
    last = name.rpartition(".")[2]
    for file in files:
        for node in ast.walk(source(file).tree):
            if not isinstance(node, ast.Assign) or not isinstance(node.value, (ast.Name, ast.Attribute)):
                continue
            if any(getattr(target, "attr", getattr(target, "id", "")) == last for target in node.targets):
                return Place(file, node.lineno, "", (None, None, None), None)
    return None
