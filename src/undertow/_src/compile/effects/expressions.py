"""Names, assignments and expressions: what each value may be, and what happens besides."""

from __future__ import annotations

import ast
import builtins
from typing import Any

from undertow._src.compile.effects.calls import Calls
from undertow._src.compile.effects.decisions import compared, truth
from undertow._src.compile.effects.findings import cell_of
from undertow._src.compile.effects.objects import is_namespace
from undertow._src.compile.effects.protocols import TEXT, TRUTH
from undertow._src.compile.effects.state import ITEMS, Unbound
from undertow._src.compile.effects.values import (
    EMPTY,
    MADE,
    NONE,
    ONE,
    OPAQUE,
    PLAIN,
    TENSORISH,
    Arguments,
    Closure,
    Fresh,
    Known,
    Scope,
    Value,
    is_key,
)

_BUILTINS = vars(builtins)


class Expressions(Calls):
    """How expressions get their values."""

    # --- names

    def owner_of(self, name: str, scope: Scope | None) -> Scope | None:
        """Return the scope of the analysed code that binds a name; None if it comes from outside."""
        while scope is not None:
            if name in scope.globals:
                return None
            if name in scope.names:
                return scope
            scope = scope.parent
        return None

    def bind(self, name: str, value: Value, scope: Scope, updating: bool = False, node: Any = None) -> None:
        owner = self.owner_of(name, scope)
        if owner is None:
            self.store_outside(name, value, node, updating)
            return
        self.set_variable(owner, name, value)

    def outside_name(self, name: str) -> tuple[Any, str | None, Known | None]:
        """Where a name from outside is kept (owner, name in it) and what is there."""
        function = self.function
        cell = cell_of(function, name)
        if cell is not None:
            try:
                return cell, None, Known(cell.cell_contents, name, lambda: cell.cell_contents)
            except ValueError:
                return cell, None, None
        namespace = function.__globals__
        if name in namespace:
            return namespace, name, Known(namespace[name], name, lambda: namespace[name])
        if name in _BUILTINS:
            return _BUILTINS, name, Known(_BUILTINS[name], name)
        return namespace, name, None

    def store_outside(self, name: str, value: Value, node: Any, updating: bool) -> None:
        owner, attribute, _ = self.outside_name(name)
        what = "nonlocal" if attribute is None else "global"
        verb = "updates" if updating else "sets"
        if owner is _BUILTINS:
            owner = self.function.__globals__
        kind = "update" if updating else "store"
        self.store(owner, attribute, value)
        self.effect(kind, f"{verb} {what} `{name}`", node, owner, attribute)

    def see_Name(self, node: ast.Name, scope: Scope) -> Value:
        name = node.id
        owner = self.owner_of(name, scope)
        if owner is not None:
            found = self.variable(owner, name)
            if not found:
                self.unbound[id(owner), name, self.here] = Unbound(name, owner, self.frame, self.here)
            return found
        if name == "__class__" or name == "__debug__":
            cell = cell_of(self.function, name)
            return frozenset([Known(cell.cell_contents, name)]) if cell is not None else ONE[PLAIN]
        place, attribute, known = self.outside_name(name)
        if known is None:
            self.unbound[None, name, self.here] = Unbound(name, None, self.frame, self.here)
            return ONE[OPAQUE]
        if place is _BUILTINS:
            return frozenset([known])
        self.found(known, place, attribute)
        return self.restored(place, attribute) | {known}

    # --- assignments

    def assign(self, target: ast.expr, value: Value, scope: Scope, updating: bool = False) -> None:
        if isinstance(target, ast.Name):
            self.bind(target.id, value, scope, updating, target)
        elif isinstance(target, ast.Attribute):
            name = self.mangled(target.attr)
            for atom in self.value(target.value, scope):
                self.store_attribute(atom, name, value, target, updating)
        elif isinstance(target, ast.Subscript):
            key = self.value(target.slice, scope)
            for atom in self.value(target.value, scope):
                self.store_item(atom, key, value, target, updating)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, self.fresh(target, list, value), scope)
        elif isinstance(target, (ast.Tuple, ast.List)):
            exact = self.exact_items(value)
            if exact is not None and len(exact) == len(target.elts) and not self.starred(target.elts):
                for part, item in zip(target.elts, exact):
                    self.assign(part, item, scope)
            else:
                items = self.elements(value, target)
                for part in target.elts:
                    self.assign(part, items, scope)

    @staticmethod
    def starred(nodes: list[ast.expr]) -> bool:
        return any(isinstance(node, ast.Starred) for node in nodes)

    # --- expressions

    def value(self, node: ast.expr, scope: Scope, entering: bool = False) -> Value:
        self.spend(node)
        if self.is_dead(node):
            return EMPTY
        if entering and isinstance(node, ast.Call):
            return self.see_Call(node, scope, entering=True)
        method = self._methods.get(type(node))
        if method is None:
            method = getattr(self, "see_" + type(node).__name__, None)
            if method is None:
                self.effect("call", f"uses {type(node).__name__}, which is not analysed", node, field="unknown")
                return ONE[OPAQUE]
            self._methods[type(node)] = method
        return method(node, scope)

    def test(self, node: ast.expr, scope: Scope) -> tuple[bool, bool]:
        """A value asked whether it is true: whether it may be, and whether it may not be."""
        return self.tested(self.value(node, scope), node)

    def tested(self, value: Value, node: ast.expr) -> tuple[bool, bool]:
        self.use(value)
        self.protocols(value, node, names=TRUTH)
        if self.frame is not None and self.frame.is_cut:
            return True, True  # what follows is left out by itself, if it did not run
        if not value:
            return False, False  # it is not known yet: when it is, this is gone through again
        if not self.decides or any(isinstance(atom, Known) and self.restored(atom.value, ITEMS) for atom in value):
            return True, True
        answer = truth(value)
        return answer is not False, answer is not True

    def see_Constant(self, node: ast.Constant, scope: Scope) -> Value:
        if type(node.value) in (str, bool):
            return frozenset([Known(node.value, repr(node.value))])  # it may be the name of an attribute, or a key
        return ONE[NONE] if node.value is None else ONE[PLAIN]

    def see_JoinedStr(self, node: ast.JoinedStr, scope: Scope) -> Value:
        texts: list[str] | None = [""]  # what it may be, as long as that is known
        for part in node.values:
            new: list[str] | None = None
            if isinstance(part, ast.Constant):
                new = [str(part.value)]
            elif isinstance(part, ast.FormattedValue):
                value = self.value(part.value, scope)
                self.use(value)
                self.protocols(value, part, names=TEXT)
                if part.format_spec is not None:
                    self.value(part.format_spec, scope)
                elif part.conversion == -1:
                    new = self.strings(value)
            texts = [text + more for text in texts for more in new] if texts and new else None
        if texts is None or not 0 < len(texts) <= (16 if self.decides else 1):
            return ONE[PLAIN]
        return frozenset(Known(text, repr(text)) for text in texts)

    def evaluate(self, node: ast.expr) -> Value:
        assert self.frame is not None
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and self.owner_of(part.id, self.frame.scope) is None:
                if cell_of(self.function, part.id) is None:
                    self.looked_up(self.function.__globals__, part.id)
        return self.value(node, self.frame.scope)

    see_TemplateStr = see_JoinedStr

    def see_Attribute(self, node: ast.Attribute, scope: Scope) -> Value:
        name = self.mangled(node.attr)
        found = EMPTY
        for atom in self.value(node.value, scope):
            found |= self.attribute(atom, name, node)
        return found

    def mangled(self, name: str) -> str:
        if name.startswith("__") and not name.endswith("__"):
            parts = self.function.__code__.co_qualname.replace("<locals>.", "").split(".")
            if len(parts) > 1:
                return f"_{parts[-2].lstrip('_')}{name}"
        return name

    def see_Subscript(self, node: ast.Subscript, scope: Scope) -> Value:
        key = self.value(node.slice, scope)
        constants = [node.slice.value if isinstance(node.slice, ast.Constant) else ...]
        if isinstance(node.slice, ast.UnaryOp) and isinstance(node.slice.operand, ast.Constant):
            constants = [-node.slice.operand.value if isinstance(node.slice.op, ast.USub) else ...]  # type: ignore[operator]
        if constants == [...] and all(atom is NONE or is_key(atom) for atom in key):
            constants = [atom.value if isinstance(atom, Known) else None for atom in key]
        found = EMPTY
        for atom in self.value(node.value, scope):
            for constant in constants:
                found |= self.item(atom, constant, key, node)
        if isinstance(node.slice, ast.Slice):
            found |= frozenset().union(*(self.sliced(atom, node) for atom in self.value(node.value, scope)))
        return found

    def see_Slice(self, node: ast.Slice, scope: Scope) -> Value:
        for part in (node.lower, node.upper, node.step):
            if part is not None:
                self.value(part, scope)
        return ONE[PLAIN]

    def see_Starred(self, node: ast.Starred, scope: Scope) -> Value:
        return self.elements(self.value(node.value, scope), node)

    def see_Tuple(self, node: ast.Tuple, scope: Scope) -> Value:
        items = [self.value(part, scope) for part in node.elts]
        if self.starred(node.elts):
            return self.fresh(node, tuple, EMPTY.union(*items))
        return self.fresh_tuple(node, items)

    def see_List(self, node: ast.List, scope: Scope) -> Value:
        return self.fresh(node, list, EMPTY.union(*[self.value(part, scope) for part in node.elts]))

    def see_Set(self, node: ast.Set, scope: Scope) -> Value:
        return self.fresh(node, set, EMPTY.union(*[self.value(part, scope) for part in node.elts]))

    def see_Dict(self, node: ast.Dict, scope: Scope) -> Value:
        made = self.fresh(node, dict, EMPTY)
        (atom,) = made
        assert isinstance(atom, Fresh)
        for key, part in zip(node.keys, node.values):
            value = self.value(part, scope)
            if key is None:
                self._put_all(atom, value, part)
            elif isinstance(key, ast.Constant) and isinstance(key.value, str):
                self.put_under(atom, key.value, value)
            else:
                known = self.value(key, scope)
                self.put_into(atom, known | value, known)
        return made

    def _put_all(self, atom: Fresh, value: Value, node: ast.expr) -> None:
        """Add what another mapping has, as by `**`."""
        for other in value:
            named = other.named if isinstance(other, Fresh) else None
            if named is None:
                keys = self.elements(frozenset([other]), node)
                self.put_into(atom, keys | self.dict_values(frozenset([other]), node), keys)
            else:
                for name, each in named.items():
                    self.put_under(atom, name, each)

    def comprehension(self, node: Any, results: list[ast.expr], kind: type | None, scope: Scope) -> Value:
        inner = self.scopes.get((id(self.frame), id(node)))
        if inner is None:
            targets = {
                part.id for each in node.generators for part in ast.walk(each.target)
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
            }  # fmt: skip
            inner = self.scopes[id(self.frame), id(node)] = Scope(targets, set(), scope)
        for number, each in enumerate(node.generators):
            if each.is_async:
                self.effect("call", "awaits", node, field="unknown")
            source = self.value(each.iter, scope if number == 0 else inner)
            self.assign(each.target, self.elements(source, each.iter), inner)
            if not all(self.test(condition, inner)[0] for condition in each.ifs):
                return self.fresh(node, kind, EMPTY)
        values = [self.value(result, inner) for result in results]
        names = self.strings(values[0]) if kind is dict else None
        if names is None:
            return self.fresh(node, kind, EMPTY.union(*values), values[0])
        made = self.fresh(node, kind, EMPTY)
        (atom,) = made
        assert isinstance(atom, Fresh)
        for name in names:
            self.put_under(atom, name, values[1])
        return made

    def see_ListComp(self, node: ast.ListComp, scope: Scope) -> Value:
        return self.comprehension(node, [node.elt], list, scope)

    def see_SetComp(self, node: ast.SetComp, scope: Scope) -> Value:
        return self.comprehension(node, [node.elt], set, scope)

    def see_GeneratorExp(self, node: ast.GeneratorExp, scope: Scope) -> Value:
        return self.comprehension(node, [node.elt], list, scope)

    def see_DictComp(self, node: ast.DictComp, scope: Scope) -> Value:
        return self.comprehension(node, [node.key, node.value], dict, scope)

    def see_NamedExpr(self, node: ast.NamedExpr, scope: Scope) -> Value:
        value = self.value(node.value, scope)
        self.bind(node.target.id, value, scope, node=node)
        return value

    def see_IfExp(self, node: ast.IfExp, scope: Scope) -> Value:
        first, second = self.test(node.test, scope)
        found = self.value(node.body, scope) if first else EMPTY
        return found | self.value(node.orelse, scope) if second else found

    def see_BoolOp(self, node: ast.BoolOp, scope: Scope) -> Value:
        found = EMPTY
        for part in node.values[:-1]:
            value = self.value(part, scope)
            true, false = self.tested(value, part)
            goes_on, ends = (true, false) if isinstance(node.op, ast.And) else (false, true)
            if ends:
                found |= value
            if not goes_on:
                return found
        return found | self.value(node.values[-1], scope)

    def see_BinOp(self, node: ast.BinOp, scope: Scope) -> Value:
        left, right = self.value(node.left, scope), self.value(node.right, scope)
        if isinstance(node.op, ast.Add) and len(left) == len(right) == 1:
            first, second = self.known_strings(left), self.known_strings(right)
            if first and second:
                return frozenset([Known(first[0] + second[0], repr(first[0] + second[0]))])
        return self.arithmetic([left, right], node)

    def see_UnaryOp(self, node: ast.UnaryOp, scope: Scope) -> Value:
        if isinstance(node.op, ast.Not):
            true, false = self.test(node.operand, scope)
            return ONE[PLAIN] if true and false else self.answered(false) if true or false else EMPTY
        return self.arithmetic([self.value(node.operand, scope)], node)

    def see_Compare(self, node: ast.Compare, scope: Scope) -> Value:
        values = [self.value(part, scope) for part in (node.left, *node.comparators)]
        if EMPTY in values:
            return EMPTY
        if not all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            for op, left, right in zip(node.ops, values, values[1:]):
                for atom in right if isinstance(op, (ast.In, ast.NotIn)) else EMPTY:
                    if isinstance(atom, Known) and is_namespace(atom.value):
                        self.namespace_item(atom, left, node)
            if any(isinstance(atom, Known) and is_namespace(atom.value) for value in values for atom in value):
                return ONE[PLAIN]
            self.arithmetic(values, node)
        changing = any(isinstance(atom, Known) and self.restored(atom.value, ITEMS) for atom in values[-1])
        if len(values) == 2 and not changing and self.decides:
            answer = compared(values[0], node.ops[0], values[1])
            if answer is not None:
                return self.answered(answer)
        if all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            self.identity(EMPTY.union(*values))
            return ONE[PLAIN]
        return ONE[MADE] if any(value & TENSORISH for value in values) else ONE[PLAIN]

    def see_Lambda(self, node: ast.Lambda, scope: Scope) -> Value:
        return self.make_function(node, scope)

    def see_Call(self, node: ast.Call, scope: Scope, entering: bool = False) -> Value:
        called = self.value(node.func, scope)
        arguments = Arguments([])
        for part in node.args:
            if isinstance(part, ast.Starred):
                value = self.value(part.value, scope)
                exact = self.exact_items(value)
                if exact is not None and not arguments.more:
                    arguments.positional.extend(exact)
                else:
                    arguments.more |= self.elements(value, part)
            elif arguments.more:
                arguments.more |= self.value(part, scope)
            else:
                arguments.positional.append(self.value(part, scope))
        for keyword in node.keywords:
            value = self.value(keyword.value, scope)
            if keyword.arg is None:
                self._unpack(value, arguments, keyword.value)
            else:
                arguments.keywords[keyword.arg] = value
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not arguments.positional:
            return self.own_super(scope)
        if EMPTY in arguments.positional or EMPTY in arguments.keywords.values():
            return EMPTY  # an argument that is not known yet: when it is, this is gone through again
        return self.call(called, arguments, node, entering)

    def _unpack(self, value: Value, arguments: Arguments, node: ast.expr) -> None:
        """Add the keywords that `**` gives."""
        for atom in value:
            named = atom.named if isinstance(atom, Fresh) else None
            if named is None:
                arguments.more_keywords |= self.dict_values(frozenset([atom]), node)
            else:
                for name, each in named.items():
                    arguments.maybe[name] = arguments.maybe.get(name, EMPTY) | each

    def see_Yield(self, node: ast.Yield | ast.YieldFrom | ast.Await, scope: Scope) -> Value:
        """Return what a generator gives is a list of it, to those that go through it."""
        value = ONE[NONE] if node.value is None else self.value(node.value, scope)
        if isinstance(node, ast.YieldFrom):
            value = self.elements(value, node)
        assert self.frame is not None
        self.give_back(self.fresh(self.frame.node, list, value))
        self.effect("call", "yields", node, field="harmless")
        return ONE[OPAQUE]

    see_YieldFrom = see_Await = see_Yield

    # --- functions

    def make_function(self, node: Any, scope: Scope) -> Value:
        arguments = node.args
        named = arguments.posonlyargs + arguments.args
        defaults = {}
        for argument, default in zip(named[len(named) - len(arguments.defaults) :], arguments.defaults):
            defaults[argument.arg] = self.value(default, scope)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
            if default is not None:
                defaults[argument.arg] = self.value(default, scope)
        closure = self.atoms.get((id(self.frame), id(node)))
        if closure is None:
            closure = self.atoms[id(self.frame), id(node)] = Closure(node, scope, self.frame, defaults)
        assert isinstance(closure, Closure)
        for name, value in defaults.items():
            if not value <= closure.defaults.get(name, EMPTY):
                closure.defaults[name] = closure.defaults.get(name, EMPTY) | value
                self.grown(closure.readers)
        return frozenset([closure])
