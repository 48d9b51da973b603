"""Nested containers as trees (`torch.utils._pytree`): take the leaves out, put others in, map over them.

Lists, tuples, named tuples, the dicts of the standard library and deques are nodes; `register_pytree_node` adds more.
Everything else is a leaf, None too.
"""

# ruff: noqa: I001

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from undertow._src.base.lazy import lazy_names
from undertow.utils._pytree_nodes import (
    CONSTANT_NODES as CONSTANT_NODES, SUPPORTED_NODES as SUPPORTED_NODES, ConstantNode as ConstantNode, Context as Context,
    GetAttrKey as GetAttrKey, IsLeaf as IsLeaf,
    KeyEntry as KeyEntry, KeyPath as KeyPath, MappingKey as MappingKey, NodeDef as NodeDef,
    SequenceKey as SequenceKey, is_namedtuple as is_namedtuple, is_namedtuple_class as is_namedtuple_class,
    is_constant_class as is_constant_class, _deregister_pytree_node as _deregister_pytree_node,
    _is_constant_holder as _is_constant_holder, _retrieve_constant as _retrieve_constant,
    is_namedtuple_instance as is_namedtuple_instance, is_structseq as is_structseq,
    is_structseq_class as is_structseq_class, is_structseq_instance as is_structseq_instance,
    register_constant as register_constant, register_dataclass as register_dataclass,
    register_pytree_node as register_pytree_node, tree_is_leaf as tree_is_leaf, _dict_flatten as _dict_flatten,
    _dict_flatten_with_keys as _dict_flatten_with_keys, _dict_unflatten as _dict_unflatten,
    _get_node_type as _get_node_type, _is_leaf as _is_leaf, _list_flatten as _list_flatten,
    _list_flatten_with_keys as _list_flatten_with_keys, _list_unflatten as _list_unflatten, _node_type as _node_type,
    _register_pytree_node as _register_pytree_node, _tuple_flatten as _tuple_flatten,
    _tuple_flatten_with_keys as _tuple_flatten_with_keys, _tuple_unflatten as _tuple_unflatten,
)  # fmt: skip

PyTree = Any

# How other containers are flattened and rebuilt, under the names that packages use.
_, _namedtuple_flatten, _namedtuple_unflatten, _namedtuple_flatten_with_keys = SUPPORTED_NODES[namedtuple]
_, _ordereddict_flatten, _ordereddict_unflatten, _ordereddict_flatten_with_keys = SUPPORTED_NODES[OrderedDict]
_, _defaultdict_flatten, _defaultdict_unflatten, _defaultdict_flatten_with_keys = SUPPORTED_NODES[defaultdict]
_, _deque_flatten, _deque_unflatten, _deque_flatten_with_keys = SUPPORTED_NODES[deque]
_odict_flatten, _odict_unflatten = _ordereddict_flatten, _ordereddict_unflatten
_is_namedtuple_instance, _private_register_pytree_node = is_namedtuple_instance, register_pytree_node

BUILTIN_TYPES = frozenset({tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque})
STANDARD_DICT_TYPES = frozenset({dict, OrderedDict, defaultdict})

for _class in (SequenceKey, MappingKey, GetAttrKey, NodeDef, ConstantNode):
    _class.__module__ = __name__


# --- the structure of a tree


