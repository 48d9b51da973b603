"""Attributes of values: reading them and setting them."""

from __future__ import annotations

import enum
import types
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from undertow._src.base.lazy import present
from undertow._src.compile.effects import purity
from undertow._src.compile.effects.objects import MISSING, in_class, instance_dict, static_value, stored
from undertow._src.compile.effects.state import State
from undertow._src.compile.effects.values import (
    EMPTY,
    GROUPS,
    MADE,
    MODULE,
    NONE,
    ONE,
    OPTIMIZER,
    OWN,
    PLAIN,
    TENSOR,
    TENSORISH,
    TENSORS,
    Arguments,
    Atom,
    Bound,
    Closure,
    Fresh,
    Known,
    Method,
    Namespace,
    Super,
    Value,
    is_plain,
)  # fmt: skip
from undertow._tensor import Tensor
from undertow.nn import Module

_METHOD_TYPES = (
    types.MethodDescriptorType, types.WrapperDescriptorType, types.BuiltinFunctionType, types.ClassMethodDescriptorType,
    types.MethodWrapperType,
)  # fmt: skip
_SLOT_TYPES = (types.MemberDescriptorType, types.GetSetDescriptorType)
_ABOUT_CODE = {"__name__", "__qualname__", "__module__", "__doc__", "__annotations__", "__mro__", "__bases__"}


def is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) and purity.origin_of(type(value)) == "own"


def named(name: str) -> Value:
    """Return the name of an attribute, as code that looks for it is given it."""
    return frozenset([Known(name, repr(name))])


