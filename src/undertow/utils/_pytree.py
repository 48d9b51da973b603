"""Nested containers as trees (`torch.utils._pytree`): take the leaves out, put others in, map over them.

Lists, tuples, named tuples, the dicts of the standard library and deques are nodes; `register_pytree_node` adds more.
Everything else is a leaf, None too.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from undertow.return_types import NamedResults
from undertow.sizes import Size

PyTree = Any
Context = Any
IsLeaf = Callable[[Any], bool] | None


# --- what a node is


class SequenceKey(NamedTuple):
    """The step from a sequence to one of its items."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        return sequence[self.idx]


class MappingKey(NamedTuple):
    """The step from a dict to one of its values."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        return mapping[self.key]


class GetAttrKey(NamedTuple):
    """The step from an object to one of its attributes."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, owner: Any) -> Any:
        return getattr(owner, self.name)


KeyEntry = SequenceKey | MappingKey | GetAttrKey
KeyPath = tuple[Any, ...]


class NodeDef(NamedTuple):
    """How a kind of node is taken apart and put together again."""

    type: Any
    flatten_fn: Callable[[Any], tuple[list[Any], Context]]
    unflatten_fn: Callable[[Iterable[Any], Context], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Context]] | None


SUPPORTED_NODES: dict[Any, NodeDef] = {}


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
    """Makes a class a node: `flatten_fn(node) -> (children, context)`, `unflatten_fn(children, context) -> node`."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


_register_pytree_node = register_pytree_node  # the name that older packages use


def register_dataclass(
    cls: type, *, field_names: list[str] | None = None, drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:  # fmt: skip
    """Makes a dataclass a node whose children are its fields."""
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


def register_constant(cls: type) -> None:
    """Makes a class a node without children, kept as it is."""
    register_pytree_node(
        cls, lambda node: ([], node), lambda _, context: context, flatten_with_keys_fn=lambda node: ([], node)
    )


def _sequence(cls: Any, rebuild: Callable[[Iterable[Any], Context], Any], context: Any = lambda node: None) -> None:
    register_pytree_node(
        cls,
        lambda node: (list(node), context(node)),
        rebuild,
        flatten_with_keys_fn=lambda node: ([(SequenceKey(i), x) for i, x in enumerate(node)], context(node)),
    )


def _mapping(cls: Any, rebuild: Callable[[Iterable[Any], Context], Any], context: Any = list) -> None:
    register_pytree_node(
        cls,
        lambda node: (list(node.values()), context(node)),
        rebuild,
        flatten_with_keys_fn=lambda node: ([(MappingKey(key), x) for key, x in node.items()], context(node)),
    )


def _named_keys(node: Any) -> tuple[list[tuple[Any, Any]], Context]:
    return [(GetAttrKey(name), x) for name, x in zip(node._fields, node, strict=True)], type(node)


# Packages make nodes of classes like these by their functions.


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
_sequence(Size, lambda values, _: Size(values))


def is_namedtuple_class(cls: Any) -> bool:
    fields = getattr(cls, "_fields", None)
    return issubclass(cls, tuple) and type(fields) is tuple and all(type(field) is str for field in fields)


def is_namedtuple(obj: Any) -> bool:
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def _node_type(tree: Any) -> Any:
    """The key of a value among the nodes; the class of a leaf is not among them."""
    cls = type(tree)
    if cls in SUPPORTED_NODES:
        return cls
    if issubclass(cls, tuple):
        if is_namedtuple_class(cls):
            return namedtuple
        if issubclass(cls, NamedResults) and cls is not NamedResults:
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


# --- the shape of a tree


class TreeSpec:
    """The shape of a tree: a node's type, what it needs to be made again, and the shapes of its children."""

    __slots__ = ("type", "_context", "_children", "num_nodes", "num_leaves", "num_children")

    num_nodes: int
    num_leaves: int
    num_children: int

    def __init__(self, type: Any, context: Context = None, children: Iterable[TreeSpec] = ()) -> None:
        self.type = type
        self._context = context
        self._children = list(children)
        self.num_children = len(self._children)
        self.num_nodes = 1 + sum(child.num_nodes for child in self._children)
        self.num_leaves = 1 if type is None else sum(child.num_leaves for child in self._children)

    @property
    def context(self) -> Context:
        return self._context

    @property
    def children_specs(self) -> list[TreeSpec]:
        return self._children

    def children(self) -> list[TreeSpec]:
        """The shapes of the children."""
        return list(self._children)

    def child(self, index: int) -> TreeSpec:
        """The shape of one child."""
        return self._children[index]

    def is_leaf(self) -> bool:
        """Whether the tree is only a leaf."""
        return self.type is None

    def unflatten(self, leaves: Iterable[Any]) -> PyTree:
        """The tree of this shape with these leaves."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree that "
                f"holds {self.num_leaves} items ({self})."
            )
        return self._build(iter(leaves))

    def _build(self, leaves: Iterator[Any]) -> PyTree:
        if self.type is None:
            return next(leaves)
        children = [child._build(leaves) for child in self._children]
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self._context)

    def flatten_up_to(self, tree: PyTree) -> list[PyTree]:
        """What a tree that goes on where this one ends holds in place of this one's leaves."""
        found: list[PyTree] = []
        self._collect(tree, found)
        return found

    def _collect(self, tree: PyTree, found: list[PyTree]) -> None:
        if self.type is None:
            found.append(tree)
            return
        kind = _node_type(tree)
        dicts = (dict, OrderedDict, defaultdict)
        if kind is not self.type and not (kind in dicts and self.type in dicts):
            raise ValueError(f"Node type mismatch; expected {self.type!r}, but got {kind!r}.")
        if kind in dicts:
            keys = self._context[1] if self.type is defaultdict else self._context
            if set(tree) != set(keys):
                missing, extra = set(keys) - set(tree), set(tree) - set(keys)
                raise ValueError(
                    "Node keys mismatch"
                    + (f"; missing key(s): {missing}" if missing else "")
                    + (f"; extra key(s): {extra}" if extra else "")
                    + "."
                )
            children = [tree[key] for key in keys]
        else:
            children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
            if len(children) != self.num_children:
                raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {len(children)}.")
            if kind is not deque and context != self._context:
                raise ValueError(
                    f"Node context mismatch for custom node type {self.type!r}; expected {self._context!r}, "
                    f"but got {context!r}."
                )
        for child, part in zip(self._children, children, strict=True):
            child._collect(part, found)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (self.type, self._context, self._children) == (other.type, other._context, other._children)

    def __hash__(self) -> int:
        return hash((self.type, str(self._context), tuple(self._children)))

    def __repr__(self) -> str:
        return self._printed(0)

    def _printed(self, indent: int) -> str:
        if self.type is None:
            return "*"
        between = ",\n" + " " * (indent + 2)
        children = between.join(child._printed(indent + 2) for child in self._children)
        return f"TreeSpec({self.type.__name__}, {self._context}, [{children}])"


