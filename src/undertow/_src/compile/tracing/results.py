"""What a call returns and leaves: copies of the trace's containers and objects, with the call's tensors.

Eager code makes them in each call. Those from before the step stay themselves.
"""

from __future__ import annotations

import functools
import gc
import types
from collections import deque
from collections.abc import Callable, Container, Iterator
from typing import Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.compile.callbacks.containers import contents_of, emptied, fill, is_used_up, made_of
from undertow._src.compile.effects.objects import instance_dict, keys_in
from undertow._src.compile.effects.values import is_plain
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.places import PLAIN, Slots
from undertow._src.compile.tracing.sparse_parts import Parts, is_sparse, parts_of_sparse, together
from undertow._src.compile.tracing.symbolic_scalars import SymbolicScalar
from undertow._src.engine.node import Edge, Node
from undertow._src.engine.saved import Freed
from undertow._src.rules.rule import Rule
from undertow._src.tensor.core import TensorCore
from undertow.nn.modules.module import Module
from undertow.optim.optimizer import Optimizer

FIXED = (TensorCore, *PLAIN, type, types.ModuleType, Module, Optimizer)  # taken as they are
_OPAQUE = (types.FunctionType, types.MethodType, types.GeneratorType, functools.partial)


def parts_of(value: Any) -> Iterator[Any]:
    """Return the parts of a container or an object."""
    if isinstance(value, dict):
        yield from dict.values(value) if isinstance(value, dict) else value.values()
        yield from (key for key in keys_in(value) if not isinstance(key, PLAIN))
    elif isinstance(value, (tuple, list, deque, set, frozenset)):
        yield from value
    if not isinstance(value, _OPAQUE):
        yield from instance_dict(value).values()
        yield from Slots(value).values()


def _is_fixed(value: Any) -> bool:
    return isinstance(value, FIXED) and not is_sparse(value)


def tensors_in(tree: Any, known: Container[int] = ()) -> list[Any]:
    """Return the tensors in containers and objects, in order, without those in `known` objects."""
    return values_in(tree, known, TensorCore)


def values_in(tree: Any, known: Container[int], kind: type | tuple[type, ...]) -> list[Any]:
    """Return the values in containers and objects, without those in `known` objects."""
    found: dict[int, Any] = {}
    seen: set[int] = set()
    stack = [tree]
    while stack:
        value = stack.pop()
        if isinstance(value, kind) and not is_sparse(value):
            if isinstance(value, TensorCore) and id(value) not in found and id(value) not in known:
                stack.extend(vars(value).values())
            found.setdefault(id(value), value)
        elif not _is_fixed(value) and id(value) not in seen and id(value) not in known:
            seen.add(id(value))
            stack.extend(reversed(list(parts_of(value))))
    return list(found.values())


def objects_in(tree: Any, known: Container[int]) -> dict[int, Any]:
    """Return the containers and objects themselves, by id."""
    found: dict[int, Any] = {}
    stack = [tree]
    while stack:
        value = stack.pop()
        if not _is_fixed(value) and id(value) not in found and id(value) not in known:
            found[id(value)] = value
            stack.extend(parts_of(value))
    return found


def graph_is_left(tensor: Any) -> bool:
    """Return whether a tensor has a graph of which no backward pass has freed a part."""
    return tensor._edge is not None and not any(map(is_spent, nodes_behind([tensor._edge])))


def is_spent(node: Node) -> bool:
    """Return whether a backward pass has freed what a node saved."""
    return isinstance(getattr(node, "saved", None), Freed)


def nodes_behind(roots: list[Edge]) -> list[Node]:
    """Return all nodes of a graph."""
    found: dict[Node, None] = {}
    stack = [node for node, _ in roots]
    while stack:
        node = stack.pop()
        if node not in found:
            found[node] = None
            stack += [edge[0] for edge in node._edges if edge is not None]
    return list(found)


def scalars_in(nodes: list[Node]) -> list[tuple[SymbolicScalar, bool]]:
    """Return the numbers of a program that nodes of a graph hold: saved, or in a custom Function; whether in a function."""
    found: dict[int, tuple[SymbolicScalar, bool]] = {}
    seen: set[int] = set()
    stack: list[tuple[Any, bool]] = [(node, False) for node in nodes]
    while stack:
        value, hidden = stack.pop()
        if id(value) in seen or isinstance(value, (DeviceArray, np.ndarray, Rule)):
            continue
        seen.add(id(value))
        if isinstance(value, SymbolicScalar):
            found[id(value)] = (value, hidden)
        elif isinstance(value, types.FunctionType):
            stack += [(part, True) for part in (value.__closure__, value.__defaults__, value.__kwdefaults__)]
        elif not isinstance(value, FIXED):
            stack += [(part, hidden) for part in gc.get_referents(value)]
    return list(found.values())