class Attributes(State):
    """How values answer to `value.name`."""

    def attribute(self, atom: Atom, name: str, node: Any) -> Value:
        if isinstance(atom, Known):
            return self._known_attribute(atom, name, node)
        if isinstance(atom, Method):
            return self.attribute(atom.owner, name, node)
        if isinstance(atom, Fresh):
            return self._fresh_attribute(atom, name, node)
        if isinstance(atom, Super):
            return self._super_attribute(atom, name, node)
        if isinstance(atom, Namespace):
            return frozenset([Method(name, atom)])
        if atom in TENSORISH:
            return self._tensor_attribute(atom, name, node)
        if atom is PLAIN:
            return frozenset([Method(name, PLAIN)])
        if atom is NONE:
            return ONE[PLAIN]
        if name in _ABOUT_CODE and isinstance(atom, (Closure, Bound)):
            return ONE[PLAIN]
        if isinstance(atom, Bound) and name == "__self__":
            return frozenset([atom.owner])
        if atom is OPTIMIZER:
            if name in ("param_groups", "state"):
                return ONE[GROUPS]
            if name in ("step", "zero_grad"):
                return frozenset([Method(name, OWN)])
        if atom is MODULE and name == "__class__":
            return ONE[PLAIN]
        if atom is MODULE and name in ("parameters", "buffers", "zero_grad", "named_parameters", "named_buffers"):
            return frozenset([Method(name, OWN)])
        return self.unknown(f"reads `.{name}` of something unknown", node)

    def _tensor_attribute(self, atom: Atom, name: str, node: Any) -> Value:
        if name == "grad":
            return frozenset([TENSOR, NONE])
        if name == "grad_fn":
            return frozenset([OWN, NONE])
        if name in purity.PLAIN_ATTRIBUTES:
            return ONE[PLAIN]
        if name in purity.RESULT_FIELDS and atom in (MADE, OWN):
            return frozenset([MADE, Method(name, atom)])
        if name in purity.TENSOR_METHODS or atom is OWN:
            return frozenset([Method(name, atom)])
        if name in purity.TENSOR_NAMES:
            if name.startswith("is_"):
                return ONE[PLAIN]
            if name.startswith("_"):
                return frozenset([TENSOR, NONE])
            return ONE[MADE] if atom is MADE else ONE[TENSOR]
        if atom is TENSORS and (name in ("items", "keys", "get") or name in purity.OWN_CHANGES):
            return frozenset([Method(name, atom)])
        return self.unknown(f"reads `.{name}` of a tensor", node)

    def _fresh_attribute(self, atom: Fresh, name: str, node: Any) -> Value:
        found = atom.field(name)
        kind = atom.kind
        if isinstance(kind, type) and purity.origin_of(kind) == "user":
            if name == "__class__":
                return frozenset([Known(kind, kind.__name__)])
            inherited = in_class(kind, name)
            if inherited is not MISSING:
                return found | self._inherited(inherited, kind, atom, name, node)
            hook = in_class(kind, "__getattr__")
            if isinstance(hook, FunctionType) and purity.origin_of(hook) == "user":
                found |= self.call_function(hook, Arguments([frozenset([atom]), named(name)]), node)
            return found | atom.contents | ONE[PLAIN]
        return found | frozenset([Method(name, atom)])

    def _super_attribute(self, atom: Super, name: str, node: Any) -> Value:
        owner = atom.owner
        if isinstance(owner, Known):
            kind = owner.value if isinstance(owner.value, type) else type(owner.value)
        elif isinstance(owner, Fresh) and isinstance(owner.kind, type):
            kind = owner.kind
        else:
            kind = atom.after
        if isinstance(owner, Known) and isinstance(owner.value, type) and issubclass(atom.after, type):
            kind = type(owner.value)  # the method is a metaclass's
        found = in_class(kind, name, atom.after)
        if found is MISSING:
            return ONE[PLAIN]
        if found is in_class(type, "__call__"):
            return frozenset([owner])  # which makes an instance
        if in_class(object, name) is found:
            return frozenset([Method(name, owner if name == "__getattribute__" else PLAIN)])
        return self._inherited(found, kind, owner, name, node)

    def _inherited(self, found: Any, kind: type, owner: Atom, name: str, node: Any) -> Value:
        """Return what a class has under a name, as an instance of it gets it."""
        if isinstance(found, FunctionType):
            return frozenset([Bound(Known(found, name), owner)])
        if isinstance(found, staticmethod):
            return frozenset([Known(found.__func__, name)])
        if isinstance(found, classmethod):
            return frozenset([Bound(Known(found.__func__, name), Known(kind, kind.__name__))])
        if isinstance(found, property):
            if isinstance(found.fget, FunctionType) and purity.origin_of(found.fget) == "user":
                return self.call_function(found.fget, Arguments([frozenset([owner])]), node)
            if isinstance(found.fget, FunctionType) and purity.origin_of(found.fget) == "own":
                return ONE[OWN]
            return self.unknown(f"reads the property `{name}`", node)
        if isinstance(found, _METHOD_TYPES):
            return frozenset([Method(name, owner)])
        if isinstance(found, _SLOT_TYPES):
            if isinstance(owner, Known):
                key = id(owner.value), name
                if key not in self.evaluated:  # some make another object each time
                    try:
                        value = found.__get__(owner.value)
                    except (AttributeError, TypeError):
                        return ONE[PLAIN]
                    self.evaluated[key] = frozenset([Known(value, name)]), [owner.value]
                (exact,) = self.evaluated[key][0]
                assert isinstance(exact, Known)
                value = exact.value
                known = Known(value, f"{owner.name}.{name}", lambda: getattr(owner.get(), name))
                self.found(known, owner.value, name)
                return frozenset([known])
            return ONE[PLAIN]
        if callable(found) and purity.origin_of(kind) not in ("user", "own"):
            return frozenset([Method(name, owner)])  # compiled by Cython
        getter = in_class(type(found), "__get__")
        if isinstance(getter, FunctionType) and purity.origin_of(getter) == "user":
            given = [Known(found, name), owner, Known(kind, kind.__name__)]
            return self.call_function(getter, Arguments([frozenset([each]) for each in given]), node)
        if getter is not MISSING and type(found).__name__ != "_tuplegetter":
            return self.unknown(f"reads the descriptor `{name}`", node)
        if isinstance(owner, Known):
            known = Known(found, f"{owner.name}.{name}", lambda: static_value(owner.get(), name))
            self.found(known, owner.value, name)
            put = EMPTY
            for parent in kind.__mro__:
                put |= self.restored(parent, name)
                if name in vars(parent):
                    self.place(parent, name)
            return put | {known}
        if type(found).__name__ == "_tuplegetter":
            return owner.elements() | ONE[PLAIN] if isinstance(owner, Fresh) else ONE[PLAIN]
        return frozenset([Known(found, name)])

    def _known_attribute(self, atom: Known, name: str, node: Any) -> Value:
        value = atom.value
        kind = type(value)
        if kind is ModuleType or isinstance(value, ModuleType):
            return self._module_attribute(atom, name, node)
        if isinstance(value, type):
            return self._class_attribute(atom, name, node)
        if is_plain(value) and (
            purity.origin_of(kind) != "user" or (isinstance(value, enum.Enum) and name in ("name", "value"))
        ):
            if isinstance(value, enum.Enum) and name in ("name", "value"):
                return frozenset([Known(getattr(value, f"_{name}_"), f"{atom.name}.{name}")])
            if isinstance(value, tuple) and name in getattr(kind, "_fields", ()):
                return frozenset([Known(getattr(value, name), f"{atom.name}.{name}")])
            return frozenset([Method(name, atom if self.decides and type(value) is str else PLAIN)])
        if is_tensor(value) and name not in instance_dict(value):
            if name in purity.TENSOR_METHODS:
                return frozenset([Method(name, atom)])
            return self._tensor_attribute(TENSOR, name, node)
        if name == "__class__":
            return frozenset([Known(kind, kind.__name__)])
        if name == "__dict__":
            return frozenset([Namespace(atom)])
        if name in _ABOUT_CODE and callable(value):
            return ONE[PLAIN]
        lookup = in_class(kind, "__getattribute__")
        if isinstance(lookup, FunctionType) and purity.origin_of(lookup) == "user":
            return self.call_function(lookup, Arguments([frozenset([atom]), named(name)]), node)
        return self.usual_attribute(atom, name, node)

    def in_namespace(self, owner: Known, name: str) -> Value:
        """Return what the `__dict__` of an object has under a name: an attribute, read without its class."""
        self.place(owner.value, name)
        put, found = self.restored(owner.value, name), stored(owner.value, name)
        if found is MISSING:
            return put
        known = Known(found, f"{owner.name}.{name}", lambda: stored(owner.get(), name))
        self.found(known, owner.value, name)
        return put | {known}

    def usual_attribute(self, atom: Known, name: str, node: Any) -> Value:
        """Return an attribute as `object.__getattribute__` finds it, and the class's `__getattr__` if it does not."""
        value = atom.value
        kind = type(value)
        if name == "__dict__":
            return frozenset([Namespace(atom)])
        inherited = in_class(kind, name)
        if isinstance(inherited, property) or isinstance(in_class(type(inherited), "__set__"), FunctionType):
            return self._inherited(inherited, kind, atom, name, node)
        own = stored(value, name)
        if own is MISSING and kind.__dictoffset__:
            self.depends_on(f"{atom.name}.{name}", lambda: stored(atom.get(), name), MISSING, value)
            if inherited is not MISSING and purity.origin_of(kind) in ("user", "own"):
                self.depends_on(f"{kind.__name__}.{name}", lambda: in_class(type(atom.get()), name), inherited, kind)
                self._looked_up_in_class(kind, name)
        put = self.restored(value, name) if purity.origin_of(kind) != "builtin" else EMPTY
        if own is not MISSING:
            known = Known(own, f"{atom.name}.{name}", lambda: stored(atom.get(), name))
            self.found(known, value, name)
            return put | {known}
        if inherited is not MISSING:
            return put | self._inherited(inherited, kind, atom, name, node)
        if isinstance(value, np.ndarray) and name in purity.TENSOR_METHODS:
            return frozenset([Method(name, atom)])
        self.place(value, name)  # it may be there another time
        if put:
            return put
        fallback = in_class(kind, "__getattr__")
        if isinstance(fallback, FunctionType):
            if purity.origin_of(fallback) == "user":
                return self.call_function(fallback, Arguments([frozenset([atom]), named(name)]), node)
            return ONE[PLAIN] if isinstance(value, Module) else ONE[OWN]
        if fallback is not MISSING:
            return self.unknown(f"reads `{atom.name}.{name}` through `__getattr__`", node)
        return ONE[PLAIN]

    def _looked_up_in_class(self, kind: type, name: str) -> None:
        """Note an attribute of a class in an installed package; of the user's classes all are watched."""
        if purity.origin_of(kind) == "user" and not purity.written_here(kind):
            self.place(kind, name)

    def _module_attribute(self, atom: Known, name: str, node: Any) -> Value:
        module = atom.value
        if name == "__dict__":
            return frozenset([Known(present(module), f"{atom.name}.__dict__")])
        found = present(module).get(name, MISSING)
        if found is MISSING:
            if purity.origin_of_module(module) == "user":
                self.looked_up(present(module), name)
                fallback = present(module).get("__getattr__")
                if isinstance(fallback, FunctionType):
                    return self.call_function(fallback, Arguments([frozenset([Known(name, repr(name))])]), node)
                return ONE[PLAIN]
            found = getattr(module, name, MISSING)
            if found is MISSING:
                self.looked_up(vars(module), name)
                return ONE[PLAIN]
        if name in present(module):
            self.looked_up(present(module), name)
        known = Known(found, f"{atom.name}.{name}", lambda: present(module).get(name, MISSING))
        if purity.origin_of_module(module) == "user":
            self.found(known, present(module), name)  # where a function of that module has its globals
        return self.restored(present(module), name) | {known}

    def _class_attribute(self, atom: Known, name: str, node: Any) -> Value:
        kind = atom.value
        if name in _ABOUT_CODE:
            return ONE[PLAIN]
        member = kind.__dict__.get("_member_map_", {}).get(name, MISSING)
        if member is not MISSING:
            return frozenset([Known(member, f"{atom.name}.{name}")])
        found = in_class(kind, name)
        if name == "__subclasses__" and found is MISSING:
            return self.computed(f"asks for `{atom.name}.__subclasses__`", node)
        if found is MISSING:
            return self.unknown(f"reads `{atom.name}.{name}`, which is not in the class", node)
        if not is_plain(found) or purity.origin_of(kind) != "user":  # else it is noted with its place, below
            self.depends_on(f"{atom.name}.{name}", lambda: in_class(kind, name), found, kind)
            self._looked_up_in_class(kind, name)
        if isinstance(found, FunctionType):
            return frozenset([Known(found, f"{atom.name}.{name}")])
        if isinstance(found, (staticmethod, classmethod)):
            return self._inherited(found, kind, atom, name, node)
        known = Known(found, f"{atom.name}.{name}", lambda: in_class(kind, name))
        put = EMPTY
        if purity.origin_of(kind) == "user":
            self.found(known, kind, name)
            for parent in kind.__mro__:
                put |= self.restored(parent, name)
                if name in vars(parent):
                    self.place(parent, name)
        return put | {known}

    def _stored_by_code(self, kind: type, atom: Atom, name: str, value: Value, node: Any) -> bool:
        """Whether setting an attribute calls code of the user's, which is then gone through."""
        setter, through = in_class(kind, "__setattr__"), in_class(kind, name)
        own = frozenset([atom])
        if isinstance(setter, FunctionType) and purity.origin_of(setter) == "user":
            self.call_function(setter, Arguments([own, named(name), value]), node)
        elif isinstance(through, property) and isinstance(through.fset, FunctionType):
            self.call_function(through.fset, Arguments([own, value]), node)
        elif isinstance(in_class(type(through), "__set__"), FunctionType):
            descriptor = frozenset([Known(through, name)])
            self.call_function(in_class(type(through), "__set__"), Arguments([descriptor, own, value]), node)
        else:
            return False
        return True

    def store_attribute(self, atom: Atom, name: str, value: Value, node: Any, updating: bool = False) -> None:
        kind = "update" if updating else "store"
        verb = "updates" if updating else "sets"
        if isinstance(atom, Method):
            atom = atom.owner
        if isinstance(atom, Known):
            if is_tensor(atom.value) and name in purity.SETTABLE_ATTRIBUTES:
                self._set_of_tensor(atom, name, node)
                return
            if self._stored_by_code(type(atom.value), atom, name, value, node):
                return
            target = present(atom.value) if isinstance(atom.value, ModuleType) else atom.value
            self.store(target, name, value)
            self.effect(kind, f"{verb} `{atom.name}.{name}`", node, target, name)
        elif isinstance(atom, Fresh):
            if isinstance(atom.kind, type) and purity.origin_of(atom.kind) == "user":
                self._stored_by_code(atom.kind, atom, name, value, node)
            self.set_field(atom, name, value)
            self.change(atom)
        elif atom in TENSORISH:
            self._set_of_tensor(atom, name, node)
            if name not in purity.SETTABLE_ATTRIBUTES and atom is not MADE:
                self.effect(kind, f"{verb} `.{name}` of a tensor", node)
        elif atom not in (PLAIN, NONE) and not isinstance(atom, Closure):
            self.blur(name)
            self.effect(kind, f"{verb} `.{name}` of an object", node)
            self.change(atom)

    def _set_of_tensor(self, atom: Atom, name: str, node: Any) -> None:
        self.here.writes = True
        if name == "requires_grad" and atom is not MADE:
            self.effect("call", "sets `.requires_grad` of a tensor", node, field="own")
