"""Serialized structures of trees: `treespec_dumps` and `treespec_loads`."""

from __future__ import annotations

import enum
import importlib
import json
from collections import namedtuple
from typing import Any

from undertow.utils._pytree import _LEAF, TreeSpec
from undertow.utils._pytree_nodes import SERIALIZED, SUPPORTED_NODES

__all__ = ["DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL", "treespec_dumps", "treespec_loads"]

DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL = 1
_PLAIN = {
    f"{kind.__module__}.{kind.__name__}": kind
    for kind in SUPPORTED_NODES
    if kind.__module__ in ("builtins", "collections") and kind.__name__ != "namedtuple"
}


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """Return the structure of a tree as JSON."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}.")
    _check_protocol(1 if protocol is None else protocol)
    return json.dumps([1, _described(treespec)], cls=EnumEncoder)


def treespec_loads(serialized: str) -> TreeSpec:
    """Return the structure of a tree from JSON."""
    protocol, described = json.loads(serialized, object_hook=enum_object_hook)
    _check_protocol(protocol)
    return _made(described)


pytree_to_str, str_to_pytree = treespec_dumps, treespec_loads  # deprecated names


class EnumEncoder(json.JSONEncoder):
    """Writes members of enums by name."""

    def default(self, obj: Any) -> Any:
        if not isinstance(obj, enum.Enum):
            return super().default(obj)
        kind = type(obj)
        return {"__enum__": True, "fqn": f"{kind.__module__}:{kind.__qualname__}", "name": obj.name}


def enum_object_hook(obj: dict[str, Any]) -> Any:
    """Read what `EnumEncoder` wrote."""
    if "__enum__" not in obj:
        return obj
    module, _, name = obj["fqn"].partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found[obj["name"]]


_named_tuples: dict[Any, str] = {}


def _register_namedtuple(cls: type, *, serialized_type_name: str) -> None:
    """Register the serialized name of a named tuple class."""
    _named_tuples[cls] = serialized_type_name


def _check_protocol(protocol: int) -> None:
    if protocol != 1:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [1]")


def _described(spec: TreeSpec) -> dict[str, Any]:
    if spec.type is None:
        return {"type": None, "context": None, "children_spec": []}
    children = [_described(child) for child in spec.children_specs]
    name, context = _name_and_context(spec)
    return {"type": name, "context": context, "children_spec": children}


def _name_and_context(spec: TreeSpec) -> tuple[str, Any]:
    kind = spec.type
    name = f"{kind.__module__}.{kind.__name__}"
    if kind in SERIALIZED and isinstance(kind, type) and name not in _PLAIN:  # named tuples share one entry, a function
        known, write, _ = SERIALIZED[kind]
        if known is None:
            raise NotImplementedError(
                f"No registered serialization name for {kind} found. Give _register_pytree_node a "
                "`serialized_type_name`."
            )
        return known, json.dumps(spec.context) if write is None else write(spec.context)
    if kind is namedtuple and spec.context in _named_tuples:
        return "collections.namedtuple", _named_tuples[spec.context]
    if _PLAIN.get(name) is not kind:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {spec.context} because it has no "
            "serializated_type_name. `_register_namedtuple` gives it one."
        )
    if name != "collections.defaultdict":
        return name, json.dumps(spec.context)
    factory, keys = spec.context
    return name, {
        "default_factory_module": factory.__module__, "default_factory_name": factory.__qualname__, "dict_context": keys,
    }  # fmt: skip


def _made(described: dict[str, Any]) -> TreeSpec:
    name, context = described["type"], described["context"]
    if name is None:
        return _LEAF
    children = [_made(child) for child in described["children_spec"]]
    if name == "collections.namedtuple":
        return TreeSpec(namedtuple, _named_tuple_called(context), children)
    if name in _PLAIN:
        return TreeSpec(_PLAIN[name], _context_of(name, context), children)
    for kind, (known, _, read) in SERIALIZED.items():
        if known == name:
            return TreeSpec(kind, json.loads(context) if read is None else read(context), children)
    raise NotImplementedError(f"Deserializing {name} in pytree is not registered.")


def _named_tuple_called(name: str) -> Any:
    for cls, known in _named_tuples.items():
        if known == name:
            return cls
    raise NotImplementedError(
        f"Can't deserialize TreeSpec of namedtuple class {name} because no class has that name: "
        "register it by `_register_namedtuple`."
    )


def _context_of(name: str, context: Any) -> Any:
    if name != "collections.defaultdict":
        return json.loads(context)
    module = importlib.import_module(context["default_factory_module"])
    return [getattr(module, context["default_factory_name"]), context["dict_context"]]
