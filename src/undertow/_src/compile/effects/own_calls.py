"""Calls of undertow: its functions, modules and custom autograd functions, and the user's code that they call."""

from __future__ import annotations

import functools
import types
from types import FunctionType
from typing import Any

import numpy as np

from undertow._src.compile.effects import purity
from undertow._src.compile.effects.attributes import is_tensor
from undertow._src.compile.effects.method_calls import MethodCalls
from undertow._src.compile.effects.objects import MISSING, descendants, in_class, instance_dict
from undertow._src.compile.effects.protocols import AS_NUMBER, LOOP, TORCH, TRUTH
from undertow._src.compile.effects.values import (
    MADE,
    NONE,
    ONE,
    OWN,
    PLAIN,
    TENSOR,
    TENSORS,
    Arguments,
    Atom,
    Bound,
    Closure,
    Fresh,
    Known,
    Method,
    Value,
    is_plain,
)  # fmt: skip
from undertow.autograd import Function
from undertow.nn import Module

# Modules of undertow's whose functions always give tensors.
_TENSOR_MODULES = ("ops.", "engine.apply", "tensor.creation", "tensor.ranges", "tensor.from_data", "tensor.methods.",
                   "tensor.tensor_types", "tensor.windows", "random", "linalg", "fft", "special",
                   "nn.functional")  # fmt: skip


