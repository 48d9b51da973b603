"""Expressions: what each may be. `EXPRESSIONS` is the table by which the analyzer finds them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from undertow._src.compile.effects.certain_tests import answered, compared, truth
from undertow._src.compile.effects.heap import ITEMS
from undertow._src.compile.effects.interface import Analysis
from undertow._src.compile.effects.models.builtin_functions import own_super
from undertow._src.compile.effects.models.items import add_all, dict_values, exact_items, sliced
from undertow._src.compile.effects.models.namespaces import namespace_item
from undertow._src.compile.effects.models.operators import arithmetic
from undertow._src.compile.effects.models.texts import show
from undertow._src.compile.effects.objects import is_namespace
from undertow._src.compile.effects.special_methods import TRUTH
from undertow._src.compile.effects.syntax.names import assign, bind, mangled, read_name, starred
from undertow._src.compile.effects.values import (
    EMPTY,
    MADE,
    MOST_STRINGS,
    NONE,
    ONE,
    OPAQUE,
    PLAIN,
    TENSORISH,
    CallArguments,
    Concrete,
    Fresh,
    Scope,
    Value,
    few_strings,
    is_key,
    known_string,
    only_string,
)


def test(analysis: Analysis, node: ast.expr, scope: Scope) -> tuple[bool, bool]:
    """Test an expression for truth: whether it may be true, and whether it may be false."""
    return tested(analysis, analysis.evaluate(node, scope), node)


def tested(analysis: Analysis, value: Value, node: ast.expr) -> tuple[bool, bool]:
    """Test a value for truth."""
    analysis.log.contents(value)
    analysis.protocols(value, node, names=TRUTH)
    if analysis.at.frame is not None and analysis.at.frame.is_cut:
        return True, True  # code after it is left out anyway, if it did not run
    if not value:
        return False, False  # it is not known yet: when it is, this is analyzed again
    if not analysis.decides or _may_change(analysis, value):
        return True, True
    answer = truth(value)
    return answer is not False, answer is not True


def _may_change(analysis: Analysis, value: Value) -> bool:
    """Return whether the code may change what is in a container from outside."""
    return any(isinstance(atom, Concrete) and analysis.heap.written(atom.value, ITEMS) for atom in value)


def _constant(analysis: Analysis, node: ast.Constant, scope: Scope) -> Value:
    if type(node.value) in (str, bool):
        return frozenset([Concrete(node.value, repr(node.value))])  # it may be the name of an attribute, or a key
    return ONE[NONE] if node.value is None else ONE[PLAIN]


def _formatted_string(analysis: Analysis, node: ast.JoinedStr, scope: Scope) -> Value:
    texts: list[str] | None = [""]  # its possible values, as long as they are known
    for part in node.values:
        new: list[str] | None = None
        if isinstance(part, ast.Constant):
            new = [str(part.value)]
        elif isinstance(part, ast.FormattedValue):
            value = analysis.evaluate(part.value, scope)
            show(analysis, value, part)
            if part.format_spec is not None:
                analysis.evaluate(part.format_spec, scope)
            elif part.conversion == -1:
                new = few_strings(value)
        texts = [text + more for text in texts for more in new] if texts and new else None
    if texts is None or not 0 < len(texts) <= (MOST_STRINGS if analysis.decides else 1):
        return ONE[PLAIN]
    return frozenset(Concrete(text, repr(text)) for text in texts)


def _attribute(analysis: Analysis, node: ast.Attribute, scope: Scope) -> Value:
    name = mangled(analysis, node.attr)
    found = EMPTY
    for atom in analysis.evaluate(node.value, scope):
        found |= analysis.attribute(atom, name, node)
    return found


def _subscript(analysis: Analysis, node: ast.Subscript, scope: Scope) -> Value:
    key = analysis.evaluate(node.slice, scope)
    constants = [node.slice.value if isinstance(node.slice, ast.Constant) else ...]
    if isinstance(node.slice, ast.UnaryOp) and isinstance(node.slice.operand, ast.Constant):
        constants = [-node.slice.operand.value if isinstance(node.slice.op, ast.USub) else ...]  # type: ignore[operator]
    if constants == [...] and all(atom is NONE or is_key(atom) for atom in key):
        constants = [atom.value if isinstance(atom, Concrete) else None for atom in key]
    found = EMPTY
    for atom in analysis.evaluate(node.value, scope):
        for constant in constants:
            found |= analysis.item(atom, constant, key, node)
        if isinstance(node.slice, ast.Slice):
            found |= sliced(analysis, atom, node)
    return found


def _slice(analysis: Analysis, node: ast.Slice, scope: Scope) -> Value:
    for part in (node.lower, node.upper, node.step):
        if part is not None:
            analysis.evaluate(part, scope)
    return ONE[PLAIN]


def _starred(analysis: Analysis, node: ast.Starred, scope: Scope) -> Value:
    return analysis.elements(analysis.evaluate(node.value, scope), node)


def _tuple(analysis: Analysis, node: ast.Tuple, scope: Scope) -> Value:
    items = [analysis.evaluate(part, scope) for part in node.elts]
    if starred(node.elts):
        return analysis.heap.fresh(node, tuple, EMPTY.union(*items))
    return analysis.heap.fresh_tuple(node, items)


def _list(analysis: Analysis, node: ast.List, scope: Scope) -> Value:
    return analysis.heap.fresh(node, list, EMPTY.union(*[analysis.evaluate(part, scope) for part in node.elts]))


def _set(analysis: Analysis, node: ast.Set, scope: Scope) -> Value:
    return analysis.heap.fresh(node, set, EMPTY.union(*[analysis.evaluate(part, scope) for part in node.elts]))


def _dict(analysis: Analysis, node: ast.Dict, scope: Scope) -> Value:
    atom = analysis.heap.object(node, dict)
    for key, part in zip(node.keys, node.values):
        value = analysis.evaluate(part, scope)
        if key is None:
            add_all(analysis, atom, value, part)
        elif isinstance(key, ast.Constant) and isinstance(key.value, str):
            analysis.heap.add_entry(atom, key.value, value)
        else:
            known = analysis.evaluate(key, scope)
            analysis.heap.add(atom, known | value, known)
    return frozenset([atom])


def _comprehension(analysis: Analysis, node: Any, results: list[ast.expr], kind: type | None, scope: Scope) -> Value:
    """Return the container that a comprehension makes, with all possible values of its elements."""
    targets = {
        part.id for each in node.generators for part in ast.walk(each.target)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }  # fmt: skip
    inner = analysis.heap.inner_scope(node, targets, scope)
    for number, each in enumerate(node.generators):
        if each.is_async:
            analysis.log.unknown("awaits", node)
        source = analysis.evaluate(each.iter, scope if number == 0 else inner)
        assign(analysis, each.target, analysis.elements(source, each.iter), inner)
        if not all(test(analysis, condition, inner)[0] for condition in each.ifs):
            return analysis.heap.fresh(node, kind, EMPTY)
    values = [analysis.evaluate(result, inner) for result in results]
    names = few_strings(values[0]) if kind is dict else None
    if names is None:
        return analysis.heap.fresh(node, kind, EMPTY.union(*values), values[0])
    atom = analysis.heap.object(node, kind)
    for name in names:
        analysis.heap.add_entry(atom, name, values[1])
    return frozenset([atom])


def _list_comprehension(analysis: Analysis, node: ast.ListComp | ast.GeneratorExp, scope: Scope) -> Value:
    return _comprehension(analysis, node, [node.elt], list, scope)


def _set_comprehension(analysis: Analysis, node: ast.SetComp, scope: Scope) -> Value:
    return _comprehension(analysis, node, [node.elt], set, scope)


def _dict_comprehension(analysis: Analysis, node: ast.DictComp, scope: Scope) -> Value:
    return _comprehension(analysis, node, [node.key, node.value], dict, scope)


def _named_expression(analysis: Analysis, node: ast.NamedExpr, scope: Scope) -> Value:
    value = analysis.evaluate(node.value, scope)
    bind(analysis, node.target.id, value, scope, node=node)
    return value


def _conditional(analysis: Analysis, node: ast.IfExp, scope: Scope) -> Value:
    first, second = test(analysis, node.test, scope)
    found = analysis.evaluate(node.body, scope) if first else EMPTY
    return found | analysis.evaluate(node.orelse, scope) if second else found


def _and_or(analysis: Analysis, node: ast.BoolOp, scope: Scope) -> Value:
    found = EMPTY
    for part in node.values[:-1]:
        value = analysis.evaluate(part, scope)
        true, false = tested(analysis, value, part)
        goes_on, ends = (true, false) if isinstance(node.op, ast.And) else (false, true)
        if ends:
            found |= value
        if not goes_on:
            return found
    return found | analysis.evaluate(node.values[-1], scope)


def _binary_operator(analysis: Analysis, node: ast.BinOp, scope: Scope) -> Value:
    left, right = analysis.evaluate(node.left, scope), analysis.evaluate(node.right, scope)
    if isinstance(node.op, ast.Add):
        first, second = only_string(left), only_string(right)
        if first is not None and second is not None:
            return known_string(first + second)
    return arithmetic(analysis, [left, right], node)


def _unary_operator(analysis: Analysis, node: ast.UnaryOp, scope: Scope) -> Value:
    if isinstance(node.op, ast.Not):
        true, false = test(analysis, node.operand, scope)
        return ONE[PLAIN] if true and false else answered(analysis.decides, false) if true or false else EMPTY
    return arithmetic(analysis, [analysis.evaluate(node.operand, scope)], node)


def _comparison(analysis: Analysis, node: ast.Compare, scope: Scope) -> Value:
    values = [analysis.evaluate(part, scope) for part in (node.left, *node.comparators)]
    if EMPTY in values:
        return EMPTY
    is_identity = all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops)
    if not is_identity:
        for op, left, right in zip(node.ops, values, values[1:]):
            for atom in right if isinstance(op, (ast.In, ast.NotIn)) else EMPTY:
                if isinstance(atom, Concrete) and is_namespace(atom.value):
                    namespace_item(analysis, atom, left, node)
        if any(isinstance(atom, Concrete) and is_namespace(atom.value) for value in values for atom in value):
            return ONE[PLAIN]
        arithmetic(analysis, values, node)
    if len(values) == 2 and not _may_change(analysis, values[-1]) and analysis.decides:
        answer = compared(values[0], node.ops[0], values[1])
        if answer is not None:
            return answered(analysis.decides, answer)
    if is_identity:
        analysis.log.identity(EMPTY.union(*values))
        return ONE[PLAIN]
    return ONE[MADE] if any(value & TENSORISH for value in values) else ONE[PLAIN]


def _call(analysis: Analysis, node: ast.Call, scope: Scope) -> Value:
    called = analysis.evaluate(node.func, scope)
    arguments = CallArguments([])
    for part in node.args:
        if isinstance(part, ast.Starred):
            value = analysis.evaluate(part.value, scope)
            exact = exact_items(analysis, value)
            if exact is not None and not arguments.more:
                arguments.positional.extend(exact)
            else:
                arguments.more |= analysis.elements(value, part)
        elif arguments.more:
            arguments.more |= analysis.evaluate(part, scope)
        else:
            arguments.positional.append(analysis.evaluate(part, scope))
    for keyword in node.keywords:
        value = analysis.evaluate(keyword.value, scope)
        if keyword.arg is None:
            _unpack(analysis, value, arguments, keyword.value)
        else:
            arguments.keywords[keyword.arg] = value
    if isinstance(node.func, ast.Name) and node.func.id == "super" and not arguments.positional:
        return own_super(analysis, scope)
    if EMPTY in arguments.positional or EMPTY in arguments.keywords.values():
        return EMPTY  # an argument that is not known yet: when it is, this is analyzed again
    return analysis.call(called, arguments, node)


def _unpack(analysis: Analysis, value: Value, arguments: CallArguments, node: ast.expr) -> None:
    """Add the keywords that `**` gives."""
    for atom in value:
        named = atom.named if isinstance(atom, Fresh) else None
        if named is None:
            arguments.more_keywords |= dict_values(analysis, frozenset([atom]), node)
        else:
            for name, each in named.items():
                arguments.maybe[name] = arguments.maybe.get(name, EMPTY) | each


def _yield(analysis: Analysis, node: ast.Yield | ast.YieldFrom | ast.Await, scope: Scope) -> Value:
    """Add to the values of a generator, which is a list for code that iterates over it."""
    value = ONE[NONE] if node.value is None else analysis.evaluate(node.value, scope)
    if isinstance(node, ast.YieldFrom):
        value = analysis.elements(value, node)
    assert analysis.at.frame is not None
    analysis.heap.set_result(analysis.heap.fresh(analysis.at.frame.node, list, value))
    analysis.log.effect("call", "yields", node, field="harmless")
    return ONE[OPAQUE]


def make_function(analysis: Analysis, node: Any, scope: Scope) -> Value:
    """Return the function that a `def` or `lambda` makes."""
    arguments = node.args
    named = arguments.posonlyargs + arguments.args
    defaults = {}
    for argument, default in zip(named[len(named) - len(arguments.defaults) :], arguments.defaults):
        defaults[argument.arg] = analysis.evaluate(default, scope)
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        if default is not None:
            defaults[argument.arg] = analysis.evaluate(default, scope)
    return analysis.heap.closure(node, scope, defaults)


EXPRESSIONS: dict[type[ast.AST], Callable[[Analysis, Any, Scope], Value]] = {
    ast.Name: read_name,
    ast.Constant: _constant,
    ast.JoinedStr: _formatted_string,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.Starred: _starred,
    ast.Tuple: _tuple,
    ast.List: _list,
    ast.Set: _set,
    ast.Dict: _dict,
    ast.ListComp: _list_comprehension,
    ast.GeneratorExp: _list_comprehension,
    ast.SetComp: _set_comprehension,
    ast.DictComp: _dict_comprehension,
    ast.NamedExpr: _named_expression,
    ast.IfExp: _conditional,
    ast.BoolOp: _and_or,
    ast.BinOp: _binary_operator,
    ast.UnaryOp: _unary_operator,
    ast.Compare: _comparison,
    ast.Lambda: make_function,
    ast.Call: _call,
    ast.Yield: _yield,
    ast.YieldFrom: _yield,
    ast.Await: _yield,
}
if hasattr(ast, "TemplateStr"):  # since Python 3.14
    EXPRESSIONS[ast.TemplateStr] = _formatted_string
