"""torch.utils._pytree: nested containers taken apart, mapped over and put together again."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque, namedtuple
from importlib import import_module
from typing import Any

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt

cases = Table()
Pair = namedtuple("Pair", "a b")


def trees(torch: Any) -> Any:
    return import_module(f"{torch.__name__}.utils._pytree")


def nested(torch: Any) -> Any:
    made: dict[str, Any] = {"a": [1, (2, 3)], "b": Pair(4, {"c": None}), "d": OrderedDict(x=5)}
    return made | {"e": deque([6, 7], maxlen=3), "f": defaultdict(int, {"g": 8}), "h": torch.Size([9])}


@cases
def taken_apart_and_put_together(torch, log):
    tree = trees(torch)
    leaves, shape = tree.tree_flatten(nested(torch))
    log(leaves, str(shape), shape.num_leaves, shape.num_nodes, shape.num_children)
    log(tree.tree_unflatten(list("abcdefghij"), shape), tree.treespec_pprint(shape))
    attempt(log, "too few", lambda: tree.tree_unflatten([1], shape))
    attempt(log, "no shape", lambda: tree.tree_unflatten([1], 3))
    log(shape == tree.tree_structure(nested(torch)), tree.tree_structure([1]) == tree.tree_structure((1,)))
    log(tree.tree_leaves(nested(torch), is_leaf=lambda x: isinstance(x, tuple)), tree.arg_tree_leaves(1, [2], a=3))
    log(str(tree.treespec_tuple([tree.treespec_leaf()])), str(tree.treespec_dict({"a": tree.treespec_leaf()})))


@cases
def mapped(torch, log):
    tree = trees(torch)
    log(tree.tree_map(lambda x: [x], nested(torch)), tree.tree_map(lambda x, y: (x, y), [1, 2], [3, {"a": 4}]))
    for other in ([3], (3, 4), {"a": 1}):
        attempt(log, "beside", lambda: tree.tree_map(lambda x, y: (x, y), [1, 2], other))
    attempt(log, "keys", lambda: tree.tree_map(lambda x, y: (x, y), {"a": 1}, {"b": 4}))
    log(tree.tree_map_only(int, lambda x: -x, [1, "a", 2.5]), tree.tree_map_only(lambda x: x == 1, str, [1, 2]))
    log(tree.tree_all_only(int, lambda x: x > 0, [1, "a"]), tree.tree_any(lambda x: x > 1, [1, 2]))
    best = torch.max(torch.ones(2, 2), 0)
    log(tree.tree_map(lambda x: x, best), tree.is_structseq(best), tree.is_namedtuple_instance(Pair(1, 2)))


@cases
def paths(torch, log):
    tree = trees(torch)
    pairs, _ = tree.tree_flatten_with_path(nested(torch))
    log(pairs, [tree.keystr(path) for path, _ in pairs], [tree.key_get(nested(torch), path) for path, _ in pairs])
    log(tree.tree_map_with_path(lambda path, x: tree.keystr(path), {"a": [1, 2]}))
    log(
        tree.SequenceKey(0) == tree.SequenceKey(0), tree.SequenceKey(0) == (0,), tree.tree_leaves([tree.SequenceKey(0)])
    )


@cases
def registered(torch, log):
    tree = trees(torch)

    class Point:
        def __init__(self, x: Any, y: Any) -> None:
            self.x, self.y = x, y

    @dataclasses.dataclass
    class Record:
        a: Any
        b: Any = None

    def register() -> None:
        tree.register_pytree_node(Point, lambda p: ([p.x, p.y], None), lambda values, _: Point(*values))

    register()
    moved = tree.tree_map(lambda x: x + 1, Point(1, [2]))
    log(moved.x, moved.y)
    attempt(log, "again", register, 1)
    attempt(log, "no keys", lambda: tree.tree_flatten_with_path(Point(1, 2)))
    tree.register_dataclass(Record)
    log(tree.tree_flatten(Record(1, [2]))[0], tree.tree_map(lambda x: x * 3, Record(1, [2])).b)
    log(tree.tree_flatten_with_path(Record(1, 2))[0])


@cases.test
def test_trees(program: Any) -> None:
    agree(program)
