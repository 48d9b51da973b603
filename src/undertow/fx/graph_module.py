"""`GraphModule`: a module whose forward is generated from a graph."""

from __future__ import annotations

import copy
import itertools
import linecache
from typing import Any

from undertow._src.tensor.core import tensor_class
from undertow.fx.graph import Graph, PythonCode
from undertow.nn.modules.module import Module
from undertow.nn.parameter import Parameter

__all__ = ["GraphModule"]

_numbers = itertools.count()


def _function_of(code: PythonCode) -> Any:
    """Compile generated code, and return its function; tracebacks show its lines."""
    file = f"<eval_with_key>.{next(_numbers)}"
    linecache.cache[file] = (len(code.src), None, code.src.splitlines(keepends=True), file)
    space = dict(code.globals)
    exec(compile(code.src, file, "exec"), space)
    return space["forward"]


def _copy_attribute(source: Any, target: Any, path: str) -> None:
    """Copy the attribute at a path from `source` to `target`; modules along the path are created empty."""
    *prefix, last = path.split(".")
    for atom in prefix:
        found = getattr(source, atom)
        if found is getattr(target, atom, None):
            return  # they share this module, so the attribute is already there
        if not isinstance(getattr(target, atom, None), Module):
            setattr(target, atom, Module())
        source, target = found, getattr(target, atom)
    value = getattr(source, last)
    if isinstance(value, tensor_class()) and not isinstance(value, Parameter):
        target.register_buffer(last, value)
    else:
        setattr(target, last, value)


def _assign(value: Any, target: Module, path: str) -> None:
    *prefix, last = path.split(".")
    for atom in prefix:
        if not hasattr(target, atom):
            setattr(target, atom, Module())
        target = getattr(target, atom)
    if isinstance(value, tensor_class()) and not isinstance(value, Parameter):
        target.register_buffer(last, value)
    else:
        setattr(target, last, value)


class GraphModule(Module):
    """A module that runs a graph. It has `graph`, `code` and the attributes of `root` that the graph uses.

    After a change of the graph, `recompile` regenerates the forward.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        # Each instance has its own class, whose forward is generated from its graph.
        base = next(base for base in cls.__mro__ if not vars(base).get("_of_one_graph"))
        return object.__new__(type(base.__name__, (base,), {"_of_one_graph": True, "__module__": base.__module__}))

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        type(self).__qualname__ = class_name
        paths = {str(node.target): node for node in graph.nodes if node.op in ("get_attr", "call_module")}
        if isinstance(root, Module):
            self.training = root.training
            for path in paths:
                _copy_attribute(root, self, path)
        elif isinstance(root, dict):
            for path, node in sorted(paths.items(), key=lambda item: item[0].count(".")):
                if path not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {path} but that target was not provided in ``root``!"
                    )
                _assign(root[path], self, path)
        else:
            raise RuntimeError("Unsupported type " + str(root) + " passed for root!")
        self.meta: dict[str, Any] = {}
        self.graph = graph
        self._tracer_cls = graph._tracer_cls

    @property
    def graph(self) -> Graph:
        """The program. Assigning a graph regenerates the forward."""
        return self.__dict__["_graph"]

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self.__dict__["_graph"] = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The source of the forward."""
        if "_code" not in self.__dict__:
            raise RuntimeError("Code has not been generated! Please report a bug to PyTorch")
        return self.__dict__["_code"]

    def recompile(self) -> PythonCode:
        """Regenerate the forward from the current graph."""
        written = self.graph.python_code("self")
        self.__dict__["_code"] = written.src
        type(self).forward = _function_of(written)
        return written

    def add_submodule(self, target: str, m: Module) -> bool:
        """Add a module at a path. Return False if a part of the path is not a module."""
        *prefix, last = target.split(".")
        module: Module = self
        for atom in prefix:
            found = getattr(module, atom, None)
            if found is None:
                found = Module()
                setattr(module, atom, found)
            if not isinstance(found, Module):
                return False
            module = found
        module.add_module(last, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Remove the module at a path. Return whether there was one."""
        *prefix, last = target.split(".")
        module: Any = self
        for atom in prefix:
            module = getattr(module, atom, None)
            if not isinstance(module, Module):
                return False
        if not isinstance(getattr(module, last, None), Module):
            return False
        delattr(module, last)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Remove the modules that no node calls or reads from."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                atoms = str(node.target).split(".")
                used |= {".".join(atoms[: i + 1]) for i in range(len(atoms))}
                if node.op == "call_module":
                    found = self.get_submodule(str(node.target))
                    used |= {f"{node.target}.{name}" for name, _ in found.named_modules() if name}
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    def print_readable(self, print_output: bool = True, *args: Any, **kwargs: Any) -> str:
        """Return the module as the source of a class, and print it unless `print_output` is false."""
        note = "        # No stacktrace found for following nodes\n"
        lines = self.code.lstrip("\n").rstrip().split("\n")
        body = "".join(f"    {line}\n" for line in lines[1:])
        text = f"class {self._get_name()}(torch.nn.Module):\n    {lines[0]}\n{note}{body}"
        if print_output:
            print(text)
        return text

    def to_folder(self, folder: Any, module_name: str = "FxModule") -> None:
        """Raise: undertow does not write modules to folders."""
        raise NotImplementedError("undertow has no torch.fx.GraphModule.to_folder")

    def __str__(self) -> str:
        return "\n".join([
            super().__repr__(), self.code, "# To see more debug info, please use `graph_module.print_readable()`",
        ])  # fmt: skip

    def __deepcopy__(self, memo: Any) -> GraphModule:
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        state = {key: value for key, value in self.__dict__.items() if key != "_graph"}
        Module.__init__(copied)
        copied.__dict__.update(copy.deepcopy(state, memo))
        type(copied).__name__ = type(copied).__qualname__ = type(self).__name__
        copied.graph = copy.deepcopy(self.graph, memo)
        return copied

    def __copy__(self) -> GraphModule:
        return GraphModule(self, self.graph, self._get_name())

    def __reduce__(self) -> Any:
        state = {key: value for key, value in self.__dict__.items() if key != "_graph"}
        return _unpickled, (state, self.graph, self._get_name())


def _unpickled(state: dict[str, Any], graph: Graph, name: str) -> GraphModule:
    made = GraphModule.__new__(GraphModule)
    Module.__init__(made)
    made.__dict__.update(state)
    type(made).__name__ = type(made).__qualname__ = name
    made.graph = graph
    return made
