"""A walk from a step's function to all that it can reach.

Functions lead to what they close over, to the globals that they name, and to the code they call; objects to what they hold
and to their classes.
"""

from __future__ import annotations

import argparse
import contextvars
import decimal
import functools
import gc
import logging
import os
import random
import sys
import threading
import types
import weakref
from abc import ABCMeta
from array import array
from collections import ChainMap, UserDict, UserList, defaultdict, deque
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from operator import eq
from typing import Any

import numpy as np

from undertow._src.base.ownership import own_part
from undertow._src.compile.effects import Read, purity
from undertow._src.compile.effects.effect_log import CACHED
from undertow._src.compile.effects.objects import (
    MISSING,
    entries_of,
    held_by,
    held_by_variable,
    in_class,
    instance_dict,
)
from undertow._src.compile.guards.code_names import names_of
from undertow._src.compile.guards.name_lookup import ENVIRONMENT, NameLookup
from undertow._src.compile.guards.places import (
    ABSENT,
    EXACT,
    PLAIN,
    Methods,
    OfClass,
    Place,
    Slots,
    contents_of,
    place_at,
    same,
)
from undertow._src.compile.guards.reachability import GENERATORS, WATCHED_BYTES, Look, Reached, is_followed, is_foreign
from undertow._src.compile.guards.settings import decimal_context
from undertow._src.compile.tracing.results import objects_cached_by
from undertow._src.random.generators import Generator
from undertow._src.tensor.core import TensorCore
from undertow._tensor import Tensor
from undertow.nn.modules.module import Module
from undertow.optim.lbfgs import LBFGS
from undertow.optim.lr_scheduler import LRScheduler
from undertow.optim.optimizer import Optimizer

# Parts of undertow whose objects are followed like the user's
_WITH_STATE = ("optim.", "amp.", "distributions.", "_src.distributed.fsdp.")
_OPEN = (
    types.SimpleNamespace, argparse.Namespace, ChainMap, UserDict, UserList,
)  # the standard library's, filled by the user  # fmt: skip
_THROUGH: tuple[type, ...] = (
    types.MappingProxyType, types.BuiltinMethodType, types.MethodWrapperType, type({}.keys()), type({}.values()),
    type({}.items()),
)  # fmt: skip
_PATCHABLE = 1 << 9  # classes that Python code made have this flag
DEPTH = 3  # how many other objects of the standard library in a row are followed
_NOTES_ON_HOOKS = ("_with_kwargs", "_always_called")  # flags of some of a module's hooks


