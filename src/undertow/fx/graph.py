"""`Graph`: a traced program as a list of nodes, to search, change, copy, check and write as Python."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Callable, Iterator
from typing import Any

from undertow.fx.code import PythonCode, python_code
from undertow.fx.node import Argument, Node, Target, map_aggregate, map_arg

__all__ = ["CodeGen", "Graph", "PythonCode"]

_NO_DEFAULT: Any = object()


class Names:
    """Unique names."""

    def __init__(self) -> None:
        self.taken: set[str] = set()
        self.counts: dict[str, int] = {}

    def create(self, candidate: str) -> str:
        """Return a name like the candidate that is not taken, and is neither a keyword nor a builtin."""
        candidate = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
        found = re.fullmatch(r"(.*)_(\d+)", candidate)
        base, number = (found[1], int(found[2])) if found else (candidate, None)
        name = candidate
        while name in self.taken or self._is_reserved(name):
            number = self.counts[base] = self.counts.get(base, 0) + 1
            name = f"{base}_{number}"
        self.taken.add(name)
        if number is not None:
            self.counts[base] = max(number, self.counts.get(base, 0))
        return name

    @staticmethod
    def _is_reserved(name: str) -> bool:
        return keyword.iskeyword(name) or hasattr(builtins, name) or name in ("torch", "device", "inf", "nan")


class CodeGen:
    """A placeholder for PyTorch's code generator, for programs that refer to it."""


class NodeList:
    """The nodes of a graph in order. Nodes may be added and erased during iteration."""

    def __init__(self, graph: Graph, backwards: bool = False) -> None:
        self.graph, self.backwards = graph, backwards

    def __len__(self) -> int:
        return self.graph._length

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        node = root._prev if self.backwards else root._next
        while node is not root:
            if not node._erased:
                yield node
            node = node._prev if self.backwards else node._next

    def __reversed__(self) -> NodeList:
        return NodeList(self.graph, not self.backwards)


