"""Generate a Python function from a graph."""

from __future__ import annotations

import builtins
import sys
import types
import typing
from dataclasses import dataclass
from typing import Any

from undertow._src.types.devices import device
from undertow._src.types.dtypes import dtype
from undertow._src.types.layouts import layout, memory_format
from undertow._src.types.sizes import Size
from undertow._tensor import Tensor
from undertow.fx.node import Node, map_arg, qualified_name

__all__ = ["PythonCode", "python_code"]

# Operators in Python's notation.
_OPERATORS = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "floordiv": "{} // {}", "truediv": "{} / {}", "div": "{} / {}",
    "mod": "{} % {}", "pow": "{} ** {}", "lshift": "{} << {}", "rshift": "{} >> {}", "and_": "{} & {}", "or_": "{} | {}",
    "xor": "{} ^ {}", "getitem": "{}[{}]", "matmul": "{} @ {}", "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}",
    "gt": "{} > {}", "le": "{} <= {}", "ge": "{} >= {}", "pos": "+{}", "invert": "~{}", "neg": "-{}",
}  # fmt: skip
_IN_PLACE = {
    "iadd": "+=", "isub": "-=", "imul": "*=", "ifloordiv": "//=", "itruediv": "/=", "imod": "%=", "ipow": "**=",
    "ilshift": "<<=", "irshift": ">>=", "iand": "&=", "ior": "|=", "ixor": "^=", "imatmul": "@=",
}  # fmt: skip


@dataclass
class PythonCode:
    """The source of a function, and the globals that it needs."""

    src: str
    globals: dict[str, Any]


def python_code(graph: Any, root_module: str = "self") -> PythonCode:
    """Return the source of the function that computes a graph."""
    return _Writer(root_module).written(graph)


