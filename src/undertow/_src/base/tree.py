"""Nested tuples, lists and dicts of values: flatten, rebuild, map."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any


def leaves(tree: Any) -> Iterator[Any]:
    """Return the leaves of nested tuples, lists and dicts, in order, without recursion."""
    stack = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, (tuple, list)):
            stack.extend(reversed(item))
        elif isinstance(item, dict):
            stack.extend(reversed(_methods(item).values(item)))
        else:
            yield item


def map_leaves(function: Callable[[Any], Any], tree: Any, ends: type | None = None) -> Any:
    """Return the same nesting with `function` applied to the leaves; named tuples and dict classes are kept.

    A value of type `ends` is a leaf, whatever it holds.
    """
    if ends is not None and isinstance(tree, ends):
        return function(tree)
    if isinstance(tree, tuple):
        parts = [map_leaves(function, item, ends) for item in tree]
        return _alike(tree, type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts))
    if isinstance(tree, list):
        return _alike(tree, type(tree)(map_leaves(function, item, ends) for item in tree))
    if isinstance(tree, dict):
        made = copy.copy(tree)  # a copy keeps the other state of a dict subclass
        attributes = getattr(tree, "__dict__", None) or {}
        for key, item in list(_methods(tree).items(tree)):
            made[key] = mapped = map_leaves(function, item, ends)  # through the `__setitem__` of its class
            for name, value in attributes.items():
                if value is item:  # an entry that is also an attribute
                    made.__dict__[name] = mapped
        return made
    return function(tree)


def _methods(tree: dict[Any, Any]) -> Any:
    """Return the class whose methods read what a dict really holds: a subclass may override them."""
    return OrderedDict if isinstance(tree, OrderedDict) else dict


def _alike(tree: Any, made: Any) -> Any:
    """Give a new container the attributes of the original."""
    if getattr(tree, "__dict__", None):
        made.__dict__.update(tree.__dict__)
    return made
