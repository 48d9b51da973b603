"""What a step depends on besides its arguments: found by walking from the function to all it can reach.

Functions lead to what they close over, to the globals that they name, and to the code they call; objects to what they hold
and to their classes. `snapshot` remembers what they held.
"""

from __future__ import annotations

import argparse
import contextvars
import functools
import gc
import logging
import os
import sys
import threading
import types
import weakref
from abc import ABCMeta
from array import array
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from operator import eq
from typing import Any, NamedTuple

import numpy as np

from undertow._src.base.ownership import module_name, own_part
from undertow._src.compile.effects import purity
from undertow._src.compile.effects.objects import MISSING, entries_of, held_by, held_by_variable, instance_dict
from undertow._src.compile.guards.code_names import Import, names_of
from undertow._src.compile.guards.places import (
    ABSENT,
    EXACT,
    PLAIN,
    OfClass,
    Place,
    Slots,
    contents_of,
    place_at,
    same,
)
from undertow._src.random.generators import Generator
from undertow._src.tensor.core import TensorCore
from undertow._tensor import Tensor
from undertow.nn.modules import module as modules_
from undertow.nn.modules.module import Module
from undertow.optim import optimizer as optimizers_
from undertow.optim.lbfgs import LBFGS
from undertow.optim.lr_scheduler import LRScheduler
from undertow.optim.optimizer import Optimizer

_WITH_STATE = ("optim", "amp", "distributions")  # parts of undertow whose objects are looked through as the user's are
FOREIGN = ("jax", "jaxlib", "torch")  # packages whose objects and code are taken as they are
_OPEN = (types.SimpleNamespace, argparse.Namespace)  # the standard library's, filled by the user
_CACHED = type(functools.lru_cache(len))
_LOOKS_AT_SCHEDULERS = {"last_epoch", "get_last_lr", "_last_lr", "_step_count", "state_dict", "T_cur"}
_ENVIRONMENT = {"environ", "getenv"}
_ASKS_KINDS = {"isinstance", "issubclass"}
_PLAIN_LOOKUP = (object.__getattribute__, Module.__getattribute__)
_THROUGH: tuple[type, ...] = (
    types.MappingProxyType, types.BuiltinMethodType, types.MethodWrapperType, type({}.keys()), type({}.values()),
    type({}.items()),
)  # fmt: skip
_PATCHABLE = 1 << 9  # classes that Python code made have this flag
DEPTH = 3  # how far other objects of the standard library are followed
WATCHED_BYTES = (
    1 << 16
)  # NumPy arrays up to this size are compared before a call; others, if the step reads their numbers

GLOBAL_HOOKS = [
    value
    for origin in (modules_, optimizers_)
    for name, value in vars(origin).items()
    if name.startswith("_global_") and hasattr(value, "values")
]

_NOTES_ON_HOOKS = ("_with_kwargs", "_always_called")  # on some of a module's hooks


class Look(NamedTuple):
    """A value that is kept in no place of its own: a context variable's, what a weak reference leads to."""

    name: str
    get: Callable[[], Any]
    alike: Callable[[Any, Any], bool] = same


