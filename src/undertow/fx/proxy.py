"""`Proxy`: a placeholder for a value during tracing; operations on it become nodes."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from opcode import opmap
from types import FrameType
from typing import Any

from undertow._src.tensor.core import tensor_class
from undertow._src.types.devices import device
from undertow._src.types.dtypes import dtype
from undertow._src.types.layouts import layout, memory_format
from undertow.fx.graph import Graph
from undertow.fx.node import Argument, Node, Target

__all__ = ["Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "TraceError", "TracerBase"]

CONSTANTS = (str, int, float, bool, complex, dtype, device, memory_format, layout, type(None), type(Ellipsis), range)


class TraceError(ValueError):
    """Tracing needs a value that is not known."""


class TracerBase:
    """The base of tracers: a graph, and the conversion of values to nodes and proxies."""

    graph: Graph
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"
    record_stack_traces = False

    def create_node(
        self, kind: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None = None,
        type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """Add a node to the graph."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy:
        """Return a proxy for a node's value."""
        return Proxy(node, self)

    def create_proxy(
        self, kind: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None = None,
        type_expr: Any = None, proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Any:  # fmt: skip
        """Add a node, and return the proxy for its value."""
        made, named = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, made, named, name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Any) -> Argument:
        """Return a value as the argument of a node: proxies become their nodes."""
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            items = [self.create_arg(item) for item in a]
            return type(a)(*items) if hasattr(a, "_fields") else type(a)(items)
        if isinstance(a, list):
            return [self.create_arg(item) for item in a]
        if isinstance(a, dict):
            return {self._key(key): self.create_arg(value) for key, value in a.items()}
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, CONSTANTS) or (callable(a) and not isinstance(a, tensor_class())):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _key(self, key: Any) -> Any:
        made = self.create_arg(key)
        if isinstance(made, Node):
            raise RuntimeError(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {made}")
        return made

    def to_bool(self, obj: Proxy) -> bool:
        """Raise: the truth value of a proxy is not known."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Return the items of a proxy; their number is known only in `a, b = proxy`."""
        count = _unpacked(sys._getframe(2))
        if count is not None:
            return iter([operator.getitem(obj, number) for number in range(count)])
        raise TraceError(
            "Proxy object cannot be iterated. A loop over it, or *proxy and **proxy in a call, would need the number of "
            "its items, which is not known while a program is traced."
        )

    def keys(self, obj: Proxy) -> Any:
        """Return the keys of a proxy, for `**proxy`."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """A tracer that appends to an existing graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


def _unpacked(frame: FrameType) -> int | None:
    """Return the number of targets in `a, b = value`, if the frame is executing such a statement."""
    place, code = frame.f_lasti, frame.f_code.co_code
    return code[place + 1] if place >= 0 and code[place] == opmap["UNPACK_SEQUENCE"] else None


class Proxy:
    """A placeholder for the value of a node."""

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = tracer or GraphAppendingTracer(node.graph)
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Any:
        if k in ("__torch_function__", "tracer", "node") or (k.startswith("__") and k.endswith("__")):
            raise AttributeError(k)
        return Attribute(self, k)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __abs__(self) -> Any:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. To record such calls, call torch.fx.wrap('len') at "
            "the top level of the file that uses it."
        )

    def keys(self) -> Any:
        return self.tracer.keys(self)

    @classmethod
    def __torch_function__(cls, orig_method: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tracers = {id(found.tracer): found.tracer for found in _proxies((args, kwargs))}
        if len(tracers) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {[*tracers.values()]} while trying to trace operations"
            )
        tracer = next(iter(tracers.values()))
        if orig_method is sys.modules["undertow"].einsum and isinstance(args[-1], (list, tuple)) and len(args) == 2:
            args = (args[0], *args[1])  # PyTorch's einsum unpacks a list before it checks for overrides
        name = _method_name(orig_method)
        if name is not None:
            return tracer.create_proxy("call_method", name, args, kwargs)
        return tracer.create_proxy(
            "call_function", orig_method, args, kwargs, name=getattr(orig_method, "__name__", None)
        )


def _proxies(value: Any) -> Iterator[Proxy]:
    if isinstance(value, Proxy):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _proxies(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _proxies(item)


def _method_name(function: Any) -> str | None:
    """Return the name of a tensor method; None for a function of `torch`."""
    name = getattr(function, "__name__", "")
    found = next((vars(base)[name] for base in tensor_class().__mro__ if name in vars(base)), None)
    return name if found is function and getattr(sys.modules["undertow"], name, None) is not function else None


class Attribute(Proxy):
    """An attribute of a proxy: a `getattr` node, or a method if it is called."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr = root, attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A proxy of a parameter, whose shape is known."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Any) -> None:
        super().__init__(node, tracer)
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        return self.param.shape

    @property
    def ndim(self) -> int:
        return self.param.ndim

    def size(self) -> Any:
        return self.param.size()

    def dim(self) -> int:
        return self.param.dim()

    def numel(self) -> int:
        return self.param.numel()


def _operator(function: Callable[..., Any], swapped: bool = False) -> Callable[..., Any]:
    def method(self: Proxy, *args: Any) -> Any:
        given = (args[0], self) if swapped else (self, *args)
        return self.tracer.create_proxy("call_function", function, given, {})

    return method


for _name in (
    "add sub mul floordiv truediv mod pow lshift rshift and_ or_ xor getitem matmul eq ne lt gt le ge pos invert neg"
).split():
    setattr(Proxy, f"__{_name.rstrip('_')}__", _operator(getattr(operator, _name)))
for _name in "add sub mul floordiv truediv mod pow lshift rshift and_ or_ xor matmul".split():
    setattr(Proxy, f"__r{_name.rstrip('_')}__", _operator(getattr(operator, _name), swapped=True))
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]  # defining __eq__ removes it
