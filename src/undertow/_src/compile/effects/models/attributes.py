"""Attributes: what reading one gives, and what setting one does.

Attributes of objects from outside are found as Python finds them, without running code of the program. Where Python
would run code (`__getattr__`, a property, a descriptor), that code is analyzed.
"""

from __future__ import annotations

import enum
import functools
import threading
import types
import weakref
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from undertow._src.base.lazy import present
from undertow._src.compile.effects import purity
from undertow._src.compile.effects.interface import Analysis
from undertow._src.compile.effects.objects import MISSING, in_class, instance_dict, static_value, stored
from undertow._src.compile.effects.purity import is_tensor, is_users_class, is_users_function
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
    Atom,
    Bound,
    CallArguments,
    Closure,
    Concrete,
    Fresh,
    InstanceDict,
    Method,
    Simple,
    Super,
    Value,
    class_of,
    is_plain,
    known_string,
)
from undertow.nn import Module

_METHOD_TYPES = (
    types.MethodDescriptorType, types.WrapperDescriptorType, types.BuiltinFunctionType, types.ClassMethodDescriptorType,
    types.MethodWrapperType,
)  # fmt: skip
_SLOT_TYPES = (types.MemberDescriptorType, types.GetSetDescriptorType)
_WITH_FRAMES = (types.FrameType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
_OF_FRAMES = ("f_", "gi_", "cr_", "ag_")
_WALKED = (FunctionType, types.MethodType, functools.partial, property, type, weakref.ref)
_OWN_METHODS: dict[Atom, tuple[str, ...]] = {
    OPTIMIZER: ("step", "zero_grad"),
    MODULE: ("parameters", "buffers", "zero_grad", "named_parameters", "named_buffers"),
}
_ABOUT_CODE = {"__name__", "__qualname__", "__module__", "__doc__", "__annotations__", "__mro__", "__bases__"}


def read(analysis: Analysis, atom: Atom, name: str, node: Any) -> Value:
    """Return the possible values of an attribute."""
    return _READERS[type(atom)](analysis, atom, name, node)


def _of_method(analysis: Analysis, atom: Method, name: str, node: Any) -> Value:
    return read(analysis, atom.owner, name, node)


def _of_instance_dict(analysis: Analysis, atom: InstanceDict, name: str, node: Any) -> Value:
    return frozenset([Method(name, atom)])


def _of_function(analysis: Analysis, atom: Closure | Bound, name: str, node: Any) -> Value:
    if name in _ABOUT_CODE:
        return ONE[PLAIN]
    if isinstance(atom, Bound) and name == "__self__":
        return frozenset([atom.owner])
    return _of_unknown(analysis, name, node)


def _of_simple(analysis: Analysis, atom: Simple, name: str, node: Any) -> Value:
    if atom in TENSORISH:
        return _of_tensor(analysis, atom, name, node)
    if atom is PLAIN:
        return frozenset([Method(name, PLAIN)])
    if atom is NONE or (atom is MODULE and name == "__class__"):
        return ONE[PLAIN]
    if atom is OPTIMIZER and name in ("param_groups", "state"):
        return ONE[GROUPS]
    if name in _OWN_METHODS.get(atom, ()):
        return frozenset([Method(name, OWN)])
    return _of_unknown(analysis, name, node)


def _of_unknown(analysis: Analysis, name: str, node: Any) -> Value:
    return analysis.log.unknown(f"reads `.{name}` of something unknown", node)


def _of_tensor(analysis: Analysis, atom: Atom, name: str, node: Any) -> Value:
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
    return analysis.log.unknown(f"reads `.{name}` of a tensor", node)


def _of_fresh(analysis: Analysis, atom: Fresh, name: str, node: Any) -> Value:
    found, kind = atom.field(name), atom.kind
    if not is_users_class(kind):
        return found | {Method(name, atom)}
    if name == "__class__":
        return frozenset([Concrete(kind, kind.__name__)])
    in_its_class = in_class(kind, name)
    if in_its_class is not MISSING:
        return found | through_descriptor(analysis, in_its_class, kind, atom, name, node)
    fallback = in_class(kind, "__getattr__")
    if is_users_function(fallback):
        found |= analysis.call_function(fallback, CallArguments([frozenset([atom]), known_string(name)]), node)
    return found | atom.contents | ONE[PLAIN]


def _of_super(analysis: Analysis, atom: Super, name: str, node: Any) -> Value:
    owner = atom.owner
    kind = class_of(owner) or atom.after
    if isinstance(owner, Concrete) and isinstance(owner.value, type) and not issubclass(atom.after, type):
        kind = owner.value  # the method is a class method, and not a metaclass's
    found = in_class(kind, name, atom.after)
    if found is MISSING:
        return ONE[PLAIN]
    if found is in_class(type, "__call__"):
        return frozenset([owner])  # which makes an instance
    if in_class(object, name) is found:
        return frozenset([Method(name, owner if name == "__getattribute__" else PLAIN)])
    return through_descriptor(analysis, found, kind, owner, name, node)


def through_descriptor(analysis: Analysis, found: Any, kind: type, owner: Atom, name: str, node: Any) -> Value:
    """Return what a class has under a name, as an instance gets it: bound, if it is a descriptor."""
    if isinstance(found, FunctionType):
        return frozenset([Bound(Concrete(found, name), owner)])
    if isinstance(found, staticmethod):
        return frozenset([Concrete(found.__func__, name)])
    if isinstance(found, classmethod):
        return frozenset([Bound(Concrete(found.__func__, name), Concrete(kind, kind.__name__))])
    if isinstance(found, property):
        if is_users_function(found.fget):
            return analysis.call_function(found.fget, CallArguments([frozenset([owner])]), node)
        if isinstance(found.fget, FunctionType) and purity.origin_of(found.fget) == "own":
            return ONE[OWN]
        return analysis.log.unknown(f"reads the property `{name}`", node)
    if isinstance(found, _METHOD_TYPES):
        return frozenset([Method(name, owner)])
    if isinstance(found, _SLOT_TYPES):
        return _slot(analysis, found, owner, name) if isinstance(owner, Concrete) else ONE[PLAIN]
    if callable(found) and purity.origin_of(kind) not in ("user", "own"):
        return frozenset([Method(name, owner)])  # compiled by Cython
    getter = in_class(type(found), "__get__")
    if is_users_function(getter):
        given = [Concrete(found, name), owner, Concrete(kind, kind.__name__)]
        return analysis.call_function(getter, CallArguments([frozenset([each]) for each in given]), node)
    if getter is not MISSING and type(found).__name__ != "_tuplegetter":
        return analysis.log.unknown(f"reads the descriptor `{name}`", node)
    if isinstance(owner, Concrete):
        known = Concrete(found, f"{owner.name}.{name}", lambda: static_value(owner.get(), name))
        analysis.log.read(known, owner.value, name)
        return _written_to_class(analysis, kind, name) | {known}
    if type(found).__name__ == "_tuplegetter":
        return owner.elements() | ONE[PLAIN] if isinstance(owner, Fresh) else ONE[PLAIN]
    return frozenset([Concrete(found, name)])


def _slot(analysis: Analysis, slot: Any, owner: Concrete, name: str) -> Value:
    """Return what an object keeps in a slot, or computes in C; some compute a different object each time."""
    try:
        value = analysis.once(("slot", id(owner.value), name), lambda: slot.__get__(owner.value), owner.value)
    except (AttributeError, TypeError):
        return ONE[PLAIN]
    known = Concrete(value, f"{owner.name}.{name}", lambda: getattr(owner.get(), name, MISSING))
    analysis.log.read(known, owner.value, name)
    _read_slot(analysis, slot, known, owner.value)
    return frozenset([known])


def _read_slot(analysis: Analysis, slot: Any, known: Concrete, owner: Any) -> None:
    """Record a read of what no walk finds: it does find slots of classes in Python, and parts of functions."""
    if purity.origin_of(type(owner)) in ("own", "numpy") or slot.__objclass__ in _WALKED:
        return
    if not (isinstance(slot, types.MemberDescriptorType) and "__slots__" in vars(slot.__objclass__)):
        analysis.log.kept_in_c(known, owner)


def _about_code(analysis: Analysis, atom: Concrete, name: str) -> Value:
    """Return what a function or a class says of itself, which may be set to something else."""
    if purity.origin_of(atom.value) == "user":
        value = getattr(atom.value, name, MISSING)
        analysis.log.kept_in_c(Concrete(value, f"{atom.name}.{name}", lambda: getattr(atom.get(), name, MISSING)), atom)
    return ONE[PLAIN]


def _written_to_class(analysis: Analysis, kind: type, name: str) -> Value:
    """Return what the code may have set an attribute of a class to; the places where it is are looked at."""
    found = EMPTY
    for parent in kind.__mro__:
        found |= analysis.heap.written(parent, name)
        if name in vars(parent):
            analysis.log.place(parent, name)
    return found


def _of_known(analysis: Analysis, atom: Concrete, name: str, node: Any) -> Value:
    value = atom.value
    kind = type(value)
    if kind is ModuleType or isinstance(value, ModuleType):
        return _of_module(analysis, atom, name, node)
    if isinstance(value, type):
        return _of_class(analysis, atom, name, node)
    if isinstance(value, enum.Enum) and name in ("name", "value"):
        known = Concrete(getattr(value, f"_{name}_"), f"{atom.name}.{name}")
        analysis.log.depends_on(known.name, lambda: getattr(atom.get(), f"_{name}_", MISSING), known.value, value)
        return frozenset([known])
    if is_plain(value) and purity.origin_of(kind) != "user":
        if isinstance(value, tuple) and name in getattr(kind, "_fields", ()):
            return frozenset([Concrete(getattr(value, name), f"{atom.name}.{name}")])
        return frozenset([Method(name, atom if analysis.decides and type(value) is str else PLAIN)])
    if is_tensor(value) and name not in instance_dict(value):
        if name in purity.TENSOR_METHODS:
            return frozenset([Method(name, atom)])
        return _of_tensor(analysis, TENSOR, name, node)
    if name == "__class__":
        return frozenset([Concrete(kind, kind.__name__)])
    if name == "__dict__":
        return frozenset([InstanceDict(atom)])
    if name in _ABOUT_CODE and callable(value):
        return _about_code(analysis, atom, name)
    if isinstance(value, _WITH_FRAMES) and name.startswith(_OF_FRAMES):
        return analysis.log.unguardable(f"reads `{atom.name}.{name}`", node)
    lookup = in_class(kind, "__getattribute__")
    if is_users_function(lookup):
        return analysis.call_function(lookup, CallArguments([frozenset([atom]), known_string(name)]), node)
    return default_lookup(analysis, atom, name, node)


def in_instance_dict(analysis: Analysis, owner: Concrete, name: str) -> Value:
    """Return what the `__dict__` of an object has under a name: an attribute, read without its class."""
    analysis.log.place(owner.value, name)
    put, found = analysis.heap.written(owner.value, name), stored(owner.value, name)
    if found is MISSING:
        return put
    known = Concrete(found, f"{owner.name}.{name}", lambda: stored(owner.get(), name))
    analysis.log.read(known, owner.value, name)
    return put | {known}


def default_lookup(analysis: Analysis, atom: Concrete, name: str, node: Any) -> Value:
    """Return an attribute as `object.__getattribute__` finds it, and the class's `__getattr__` if it does not."""
    value = atom.value
    kind = type(value)
    if name == "__dict__":
        return frozenset([InstanceDict(atom)])
    in_its_class = in_class(kind, name)
    if isinstance(in_its_class, property) or isinstance(in_class(type(in_its_class), "__set__"), FunctionType):
        return through_descriptor(analysis, in_its_class, kind, atom, name, node)
    own = stored(value, name)
    if own is MISSING and (kind.__dictoffset__ or isinstance(value, threading.local)):
        analysis.log.depends_on(f"{atom.name}.{name}", lambda: stored(atom.get(), name), MISSING, value)
        if in_its_class is not MISSING and purity.origin_of(kind) in ("user", "own"):
            analysis.log.depends_on(
                f"{kind.__name__}.{name}", lambda: in_class(type(atom.get()), name), in_its_class, kind
            )
            _looked_up_in_class(analysis, kind, name)
    put = analysis.heap.written(value, name) if purity.origin_of(kind) != "builtin" else EMPTY
    if own is not MISSING:
        known = Concrete(own, f"{atom.name}.{name}", lambda: stored(atom.get(), name))
        analysis.log.read(known, value, name)
        if isinstance(in_its_class, _SLOT_TYPES):
            _read_slot(analysis, in_its_class, known, value)
        return put | {known}
    if in_its_class is not MISSING:
        return put | through_descriptor(analysis, in_its_class, kind, atom, name, node)
    if isinstance(value, np.ndarray) and name in purity.TENSOR_METHODS:
        return frozenset([Method(name, atom)])
    analysis.log.place(value, name)  # it may be there another time
    if put:
        return put
    fallback = in_class(kind, "__getattr__")
    if isinstance(fallback, FunctionType):
        if purity.origin_of(fallback) == "user":
            return analysis.call_function(fallback, CallArguments([frozenset([atom]), known_string(name)]), node)
        return ONE[PLAIN] if isinstance(value, Module) else ONE[OWN]
    if fallback is not MISSING:
        return analysis.log.unknown(f"reads `{atom.name}.{name}` through `__getattr__`", node)
    return ONE[PLAIN]


def _looked_up_in_class(analysis: Analysis, kind: type, name: str) -> None:
    """Record a read of a class in an installed package; all of the user's own classes are guarded anyway."""
    if purity.origin_of(kind) == "user" and not purity.written_here(kind):
        analysis.log.place(kind, name)


def _of_module(analysis: Analysis, atom: Concrete, name: str, node: Any) -> Value:
    module = atom.value
    if name == "__dict__":
        return frozenset([Concrete(present(module), f"{atom.name}.__dict__")])
    found = present(module).get(name, MISSING)
    if found is MISSING:
        if purity.origin_of_module(module) == "user":
            analysis.log.lookup(present(module), name)
            fallback = present(module).get("__getattr__")
            if isinstance(fallback, FunctionType):
                return analysis.call_function(fallback, CallArguments([known_string(name)]), node)
            return ONE[PLAIN]
        found = getattr(module, name, MISSING)
        if found is MISSING:
            analysis.log.lookup(vars(module), name)
            return ONE[PLAIN]
    if name in present(module):
        analysis.log.lookup(present(module), name)
    known = Concrete(found, f"{atom.name}.{name}", lambda: present(module).get(name, MISSING))
    if purity.origin_of_module(module) == "user":
        analysis.log.read(known, present(module), name)  # where a function of that module has its globals
    return analysis.heap.written(present(module), name) | {known}


def _of_class(analysis: Analysis, atom: Concrete, name: str, node: Any) -> Value:
    kind = atom.value
    if name in _ABOUT_CODE:
        return _about_code(analysis, atom, name)
    member = kind.__dict__.get("_member_map_", {}).get(name, MISSING)
    if member is not MISSING:
        return frozenset([Concrete(member, f"{atom.name}.{name}")])
    found = in_class(kind, name)
    if name == "__subclasses__" and found is MISSING:
        return analysis.log.unguardable(f"asks for `{atom.name}.__subclasses__`", node)
    if found is MISSING:
        return analysis.log.unknown(f"reads `{atom.name}.{name}`, which is not in the class", node)
    if not is_plain(found) or purity.origin_of(kind) != "user":  # else it is noted with its place, below
        analysis.log.depends_on(f"{atom.name}.{name}", lambda: in_class(kind, name), found, kind)
        _looked_up_in_class(analysis, kind, name)
    if isinstance(found, FunctionType):
        return frozenset([Concrete(found, f"{atom.name}.{name}")])
    if isinstance(found, (staticmethod, classmethod)):
        return through_descriptor(analysis, found, kind, atom, name, node)
    known = Concrete(found, f"{atom.name}.{name}", lambda: in_class(kind, name))
    if purity.origin_of(kind) != "user":
        return frozenset([known])
    analysis.log.read(known, kind, name)
    return _written_to_class(analysis, kind, name) | {known}


def _stored_by_code(analysis: Analysis, kind: type, atom: Atom, name: str, value: Value, node: Any) -> bool:
    """Return whether setting an attribute runs code of the user, which is then analyzed."""
    setter, through = in_class(kind, "__setattr__"), in_class(kind, name)
    own = frozenset([atom])
    if is_users_function(setter):
        analysis.call_function(setter, CallArguments([own, known_string(name), value]), node)
    elif isinstance(through, property) and isinstance(through.fset, FunctionType):
        analysis.call_function(through.fset, CallArguments([own, value]), node)
    elif isinstance(in_class(type(through), "__set__"), FunctionType):
        descriptor = frozenset([Concrete(through, name)])
        analysis.call_function(in_class(type(through), "__set__"), CallArguments([descriptor, own, value]), node)
    else:
        return False
    return True


def store(analysis: Analysis, atom: Atom, name: str, value: Value, node: Any, updating: bool = False) -> None:
    """Set an attribute."""
    if isinstance(atom, Method):
        atom = atom.owner
    if isinstance(atom, Concrete):
        if is_tensor(atom.value) and name in purity.SETTABLE_ATTRIBUTES:
            _set_of_tensor(analysis, atom, name, node)
            return
        if _stored_by_code(analysis, type(atom.value), atom, name, value, node):
            return
        target = present(atom.value) if isinstance(atom.value, ModuleType) else atom.value
        analysis.heap.write(target, name, value)
        analysis.log.store(updating, f"`{atom.name}.{name}`", node, target, name)
    elif isinstance(atom, Fresh):
        if is_users_class(atom.kind):
            _stored_by_code(analysis, atom.kind, atom, name, value, node)
        analysis.heap.set_field(atom, name, value)
        analysis.log.change(atom)
    elif atom in TENSORISH:
        _set_of_tensor(analysis, atom, name, node)
        if name not in purity.SETTABLE_ATTRIBUTES and atom is not MADE:
            analysis.log.store(updating, f"`.{name}` of a tensor", node)
    elif atom not in (PLAIN, NONE) and not isinstance(atom, Closure):
        analysis.heap.write_any(name)
        analysis.log.store(updating, f"`.{name}` of an object", node)
        analysis.log.change(atom)


def _set_of_tensor(analysis: Analysis, atom: Atom, name: str, node: Any) -> None:
    analysis.log.tensor_write()
    if name == "requires_grad" and atom is not MADE:
        analysis.log.effect("call", "sets `.requires_grad` of a tensor", node, field="own")


_READERS: dict[type[Atom], Callable[[Analysis, Any, str, Any], Value]] = {
    Concrete: _of_known,
    Fresh: _of_fresh,
    Method: _of_method,
    Super: _of_super,
    InstanceDict: _of_instance_dict,
    Closure: _of_function,
    Bound: _of_function,
    Simple: _of_simple,
}
