"""Hooks rewritten: tensor work gets its own statements, which join the program; the rest runs on the host.

    lambda module, args, out: log.append((name, out.pow(2).mean().item()))

is read, and traced, as if it were

    def hook(module, args, out):
        piece = out.pow(2).mean()
        log.append((name, piece.item()))

Only work without effects is named, on what the hook does not change itself. Work inside an `if` about Python state is
hoisted in front of the `if`: the program computes it in each call, and the host decides whether it is used. An `if`, a
`for` or a `with` that depends only on the hook's arguments stays in the trace, and its body is split.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FunctionType
from typing import Any, NamedTuple

from undertow._src.compile.effects import Called, Effect, Frame, Limits, combined, purity, read
from undertow._src.compile.effects.syntax_trees import original, rewrite
from undertow._src.compile.effects.values import (
    TENSORISH,
    Fresh,
    bound_names,
)
from undertow._src.compile.splitting.anf import NEVER, Pieces, sees_variables, sets_for_certain, shows_value
from undertow._src.compile.splitting.expression_facts import ExpressionFacts, is_tensor
from undertow._src.compile.splitting.recompiled_functions import defined

_VALUES = {
    ast.Expr: "value", ast.Assign: "value", ast.AugAssign: "value", ast.AnnAssign: "value", ast.Return: "value",
    ast.Assert: "test",
}  # fmt: skip
_SETTING = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.NamedExpr)
_COMPOUND = (ast.If, ast.For, ast.While, ast.With, ast.Try)
_WHOLE = {sum, list, tuple, set, frozenset, sorted, max, min, "join", "extend"}  # iterate over their whole argument
_UNTIL_KNOWN = {any, all}
_OPAQUE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class HookForms:
    """The functions of hooks, rewritten.

    kept: the ids of statements that stay in the trace; early: those without effects that are moved in front of others;
    work: those that a program can probably do.
    """

    def __init__(self) -> None:
        self._functions: list[FunctionType] = []
        self._definitions: list[ast.FunctionDef] = []  # kept alive: statements are known by `id`
        self.kept: set[int] = set()
        self.early: set[int] = set()
        self.work: set[int] = set()

    def take_apart(self, calls: Sequence[Called], left_alone: set[int], effects: Iterable[Effect]) -> None:
        """Rewrite hooks and the functions that they call, except for some code (by its id).

        calls: all calls of these hooks, and of others that call the same functions: one form serves all of them.
        effects: those of other hooks.
        """
        facts = ExpressionFacts(combined([read(*call, limits=Limits(by_expression=True)) for call in calls]), effects)
        written: set[int] = set()
        for frame in facts.reading.frames:
            node = frame.node
            if id(frame.function.__code__) in left_alone or id(node) in written or not may_be_rewritten(frame):
                continue
            if original(frame.function) is node and isinstance(node, (ast.FunctionDef, ast.Lambda)):
                written.add(id(node))
                form = _Form(node, facts)
                rewrite(frame.function, form.definition)
                self._functions.append(frame.function)
                self._definitions.append(form.definition)
                self.kept |= form.kept
                self.early |= form.early
                self.work |= form.work

    def has(self, function: FunctionType) -> bool:
        """Whether a function has been rewritten."""
        return any(original(each) is original(function) for each in self._functions)

    def undo(self, codes: set[int] | None = None) -> None:
        """Undo the rewriting of functions with some code (by its id), or of all functions."""
        for function in self._functions:
            if codes is None or id(function.__code__) in codes:
                rewrite(function, None)


def may_be_rewritten(frame: Frame) -> bool:
    """Whether a function is the user's own, so that it may be rewritten."""
    if not isinstance(frame.owner, FunctionType) or purity.origin_of(frame.function) != "user":
        return False
    return not purity.is_installed(frame.function.__code__.co_filename)


class _Host(NamedTuple):
    """A statement around others that runs on the host as a whole."""

    before: list[ast.stmt]  # the work that is taken out of it
    bound: set[str]  # the variables that it sets
    changes: bool  # whether it changes objects that the hook has made
    around: tuple[ast.With, ...] = ()  # blocks inside it in which the work is done
    repeats: bool = False  # whether it is done in a loop inside it: each round makes new tensors