class LeafSpec(TreeSpec):
    """The shape of a leaf."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None)


_LEAF = _LEAF_SPEC = LeafSpec()


class _Star:
    def __repr__(self) -> str:
        return "*"


def treespec_pprint(treespec: TreeSpec) -> str:
    """A shape as the tree looks, with stars for leaves."""
    return repr(treespec.unflatten([_Star()] * treespec.num_leaves))


# --- taking apart and putting together


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """A tree's leaves and its shape.

    >>> from undertow.utils._pytree import tree_flatten
    >>> tree_flatten({"a": [1, 2], "b": 3})[0]
    [1, 2, 3]
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, is_leaf, leaves)


def _flatten(tree: PyTree, is_leaf: IsLeaf, leaves: list[Any]) -> TreeSpec:
    if is_leaf is not None and is_leaf(tree):
        leaves.append(tree)
        return _LEAF
    kind = _node_type(tree)
    node = SUPPORTED_NODES.get(kind)
    if node is None:
        leaves.append(tree)
        return _LEAF
    children, context = node.flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten(child, is_leaf, leaves) for child in children])


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """The tree of a shape with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"tree_unflatten(leaves, treespec): Expected `treespec` to be TreeSpec; got {type(treespec)}.")
    return treespec.unflatten(leaves)


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves, one by one."""
    if _is_leaf(tree, is_leaf):
        yield tree
        return
    for child in SUPPORTED_NODES[_node_type(tree)].flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves."""
    return list(tree_iter(tree, is_leaf))


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """The shape."""
    return tree_flatten(tree, is_leaf)[1]


# --- mapping


def tree_map(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """The same tree with `func(leaf, ...)` in place of every leaf; further trees give further arguments."""
    leaves, treespec = tree_flatten(tree, is_leaf)
    return treespec.unflatten(map(func, leaves, *[treespec.flatten_up_to(rest) for rest in rests]))


def tree_map_(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Calls `func` on every leaf and returns the tree itself."""
    leaves, treespec = tree_flatten(tree, is_leaf)
    for _ in map(func, leaves, *[treespec.flatten_up_to(rest) for rest in rests]):
        pass
    return tree


