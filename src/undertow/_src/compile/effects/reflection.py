"""Reads that do not write down what they read: `globals()[…]`, `sys.modules`, `eval`, names of attributes in strings.

Where the name is known, it is one that the code looks up, as if it were written down. Where it is not, a program can't be
sure of what it was made with: the step is refused.
"""

from __future__ import annotations

import ast
import contextvars
import gc
import importlib
import inspect
import operator
import sys
import traceback
import weakref
from collections.abc import Iterator
from typing import Any

from undertow._src.compile.effects.builtin_calls import BuiltinCalls
from undertow._src.compile.effects.objects import MISSING, held_by_variable
from undertow._src.compile.effects.values import EMPTY, NONE, ONE, OPAQUE, PLAIN, Arguments, Known, Value, is_plain

# Functions whose result depends on what nothing can guard: frames, everything that is alive, all context variables, how
# much memory objects take up, and by how many they are held.
UNSEEN = {
    id(function): f"{function.__module__}.{function.__name__}"
    for function in (
        sys._getframe, sys._current_frames, inspect.currentframe, inspect.stack, gc.get_objects, gc.get_referrers,
        gc.get_count, contextvars.copy_context, traceback.extract_stack, traceback.format_stack, exec, compile,
        sys.getsizeof, sys.getrefcount, sys.getallocatedblocks, gc.get_stats, weakref.getweakrefcount, weakref.getweakrefs,
    )
}  # fmt: skip
_GETTERS = (operator.attrgetter, operator.itemgetter, operator.methodcaller)


class Reflection(BuiltinCalls):
    """How code is gone through that looks for names, attributes and modules by strings."""

    def _call_globals(self, arguments: Arguments, node: Any) -> Value:
        return frozenset([Known(self.function.__globals__, "globals()")])

    def _call_vars(self, arguments: Arguments, node: Any) -> Value:
        if not arguments.positional:
            return self._call_locals(arguments, node)
        found = EMPTY
        for atom in arguments.positional[0]:
            known = isinstance(atom, Known)
            found |= self.attribute(atom, "__dict__", node) if known else self.unknown("calls `vars`", node)
        return found

    def _call_locals(self, arguments: Arguments, node: Any) -> Value:
        assert self.frame is not None
        return self.fresh(node, dict, EMPTY.union(ONE[PLAIN], *self.frame.scope.values.values()), ONE[PLAIN])

    def _call_eval(self, arguments: Arguments, node: Any) -> Value:
        texts = self.known_strings(arguments.positional[0]) if len(arguments.positional) == 1 else None
        if not texts or arguments.keywords or arguments.more or self.frame is None:
            return self.computed("calls `eval` with code that is not known", node)
        found = EMPTY
        for text in texts:
            expression = self.parsed.get((id(node), text))
            if expression is None:
                try:
                    expression = ast.parse(text.strip(), mode="eval").body
                except SyntaxError:
                    return ONE[PLAIN]  # raises
                for part in ast.walk(expression):
                    if "lineno" in part._attributes:
                        ast.copy_location(part, node)
                self.parsed[id(node), text] = expression
            found |= self.evaluate(expression)
        return found

    def _call___import__(self, arguments: Arguments, node: Any) -> Value:
        whole = len(arguments.positional) > 3 or "fromlist" in arguments.keywords
        return self._imported(arguments, node, whole)

    def _call_import_module(self, arguments: Arguments, node: Any) -> Value:
        return self._imported(arguments, node, True)

    def _imported(self, arguments: Arguments, node: Any, whole: bool) -> Value:
        names = self.known_strings(arguments.positional[0]) if arguments.positional else None
        if not names or any(name.startswith(".") for name in names):
            return self.computed("imports a module by a name that is not known", node)
        found = EMPTY
        for name in names:
            for part in (name, name.partition(".")[0]):
                self.looked_up(sys.modules, part)
            module = sys.modules.get(name if whole else name.partition(".")[0])
            found |= ONE[OPAQUE] if module is None else frozenset([Known(module, name)])
        return found

    def namespace_method(self, owner: Known, name: str, arguments: Arguments, node: Any) -> Value | None:
        """Return a method of `globals()`, of what `vars` gives of a module, or of `sys.modules`; None if it does
        not read.
        """
        if name in ("get", "__getitem__", "__contains__", "setdefault", "pop") and arguments.positional:
            found = self.namespace_item(owner, arguments.positional[0], node)
            if name in ("setdefault", "pop"):
                return None
            return found.union(ONE[NONE], *arguments.positional[1:])
        if name in ("update", "__setitem__", "__delitem__"):
            return None
        return self.computed(f"goes through all of `{owner.name}`", node)

    def _call_getter(self, getter: Any, arguments: Arguments, node: Any) -> Value:
        """Return a call of what `operator.attrgetter`, `itemgetter` or `methodcaller` made."""
        _, given = getter.__reduce__()[:2]
        found = EMPTY
        for atom in arguments.positional[0] if arguments.positional else ONE[OPAQUE]:
            if isinstance(getter, operator.methodcaller):
                if not all(map(is_plain, given)):
                    return self.unknown("calls a method by its name", node)
                method = self.attribute(atom, given[0], node)
                found |= self.call(method, Arguments([frozenset([Known(each, "given")]) for each in given[1:]]), node)
            elif isinstance(getter, operator.itemgetter):
                for key in given:
                    constant = key if isinstance(key, (str, int)) else ...
                    found |= self.item(atom, constant, frozenset([Known(key, repr(key))]), node)
            else:
                for path in given:
                    reached: Value = frozenset([atom])
                    for name in path.split("."):
                        reached = EMPTY.union(*[self.attribute(each, name, node) for each in reached])
                    found |= reached
        return found

    def made_getter(self, kind: Any, arguments: Arguments) -> Value | None:
        """Return what makes such a getter gives, if its arguments are known."""
        texts = [self.known_strings(value) for value in arguments.positional]
        if kind not in _GETTERS or arguments.more or arguments.keywords:
            return None
        if not all(each and len(each) == 1 for each in texts):
            return None
        return frozenset([Known(kind(*[each[0] for each in texts if each]), kind.__name__)])

    def read_of_variable(self, atom: Known, arguments: Arguments) -> Value:
        """Return what a context variable holds, or else the default that is given or its own; a guard watches it."""
        variable = atom.value
        value = variable.get(MISSING)
        self.place(variable, None)
        self.depends_on(f"{atom.name}.get()", lambda: variable.get(MISSING), value, variable)
        default = EMPTY.union(*arguments.positional)
        if value is MISSING and not default:
            value = held_by_variable(variable)
            if value is MISSING:
                return ONE[OPAQUE]  # it raises
        return default if value is MISSING else default | {Known(value, f"{atom.name}.get()")}


def special_functions() -> Iterator[tuple[int, str]]:
    """Functions that are gone through here, by id."""
    for function in (globals, vars, locals, eval, __import__, importlib.import_module):
        yield id(function), function.__name__


def is_getter(value: Any) -> bool:
    return isinstance(value, _GETTERS)