class Reached:
    """Everything found, in the order in which it was found."""

    def __init__(
        self, replaced: Collection[Place] = (), names_left: Mapping[types.CodeType, set[str]] | None = None,
        computed_with: Container[int] = (), already: Reached | None = None, follows_on: bool = False,
    ) -> None:  # fmt: skip
        self.replaced = replaced  # places in which each step leaves another tensor
        self._computed_with = computed_with  # ids of arrays whose numbers some code is known to read
        self._names_left = names_left or {}  # names in code of which not all is traced
        self.tensors: list[Any] = []
        self.modules: list[Module] = []
        self.optimizers: list[Optimizer] = []
        self.maps: list[tuple[Any, str]] = []  # dicts, and attributes of objects and classes
        self.notes_on_hooks: set[int] = set()  # ids of those among them that say how hooks are called
        self.lists: list[tuple[Any, str]] = []  # lists, deques and sets
        self.arrays: list[tuple[np.ndarray[Any, Any], str]] = []
        self.cells: list[tuple[Any, str]] = []  # closure cells
        self.globals: list[tuple[Any, str]] = []  # names in a module; of packages, in classes and objects too
        self.loaded: list[str] = []  # modules that code imports: keys of `sys.modules`
        self.looks: list[Look] = []  # what is kept in no place
        self.generators: list[Generator] = []
        self.owners: list[tuple[Any, dict[str, Any]]] = []  # objects, and the dicts that hold their attributes
        self.caches: list[tuple[Any, str]] = []  # functions that keep what they gave
        self.functions: list[types.FunctionType] = []  # of the user's
        self.classes: list[type] = []
        self.other_classes: list[type] = []  # of undertow and of others, which may be patched
        self.objects: list[Any] = []
        self.seen: set[int] = already.seen if already and follows_on else set()  # ids of all that was found
        self._kept: list[Any] = []  # so that no id is used again
        self._named: set[tuple[int | str, str]] = (
            set() if already is None else set(already._named)
        )  # no more to be found
        self.mentioned: set[str] = set()  # names in code, of attributes too
        self._follows = True  # whether what is found is looked into
        self._abstract = False  # whether a class is among it that others may be registered with
        self._schedulers: list[tuple[Any, str]] = []
        self._waiting: deque[tuple[Any, str, int]] = deque()

    def walk(self, root: Any, name: str) -> None:
        """Follows an object to all that it leads to."""
        self._add(root, name)
        while self._waiting:
            self._look(*self._waiting.popleft())

    def names_in(self, functions: Iterable[types.FunctionType]) -> None:
        """Find the names that functions look up, and no more."""
        self._follows = False
        for function in functions:
            if self._is_new(function) and purity.origin_of(function) == "user":
                self.functions.append(function)
                names = names_of(function.__code__)
                self.mentioned |= names.all | names.methods
                self._look_up(function, names.globals, names.all)
                for each in names.imports:
                    self._look_at_import(each, function.__globals__, names.all)
                if not names.all.isdisjoint(_ENVIRONMENT):
                    self.maps.append((os.environ._data, "os.environ"))  # type: ignore[attr-defined]

    def mentions_kinds(self) -> bool:
        """Whether code asks for classes of objects, and one may be an abstract one (or it is not known)."""
        return not self.mentioned.isdisjoint(_ASKS_KINDS) and (self._abstract or not self._follows)

    def hosted_schedulers(self) -> list[Any]:
        """Schedulers whose steps can be made on the host. Nobody watches their state: the step does not look at it."""
        hosted = [each for each, _ in self._schedulers if steps_on_host(each)]
        hosted = [] if self.mentioned & _LOOKS_AT_SCHEDULERS else hosted
        kept = {id(each) for each in hosted}
        for each, name in self._schedulers:
            if id(each) not in kept:
                self._look_into_object(each, name, 0)
        while self._waiting:
            self._look(*self._waiting.popleft())
        return hosted

    def _add(self, root: Any, name: str, depth: int = 0) -> None:
        if self._follows and type(root) not in EXACT and self._is_new(root):
            self._waiting.append((root, name, depth))

    def _is_new(self, root: Any) -> bool:
        if id(root) in self.seen:
            return False
        self.seen.add(id(root))
        self._kept.append(root)
        return True

    def _look(self, root: Any, name: str, depth: int) -> None:
        if isinstance(root, TensorCore) and root._is_strided:
            self.tensors.append(root)
            self._look_into(root.__dict__, name, depth)  # what the user has noted there
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
            self._look_at_object(root, name, depth)

    def _look_at_container(self, root: Any, name: str, depth: int) -> None:
        if isinstance(root, dict):
            self._look_into(root, name, depth)
        else:
            if not isinstance(root, (tuple, frozenset)):
                self.lists.append((root, name))
            for place, value in enumerate(held_by(root)):
                if place_at(root, place) not in self.replaced:
                    self._add(value, f"{name}[{place}]", depth)
        for inner in _parts(root):
            self._add(inner, name, depth)
        if isinstance(root, defaultdict):
            self.looks.append(Look(f"{name}.default_factory", lambda: root.default_factory))
        if purity.origin_of(type(root)) == "user":  # which may have attributes, and methods that compute
            self._look_into_object(root, name, depth)

    def _look_at_array(self, root: Any, name: str, depth: int) -> None:
        if root.dtype.hasobject:
            self.looks.append(Look(f"the NumPy array {name}", lambda: (root.shape, *map(id, root.flat)), eq))
            self._kept.append(root.copy())
            for value in root.flat:
                self._add(value, name, depth)
        elif root.nbytes <= WATCHED_BYTES or id(root) in self._computed_with:
            self.arrays.append((root, name))

    def _look_into(self, holder: Any, name: str, depth: int = 0) -> None:
        """Return a dict, or attributes that are shown like one."""
        self.maps.append((holder, name))
        attributes = not isinstance(holder, dict)
        for key, value in entries_of(holder).items():
            shown = f"{name}.{key}" if attributes else f"{name}[{key!r}]" if isinstance(key, PLAIN) else name
            if place_at(holder, key) not in self.replaced:
                self._add(value, shown, depth)

    def _look_at_object(self, root: Any, name: str, depth: int) -> None:
        for inner in _parts(root):
            self._add(inner, name, depth)
        if isinstance(root, _CACHED):
            self.caches.append((root, name))
        elif isinstance(root, Generator):
            self.generators.append(root)
        elif isinstance(root, contextvars.ContextVar):
            self.looks.append(Look(name, lambda: root.get(ABSENT)))
        elif isinstance(root, functools.partial):
            self.looks.append(Look(name, lambda: (id(root.func), id(root.args), id(root.keywords)), eq))
        kind = type(root)
        origin = purity.origin_of(kind)
        if isinstance(root, types.ModuleType) or origin in ("numpy", "builtin"):
            return
        if origin == "own" and own_part(kind).partition(".")[0] not in _WITH_STATE:
            return
        if origin != "own" and is_foreign(kind):
            return
        if origin == "standard" and purity.field_of(root) == "output":  # what was written there matters to no program
            if isinstance(root, logging.Logger):
                self.maps.append((vars(root), name))  # its level may
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
        self.objects.append(root)
        attributes, slots = instance_dict(root), Slots(root)
        if type(root).__dictoffset__:
            self._own(root, attributes)
            self.maps.append((attributes, name))
            for key, value in list(attributes.items()):
                if place_at(attributes, key) not in self.replaced:
                    self._add(value, f"{name}.{key}", depth)
        if slots.members:
            self._look_into(slots, name, depth)
        self._add(kind, kind.__name__)

    def _own(self, owner: Any, attributes: dict[str, Any]) -> None:
        """Note in which dict an object keeps its attributes, because another one may take its place.

        Objects that do not show theirs (a TypeVar, from Python 3.12 on) have no way to change it.
        """
        is_plain = type(owner).__getattribute__ in _PLAIN_LOOKUP and hasattr(owner, "__dict__")
        if is_plain and not isinstance(owner, threading.local):
            self.owners.append((owner, attributes))

    def _look_at_class(self, root: type, name: str) -> None:
        """Return the attributes of a class of the user's, and the code in it; those of its metaclass, which it has
        as well.
        """
        self._abstract = self._abstract or isinstance(root, ABCMeta)
        if _is_followed(type(root)):
            self._add(type(root), type(root).__name__)
        for kind in root.__mro__:
            if not _is_followed(kind):
                if kind.__flags__ & _PATCHABLE and kind is not Tensor and (kind is root or self._is_new(kind)):
                    self.other_classes.append(kind)
            elif kind is root or self._is_new(kind):
                self.classes.append(kind)
                attributes = OfClass(kind)
                self.maps.append((attributes, kind.__name__))
                for key, value in attributes.items():
                    if place_at(attributes, key) not in self.replaced:
                        for part in (value, *_parts(value)):
                            self._add(part, f"{kind.__name__}.{key}")

    def _look_at_module(self, root: Module, name: str) -> None:
        for inner, module in root.named_modules():
            shown = f"{name}.{inner}" if inner else name
            if module is not root and not self._is_new(module):
                continue
            self.modules.append(module)
            self._own(module, vars(module))
            self._add(type(module), type(module).__name__)
            self._look_at_own_forward(type(module))
            self.maps.append((vars(module), shown))
            for holder in (module._parameters, module._buffers, module._modules):
                self.seen.add(id(holder))
                self.maps.append((holder, shown))
            for key, value in list(vars(module).items()):
                if "hooks" in key and isinstance(value, dict):  # which hooks there are; `firing` looks into them
                    self.seen.add(id(value))
                    self.maps.append((value, f"the {key.removeprefix('_').replace('_', ' ')} of {shown}"))
                    if key.endswith(_NOTES_ON_HOOKS):
                        self.notes_on_hooks.add(id(value))
                elif key != "_modules" and place_at(vars(module), key) not in self.replaced:
                    self._add(value, f"{shown}.{key.removeprefix('_')}" if key != "_parameters" else shown)
            for holder in (module._parameters, module._buffers):
                for key, value in holder.items():
                    if place_at(holder, key) not in self.replaced:
                        self._add(value, f"{shown}.{key}")

    def _look_at_optimizer(self, root: Optimizer, name: str) -> None:
        self.optimizers.append(root)
        self._add(type(root), type(root).__name__)
        if type(root) is not LBFGS:  # whose step is no part of a program, so that a closure may be one
            self.maps.append((vars(root), name))
        self.seen.add(id(root.param_groups))
        self.lists.append((root.param_groups, f"{name}.param_groups"))
        for group in root.param_groups:
            self.seen.add(id(group))  # `options` has an eye on the numbers
            for key, value in group.items():
                self._add(value, f"{name}.{key}")
        for key, value in vars(root).items() if type(root) is not LBFGS else ():
            if "hooks" in key and isinstance(value, dict):
                self.seen.add(id(value))
                self.maps.append((value, f"the hooks of {name}"))
            elif key != "defaults":
                self._add(value, f"{name}.{key}")

    def _look_at_function(self, root: types.FunctionType, name: str) -> None:
        origin = purity.origin_of(root)
        if origin not in ("user", "standard"):  # a decorator of the standard library closes over the user's
            return
        for free, cell in zip(root.__code__.co_freevars, root.__closure__ or ()):
            if self._is_new(cell):
                self.cells.append((cell, free))
                if place_at(cell, None) not in self.replaced:
                    self._add(contents_of(cell), free)
        if not _is_followed(root):
            return
        self.functions.append(root)
        names = names_of(root.__code__)
        self.mentioned |= self._names_left.get(root.__code__, names.all) | names.methods
        self._look_up(root, names.globals, names.all)
        for each in names.imports:
            self._look_at_import(each, root.__globals__, names.all)
        if not names.all.isdisjoint(_ENVIRONMENT):
            self._add(os.environ._data, "os.environ")  # type: ignore[attr-defined]
        for used in names.stored - root.__globals__.keys():
            self._name(root.__globals__, used)
        for value in (*(root.__defaults__ or ()), root.__kwdefaults__):
            self._add(value, name)
        self._add(vars(root), name)

    def _look_at_own_forward(self, kind: type) -> None:
        """Return the functions that the forward of one of undertow's layers calls, by name: they may be replaced."""
        forward = vars(kind).get("forward")
        if isinstance(forward, types.FunctionType) and purity.origin_of(forward) == "own" and self._is_new(forward):
            names = names_of(forward.__code__)
            self._look_up(forward, names.globals, names.all)

    def _look_up(self, code: types.FunctionType, own: set[str], names: set[str]) -> None:
        """Return the names that some code may look up: in its module, among builtins, and in modules that it finds
        there.
        """
        met: set[int] = set()
        function: Any = code  # mypy's cache leaves `__builtins__` out, so whether it knows the name depends on the run
        builtin: dict[str, Any] = function.__builtins__
        for used in sorted(own):
            if used in code.__globals__:
                self._look_up_one(code.__globals__, used, names, met)
                continue
            self._name(code.__globals__, used)  # the name may be taken
            if used in builtin:
                self._look_up_one(builtin, used, names, met)
            else:
                self._name(builtin, used)

    def _look_up_one(self, namespace: dict[str, Any], used: str, names: set[str], met: set[int]) -> None:
        value = namespace[used]
        self._name(namespace, used)
        if isinstance(value, types.ModuleType):
            self._look_up_in(value, names, met)
        elif value is not sys.modules and place_at(namespace, used) not in self.replaced:
            self._add(value, used)

    def _look_up_in(self, module: types.ModuleType, names: set[str], met: set[int]) -> None:
        """Names in a module, and in modules that are found there."""
        if id(module) in met:
            return
        met.add(id(module))
        namespace = vars(module)
        for used in sorted(names & namespace.keys()):
            self._look_up_one(namespace, used, names, met)
        if "__getattr__" in namespace and purity.written_here(module):  # it gives the others
            self._look_up_one(namespace, "__getattr__", names, met)

    def _look_at_import(self, statement: Import, namespace: dict[str, Any], names: set[str]) -> None:
        """Return a module that code imports when it runs, and the names in it."""
        met: set[int] = set()
        for name in statement.loaded(namespace):
            if ("sys.modules", name) not in self._named:
                self._named.add(("sys.modules", name))
                self.loaded.append(name)
            if name in sys.modules:
                self._look_up_in(sys.modules[name], names, met)

    def look_up_for(self, code: types.CodeType, namespace: dict[str, Any]) -> None:
        """Follows the names that code of a package looks up, where they are."""
        names = names_of(code)
        met: set[int] = set()
        for used in sorted(names.globals & namespace.keys()):
            self._look_up_one(namespace, used, names.all, met)
        for used in names.globals - namespace.keys():
            self._name(namespace, used)
        for each in names.imports:
            self._look_at_import(each, namespace, names.all)
        while self._waiting:
            self._look(*self._waiting.popleft())

    def name(self, namespace: dict[str, Any], key: str) -> None:
        """Follows a name that code looks up by other means than by writing it down."""
        if namespace is sys.modules:
            if ("sys.modules", key) not in self._named:
                self._named.add(("sys.modules", key))
                self.loaded.append(key)
        elif key in namespace:
            self._look_up_one(namespace, key, set(), set())
        else:
            self._name(namespace, key)
        while self._waiting:
            self._look(*self._waiting.popleft())

    def look_at_place(self, owner: Any, attribute: str | None) -> None:
        """Watches a place that code of an installed package reads, and no more: what it holds is not followed."""
        if isinstance(owner, type) and attribute is not None:
            for kind in owner.__mro__:
                if purity.origin_of(kind) == "user" and not purity.written_here(kind):
                    self._name(OfClass(kind), attribute, id(kind))
                if attribute in vars(kind):
                    break
        elif isinstance(owner, dict) and attribute is not None:
            self._name(owner, attribute)
        elif id(owner) in self.seen:
            return
        elif attribute is not None:
            attributes, slots = instance_dict(owner), Slots(owner)
            if attribute in slots.members:
                self._name(slots, attribute, id(owner))
            elif type(owner).__dictoffset__:
                self._name(attributes, attribute)
            self.look_at_place(type(owner), attribute)
        else:
            kinds = (types.CellType, self.cells), (dict, self.maps), (np.ndarray, self.arrays)
            places: Iterator[list[Any]] = (each for kind, each in kinds if isinstance(owner, kind))
            found = next(places, self.lists if isinstance(owner, (list, deque, set)) else None)
            if found is not None and self._is_new(owner):
                found.append((owner, "state of a package"))

    def _name(self, namespace: Any, name: str, owner: int | None = None) -> None:
        place = id(namespace) if owner is None else owner, name
        if place not in self._named:
            self._named.add(place)
            self.globals.append((namespace, name))


def steps_on_host(scheduler: Any) -> bool:
    """Whether a scheduler only computes with plain numbers."""
    marked = getattr(type(scheduler).step, "computes_with_numbers", False)
    groups = scheduler.optimizer.param_groups if marked else ()
    inner = getattr(scheduler, "_schedulers", ())
    return marked and all(type(group["lr"]) is float for group in groups) and all(map(steps_on_host, inner))


def _is_followed(code: types.FunctionType | type) -> bool:
    """Whether what a function names, or a class holds, is looked at: code of the user's own."""
    return purity.written_here(code) and not is_foreign(code)


def is_foreign(code: types.FunctionType | type) -> bool:
    """Whether code is JAX's or PyTorch's, wherever it is kept: a trace changes what JAX remembers, for good."""
    name = code.__globals__.get("__name__") if isinstance(code, types.FunctionType) else module_name(code)
    return isinstance(name, str) and name.partition(".")[0] in FOREIGN


def _parts(root: Any) -> Iterator[Any]:
    """Return what an object that stands for others leads to: a partial call, a method of a class, a compiled step."""
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
    elif "__wrapped__" in instance_dict(root):  # what is cached, or compiled
        yield instance_dict(root)["__wrapped__"]