class Walk:
    """Find everything that is reached from some roots."""

    def __init__(
        self, replaced: Collection[Place] = (), names_left: Mapping[types.CodeType, set[str]] | None = None,
        computed_with: Container[int] = (), seen: set[int] | None = None, named: Iterable[tuple[int | str, str]] = (),
    ) -> None:  # fmt: skip
        self.found = Reached(replaced, seen=set() if seen is None else seen, named=set(named))
        self._computed_with = computed_with  # ids of arrays whose numbers code is known to read
        self._names_left = names_left or {}  # names in code that is traced only in part
        self._names = NameLookup(self.found, self._add)
        self._schedulers: list[tuple[Any, str]] = []
        self._waiting: deque[tuple[Any, str, int]] = deque()

    def follow(self, root: Any, name: str) -> None:
        """Follow an object to all that it reaches."""
        self._add(root, name)
        self._go_on()

    def name(self, namespace: dict[str, Any], key: str) -> None:
        """Follow a name that code looks up implicitly."""
        self._names.name(namespace, key)
        self._go_on()

    def look_up_for(self, code: types.CodeType, namespace: dict[str, Any]) -> None:
        """Follow the names that code of a package looks up, in the modules that have them."""
        self._names.look_up_for(code, namespace)
        self._go_on()

    def look_at_read(self, read: Read) -> None:
        """Follow the values that code reads from an object written in C, and compare them before each call."""
        if same(read.get(), read.get()):
            self.found.looks.append(Look(read.name, read.get))
            self.follow(read.get(), read.name)
        elif _equal(read.get(), read.get()):  # made for each read
            self.found.looks.append(Look(read.name, read.get, _equal))

    def look_at_place(self, owner: Any, attribute: str | None) -> None:
        """Guard a place that code of an installed package reads, without following its value."""
        self._names.look_at_place(owner, attribute)

    def hosted_schedulers(self, read: Container[int]) -> list[Any]:
        """Return schedulers that can step on the host, except those that the step reads, given their ids.

        The state of these schedulers is not guarded.
        """
        hosted = [each for each, _ in self._schedulers if steps_on_host(each) and id(each) not in read]
        kept = {id(each) for each in hosted}
        for each, name in self._schedulers:
            if id(each) not in kept:
                self._look_into_object(each, name, 0)
        self._go_on()
        return hosted

    def _go_on(self) -> None:
        while self._waiting:
            self._look(*self._waiting.popleft())

    def _add(self, root: Any, name: str, depth: int = 0) -> None:
        if type(root) not in EXACT and self.found.is_new(root):
            self._waiting.append((root, name, depth))

    def _look(self, root: Any, name: str, depth: int) -> None:
        if isinstance(root, TensorCore) and root._is_strided:
            self.found.tensors.append(root)
            self._add(type(root), type(root).__name__)
            self._own(root, root.__dict__)
            self._look_into(root.__dict__, name, depth)  # the user's own entries
        elif isinstance(root, TensorCore):
            self._look_into(Slots(root), name, depth)
        elif isinstance(root, Module):
            self._look_at_module(root, name)
        elif isinstance(root, Optimizer):
            self._look_at_optimizer(root, name)
        elif isinstance(root, types.FunctionType):
            self._look_at_function(root, name)
        elif isinstance(root, types.MethodType):
            self._add(root.__self__, name)
            self._add(root.__func__, name)
        elif isinstance(root, (dict, list, deque, set, array, bytearray, tuple, frozenset)):
            self._look_at_container(root, name, depth)
        elif isinstance(root, np.ndarray):
            self._look_at_array(root, name, depth)
        elif isinstance(root, type):
            self._look_at_class(root, name)
        else:
            if isinstance(root, GENERATORS):
                self.found.generators.append(root)
            if type(root) is not random.Random:  # whose state each draw changes
                self._look_at_object(root, name, depth)

    def _look_at_container(self, root: Any, name: str, depth: int) -> None:
        if isinstance(root, dict):
            self._look_into(root, name, depth)
        else:
            if not isinstance(root, (tuple, frozenset)):
                self.found.lists.append((root, name))
            for place, value in enumerate(held_by(root)):
                if place_at(root, place) not in self.found.replaced:
                    self._add(value, f"{name}[{place}]", depth)
        for inner in _parts(root):
            self._add(inner, name, depth)
        if isinstance(root, defaultdict):
            self.found.looks.append(Look(f"{name}.default_factory", lambda: root.default_factory))
        if purity.origin_of(type(root)) == "user":  # which may have attributes, and methods that compute
            self._look_into_object(root, name, depth)

    def _look_at_array(self, root: Any, name: str, depth: int) -> None:
        if root.dtype.hasobject:
            self.found.looks.append(Look(f"the NumPy array {name}", lambda: (root.shape, *map(id, root.flat)), eq))
            self.found.kept.append(root.copy())
            for value in root.flat:
                self._add(value, name, depth)
        elif root.nbytes <= WATCHED_BYTES or id(root) in self._computed_with:
            self.found.arrays.append((root, name))
        if purity.origin_of(type(root)) == "user":
            self._look_into_object(root, name, depth)

    def _look_into(self, holder: Any, name: str, depth: int = 0) -> None:
        """Follow the entries of a dict, or attributes as entries."""
        self.found.maps.append((holder, name))
        attributes = not isinstance(holder, dict)
        for key, value in entries_of(holder).items():
            shown = f"{name}.{key}" if attributes else f"{name}[{key!r}]" if isinstance(key, PLAIN) else name
            self._add(key, f"a key of {name}", depth)
            if place_at(holder, key) not in self.found.replaced:
                self._add(value, shown, depth)

    def _look_at_object(self, root: Any, name: str, depth: int) -> None:
        for inner in _parts(root):
            self._add(inner, name, depth)
        if isinstance(root, CACHED):
            self.found.caches.append((root, name))
            for each in objects_cached_by(root):
                self._add(each, f"what {name} keeps", depth)
        elif isinstance(root, Generator):
            self.found.generators.append(root)
        elif isinstance(root, contextvars.ContextVar):
            self.found.looks.append(Look(name, lambda: root.get(ABSENT)))
        elif isinstance(root, threading.local):
            self.found.looks.append(Look(f"the thread's own {name}", lambda: vars(root)))
        elif isinstance(root, functools.partial):
            self.found.looks.append(Look(name, lambda: (id(root.func), id(root.args), id(root.keywords)), eq))
        kind = type(root)
        origin = purity.origin_of(kind)
        if isinstance(root, types.ModuleType):  # its names are followed where code looks them up
            self.found.objects.append(root)
            self._add(kind, name)
            return
        if origin in ("numpy", "builtin"):
            if kind.__dictoffset__:  # it may contain objects of the user: `np.vectorize`, an exception
                self._own(root, instance_dict(root))
                self._look_into(instance_dict(root), name, depth)
            return
        if isinstance(root, ctypes_data()):
            self.found.looks.append(Look(name, lambda: memoryview(root).tobytes(), eq))
            self._add(root._objects, name, depth)  # the targets of its pointers
        elif isinstance(root, decimal.Decimal):
            self.found.looks.append(Look("the context of decimals", decimal_context))
        if origin == "own" and not f"{own_part(kind)}.".startswith(_WITH_STATE):
            return
        if origin != "own" and is_foreign(kind):
            return
        if origin == "standard" and purity.field_of(root) == "output":  # values written there affect no program
            if isinstance(root, logging.Logger):
                self.found.maps.append((vars(root), name))  # its level may
                self._add(root.parent, f"{name}.parent", depth)
            return
        if origin == "standard" and kind not in _OPEN:
            depth += 1
            if depth > DEPTH:
                return
        if isinstance(root, LRScheduler):
            self._schedulers.append((root, name))
            self._add(root.optimizer, name)
        else:
            self._look_into_object(root, name, depth)

    def _look_into_object(self, root: Any, name: str, depth: int) -> None:
        kind = type(root)
        depth = 0 if purity.origin_of(kind) == "user" else depth
        self.found.objects.append(root)
        attributes, slots = instance_dict(root), Slots(root)
        if type(root).__dictoffset__:
            self._own(root, attributes)
            self.found.maps.append((attributes, name))
            for key, value in list(attributes.items()):
                if place_at(attributes, key) not in self.found.replaced:
                    self._add(value, f"{name}.{key}", depth)
        if slots.members:
            self._look_into(slots, name, depth)
        self._add(kind, kind.__name__)

    def _own(self, owner: Any, attributes: dict[str, Any]) -> None:
        """Record the dict that holds an object's attributes, because it may be replaced.

        Objects without a visible one (a TypeVar, from Python 3.12 on) can't change it.
        """
        lookup = in_class(type(owner), "__getattribute__")
        is_plain = isinstance(lookup, types.WrapperDescriptorType) or lookup is in_class(Module, "__getattribute__")
        if is_plain and getattr(owner, "__dict__", None) is attributes and not isinstance(owner, threading.local):
            self.found.owners.append((owner, attributes))

    def _look_at_class(self, root: type, name: str) -> None:
        """Follow the attributes and the code of a user's class, and of its metaclass, whose attributes it also
        has.
        """
        self.found.has_abstract = self.found.has_abstract or isinstance(root, ABCMeta)
        if root is decimal.Decimal:
            self.found.looks.append(Look("the context of decimals", decimal_context))
        if is_followed(type(root)):
            self._add(type(root), type(root).__name__)
        for kind in root.__mro__:
            if not is_followed(kind):
                if kind.__flags__ & _PATCHABLE and kind is not Tensor and (kind is root or self.found.is_new(kind)):
                    self.found.other_classes.append(kind)
            elif kind is root or self.found.is_new(kind):
                self.found.classes.append(kind)
                attributes = OfClass(kind)
                self.found.maps.append((attributes, kind.__name__))
                for key, value in attributes.items():
                    if place_at(attributes, key) not in self.found.replaced:
                        for part in (value, *_parts(value)):
                            self._add(part, f"{kind.__name__}.{key}")

    def _look_at_module(self, root: Module, name: str) -> None:
        for inner, module in root.named_modules():
            shown = f"{name}.{inner}" if inner else name
            if module is not root and not self.found.is_new(module):
                continue
            self.found.modules.append(module)
            self._own(module, vars(module))
            self._add(type(module), type(module).__name__)
            self._look_at_own_forward(type(module))
            self.found.maps.append((vars(module), shown))
            for holder in (module._parameters, module._buffers, module._modules):
                self.found.seen.add(id(holder))
                self.found.maps.append((holder, shown))
            for key, value in list(vars(module).items()):
                if "hooks" in key and isinstance(value, dict):  # maps of hooks; a `HookGuard` compares them
                    self.found.seen.add(id(value))
                    self.found.maps.append((value, f"the {key.removeprefix('_').replace('_', ' ')} of {shown}"))
                    if key.endswith(_NOTES_ON_HOOKS):
                        self.found.notes_on_hooks.add(id(value))
                elif key != "_modules" and place_at(vars(module), key) not in self.found.replaced:
                    self._add(value, f"{shown}.{key.removeprefix('_')}" if key != "_parameters" else shown)
            for holder in (module._parameters, module._buffers):
                for key, value in holder.items():
                    if place_at(holder, key) not in self.found.replaced:
                        self._add(value, f"{shown}.{key}")

    def _look_at_optimizer(self, root: Optimizer, name: str) -> None:
        self.found.optimizers.append(root)
        self._add(type(root), type(root).__name__)
        if type(root) is not LBFGS:  # it steps outside of programs; its closure may be compiled
            self.found.maps.append((vars(root), name))
        self.found.seen.add(id(root.param_groups))
        self.found.lists.append((root.param_groups, f"{name}.param_groups"))
        for group in root.param_groups:
            self.found.seen.add(id(group))  # `options` guards the numbers
            for key, value in group.items():
                self._add(value, f"{name}.{key}")
        for key, value in vars(root).items() if type(root) is not LBFGS else ():
            if "hooks" in key and isinstance(value, dict):
                self.found.seen.add(id(value))
                self.found.maps.append((value, f"the hooks of {name}"))
            elif key != "defaults":
                self._add(value, f"{name}.{key}")

    def _look_at_function(self, root: types.FunctionType, name: str) -> None:
        origin = purity.origin_of(root)
        if origin not in ("user", "standard"):  # a standard decorator's closure has the user's function
            self._add(vars(root).get("__wrapped__"), name)  # as has `@no_grad()`
            return
        for free, cell in zip(root.__code__.co_freevars, root.__closure__ or ()):
            if self.found.is_new(cell):
                self.found.cells.append((cell, free))
                if place_at(cell, None) not in self.found.replaced:
                    self._add(contents_of(cell), free)
        if not is_followed(root):
            return
        self.found.functions.append(root)
        names = names_of(root.__code__)
        self.found.mentioned |= self._names_left.get(root.__code__, names.all) | names.methods
        self.found.strings |= names.strings
        self._names.look_up(root, names.globals, names.all)
        for each in names.imports:
            self._names.look_at_import(each, root.__globals__, names.all)
        if not names.all.isdisjoint(ENVIRONMENT):
            self._add(os.environ._data, "os.environ")  # type: ignore[attr-defined]
        for used in names.stored - root.__globals__.keys():
            self._names.note(root.__globals__, used)
        for value in (*(root.__defaults__ or ()), root.__kwdefaults__):
            self._add(value, name)
        self._own(root, vars(root))
        self._add(vars(root), name)

    def _look_at_own_forward(self, kind: type) -> None:
        """Follow the functions that the forward of a layer of undertow calls by name: they may be patched."""
        forward = vars(kind).get("forward")
        if (
            isinstance(forward, types.FunctionType)
            and purity.origin_of(forward) == "own"
            and self.found.is_new(forward)
        ):
            names = names_of(forward.__code__)
            self._names.look_up(forward, names.globals, names.all)


