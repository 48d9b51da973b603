"""The nodes of trees: the classes that `torch.utils._pytree` flattens, and how it rebuilds them."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from undertow._src.types.sizes import Size
from undertow.return_types import NamedResults

Context = Any
IsLeaf = Callable[[Any], bool] | None


# --- the steps from a node to its children


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """The step from a sequence to one of its items."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """The step from a dict to one of its values."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        return mapping[self.key]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """The step from an object to one of its attributes."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        return getattr(obj, self.name)


KeyEntry = SequenceKey | MappingKey | GetAttrKey
KeyPath = tuple[Any, ...]


# --- registered classes


class NodeDef(NamedTuple):
    """How a kind of node is flattened and rebuilt."""

    type: Any
    flatten_fn: Callable[[Any], tuple[list[Any], Context]]
    unflatten_fn: Callable[[Iterable[Any], Context], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Context]] | None


SUPPORTED_NODES: dict[Any, NodeDef] = {}

# Of registered classes: their serialized name, and how their context is written and read.
SERIALIZED: dict[Any, tuple[str | None, Any, Any]] = {}


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[list[Any], Context]],
    unflatten_fn: Callable[[Iterable[Any], Context], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Any = None,
    from_dumpable_context: Any = None,
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Context]] | None = None,
) -> None:
    """Make a class a node: `flatten_fn(node) -> (children, context)`, `unflatten_fn(children, context) -> node`."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    SERIALIZED[cls] = serialized_type_name, to_dumpable_context, from_dumpable_context


_register_pytree_node = register_pytree_node  # the name in older packages


def register_dataclass(
    cls: type, *, field_names: list[str] | None = None, drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:  # fmt: skip
    """Make a dataclass a node whose children are its fields."""
    dropped = set(drop_field_names or ())
    names = field_names or [each.name for each in dataclasses.fields(cls) if each.init and each.name not in dropped]

    def flatten(node: Any) -> tuple[list[Any], Context]:
        given = [name for name in names if getattr(node, name) is not None]
        return [getattr(node, name) for name in given], [given, [name for name in names if name not in given]]

    def flatten_with_keys(node: Any) -> tuple[list[tuple[Any, Any]], Context]:
        values, context = flatten(node)
        return [(GetAttrKey(name), value) for name, value in zip(context[0], values, strict=True)], context

    def unflatten(values: Iterable[Any], context: Context) -> Any:
        return cls(**dict(zip(context[0], values, strict=True)), **dict.fromkeys(context[1]))

    register_pytree_node(cls, flatten, unflatten, flatten_with_keys_fn=flatten_with_keys)


@dataclasses.dataclass(frozen=True)
class ConstantNode:
    """A constant in the structure of a tree."""

    value: Any


CONSTANT_NODES: set[type] = set()


def register_constant(cls: type) -> None:
    """Make a class a node without children, kept as it is."""
    if cls.__eq__ is object.__eq__:
        raise TypeError(
            "register_constant(cls) expects `cls` to have a non-default `__eq__` implementation: shapes of trees are "
            "compared by their constants."
        )
    if cls.__hash__ is None:
        raise TypeError("register_constant(cls) expects `cls` to have a `__hash__` implementation.")
    register_pytree_node(
        cls, lambda node: ([], ConstantNode(node)), lambda _, context: context.value,
        flatten_with_keys_fn=lambda node: ([], ConstantNode(node)),
    )  # fmt: skip
    CONSTANT_NODES.add(cls)


def is_constant_class(cls: type) -> bool:
    """Whether a class is registered as a constant."""
    return isinstance(cls, type) and cls in CONSTANT_NODES


def _is_constant_holder(spec: Any) -> bool:
    """Whether the structure of a tree is that of a constant."""
    return isinstance(spec.context, ConstantNode)


def _retrieve_constant(spec: Any) -> Any:
    """Return the constant of a structure."""
    if not _is_constant_holder(spec):
        raise AssertionError("spec does not correspond to a registered constant pytree")
    return spec.context.value


def _deregister_pytree_node(cls: type) -> None:
    """Make a class a leaf again."""
    del SUPPORTED_NODES[cls]
    SERIALIZED.pop(cls, None)
    CONSTANT_NODES.discard(cls)


def _sequence(
    cls: Any, rebuild: Callable[[Iterable[Any], Context], Any], context: Any = lambda node: None,
    name: str | None = None,
) -> None:  # fmt: skip
    register_pytree_node(
        cls,
        lambda node: (list(node), context(node)),
        rebuild,
        flatten_with_keys_fn=lambda node: ([(SequenceKey(i), x) for i, x in enumerate(node)], context(node)),
        serialized_type_name=name,
    )


def _mapping(cls: Any, rebuild: Callable[[Iterable[Any], Context], Any], context: Any = list) -> None:
    register_pytree_node(
        cls, lambda node: (list(node.values()), context(node)), rebuild,
        flatten_with_keys_fn=lambda node: ([(MappingKey(key), x) for key, x in node.items()], context(node)),
    )  # fmt: skip


def _named_keys(node: Any) -> tuple[list[tuple[Any, Any]], Context]:
    return [(GetAttrKey(name), x) for name, x in zip(node._fields, node, strict=True)], type(node)


# Packages register classes like these with their functions.


def _list_flatten(node: Any) -> tuple[list[Any], Context]:
    return list(node), None


def _list_flatten_with_keys(node: Any) -> tuple[list[tuple[Any, Any]], Context]:
    return [(SequenceKey(index), value) for index, value in enumerate(node)], None


def _list_unflatten(values: Iterable[Any], context: Context) -> list[Any]:
    return list(values)


def _tuple_unflatten(values: Iterable[Any], context: Context) -> tuple[Any, ...]:
    return tuple(values)


def _dict_flatten(node: Any) -> tuple[list[Any], Context]:
    return list(node.values()), list(node)


def _dict_flatten_with_keys(node: Any) -> tuple[list[tuple[Any, Any]], Context]:
    return [(MappingKey(key), value) for key, value in node.items()], list(node)


def _dict_unflatten(values: Iterable[Any], context: Context) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


_tuple_flatten, _tuple_flatten_with_keys = _list_flatten, _list_flatten_with_keys
register_pytree_node(tuple, _tuple_flatten, _tuple_unflatten, flatten_with_keys_fn=_tuple_flatten_with_keys)
register_pytree_node(list, _list_flatten, _list_unflatten, flatten_with_keys_fn=_list_flatten_with_keys)
register_pytree_node(dict, _dict_flatten, _dict_unflatten, flatten_with_keys_fn=_dict_flatten_with_keys)
register_pytree_node(
    namedtuple,  # type: ignore[arg-type]  # stands for all of them, as in PyTorch
    lambda node: (list(node), type(node)), lambda values, cls: cls(*values), flatten_with_keys_fn=_named_keys,
)  # fmt: skip
_mapping(OrderedDict, lambda values, keys: OrderedDict(zip(keys, values, strict=True)))
_mapping(
    defaultdict,
    lambda values, context: defaultdict(context[0], zip(context[1], values, strict=True)),
    lambda node: [node.default_factory, list(node)],
)
_sequence(deque, lambda values, maxlen: deque(values, maxlen=maxlen), lambda node: node.maxlen)
_sequence(Size, lambda values, _: tuple(values), name="torch.Size")  # of the new leaves


# --- telling nodes from leaves


def is_namedtuple_class(cls: Any) -> bool:
    fields = getattr(cls, "_fields", None)
    return issubclass(cls, tuple) and type(fields) is tuple and all(type(field) is str for field in fields)


def is_namedtuple_instance(obj: Any) -> bool:
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: Any) -> bool:
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: Any) -> bool:
    """Whether a class is the structseq type of a function with several results."""
    return isinstance(cls, type) and issubclass(cls, NamedResults) and cls is not NamedResults


def is_structseq_instance(obj: Any) -> bool:
    return is_structseq_class(type(obj))


def is_structseq(obj: Any) -> bool:
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def _node_type(tree: Any) -> Any:
    """Return the key of a value in the table of nodes; the class of a leaf is not in it."""
    cls = type(tree)
    if cls in SUPPORTED_NODES:
        return cls
    if issubclass(cls, tuple):
        if is_namedtuple_class(cls):
            return namedtuple
        if is_structseq_class(cls):
            _sequence(cls, _rebuilder(cls))
    return cls


def _rebuilder(cls: Any) -> Callable[[Iterable[Any], Context], Any]:
    return lambda values, _: cls(list(values))


def _get_node_type(tree: Any) -> Any:
    return _node_type(tree)


def _is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    return (is_leaf is not None and is_leaf(tree)) or _node_type(tree) not in SUPPORTED_NODES


def tree_is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether a value is a leaf and not a node."""
    return _is_leaf(tree, is_leaf)
