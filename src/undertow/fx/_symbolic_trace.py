"""`Tracer`: run a program once on proxies, and return the graph of its operations."""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import math
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from undertow._src.base.sites import PACKAGE
from undertow._src.compat.torch_checks import _assert
from undertow._src.tensor.core import tensor_class
from undertow.fx.graph import Graph
from undertow.fx.graph_module import GraphModule
from undertow.fx.node import Argument, Node
from undertow.fx.proxy import ParameterProxy, Proxy, TracerBase, _proxies
from undertow.nn.modules.container import Sequential
from undertow.nn.modules.module import Module
from undertow.nn.parameter import Parameter

__all__ = ["Tracer", "symbolic_trace", "wrap"]

# (id of a file's globals, name of a function in it): functions that tracing records as one call.
_wrapped: dict[tuple[int, str], dict[str, Any]] = {}


def wrap(fn_or_name: Any) -> Any:
    """Mark a function of the calling file, or a builtin by its name, to be recorded as one call.

    Call it at the top level of a file, or use it as a decorator there. Return the argument.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    if caller is None or caller.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped[id(caller.f_globals), name] = caller.f_globals
    return fn_or_name


def _recording(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function: a call with a proxy is recorded as a node."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = next(_proxies((args, kwargs)), None)
        if proxy is None:
            return function(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    return wrapped


def _annotation(function: Any, name: str) -> Any:
    """Return the annotation of an argument or result; an `Any` in undertow's own code counts as none."""
    found = getattr(function, "__annotations__", {}).get(name)
    return None if found == "Any" and inspect.unwrap(function).__code__.co_filename.startswith(PACKAGE) else found


class Tracer(TracerBase):
    """Traces modules and functions. Subclass it to change which modules are traced through."""

    def __init__(
        self, autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (), param_shapes_constant: bool = False,
    ) -> None:  # fmt: skip
        modules = [
            value for module in autowrap_modules for value in vars(module).items() if not value[0].startswith("_")
        ]
        self._autowrapped = {id(value): value for _, value in modules if callable(value)}
        self._autowrapped |= {id(function): function for function in autowrap_functions}
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.root: Module = Module()
        self.root_module_name = ""
        self.tensor_attrs: dict[int, str] = {}
        self.submodule_paths: dict[Module, str] = {}
        self.traced_func_name = "forward"
        self._counts: dict[str, int] = {}

    # --- methods that a subclass may override

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a module is recorded as one call: those of `torch.nn`, except Sequential."""
        home = type(m).__module__
        of_nn = home.startswith(("undertow.nn.", "torch.nn.", "torch.ao.nn."))
        return of_nn and not isinstance(m, Sequential)

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record the call of a submodule if it is a leaf; run it otherwise."""
        path = self.path_of_module(m)
        if self.is_leaf_module(m, path):
            return self.create_proxy("call_module", path, args, kwargs)
        return forward(*args, **kwargs)

    def path_of_module(self, mod: Module) -> str:
        """Return the path of a submodule from the root."""
        if mod in self.submodule_paths:
            return self.submodule_paths[mod]
        found = next((name for name, module in self.root.named_modules() if module is mod), None)
        if found is None:
            raise NameError("module is not installed as a submodule")
        return found

    def get_fresh_qualname(self, prefix: str) -> str:
        """Return an attribute name that the root does not have yet."""
        while True:
            number = self._counts.get(prefix, 0)
            self._counts[prefix] = number + 1
            if not hasattr(self.root, f"{prefix}{number}"):
                return f"{prefix}{number}"

    def create_arg(self, a: Any) -> Argument:
        """Return a value as the argument of a node; tensors become `get_attr` nodes of the root's attributes."""
        if isinstance(a, Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, tensor_class()):
            for name, buffer in self.root.named_buffers():
                if a is buffer:
                    return self.create_node("get_attr", name, (), {})
            name = self.tensor_attrs.get(id(a)) or self.get_fresh_qualname("_tensor_constant")
            if id(a) not in self.tensor_attrs:
                self.tensor_attrs[id(a)] = name
                setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """Return the value of `module.attr` during tracing: a proxy if it is a parameter of the root."""
        if not isinstance(attr_val, Parameter):
            return attr_val
        for name, parameter in self.root.named_parameters():
            if attr_val is parameter:
                if name not in parameter_proxy_cache:
                    factory = None
                    if self.param_shapes_constant:
                        factory = functools.partial(_parameter_proxy, self, name, parameter)
                    parameter_proxy_cache[name] = self.create_proxy("get_attr", name, (), {}, proxy_factory_fn=factory)
                return parameter_proxy_cache[name]
        return attr_val

    # --- tracing

    def trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """Return the graph of a module or function. `concrete_args` are arguments with known values."""
        if isinstance(root, Module):
            self.root = root
            function = getattr(type(root), self.traced_func_name)
            self.root_module_name = root._get_name()
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            self.root = Module()
            function = root
        self.graph = Graph(tracer_cls=type(self) if type(self) is not Tracer else None)
        self.tensor_attrs = _tensors_of(self.root)
        function, args = self.create_args_for_root(function, isinstance(root, Module), concrete_args)
        with self._patched(getattr(function, "__globals__", {})):
            result = self.create_arg(function(*args))
        self.create_node("output", "output", (result,), {}, type_expr=_annotation(function, "return"))
        self.submodule_paths = {}
        return self.graph

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: dict[str, Any] | None = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        """Return the function to run, and its arguments: a proxy for each parameter."""
        plain = inspect.unwrap(root_fn)
        code = plain.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames)
        signature = inspect.signature(plain)
        args: list[Any] = []
        if is_module:
            if not names:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            names = names[1:]
            count -= 1
            args.append(self.root)
        known = concrete_args or {}
        positional = [self._root_argument(name, signature, plain, known) for name in names[:count]]
        args += positional
        if not (code.co_kwonlyargcount or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)):
            return root_fn, args
        rest = names[count:]
        stars, doubles = [], []
        if code.co_flags & inspect.CO_VARARGS:
            stars = [self.create_proxy("placeholder", f"*{rest.pop(0)}", (), {})]
        if code.co_flags & inspect.CO_VARKEYWORDS:
            doubles = [self.create_proxy("placeholder", f"**{rest.pop(0)}", (), {})]
        return _with_flat_arguments(plain, is_module), [*args, *stars, *doubles]

    def _root_argument(self, name: str, signature: inspect.Signature, function: Any, known: dict[str, Any]) -> Any:
        parameter = signature.parameters.get(name)
        default = () if parameter is None or parameter.default is parameter.empty else (parameter.default,)
        kind = _annotation(function, name)
        if name not in known:
            return self.create_proxy("placeholder", name, default, {}, type_expr=kind)
        value = known[name]
        proxy = self.create_proxy("placeholder", f"{name}_1", default, {}, type_expr=kind)
        if value is None or isinstance(value, (bool, int, float, str)):
            text = f"{name} has been specialized to have value {value} but got another value"
            self.create_proxy("call_function", _assert, (proxy == value, text), {})
        return value

    @contextlib.contextmanager
    def _patched(self, function_globals: dict[str, Any]) -> Iterator[None]:
        """Patch modules, parameters and wrapped functions inside the block, so that the tracer records their uses."""
        cache: dict[str, Proxy] = {}
        call: Callable[..., Any] = Module.__call__
        ask = Module.__getattr__

        @functools.wraps(ask)
        def getattr_traced(module: Any, attr: str) -> Any:
            return self.getattr(attr, ask(module, attr), cache)

        @functools.wraps(call)
        def call_traced(module: Any, *args: Any, **kwargs: Any) -> Any:
            for space in (getattr(module.forward, "__globals__", {}),):
                self._wrap_in(space, changes)
            return self.call_module(module, lambda *a, **k: call(module, *a, **k), args, kwargs)

        changes: list[tuple[dict[str, Any], str, Any]] = []
        Module.__call__, Module.__getattr__ = call_traced, getattr_traced  # type: ignore[assignment, method-assign]
        try:
            for (_, name), space in _wrapped.items():
                found = space.get(name, getattr(builtins, name, None))
                if found is not None:
                    changes.append((space, name, space.get(name, _wrapped)))
                    space[name] = _recording(found)
            self._wrap_in(function_globals, changes)
            for module in self._autowrap_search:
                self._wrap_in(vars(module), changes)
            yield
        finally:
            Module.__call__, Module.__getattr__ = call, ask  # type: ignore[method-assign]
            for space, name, before in reversed(changes):
                if before is _wrapped:  # a builtin, which the file's globals did not contain
                    del space[name]
                else:
                    space[name] = before

    def _wrap_in(self, space: dict[str, Any], changes: list[tuple[dict[str, Any], str, Any]]) -> None:
        for name, value in list(space.items()):
            if id(value) in self._autowrapped and isinstance(value, (FunctionType, BuiltinFunctionType)):
                changes.append((space, name, value))
                space[name] = _recording(value)