def map_only(wanted: Any, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """A decorator: the function applies to values of a type (or several, or that pass a test), others stay."""
    passes = (lambda x: isinstance(x, wanted)) if isinstance(wanted, (type, tuple)) or not callable(wanted) else wanted

    def restrict(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: func(x) if passes(x) else x

    return restrict


def tree_map_only(wanted: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """`tree_map` over the leaves of a type."""
    return tree_map(map_only(wanted)(func), tree, is_leaf=is_leaf)


def tree_map_only_(wanted: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """`tree_map_` over the leaves of a type."""
    return tree_map_(map_only(wanted)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a test holds for all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a test holds for some leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(wanted: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a test holds for all leaves of a type."""
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, wanted))


def tree_any_only(wanted: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a test holds for some leaf of a type."""
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, wanted))


def _broadcast_to_and_flatten(tree: PyTree, treespec: TreeSpec, is_leaf: IsLeaf = None) -> list[Any] | None:
    """The leaves of a tree that may end earlier than a shape does, repeated; None where they do not fit."""
    if _is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    if treespec.is_leaf() or _node_type(tree) is not treespec.type:
        return None
    children, context = SUPPORTED_NODES[treespec.type].flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    found: list[Any] = []
    for child, spec in zip(children, treespec.children(), strict=True):
        part = _broadcast_to_and_flatten(child, spec, is_leaf)
        if part is None:
            return None
        found += part
    return found


# --- with the path to every leaf


def tree_flatten_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """Pairs of the path to a leaf and the leaf; and the tree's shape."""
    return list(_with_paths((), tree, is_leaf)), tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """Pairs of the path to a leaf and the leaf."""
    return list(_with_paths((), tree, is_leaf))


def _with_paths(path: KeyPath, tree: PyTree, is_leaf: IsLeaf) -> Iterator[tuple[KeyPath, Any]]:
    if _is_leaf(tree, is_leaf):
        yield path, tree
        return
    kind = _node_type(tree)
    with_keys = SUPPORTED_NODES[kind].flatten_with_keys_fn
    if with_keys is None:
        raise ValueError(f"Did not find a flatten_with_keys_fn for type: {kind}. Please pass a flatten_with_keys_fn.")
    for key, child in with_keys(tree)[0]:
        yield from _with_paths((*path, key), child, is_leaf)


def tree_map_with_path(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """`tree_map` whose function gets the path to the leaf first."""
    pairs, treespec = tree_flatten_with_path(tree, is_leaf)
    others = [treespec.flatten_up_to(rest) for rest in rests]
    return treespec.unflatten(func(*pair, *rest) for *pair, rest in _beside(pairs, others))


def _beside(pairs: list[tuple[KeyPath, Any]], others: list[list[Any]]) -> Iterator[tuple[Any, Any, tuple[Any, ...]]]:
    for place, (path, leaf) in enumerate(pairs):
        yield path, leaf, tuple(other[place] for other in others)


def keystr(kp: KeyPath) -> str:
    """A path as Python would write it: `['a'][0].weight`."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What lies at the end of a path."""
    for key in kp:
        obj = key.get(obj)
    return obj