class _Form:
    """A definition with its work in statements of its own."""

    def __init__(self, node: ast.FunctionDef | ast.Lambda, facts: ExpressionFacts) -> None:
        self.facts = facts
        self.kept: set[int] = set()
        self.early: set[int] = set()
        self.work: set[int] = set()
        copies: dict[int, Any] = {}
        twin = copy.deepcopy(node, copies)
        self._originals = {id(each): key for key, each in copies.items() if isinstance(each, ast.AST)}
        if isinstance(twin, ast.Lambda):
            body = self._made(ast.Return(twin.body), twin.body)
            self.definition = defined("<lambda>", (), [body], twin)
            self.definition.args = twin.args
        else:
            self.definition = twin
            vars(twin).pop("_bound_names", None)
        self._of_host = self._set_on_host()
        if not any(isinstance(part, NEVER) or sees_variables(part) for part in ast.walk(twin)):
            self.definition.body = self._block(self.definition.body, None)
        ast.fix_missing_locations(self.definition)

    def original(self, part: ast.AST) -> int:
        """Return the id of a part in the original definition."""
        return self._originals.get(id(part), 0)

    def _set_on_host(self) -> set[str]:
        """Return the variables whose values are known on the host only: numbers of tensors, and objects that hooks change.

        Those that functions inside the hook set are among them: a call of one may be part of any statement.
        """
        inner = [part for part in ast.walk(self.definition) if isinstance(part, ast.Nonlocal)]
        found = {name for part in inner for name in part.names}
        size = -1
        while len(found) > size:
            size = len(found)
            for part in ast.walk(self.definition):
                value = getattr(part, "iter" if isinstance(part, ast.For) else "value", None)
                if isinstance(part, _SETTING) and value is not None:
                    looks = any(map(shows_value, ast.walk(value)))
                    if (
                        looks
                        or not self.facts.is_stable(self.original(value))
                        or not _names_in(value).isdisjoint(found)
                    ):
                        targets = part.targets if isinstance(part, ast.Assign) else [part.target]
                        found |= {
                            each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)
                        }
        return found

    def is_work(self, part: ast.AST) -> bool:
        """Whether an expression is work that a program can do."""
        looks = [each for each in ast.walk(part) if shows_value(each) and ast.unparse(each)[:4] != "len("]
        return not looks and self.facts.is_work(self.original(part)) and _names_in(part).isdisjoint(self._of_host)

    def is_known(self, part: ast.expr) -> bool:
        """Whether an expression reads a tensor's property that a trace knows: its shape, its dtype."""
        return self.facts.is_known(part, self.original) and _names_in(part).isdisjoint(self._of_host)

    def _made(self, statement: Any, part: ast.expr) -> Any:
        """Return a statement that computes an expression."""
        self._originals[id(statement)] = self.original(part)
        return ast.copy_location(statement, part)

    def has_effects(self, part: ast.AST) -> bool:
        """Whether a part has effects, or needs values."""
        if self.facts.reading.effects_of(self.original(part)) or any(map(shows_value, ast.walk(part))):
            return True
        tests = [each.test for each in ast.walk(part) if isinstance(each, (ast.If, ast.IfExp, ast.While, ast.Assert))]
        return any(map(self._asks, tests))

    def _asks(self, test: ast.expr) -> bool:
        """Whether a test needs a tensor's value."""
        values = [self.facts.value(self.original(part)) for part in _truths(test)]
        return any(atom in TENSORISH or is_tensor(atom) for value in values for atom in value)

    def is_movable(self, part: ast.expr, changes: bool) -> bool:
        """Whether it makes no difference when an expression is evaluated; `changes`: of objects that the hook has made."""
        parts = ast.walk(part) if changes else ()
        return not any(isinstance(atom, Fresh) for each in parts for atom in self.facts.value(self.original(each)))

    # --- statements

    def _block(self, statements: list[ast.stmt], host: _Host | None) -> list[ast.stmt]:
        return [each for statement in statements for each in self._statement(statement, host)]

    def _statement(self, statement: ast.stmt, host: _Host | None) -> list[ast.stmt]:
        if isinstance(statement, (ast.Return, ast.Expr)) and isinstance(statement.value, ast.IfExp):
            return self._block(self._branches(statement, statement.value), host)
        if isinstance(statement, _OPAQUE) or self.original(statement) in self.facts.reading.written:
            return [statement]  # a written object must not be read before
        if host is None and not self.has_effects(statement):
            return [statement]
        if type(statement) in _VALUES:
            return self._simple(statement, host)
        return self._compound(statement, host) if isinstance(statement, _COMPOUND) else [statement]

    def _branches(self, statement: ast.Return | ast.Expr, value: ast.IfExp) -> list[ast.stmt]:
        """Return the `if` statement for an expression with `if`."""
        returns = isinstance(statement, ast.Return) and not self.facts.is_none(self.original(value))
        kind = ast.Return if returns else ast.Expr
        bodies = [[self._made(kind(part), part)] for part in (value.body, value.orelse)]
        made: list[ast.stmt] = [self._made(ast.If(value.test, *bodies), value)]
        if isinstance(statement, ast.Return) and not returns:
            made.append(ast.copy_location(ast.Return(ast.Constant(None)), value))
        return made

    def _simple(self, statement: ast.stmt, host: _Host | None) -> list[ast.stmt]:
        """Name the work in a statement, unless all of it is."""
        field = _VALUES[type(statement)]
        value = getattr(statement, field)
        if value is None or any(isinstance(part, ast.NamedExpr) for part in ast.walk(value)):
            return [statement]
        if host is None and isinstance(statement, ast.Assign) and self.is_work(value):
            if all(isinstance(each, ast.Name) for each in statement.targets):
                return [statement]
        changes = self.facts.changes(self.original(statement)) or (host is not None and host.changes)
        whole = ast.unparse(statement)
        if isinstance(statement, ast.Return) and _Folded.may_be(value, self):
            pieces: _Work = _Folded(statement, self, changes)
        else:
            pieces = _Work(statement, self, changes)
        setattr(statement, field, pieces.named(value))
        return self._put(pieces, statement, whole, host)

    def _put(self, pieces: _Work, statement: ast.stmt, whole: str, host: _Host | None) -> list[ast.stmt]:
        """Return a statement after its pieces, unless those are moved out of the block around it."""
        here: list[ast.stmt] = []
        for piece in pieces.made:
            vars(piece)["whole"] = vars(statement)["whole"] = whole
            if host is None or not isinstance(piece, ast.Assign) or id(piece) in pieces.filled:
                here.append(piece)
                continue
            outer: ast.stmt = piece
            for block in reversed(host.around):
                outer = ast.copy_location(ast.With(copy.deepcopy(block.items), [outer]), block)
            may_move = _names_in(outer).isdisjoint(host.bound) and self.is_movable(piece.value, host.changes)
            if may_move and not (host.repeats and _is_kept(piece, [*pieces.made, statement])):
                self.early.add(id(piece))
                host.before.append(outer)
            else:
                here.append(piece)
        return [*here, statement]

    def _compound(self, statement: Any, host: _Host | None) -> list[ast.stmt]:
        """Split the statements inside a statement."""
        stays, inner = self._stays(statement), host
        if isinstance(statement, ast.With) and not stays:
            return [statement]  # it may change the meaning of work inside it, as `set_grad_enabled` does
        if stays and host is None:
            self.kept.add(id(statement))
        elif stays and host is not None and isinstance(statement, ast.With):
            inner = host._replace(around=(*host.around, statement))
        elif host is None:
            bound = bound_names(defined("alone", (), [statement], statement))[0]
            inner = _Host([], bound, self.facts.changes(self.original(statement)))
        if inner is not None and isinstance(statement, (ast.For, ast.While)):
            inner = inner._replace(repeats=True)
        here: list[ast.stmt] = []
        header = {ast.If: "test", ast.For: "iter"}.get(type(statement))
        if not stays and header is not None and sets_for_certain(getattr(statement, header)):
            pieces = _Work(statement, self, inner is not None and inner.changes)
            whole = ast.unparse(statement)
            setattr(statement, header, pieces.named(getattr(statement, header)))
            here = self._put(pieces, statement, whole, host)[:-1]
        for name in ("body",) if isinstance(statement, ast.Try) else ("body", "orelse"):
            if getattr(statement, name, None):
                setattr(statement, name, self._block(getattr(statement, name), inner))
        taken_out = inner.before if host is None and inner is not None else []
        return [*here, *taken_out, statement]

    def loop(self, statement: ast.For) -> list[ast.stmt]:
        """Return the loop for a comprehension."""
        self.kept.add(id(statement))
        statement.body = self._block(statement.body, None)
        return [statement]

    def _stays(self, statement: Any) -> bool:
        """Whether a statement that contains others depends only on the hook's arguments."""
        facts = self.facts
        header = getattr(statement, "test", None) or getattr(statement, "iter", None)
        if header is not None and not _names_in(header).isdisjoint(self._of_host):
            return False
        if isinstance(statement, ast.With):
            return all(facts.is_stable(self.original(item.context_expr)) for item in statement.items)
        if isinstance(statement, ast.For):
            return facts.is_stable(self.original(statement.iter)) and not any(
                map(shows_value, ast.walk(statement.iter))
            )
        if not isinstance(statement, ast.If) or not facts.is_local(self.original(statement.test)):
            return False
        return not any(map(shows_value, ast.walk(statement.test))) and not self._asks(statement.test)