def _parameter_proxy(tracer: Tracer, name: str, parameter: Any, node: Node) -> Proxy:
    return ParameterProxy(tracer, node, name, parameter)


def _tensors_of(root: Module) -> dict[int, str]:
    """Return the paths of tensors that modules have as plain attributes, by identity."""
    found = {}
    for path, module in root.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, tensor_class()):
                found[id(value)] = f"{path}.{name}".lstrip(".")
    return found


def _with_flat_arguments(function: Any, is_module: bool) -> Callable[..., Any]:
    """Wrap a function with `*args`, `**kwargs` or keyword-only parameters to take one value per parameter."""
    kinds = list(inspect.signature(function).parameters.values())

    @functools.wraps(function)
    def call(*values: Any) -> Any:
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for parameter, value in zip(_in_order_of_code(kinds), values, strict=True):
            if parameter.kind is parameter.KEYWORD_ONLY:
                named[parameter.name] = value
            else:
                positional.append(value)
        code = function.__code__
        flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
        if flags == code.co_flags:
            return function(*positional, **named)
        count = (
            code.co_argcount + bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
        )
        if code.co_kwonlyargcount:
            raise NotImplementedError("undertow cannot trace a function with both *args and keyword-only parameters")
        plain = code.replace(co_flags=flags, co_argcount=count)
        copied = FunctionType(plain, function.__globals__, function.__name__, None, function.__closure__)
        return copied(*positional)

    return call


def _in_order_of_code(kinds: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """Return parameters in the order of a code object: keyword-only ones before `*args` and `**kwargs`."""
    stars = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return sorted(kinds, key=lambda parameter: parameter.kind in stars)


def symbolic_trace(root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """Trace a module or function into a GraphModule that computes the same.

    >>> traced = undertow.fx.symbolic_trace(lambda x: undertow.relu(x) + 1)
    >>> [node.name for node in traced.graph.nodes]
    ['x', 'relu', 'add', 'output']
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = root._get_name() if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
