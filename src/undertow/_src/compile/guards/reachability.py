"""What a step can depend on besides its arguments: all that can be reached from its function.

`walking` finds it; `snapshot` remembers what it held.
"""

from __future__ import annotations

import random
import types
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from undertow._src.base.ownership import module_name
from undertow._src.compile.effects import purity
from undertow._src.compile.guards.code_names import BY_STRING
from undertow._src.compile.guards.places import Place, same
from undertow.nn.modules import module as modules_
from undertow.nn.modules.module import Module
from undertow.optim import optimizer as optimizers_
from undertow.optim.optimizer import Optimizer

FOREIGN = ("jax", "jaxlib", "torch")  # packages whose objects and code are not followed
# NumPy arrays up to this size are compared before a call; others, if the step reads their numbers
WATCHED_BYTES = 1 << 16
GENERATORS = (random.Random, np.random.RandomState, np.random.Generator)
_ASKS_KINDS = {"isinstance", "issubclass"}

GLOBAL_HOOKS = [
    value
    for home in (modules_, optimizers_)
    for name, value in vars(home).items()
    if name.startswith("_global_") and hasattr(value, "values")
]


class Look(NamedTuple):
    """A value that is in no place: that of a context variable, the target of a weak reference."""

    name: str
    get: Callable[[], Any]
    alike: Callable[[Any, Any], bool] = same


@dataclass(eq=False)
class Reached:
    """Everything found, in the order in which it was found."""

    replaced: Collection[Place] = ()  # places in which each call leaves a new tensor
    tensors: list[Any] = field(default_factory=list)
    modules: list[Module] = field(default_factory=list)
    optimizers: list[Optimizer] = field(default_factory=list)
    maps: list[tuple[Any, str]] = field(default_factory=list)  # dicts, and attributes of objects and classes
    notes_on_hooks: set[int] = field(default_factory=set)  # ids of those maps that have flags of hooks
    lists: list[tuple[Any, str]] = field(default_factory=list)  # lists, deques and sets
    arrays: list[tuple[np.ndarray[Any, Any], str]] = field(default_factory=list)
    cells: list[tuple[Any, str]] = field(default_factory=list)  # closure cells
    globals: list[tuple[Any, str]] = field(default_factory=list)  # names in a module; of packages, in classes too
    loaded: list[str] = field(default_factory=list)  # modules that code imports: keys of `sys.modules`
    looks: list[Look] = field(default_factory=list)  # values that are in no place
    generators: list[Any] = field(default_factory=list)  # of random numbers: undertow's, Python's and NumPy's
    owners: list[tuple[Any, dict[str, Any]]] = field(default_factory=list)  # objects, and the dicts of their attributes
    caches: list[tuple[Any, str]] = field(default_factory=list)  # functions with a cache
    functions: list[types.FunctionType] = field(default_factory=list)  # of the user
    classes: list[type] = field(default_factory=list)
    other_classes: list[type] = field(default_factory=list)  # of undertow and of others, which may be patched
    objects: list[Any] = field(default_factory=list)
    mentioned: set[str] = field(default_factory=set)  # names in code, of attributes too
    strings: set[str] = field(default_factory=set)  # strings in code
    seen: set[int] = field(default_factory=set)  # ids of everything that was found
    kept: list[Any] = field(default_factory=list)  # kept alive, so that no id is reused
    named: set[tuple[int | str, str]] = field(default_factory=set)  # names that were looked up
    has_abstract: bool = False  # whether one of the objects may be an abstract class

    def names_in_code(self) -> set[str]:
        """Return the names in code, with strings if it looks attributes up by strings."""
        return self.mentioned if self.mentioned.isdisjoint(BY_STRING) else self.mentioned | self.strings

    def mentions_kinds(self) -> bool:
        """Return whether code uses the classes of objects, and an abstract class may be involved."""
        return not self.mentioned.isdisjoint(_ASKS_KINDS) and self.has_abstract

    def is_new(self, root: Any) -> bool:
        """Return whether an object is found for the first time."""
        if id(root) in self.seen:
            return False
        self.seen.add(id(root))
        self.kept.append(root)
        return True


def is_foreign(code: types.FunctionType | type) -> bool:
    """Return whether code is JAX's or PyTorch's. Tracing changes JAX's caches for good."""
    name = code.__globals__.get("__name__") if isinstance(code, types.FunctionType) else module_name(code)
    return isinstance(name, str) and name.partition(".")[0] in FOREIGN


def is_followed(code: types.FunctionType | type) -> bool:
    """Return whether a function or class is followed: whether it is the user's own code."""
    return purity.written_here(code) and not is_foreign(code)
