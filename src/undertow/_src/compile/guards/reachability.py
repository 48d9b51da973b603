"""What a step depends on besides its arguments: all that can be reached from its function.

`walking` finds it; `snapshot` remembers what it held.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from undertow._src.base.ownership import module_name
from undertow._src.compile.effects import purity
from undertow._src.compile.guards.places import Place, same
from undertow._src.random.generators import Generator
from undertow.nn.modules import module as modules_
from undertow.nn.modules.module import Module
from undertow.optim import optimizer as optimizers_
from undertow.optim.optimizer import Optimizer

FOREIGN = ("jax", "jaxlib", "torch")  # packages whose objects and code are taken as they are
WATCHED_BYTES = (
    1 << 16
)  # NumPy arrays up to this size are compared before a call; others, if the step reads their numbers
_ASKS_KINDS = {"isinstance", "issubclass"}

GLOBAL_HOOKS = [
    value
    for home in (modules_, optimizers_)
    for name, value in vars(home).items()
    if name.startswith("_global_") and hasattr(value, "values")
]


class Look(NamedTuple):
    """A value that is kept in no place of its own: a context variable's, what a weak reference leads to."""

    name: str
    get: Callable[[], Any]
    alike: Callable[[Any, Any], bool] = same


@dataclass(eq=False)
class Reached:
    """Everything found, in the order in which it was found."""

    replaced: Collection[Place] = ()  # places in which each step leaves another tensor
    tensors: list[Any] = field(default_factory=list)
    modules: list[Module] = field(default_factory=list)
    optimizers: list[Optimizer] = field(default_factory=list)
    maps: list[tuple[Any, str]] = field(default_factory=list)  # dicts, and attributes of objects and classes
    notes_on_hooks: set[int] = field(default_factory=set)  # ids of those among them that say how hooks are called
    lists: list[tuple[Any, str]] = field(default_factory=list)  # lists, deques and sets
    arrays: list[tuple[np.ndarray[Any, Any], str]] = field(default_factory=list)
    cells: list[tuple[Any, str]] = field(default_factory=list)  # closure cells
    globals: list[tuple[Any, str]] = field(default_factory=list)  # names in a module; of packages, in classes too
    loaded: list[str] = field(default_factory=list)  # modules that code imports: keys of `sys.modules`
    looks: list[Look] = field(default_factory=list)  # what is kept in no place
    generators: list[Generator] = field(default_factory=list)
    owners: list[tuple[Any, dict[str, Any]]] = field(default_factory=list)  # objects, and the dicts of their attributes
    caches: list[tuple[Any, str]] = field(default_factory=list)  # functions that keep what they gave
    functions: list[types.FunctionType] = field(default_factory=list)  # of the user's
    classes: list[type] = field(default_factory=list)
    other_classes: list[type] = field(default_factory=list)  # of undertow and of others, which may be patched
    objects: list[Any] = field(default_factory=list)
    mentioned: set[str] = field(default_factory=set)  # names in code, of attributes too
    seen: set[int] = field(default_factory=set)  # ids of all that was found
    kept: list[Any] = field(default_factory=list)  # so that no id is used again
    named: set[tuple[int | str, str]] = field(default_factory=set)  # names that were looked up
    has_abstract: bool = False  # whether a class is among it that others may be registered with, or it is not known

    def mentions_kinds(self) -> bool:
        """Return whether code asks for classes of objects, and one may be an abstract one."""
        return not self.mentioned.isdisjoint(_ASKS_KINDS) and self.has_abstract

    def is_new(self, root: Any) -> bool:
        """Return whether an object is found for the first time."""
        if id(root) in self.seen:
            return False
        self.seen.add(id(root))
        self.kept.append(root)
        return True


def is_foreign(code: types.FunctionType | type) -> bool:
    """Whether code is JAX's or PyTorch's, wherever it is kept: a trace changes what JAX remembers, for good."""
    name = code.__globals__.get("__name__") if isinstance(code, types.FunctionType) else module_name(code)
    return isinstance(name, str) and name.partition(".")[0] in FOREIGN


def is_followed(code: types.FunctionType | type) -> bool:
    """Whether what a function names, or a class holds, is looked at: code of the user's own."""
    return purity.written_here(code) and not is_foreign(code)