class TreeSpec:
    """The structure of a tree: a node's type, its context for rebuilding, and the structures of its children."""

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
        """Return the structures of the children."""
        return list(self._children)

    def child(self, index: int) -> TreeSpec:
        """Return the structure of one child."""
        return self._children[index]

    def is_leaf(self) -> bool:
        """Whether the tree is only a leaf."""
        return self.type is None

    def unflatten(self, leaves: Iterable[Any]) -> PyTree:
        """Return the tree of this structure with these leaves."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a tree that "
                f"holds {self.num_leaves} items ({self})."
            )
        return self._build(iter(leaves))

    def _build(self, leaves: Iterator[Any]) -> PyTree:
        if self.type is None:
            return next(leaves)
        children = [child._build(leaves) for child in self._children]
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self._context)

    def flatten_up_to(self, tree: PyTree) -> list[PyTree]:
        """Return the subtrees that a deeper tree has in place of this structure's leaves."""
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
    """The structure of a leaf."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None)


PyTreeSpec = TreeSpec
_LEAF = _LEAF_SPEC = LeafSpec()


def treespec_leaf() -> TreeSpec:
    """Return the structure of a leaf."""
    return _LEAF


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """Return the structure of a tuple of trees of these structures."""
    return TreeSpec(tuple, None, iterable)


def treespec_dict(mapping: Any = (), /, **kwargs: TreeSpec) -> TreeSpec:
    """Return the structure of a dict of trees of these structures."""
    children = dict(mapping, **kwargs)
    return TreeSpec(dict, list(children), children.values())


class _Star:
    def __repr__(self) -> str:
        return "*"


def _is_pytreespec_instance(obj: Any) -> bool:
    return isinstance(obj, TreeSpec)


def treespec_pprint(treespec: TreeSpec) -> str:
    """Return a structure printed as a tree, with stars for leaves."""
    return repr(treespec.unflatten([_Star()] * treespec.num_leaves))


# --- flattening and unflattening


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """Return a tree's leaves and its structure.

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
    """Return the tree of a structure with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}.")
    return treespec.unflatten(leaves)


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """Yield the leaves."""
    if _is_leaf(tree, is_leaf):
        yield tree
        return
    for child in SUPPORTED_NODES[_node_type(tree)].flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """Return the leaves."""
    return list(tree_iter(tree, is_leaf))


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """Return the leaves of the arguments of a call."""
    return tree_leaves((*args, *kwargs.values()))


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """Return the structure."""
    return tree_flatten(tree, is_leaf)[1]


# --- mapping


def tree_map(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Return the tree with `func(leaf, ...)` in place of every leaf; further trees supply further arguments."""
    leaves, treespec = tree_flatten(tree, is_leaf)
    return treespec.unflatten(map(func, leaves, *[treespec.flatten_up_to(rest) for rest in rests]))


def tree_map_(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Call `func` on every leaf and return the tree itself."""
    leaves, treespec = tree_flatten(tree, is_leaf)
    for _ in map(func, leaves, *[treespec.flatten_up_to(rest) for rest in rests]):
        pass
    return tree


def map_only(wanted: Any, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Return a decorator: the function is applied to values of a type (or that pass a test), others are kept."""
    passes = (lambda x: isinstance(x, wanted)) if isinstance(wanted, (type, tuple)) or not callable(wanted) else wanted

    def restrict(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: func(x) if passes(x) else x

    return restrict


def tree_map_only(wanted: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Apply `tree_map` to the leaves of a type."""
    return tree_map(map_only(wanted)(func), tree, is_leaf=is_leaf)


def tree_map_only_(wanted: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Apply `tree_map_` to the leaves of a type."""
    return tree_map_(map_only(wanted)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a test holds for all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a test holds for any leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(wanted: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a test holds for all leaves of a type."""
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, wanted))


def tree_any_only(wanted: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a test holds for any leaf of a type."""
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, wanted))


def _broadcast_to_and_flatten(tree: PyTree, treespec: TreeSpec, is_leaf: IsLeaf = None) -> list[Any] | None:
    """Return the leaves of a prefix tree, repeated to match a structure; None if it does not fit."""
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
    """Return pairs of path and leaf, and the tree's structure."""
    return list(_generate_key_paths((), tree, is_leaf)), tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """Return pairs of path and leaf."""
    return list(_generate_key_paths((), tree, is_leaf))


def _generate_key_paths(key_path: KeyPath, tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[tuple[KeyPath, Any]]:
    if _is_leaf(tree, is_leaf):
        yield key_path, tree
        return
    kind = _node_type(tree)
    with_keys = SUPPORTED_NODES[kind].flatten_with_keys_fn
    if with_keys is None:
        raise ValueError(f"Did not find a flatten_with_keys_fn for type: {kind}. Please pass a flatten_with_keys_fn.")
    for key, child in with_keys(tree)[0]:
        yield from _generate_key_paths((*key_path, key), child, is_leaf)


def tree_map_with_path(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Apply `tree_map` with a function that takes the path to the leaf first."""
    pairs, treespec = tree_flatten_with_path(tree, is_leaf)
    others = [treespec.flatten_up_to(rest) for rest in rests]
    return treespec.unflatten(func(*pair, *rest) for *pair, rest in _beside(pairs, others))


def _beside(pairs: list[tuple[KeyPath, Any]], others: list[list[Any]]) -> Iterator[tuple[Any, Any, tuple[Any, ...]]]:
    for place, (path, leaf) in enumerate(pairs):
        yield path, leaf, tuple(other[place] for other in others)


def keystr(kp: KeyPath) -> str:
    """Return a path as Python would write it: `['a'][0].weight`."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """Return the value at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


# Structures are rarely serialized: that file is imported on demand.
_TEXT = (
    "DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL", "EnumEncoder", "_register_namedtuple", "enum_object_hook", "pytree_to_str",
    "str_to_pytree", "treespec_dumps", "treespec_loads",
)  # fmt: skip
__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(_TEXT, "undertow.utils._pytree_text"))