class _Writer:
    def __init__(self, root: str) -> None:
        self.root = root
        self.globals: dict[str, Any] = {"torch": sys.modules["undertow"]}

    def written(self, graph: Any) -> PythonCode:
        parameters, lines, returns = [], [], ""
        wrapped: dict[str, None] = {}  # calls of `wrap`, for functions recorded as one call
        endings = self._endings(graph)
        for node in graph.nodes:
            if node.op == "placeholder":
                kind = f" : {self.type_word(node.type)}" if node.type is not None else ""
                default = f" = {self.word(node.args[0])}" if node.args else ""
                parameters.append(f"{node.target}{kind}{default}")
                plain = str(node.target).replace("*", "")
                if plain != node.name:
                    lines.append(f"{node.name} = {plain}")
                continue
            if node.op == "output":
                returns = f" -> {self.type_word(node.type)}" if node.type is not None else ""
                lines.append(f"return {self.word(node.args[0])}")
                continue
            if node.meta.get("is_wrapped"):
                wrapped[f'torch.fx._symbolic_trace.wrap("{self.global_name(node.target)}")'] = None
            lines.append(self.statement(node) + endings[node])
        body = "\n    ".join(lines or ["pass"])
        head = ", ".join([self.root, *parameters])
        top = "\n".join(wrapped)
        return PythonCode(f"\n{top}\n\ndef forward({head}){returns}:\n    {body}\n    ", self.globals)

    @staticmethod
    def _endings(graph: Any) -> dict[Node, str]:
        """Return the assignments after each statement that release the values it is the last to use."""
        endings: dict[Node, list[str]] = {node: [] for node in graph.nodes}
        seen: set[Node] = set()

        for node in reversed(graph.nodes):

            def last_use(argument: Node, user: Node = node) -> Node:
                if argument not in seen:
                    seen.add(argument)
                    endings[user].append(argument.name)
                return argument

            map_arg(node.args, last_use)
            map_arg(node.kwargs, last_use)
            if not node.users and node.op not in ("placeholder", "output"):
                endings[node].append(node.name)
        return {node: f";  {' = '.join([*names, 'None'])}" if names else "" for node, names in endings.items()}

    def statement(self, node: Node) -> str:
        name, args = node.name, node.args
        kind = f" : {self.type_word(node.type)}" if node.type is not None else ""
        if node.op == "get_attr":
            return f"{name}{kind} = {self.path(str(node.target))}"
        if node.op == "call_module":
            return f"{name}{kind} = {self.path(str(node.target))}({self.arguments(args, node.kwargs)})"
        if node.op == "call_method":
            owner = self.word(args[0])
            return f"{name}{kind} = {owner}.{node.target}({self.arguments(args[1:], node.kwargs)})"
        target: Any = node.target
        if getattr(target, "__module__", None) == "_operator" and not node.kwargs:
            if target.__name__ in _OPERATORS:
                return f"{name}{kind} = {_OPERATORS[target.__name__].format(*map(self.word, args))}"
            if target.__name__ in _IN_PLACE:
                first, second = map(self.word, args)
                return f"{first} {_IN_PLACE[target.__name__]} {second};  {name}{kind} = {first}"
        if target is getattr and isinstance(args[1], str) and args[1].isidentifier() and len(args) == 2:
            return f"{name}{kind} = {self.word(args[0])}.{args[1]}"
        return f"{name}{kind} = {self.global_name(target)}({self.arguments(args, node.kwargs)})"

    def path(self, target: str) -> str:
        """Return the expression of a module's attribute; parts that are not identifiers use getattr."""
        found = self.root
        for atom in target.split("."):
            found = f"{found}.{atom}" if atom.isidentifier() else f'getattr({found}, "{atom}")'
        return found

    def arguments(self, args: Any, kwargs: Any) -> str:
        return ", ".join([*map(self.word, args), *(f"{key} = {self.word(value)}" for key, value in kwargs.items())])

    def word(self, value: Any) -> str:
        """Return the expression of a value."""
        if isinstance(value, Node):
            return value.name
        if isinstance(value, Size):
            return f"torch.Size([{', '.join(map(self.word, value))}])"
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return f"{self.global_name(type(value))}({', '.join(map(self.word, value))})"
        if isinstance(value, tuple):
            return f"({', '.join(map(self.word, value))}{',' if len(value) == 1 else ''})"
        if isinstance(value, list):
            return f"[{', '.join(map(self.word, value))}]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self.word(key)}: {self.word(item)}" for key, item in value.items()) + "}"
        if isinstance(value, slice):
            return f"slice({self.word(value.start)}, {self.word(value.stop)}, {self.word(value.step)})"
        if isinstance(value, (dtype, layout, memory_format)):
            return repr(value)
        if isinstance(value, device):
            self.globals["device"] = device
        if isinstance(value, type):
            return self.type_word(value)
        if callable(value) and hasattr(value, "__name__"):
            return self.global_name(value)
        if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
            self.globals.update(inf=float("inf"), nan=float("nan"))
        return repr(value)

    def type_word(self, kind: Any) -> str:
        """Return the expression of an annotation."""
        if isinstance(kind, str):
            return repr(kind)
        origin = typing.get_origin(kind)
        if origin is not None and typing.get_args(kind):
            inner = ",".join(self.type_word(item) for item in typing.get_args(kind))
            name = "" if isinstance(kind, types.GenericAlias) else getattr(kind, "_name", None) or ""
            base = getattr(typing, name, None)
            base = typing.Union if origin in (typing.Union, types.UnionType) else base or origin
            return f"{self.global_name(base)}[{inner}]"
        if kind is type(None):
            self.globals["NoneType"] = type(None)
            return "NoneType"
        if kind is Ellipsis:
            return "..."
        return self.global_name(kind)

    def global_name(self, thing: Any) -> str:
        """Return the name of a function or class: its path for PyTorch's names; otherwise a new global."""
        if thing is typing.Any or getattr(thing, "__module__", "") == "typing":
            name = f"typing_{getattr(thing, '__name__', None) or thing._name}"
            self.globals[name] = thing
            return name
        full = "torch.Tensor" if thing is Tensor else qualified_name(thing)
        if "." not in full:
            return full if getattr(builtins, full, None) is thing else self._as_global(full, thing)
        if full.startswith("torch.") and _is_at(full, thing):
            return full
        return self._as_global(full.replace(".", "_").replace("<", "_").replace(">", "_"), thing)

    def _as_global(self, name: str, thing: Any) -> str:
        base, number = name, 0
        while self.globals.get(name, thing) is not thing:
            number += 1
            name = f"{base}_{number}"
        self.globals[name] = thing
        return name


def _is_at(full: str, thing: Any) -> bool:
    """Whether a path beginning with `torch` leads to this object in undertow."""
    found: Any = sys.modules["undertow"]
    for atom in full.split(".")[1:]:
        found = getattr(found, atom, None)
    return found is thing or found == thing