class OwnCalls(MethodCalls):
    """How undertow is called."""

    def call_own(self, atom: Known, function: FunctionType, arguments: Arguments, node: Any) -> Value:
        name, module = function.__name__, purity.own_module(function.__code__.co_filename)
        owner = next(iter(arguments.positional[0]), None) if arguments.positional else None
        target = owner.value if isinstance(owner, Known) else None
        is_method = isinstance(target, Module) and in_class(type(target), name) is function
        inner = self._wrapped_user_functions(function)
        if inner:
            result = self.call(inner, arguments, node)
            return result if "__wrapped__" in vars(function) else result | ONE[OWN]  # a mode gives what it gives
        # A function may be shown under the package's name; and a scheduler wraps the step of its optimizer.
        shown = function.__module__ if "." in function.__module__ else module
        if purity.own_effect(name, shown) and not (isinstance(owner, Fresh) and issubclass(owner.kind or int, Module)):
            called = f"{owner.name}.{name}" if isinstance(owner, Known) else atom.name
            kind = "update" if "lr" in module.rpartition(".")[2] else "store"
            field = purity.own_field(shown)
            if name in ("train", "eval"):
                self.blur("training")
            elif target is not None:
                self.store(target, None, ONE[PLAIN])
            self.effect(kind if target is not None else "call", f"calls `{called}`", node, target, field=field)
            if not name.startswith("register_"):  # which may call what it is given, but not now
                self.call_back(arguments.rest() if is_method else arguments, node)
            return ONE[NONE] if kind == "update" and name == "step" else ONE[OWN]
        if isinstance(owner, Known) and name in purity.OWN_CHANGES and target is not None and not is_tensor(target):
            self.effect("update", f"calls `{owner.name}.{name}`", node, target, field="own")
            self.store(target, None, arguments.rest().all() | ONE[PLAIN])
            return ONE[OWN]
        self.use(arguments.all(), deep=3)
        self.hold(arguments.all() | self.inside(arguments.all()))
        self.protocols(arguments.rest().all(), node, names=(*TORCH, *LOOP, *AS_NUMBER, *TRUTH))
        if isinstance(target, type) and issubclass(target, Function) and name == "apply":
            return self._apply_function(target, arguments, node)
        if isinstance(target, Module):
            found = self._module_method(owner, target, name, arguments, node)
            if found is not None:
                return found
        elif owner is not None:
            self._overriding(owner, node)
        self.call_back(arguments.rest() if is_method else arguments, node)
        computes = module.startswith(_TENSOR_MODULES) and not name.endswith("_")
        if not (computes or purity.own_reading(name)) or {"out", "inplace"} & set(arguments.keywords):
            self.here.writes = True
        if purity.draws(name):
            self.here.draws = True
        if name in purity.SHARING:
            arrays = (
                atom for atom in arguments.all() if isinstance(atom, Known) and isinstance(atom.value, np.ndarray)
            )
            return ONE[MADE].union(arrays)
        return ONE[MADE] if module.startswith(_TENSOR_MODULES) else ONE[OWN]

    def _wrapped_user_functions(self, function: FunctionType) -> Value:
        """Functions of users that one of undertow's was made around, as by `@no_grad()`."""
        found, waiting, seen = set(), [function], {function}
        while waiting:
            for cell in waiting.pop().__closure__ or ():
                try:
                    value = cell.cell_contents
                except ValueError:
                    continue
                if isinstance(value, FunctionType) and purity.origin_of(value) == "own":
                    if value not in seen:
                        seen.add(value)
                        waiting.append(value)
                elif callable(value) and self.is_users(value):
                    found.add(Known(value, getattr(value, "__name__", type(value).__name__)))
        return frozenset(found)

    def is_users(self, value: Any) -> bool:
        """Whether calling a value runs code that a user wrote."""
        if isinstance(value, types.MethodType):
            return self.is_users(value.__func__) or (
                not isinstance(value.__self__, type) and self.is_users(value.__self__)
            )
        if isinstance(value, functools.partial):
            return self.is_users(value.func)
        if isinstance(value, FunctionType) and purity.origin_of(value) == "own":
            return bool(value.__closure__) and bool(self._wrapped_user_functions(value))
        if isinstance(value, type):
            return purity.origin_of(value) == "user" and not issubclass(value, (Module, Function))
        return isinstance(value, Module) or (callable(value) and purity.origin_of(value) == "user")

    def is_callback(self, atom: Atom) -> bool:
        """Whether a value is a function that matters when undertow calls it."""
        if isinstance(atom, (Closure, Bound)):
            return True
        if isinstance(atom, Method):
            return isinstance(atom.owner, Known) and not is_plain(atom.owner.value) and not is_tensor(atom.owner.value)
        if isinstance(atom, Fresh):
            users = isinstance(atom.kind, type) and purity.origin_of(atom.kind) == "user"
            return atom.kind is functools.partial or (users and in_class(atom.kind, "__call__") is not MISSING)
        if not isinstance(atom, Known) or not callable(atom.value) or is_plain(atom.value):
            return False
        if isinstance(atom.value, (types.BuiltinFunctionType, types.BuiltinMethodType)):
            value = id(atom.value)
            return not (
                value in purity.PLAIN_RESULT
                or value in purity.ELEMENT_RESULT
                or purity.origin_of(atom.value) == "numpy"
            )
        if isinstance(atom.value, FunctionType) and purity.origin_of(atom.value) == "standard":
            return True
        return self.is_users(atom.value)

    def call_back(self, arguments: Arguments, node: Any, given: Value | None = None) -> None:
        """Call the user's functions among the arguments, as undertow may do."""
        everything = arguments.all() | self.inside(arguments.all())
        if given is None:
            given = frozenset(atom for atom in everything if not self.is_callback(atom)) | {TENSOR, NONE}
        for atom in everything:
            if self.is_callback(atom):
                self.call_atom(atom, Arguments([], more=given), node)

    def _overriding(self, owner: Atom, node: Any) -> None:
        """Methods by which a user's class replaces those of undertow's class that it inherits from."""
        kind = type(owner.value) if isinstance(owner, Known) else owner.kind if isinstance(owner, Fresh) else None
        if not isinstance(kind, type) or purity.origin_of(kind) != "user" or issubclass(kind, Module):
            return
        for parent in kind.__mro__:
            if purity.origin_of(parent) != "user":
                continue
            for name, method in vars(parent).items():
                if isinstance(method, FunctionType) and not name.startswith("__"):
                    theirs = in_class(kind, name, parent)
                    if isinstance(theirs, FunctionType) and purity.origin_of(theirs) == "own":
                        users = purity.origin_of(method) != "own"  # an optimizer's step is wrapped by undertow
                        called = frozenset([Known(method, name)]) if users else self._wrapped_user_functions(method)
                        self.call(called, Arguments([frozenset([owner])], more=ONE[TENSORS]), node)

    def _apply_function(self, kind: Any, arguments: Arguments, node: Any) -> Value:
        """Return a custom autograd function: its forward now, its backward later in the step."""
        arguments = arguments.rest()
        context = self.fresh(node, None, ONE[PLAIN] | arguments.all())
        result = ONE[MADE]
        for name in ("forward", "backward", "setup_context", "vjp", "jvp", "vmap"):
            method = in_class(kind, name)
            method = method.__func__ if isinstance(method, (staticmethod, classmethod)) else method
            if isinstance(method, FunctionType) and self.is_users(method):
                separate = in_class(kind, "setup_context")
                separate = separate.__func__ if isinstance(separate, staticmethod) else separate
                if name == "forward":
                    plain = isinstance(separate, FunctionType) and self.is_users(separate)
                    inner = arguments if plain else arguments.after(context)
                    result |= self.call_atom(Known(method, name), inner, node) - {NONE}
                else:
                    given = ONE[TENSORS] | arguments.all() if name == "setup_context" else frozenset([TENSOR, NONE])
                    self.call_atom(Known(method, name), Arguments([context], more=given), node)
        return result

    def _module_method(self, owner: Any, module: Module, name: str, arguments: Arguments, node: Any) -> Value | None:
        rest = arguments.rest()
        if name in ("__call__", "_call_impl", "_wrapped_call_impl"):
            return self.call_module(owner, rest, node)
        below = descendants(module)
        known = frozenset(Known(each, f"a {type(each).__name__} of {owner.name}") for each in below)
        if name in ("modules", "children"):
            return self.fresh(node, list, known)
        if name in ("named_modules", "named_children"):
            return self.fresh(node, list, self.fresh_tuple(node, [ONE[PLAIN], known], "pair"))
        if name in ("parameters", "buffers"):
            return self.fresh(node, list, ONE[TENSOR])
        if name in ("named_parameters", "named_buffers"):
            return self.fresh(node, list, self.fresh_tuple(node, [ONE[PLAIN], ONE[TENSOR]], "pair"))
        if name in ("get_submodule", "__getitem__", "values", "__iter__", "pop"):
            return self.fresh(node, list, known) | known
        if name == "items":
            return self.fresh(node, list, self.fresh_tuple(node, [ONE[PLAIN], known], "pair"))
        if name == "apply":
            self.call_back(rest, node, known)
            return frozenset([owner])
        if name == "forward":
            return self._call_parts(module, node)
        return None

    def call_module(self, atom: Known, arguments: Arguments, node: Any) -> Value:
        """Return a module's call, hooks aside: its forward, and those of the modules below that undertow's own
        code calls.
        """
        module = atom.value
        forward = instance_dict(module).get("forward", MISSING)
        if forward is not MISSING:
            return self.call_atom(Known(forward, f"{atom.name}.forward"), arguments, node)
        forward = in_class(type(module), "forward")
        if self._is_not_own(forward):
            return self.call_atom(Known(forward, f"{atom.name}.forward"), arguments.after(frozenset([atom])), node)
        self.use(arguments.all(), deep=3)
        self.call_back(arguments, node)
        return self._call_parts(module, node)

    def _is_not_own(self, forward: Any) -> bool:
        """Whether a module's forward is a user's, maybe with a mode of undertow's around it (`@no_grad()`)."""
        return isinstance(forward, FunctionType) and (purity.origin_of(forward) != "own" or self.is_users(forward))

    def _call_parts(self, module: Module, node: Any) -> Value:
        self.here.writes = True  # running statistics
        for part in descendants(module):
            tensors = Arguments([], more=frozenset([TENSOR, NONE]))
            if part is not module:
                forward = in_class(type(part), "forward")
                replaced = instance_dict(part).get("forward")
                if replaced is not None or self._is_not_own(forward):
                    self.call_module(Known(part, f"a {type(part).__name__}"), tensors, node)
            for name, value in instance_dict(part).items():
                if callable(value) and not isinstance(value, Module) and self.is_callback(Known(value, name)):
                    self.call_atom(Known(value, name), tensors, node)
        return ONE[MADE]