def named_by(
    functions: Iterable[types.FunctionType], names: Iterable[tuple[dict[str, Any], str]], objects: Iterable[Any],
    known: Reached,
) -> Reached:  # fmt: skip
    """Return the names that functions look up, and some others, without following their values, and the classes of
    objects, with their methods.
    """
    found = Reached(known.replaced, named=set(known.named), has_abstract=True)
    lookup = NameLookup(found, lambda value, name: None)
    lookup.names_in(functions)
    for namespace, name in names:
        lookup.name(namespace, name)
    for each in objects:
        if id(each) not in known.seen:
            found.objects.append(each)
            _look_at_methods(each if isinstance(each, type) else type(each), found, known)
    return found


def _look_at_methods(kind: type, found: Reached, known: Reached) -> None:
    """Find the methods of a class and of its bases, of its metaclass, and of descriptors in it."""
    for each in kind.__mro__:
        if is_followed(each) and id(each) not in known.seen and found.is_new(each):
            found.classes.append(each)
            found.maps.append((Methods(each), each.__name__))
            for inner in (each, *vars(each).values()):
                _look_at_methods(type(inner), found, known)


def _equal(a: Any, b: Any) -> bool:
    """Return whether two containers have the same contents."""
    if type(a) is dict is type(b):
        return _equal([*a], [*b]) and _equal([*a.values()], [*b.values()])
    if type(a) is type(b) and type(a) in (list, tuple):
        return len(a) == len(b) and all(map(_equal, a, b))
    return same(a, b)