class Rebuilt:
    """Copy containers and objects, with their tensors and numbers replaced."""

    def __init__(
        self, tensor: Callable[[Any], Any], known: Container[int], own: Container[int] = (), made: Any = ()
    ) -> None:
        self._tensor, self._known = tensor, known
        self._own = own  # ids of objects that are copied, whatever they hold
        self._made: dict[int, Any] = dict(made)  # copies that exist already, by the ids of the originals

    def __call__(self, value: Any) -> Any:
        if isinstance(value, (TensorCore, SymbolicScalar)) and not is_sparse(value):
            made = self._tensor(value)
            if isinstance(value, TensorCore) and vars(value) and made is not value and id(value) not in self._made:
                self._made[id(value)] = made
                vars(made).update({name: self(part) for name, part in vars(value).items()})
            return made
        if _is_fixed(value) or id(value) in self._known or isinstance(value, _OPAQUE):
            return value
        if id(value) not in self._made:
            self._made[id(value)] = self._rebuilt(value)
        return self._made[id(value)]

    def _rebuilt(self, value: Any) -> Any:
        if is_sparse(value):
            places, items, *look = parts_of_sparse(value)
            return together(Parts(self(places), self(items), *look))
        if isinstance(value, (tuple, frozenset)):
            parts = [part._replace(value=self(part.value)) for part in contents_of(value)]
            if all(part.value is before for part, before in zip(parts, value)):
                return value
            return made_of(type(value), parts)
        is_container = isinstance(value, (list, dict, deque, set))
        if not (is_container or id(value) in self._own or self._holds_values(value)):
            return value
        made = self._made[id(value)] = emptied(value)
        fill(made, [part._replace(key=self(part.key), value=self(part.value)) for part in contents_of(value)])
        return made

    def _holds_values(self, value: Any) -> bool:
        return bool(values_in(value, self._known, TensorCore) or values_in(value, self._known, SymbolicScalar))


def _is_unknown(value: Any) -> bool:
    return isinstance(value, SymbolicScalar) and value.is_asked


def refuse_hidden(tree: Any, known: Container[int], is_made: Callable[[Any], bool]) -> None:
    """Refuse tensors of the program in places that can't be refilled, and iterators that an earlier call used up."""
    used_up = [value for value in objects_in(tree, known).values() if is_used_up(value)]
    if used_up or any(
        _is_unknown(value) or (isinstance(value, TensorCore) and is_made(value)) for value in hidden_in(tree, known)
    ):
        raise CompileError(
            "undertow.compile: the step returns or stores "
            + (f"a {type(used_up[0]).__name__}" if used_up else "a function or an iterator that holds tensors")
            + ", which a program can't make for each call. "
            "Return the tensors themselves, in tuples, dicts or objects (of an iterator: `list(...)`)."
        )


def forget_cached(caches: list[tuple[Any, str]], is_made: Callable[[Any], bool]) -> list[str]:
    """Empty the caches of functions that keep tensors or numbers of a trace; return the names of those with tensors."""
    with_tensors = [(function, name) for function, name in caches if any(map(is_made, cached_by(function)))]
    for function, _ in (*with_tensors, *[cache for cache in caches if scalars_cached_by(cache[0])]):
        function.cache_clear()
    return [name for _, name in with_tensors]


def cached_by(function: Any) -> list[Any]:
    """Return the tensors in the cache of a function (`functools.lru_cache`)."""
    return tensors_in([each for each in _in_cache(function) if isinstance(each, (TensorCore, list, tuple, dict))])


def scalars_cached_by(function: Any) -> list[Any]:
    """Return numbers of a program that are in the cache of a function."""
    return values_in(_in_cache(function), (), SymbolicScalar)


def objects_cached_by(function: Any) -> list[Any]:
    """Return the objects in a function's cache besides tensors and plain values."""
    held = [each for each in _in_cache(function) if not isinstance(each, TensorCore) and not is_plain(each)]
    return [each for each in held if not values_in(each, (), SymbolicScalar)]


def _in_cache(function: Any) -> list[Any]:
    """Return the keys and results in a function's cache, without its other references."""
    size, own = function.cache_info(), vars(function)
    held = [each for each in gc.get_referents(function) if each is not own and each is not function.__wrapped__]
    if size.maxsize is None:  # then there are no links, and the dict of results is the only one
        return [part for each in held if type(each) is dict for part in (*each, *each.values())]
    return [each for each in held if not isinstance(each, type) and type(each) is not object and not _has_links(each)]


def _has_links(value: Any) -> bool:
    """Return whether a dict is the one in which a cache looks up its links."""
    return type(value) is dict and all(type(each).__name__ == "_lru_list_elem" for each in value.values())


def hidden_in(tree: Any, known: Container[int]) -> Iterator[Any]:
    """Return tensors and numbers of a program in places that can't be refilled: in a function or an iterator."""
    seen: set[int] = set()
    stack = [(tree, False)]
    while stack:
        value, hidden = stack.pop()
        if isinstance(value, (TensorCore, SymbolicScalar)) and not is_sparse(value):
            if hidden:
                yield value
        elif not _is_fixed(value) and id(value) not in seen and id(value) not in known:
            seen.add(id(value))
            if isinstance(value, types.FunctionType):
                stack += [(part, True) for part in (value.__closure__, value.__defaults__, value.__kwdefaults__)]
            elif list(parts_of(value)):
                stack += [(part, hidden) for part in parts_of(value)]
            elif len(seen) < 1000:
                stack += [(part, True) for part in gc.get_referents(value)]