def _truths(test: ast.expr) -> Iterator[ast.expr]:
    """Yield the parts of a test whose truth value is used."""
    yield test
    if isinstance(test, ast.BoolOp):
        for part in test.values:
            yield from _truths(part)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _truths(test.operand)


class _Work(Pieces):
    """The work in a statement, each in one piece."""

    def __init__(self, statement: ast.stmt, form: _Form, changes: bool) -> None:
        super().__init__(statement)
        self._form, self._changes = form, changes
        self.filled: set[int] = set()  # ids of pieces that are containers, to be filled by loops

    def named(self, part: Any) -> Any:
        if part is None or isinstance(part, (ast.Name, ast.Constant, ast.Lambda)):
            return part
        if not isinstance(part, ast.Starred) and self._form.is_movable(part, self._changes):
            if self._form.is_work(part) or self._form.is_known(part):
                name = self.name(part)
                self._form.work.add(id(self.made[-1]))
                return name
        return self.entered(part)

    def entered(self, part: Any) -> Any:
        """Return an expression with its work named, even if it may not be evaluated: that makes no difference."""
        if isinstance(part, ast.BoolOp):
            part.values[0] = self.named(part.values[0])
            part.values[1:] = [self._early(self.named, each) for each in part.values[1:]]
            return part
        if isinstance(part, ast.IfExp):
            part.test = self.named(part.test)
            part.body, part.orelse = [self._early(self.named, each) for each in (part.body, part.orelse)]
            return part
        if isinstance(part, (ast.ListComp, ast.DictComp)):
            return self._as_loop(part)
        if isinstance(part, ast.Starred) and isinstance(part.value, ast.GeneratorExp):
            part.value = self._as_loop(part.value)
        elif isinstance(part, ast.Call) and part.args and isinstance(part.args[0], ast.GeneratorExp):
            called = self._form.facts.called(self._form.original(part.func))
            if called and called <= _WHOLE:
                part.args[0] = self._as_loop(part.args[0])
            elif called and called <= _UNTIL_KNOWN:
                part.args[0] = self._early(self._as_loop, part.args[0])
        return super().entered(part)

    def _early(self, way: Callable[[Any], Any], part: Any) -> Any:
        """Split an expression that eager mode may not evaluate."""
        before = len(self.made)
        part = way(part)
        self._form.early.update(map(id, self.made[before:]))
        return part

    def _as_loop(self, part: ast.ListComp | ast.DictComp | ast.GeneratorExp) -> ast.expr:
        """Return a name for the value of a comprehension, after statements that fill it: those are split like others."""
        form, (one, *more) = self._form, part.generators
        is_stable = form.facts.is_stable(form.original(part)) and form.is_movable(part, self._changes)
        if more or one.is_async or not is_stable or not form.has_effects(part):
            return part
        if any(isinstance(each, ast.Lambda) for each in ast.walk(part)):
            return part  # it has its own variables, or keeps those of one round
        self._rename(part, {each.id for each in ast.walk(one.target) if isinstance(each, ast.Name)})
        made: Any = ast.Dict([], []) if isinstance(part, ast.DictComp) else ast.List([], ast.Load())
        result = self.name(ast.copy_location(made, part))
        self.filled.add(id(self.made[-1]))
        if isinstance(part, ast.DictComp):
            store: ast.stmt = ast.Assign([ast.Subscript(result, part.key, ast.Store())], part.value)
        else:
            store = ast.Expr(ast.Call(ast.Attribute(result, "append", ast.Load()), [part.elt], []))
        store = ast.copy_location(store, part)
        for test in reversed(one.ifs):
            store = ast.copy_location(ast.If(test, [store], []), test)
        loop = ast.copy_location(ast.For(one.target, one.iter, [store], []), part)
        self.made += form.loop(ast.fix_missing_locations(loop))
        return result

    def _rename(self, part: ast.ListComp | ast.DictComp | ast.GeneratorExp, own: set[str]) -> None:
        """Give a comprehension unique variables. Its iterable is evaluated outside of it."""
        outside = {id(each) for each in ast.walk(part.generators[0].iter)}
        for each in ast.walk(part):
            if isinstance(each, ast.Name) and each.id in own and id(each) not in outside:
                each.id = f"{each.id} of {self._where}"