class _InsertPoint:
    """The position where a graph inserts nodes: set on creation, and restored at the end of a `with` block."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self._graph, self._before = graph, graph._insert
        graph._insert = insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        self._graph._insert = self._before


class Graph:
    """A program as a list of `Node`s, made by a `Tracer` or by hand:

    >>> graph = undertow.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> node = graph.output(graph.call_function(undertow.relu, (x,)))
    >>> undertow.fx.GraphModule(undertow.nn.Module(), graph)(undertow.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def __init__(self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: Any = None) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._length = 0
        self._names = Names()
        self._insert: Callable[[Node], None] = self._root.prepend
        self._owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()

    @property
    def owning_module(self) -> Any:
        """The module that runs the graph, if there is exactly one."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, module: Any) -> None:
        self._owning_module = module

    @property
    def nodes(self) -> NodeList:
        """All nodes, in the order of the program."""
        return NodeList(self)

    def output_node(self) -> Node:
        """Return the output node."""
        return next(node for node in reversed(self.nodes) if node.op == "output")

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """Return the nodes of a kind, and of a target if one is given."""
        return [node for node in self.nodes if node.op == op and (target is None or node.target == target)]

    # --- adding

    def create_node(
        self, op: str, target: Target, args: tuple[Any, ...] | None = None, kwargs: dict[str, Any] | None = None,
        name: str | None = None, type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """Add a node at the insertion point: the end, unless `inserting_before` or `inserting_after` moved it."""
        args, kwargs = () if args is None else args, {} if kwargs is None else kwargs
        if not isinstance(args, (tuple, list)):
            raise AssertionError("args must be a tuple")
        if not isinstance(kwargs, dict):
            raise AssertionError("kwargs must be a dict")
        name = self._names.create(name or self._target_to_str(target))
        node = Node(self, name, op, target, tuple(args), kwargs, type_expr)
        self._insert(node)
        self._length += 1
        return node

    @staticmethod
    def _target_to_str(target: Target) -> str:
        word = target if isinstance(target, str) else getattr(target, "__name__", type(target).__name__)
        if word.startswith("__") and word.endswith("__"):
            word = word[2:-2]
        return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", word).lower()

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = _NO_DEFAULT) -> Node:
        """Add an input."""
        args = () if default_value is _NO_DEFAULT else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """Add an attribute of the module, such as "layer.weight"."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self, module_name: str, args: tuple[Any, ...] | None = None, kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """Add the call of a submodule."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self, method_name: str, args: tuple[Any, ...] | None = None, kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """Add the call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self, the_function: Callable[..., Any], args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None, type_expr: Any = None, name: str | None = None,
    ) -> Node:  # fmt: skip
        """Add the call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result: Argument, type_expr: Any = None) -> Node:
        """Add the output: the value that the program returns."""
        return self.create_node("output", "output", args=(result,), type_expr=type_expr)

    def inserting_before(self, n: Node | None = None) -> Any:
        """Set the insertion point before `n` (default: the beginning), from now on or for a `with` block."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> Any:
        """Set the insertion point right after `n` (default: the end), from now on or for a `with` block."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return _InsertPoint(self, n.append)

    # --- removing

    def erase_node(self, to_erase: Node) -> None:
        """Remove an unused node."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            return
        to_erase._remove_from_list()
        to_erase._erased = True
        self._length -= 1
        to_erase._set_arguments((), {})

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Remove nodes that are unused and have no side effect; return whether there were any."""
        self.lint()
        impure = is_impure_node or Node.is_impure
        dead = False
        for node in reversed(self.nodes):
            if not node.users and not impure(node):
                self.erase_node(node)
                dead = True
        return dead

    # --- copying

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x) -> Node:
        """Add a copy of a node of another graph; `arg_transform` maps the nodes among its arguments."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        copied = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        copied.meta = dict(node.meta)
        return copied

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Add copies of all nodes of another graph except its output, and return the output's value."""
        copy_of = val_map.__getitem__
        for node in (each for each in g.nodes if each not in val_map):
            if node.op != "output":
                val_map[node] = self.node_copy(node, copy_of)
                continue
            value = map_arg(node.args[0], copy_of)
            return (value, node) if return_output_node else value
        return None

    def __deepcopy__(self, memo: Any = None) -> Graph:
        copied = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        found = copied.graph_copy(self, val_map={}, return_output_node=True)
        if isinstance(found, tuple):
            value, old = found
            new = copied.output(value, type_expr=getattr(old, "type", None))
            new.meta = dict(old.meta)
        return copied

    def __reduce__(self) -> Any:
        numbers = {node: number for number, node in enumerate(self.nodes)}

        def numbered(arguments: Any) -> Any:
            return map_arg(arguments, lambda node: _Number(numbers[node]))

        rows = [(n.op, n.target, numbered(n.args), numbered(n.kwargs), n.name, n.type) for n in self.nodes]
        return _graph_of, (rows, self._tracer_cls)

    # --- checking and showing

    def lint(self) -> None:
        """Refuse a graph with a node used before it is made, or with an invalid name or target."""
        seen: set[str] = set()
        done: set[Node] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")

            def known(argument: Node, node: Node = node) -> Node:
                if argument.graph is not self:
                    raise RuntimeError(f"Argument '{argument}' of Node '{node}' does not belong to this Graph!")
                if argument not in done:
                    raise RuntimeError(
                        f"Argument '{argument}' of Node '{node}' was used before it has been defined: "
                        f"put nodes after those they use\n{self}"
                    )
                return argument

            map_arg(node.args, known)
            map_arg(node.kwargs, known)
            done.add(node)
            if node.name in seen:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen.add(node.name)
        if self.owning_module is not None:
            for node in self.nodes:
                if node.op in ("get_attr", "call_module"):
                    self._check_path(node)

    def _check_path(self, node: Node) -> None:
        place = self.owning_module
        for atom in str(node.target).split("."):
            if not hasattr(place, atom):
                raise RuntimeError(
                    f"Node {node} target {node.target} references nonexistent attribute {atom} of {place._get_name()}"
                    if hasattr(place, "_get_name") else f"Node {node} target {node.target} references nonexistent attribute"
                )  # fmt: skip
            place = getattr(place, atom)

    def python_code(self, root_module: str = "self", **options: Any) -> PythonCode:
        """Return the graph as a Python function named `forward`, and the globals that it needs."""
        return python_code(self, root_module)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Store a custom code generator. It has no effect: undertow generates plain functions only."""
        self._codegen = codegen

    def print_tabular(self) -> None:
        """Print the nodes as a table, with the package tabulate."""
        try:
            from tabulate import tabulate  # type: ignore[import-untyped]
        except ImportError:
            print("`print_tabular` relies on the library `tabulate`: `pip install tabulate`.")
            raise
        columns = {"opcode": "op", "name": "name", "target": "target", "args": "args", "kwargs": "kwargs"}
        rows = [[getattr(node, field) for field in columns.values()] for node in self.nodes]
        print(tabulate(rows, headers=list(columns)))

    def __str__(self) -> str:
        names: list[str] = []
        returned = [""]
        lines = [node.format_node(names, returned) for node in self.nodes]
        return "\n    ".join(["graph():", *(line for line in lines if line)])

    __repr__ = object.__repr__


class _Number:
    """A reference to a node by its number in a pickle, so that pickling a long graph does not recurse deeply."""

    def __init__(self, number: int) -> None:
        self.number = number


def _graph_of(rows: list[tuple[Any, ...]], tracer_cls: Any) -> Graph:
    graph = Graph(tracer_cls=tracer_cls)
    made: list[Node] = []

    def found(leaf: Any) -> Any:
        return made[leaf.number] if isinstance(leaf, _Number) else leaf

    for op, target, args, kwargs, name, kind in rows:
        made.append(graph.create_node(op, target, map_aggregate(args, found), map_aggregate(kwargs, found), name, kind))
    return graph