def steps_on_host(scheduler: Any) -> bool:
    """Return whether a scheduler only computes with plain numbers."""
    marked = getattr(type(scheduler).step, "computes_with_numbers", False)
    groups = scheduler.optimizer.param_groups if marked else ()
    inner = getattr(scheduler, "_schedulers", ())
    marked = marked and type(scheduler).__getattribute__ is LRScheduler.__getattribute__  # see `Schedules.watched`
    return marked and all(type(group["lr"]) is float for group in groups) and all(map(steps_on_host, inner))


def ctypes_data() -> tuple[Any, ...]:
    """Return the base class of C values, if the program has any."""
    loaded = sys.modules.get("_ctypes")
    return () if loaded is None else (loaded._SimpleCData.__base__,)


def _parts(root: Any) -> Iterator[Any]:
    """Yield the parts of a wrapper: a partial call, a static method, a property, a compiled step."""
    if isinstance(root, functools.partial):
        yield from (root.func, root.args, root.keywords)
    elif isinstance(root, (staticmethod, classmethod)):
        yield root.__func__
    elif isinstance(root, property):
        yield from (part for part in (root.fget, root.fset, root.fdel) if part is not None)
    elif isinstance(root, functools.cached_property):
        yield root.func
    elif isinstance(root, weakref.ref):
        yield root()
    elif isinstance(root, weakref.ProxyTypes):
        yield root.__dir__.__self__
    elif isinstance(root, contextvars.ContextVar):
        yield from [held for held in [held_by_variable(root)] if held is not MISSING]
    elif isinstance(root, defaultdict):
        yield root.default_factory
    elif isinstance(root, memoryview):
        yield root.obj
    elif isinstance(root, os._Environ):
        yield root._data  # type: ignore[attr-defined]
    elif isinstance(root, _THROUGH):
        yield from (each for each in gc.get_referents(root) if not isinstance(each, types.ModuleType))
    elif isinstance(root, threading.local):
        yield vars(root)
    elif "__wrapped__" in instance_dict(root):  # the cached or compiled function
        yield instance_dict(root)["__wrapped__"]