class _Folded(_Work):
    """The same for `return log.append(x) or g`: calls that give None become statements in front of it."""

    _is_inside = False  # a call that returns None: the work for its arguments stays in them

    def named(self, part: Any) -> Any:
        form = self._form
        if self._is_inside or part is None or not form.facts.reading.effects_of(form.original(part)):
            return super().named(part)
        if isinstance(part, ast.Call):
            self._is_inside = True
            statement = ast.Expr(self.entered(part))
            self._is_inside = False
            self.made.append(ast.copy_location(statement, part))
            return ast.copy_location(ast.Constant(None), part)
        return self.entered(part)

    @staticmethod
    def may_be(part: ast.AST, form: _Form) -> bool:
        """Whether all parts of an expression with effects are None, and are always evaluated, in order."""
        if not form.facts.reading.effects_of(form.original(part)):
            return False
        if isinstance(part, ast.Call):
            return form.facts.is_none(form.original(part))
        if isinstance(part, ast.BoolOp):
            return not any(map(form.has_effects, part.values[1:])) and _Folded.may_be(part.values[0], form)
        parts = [part.value] if isinstance(part, ast.Subscript) else getattr(part, "elts", ())
        acting = [each for each in parts if form.facts.reading.effects_of(form.original(each))]
        return bool(acting) and all(_Folded.may_be(each, form) for each in acting)


def _names_in(part: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(part) if isinstance(each, ast.Name)}


def _is_kept(piece: ast.Assign, statements: list[ast.stmt]) -> bool:
    """Whether statements do more with a piece than read its value, so that it matters which object it is."""
    parts = [part for statement in statements for part in ast.walk(statement)]
    shown = {id(piece.targets[0])}
    for part in filter(shows_value, parts):
        called = getattr(part, "func", part)
        if getattr(called, "attr", "") != "numpy":  # an array over its memory
            shown.update(map(id, [getattr(called, "value", None), *getattr(part, "args", ())]))
    names = _names_in(piece.targets[0])
    return any(isinstance(part, ast.Name) and part.id in names and id(part) not in shown for part in parts)
