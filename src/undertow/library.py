"""`torch.library`: custom operators, which are available in `torch.ops` and are one node for autograd.

@torch.library.custom_op("mylib::scaled_sin", mutates_args=())
def scaled_sin(x: torch.Tensor, factor: float) -> torch.Tensor:
    return torch.sin(x) * factor
"""

from __future__ import annotations

import contextlib
import inspect
import typing
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import NoneType, UnionType
from typing import Any

from undertow import _ops
from undertow._src.overrides.custom_operators import AWAITED, REGISTRY, Operator, register, registered
from undertow._src.overrides.operator_checks import OpCheckError as OpCheckError
from undertow._src.overrides.operator_checks import opcheck as opcheck
from undertow._src.tensor.core import TensorCore
from undertow._src.types import dtypes
from undertow._src.types.devices import device as Device

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "fallthrough_kernel", "get_ctx", "impl", "impl_abstract",
    "infer_schema", "opcheck", "register_autograd", "register_fake", "register_kernel", "register_torch_dispatch",
    "register_vmap", "triton_op", "wrap_triton",
]  # fmt: skip

_KEYS = {"cpu": "CPU", "CPU": "CPU", "default": "CompositeExplicitAutograd", "": "CompositeImplicitAutograd"}
_NAMES = {
    "Tensor": "Tensor", "int": "SymInt", "float": "float", "bool": "bool", "str": "str", "complex": "complex",
    "Number": "Scalar", "dtype": "ScalarType", "device": "Device",
}  # fmt: skip


# --- schemas


def infer_schema(prototype_function: Callable[..., Any], /, *, mutates_args: Any, op_name: str | None = None) -> str:
    """Return the schema of a function from its annotations; `mutates_args` names the tensors that it writes to.

    >>> def scale(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor: ...
    >>> torch.library.infer_schema(scale, mutates_args=())
    '(Tensor x, float factor=2.0) -> Tensor'
    """
    signature = inspect.signature(prototype_function)
    _check_signature(signature, mutates_args)
    hints = typing.get_type_hints(prototype_function)
    parameters: list[str] = []
    keyword_only = False
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            parameters.append("*")
        kind = _type_text(hints[name], name)
        if mutates_args == "unknown" or name in mutates_args:
            if "Tensor" not in kind and mutates_args != "unknown":
                raise ValueError(
                    f"infer_schema(func): Parameter {name} is in mutable_args but only Tensors or collections of Tensors "
                    f"can be mutated. Got func with signature {signature})"
                )
            number = len([each for each in parameters if each != "*"])
            kind = kind.replace("Tensor", f"Tensor(a{number}!)", 1)
        default = "" if parameter.default is parameter.empty else f"={_default_text(parameter.default)}"
        parameters.append(f"{kind} {name}{default}")
    returned = hints.get("return", NoneType)
    kinds = typing.get_args(returned) if typing.get_origin(returned) is tuple else (returned,)
    results = [] if returned is NoneType else [_type_text(kind, "return") for kind in kinds]
    shown = results[0] if len(results) == 1 else f"({', '.join(results)})"
    return f"{op_name or ''}({', '.join(parameters)}) -> {shown}"


def _check_signature(signature: inspect.Signature, mutates_args: Any) -> None:
    for parameter in signature.parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ValueError(
                "infer_schema(func): We do not support positional-only args, varargs, or varkwargs. Got func with "
                f"signature {signature})"
            )
        if typing.get_origin(parameter.annotation) is tuple:
            raise ValueError(
                f"infer_schema(func): Parameter {parameter.name} has unsupported type {parameter.annotation}. A schema has "
                f"no tuples: give a list. Got func with signature {signature})"
            )
        if parameter.annotation is parameter.empty:
            raise ValueError(
                f"infer_schema(func): Parameter {parameter.name} must have a type annotation. Got func with signature "
                f"{signature})"
            )
    if signature.return_annotation is signature.empty:
        raise ValueError(
            "infer_schema(func): No return type annotation was provided. Please add one. Got func with signature "
            f"{signature})"
        )
    unknown = set() if mutates_args == "unknown" else set(mutates_args) - set(signature.parameters)
    if unknown:
        raise ValueError(
            f"infer_schema(func): {unknown} in mutates_args were not found in the custom op's signature. It holds the "
            "names of all args that the custom op mutates, or is the string 'unknown'."
        )


def _type_text(kind: Any, name: str) -> str:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, UnionType):
        rest = [each for each in inner if each is not NoneType]
        if set(rest) == {int, float, bool}:
            return "Scalar" + "?" * (NoneType in inner)
        if len(rest) == 1:
            return _type_text(rest[0], name) + "?"
    elif origin is not None and inner:
        return _type_text(inner[0], name) + "[]"
    elif isinstance(kind, type) and issubclass(kind, TensorCore):
        return "Tensor"
    elif kind in (dtypes.dtype, Device):
        return _NAMES[kind.__name__]
    elif getattr(kind, "__name__", None) in _NAMES:
        return _NAMES[kind.__name__]
    raise ValueError(f"infer_schema(func): Parameter {name} has unsupported type {kind}.")


def _default_text(value: Any) -> str:
    return f'"{value}"' if isinstance(value, (str, Device)) else str(value).removeprefix("torch.")


# --- one operator


class CustomOpDef:
    """An operator made from a Python function; `register_autograd` adds its derivative."""

    def __init__(self, namespace: str, name: str, schema: str, fn: Callable[..., Any]) -> None:
        self._namespace, self._name, self._qualname = namespace, name, f"{namespace}::{name}"
        self._init_fn = fn
        REGISTRY.pop(self._qualname, None)  # a new definition replaces the old one
        self._operator = register(namespace, f"{name}{schema}")
        self._operator.is_custom, self._operator.fallback = True, fn
        vars(_ops.namespace(namespace)).pop(name, None)

    @property
    def _opoverload(self) -> Any:
        return getattr(_ops.namespace(self._namespace), self._name).default

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._operator(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def register_kernel(self, device_types: Any, fn: Callable[..., Any] | None = None, /) -> Any:
        """Register a function for some types of device; None means all. Without a function, return a decorator."""
        return _register(self._operator, device_types, fn)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Register a function that computes the shapes of the results, for compilers."""
        self._operator.fake = fn
        return fn

    def register_autograd(self, backward: Callable[..., Any], /, *, setup_context: Any = None) -> None:
        """Register `backward(ctx, *grads)`, which returns a gradient for each input.

        `setup_context(ctx, inputs, output)` saves what it needs.
        """
        if self._operator.schema.is_mutable:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self} with schema {self._operator.schema}. "
                "It writes to its inputs: register the formula for an operator that returns new tensors."
            )
        self._operator.backward, self._operator.setup_context = backward, setup_context

    def register_vmap(self, func: Callable[..., Any] | None = None, /) -> Any:
        """Register `func(info, in_dims, *args)`, which returns the results for many examples, and their mapped dims."""
        return _set_vmap(self._operator, func)

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """Enable or disable, inside the block, the function registered for a type of device.

        Without it, the function that made the operator is called.
        """
        key, off = _KEYS.get(device_type, device_type), self._operator.switched_off
        before = key in off
        (off.discard if enabled else off.add)(key)
        try:
            yield
        finally:
            (off.add if before else off.discard)(key)

    def register_torch_dispatch(self, torch_dispatch_class: Any, fn: Callable[..., Any] | None = None, /) -> Any:
        """Return the function, without effect: the tensor class's `__torch_dispatch__` decides."""
        return register_torch_dispatch(self, torch_dispatch_class, fn)


def _set_vmap(operator: Operator, func: Any) -> Any:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        operator.vmap = function
        return function

    return decorate if func is None else decorate(func)


def _register(operator: Operator, device_types: Any, fn: Any) -> Any:
    names = ["default"] if device_types is None else [device_types] if isinstance(device_types, str) else device_types

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            operator.kernels[_KEYS.get(name, name)] = function
        return function

    return decorate if fn is None else decorate(fn)


def custom_op(
    name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: Any, device_types: Any = None,
    schema: str | None = None, tags: Any = None,
) -> Any:  # fmt: skip
    """Make a function an operator that is one node for autograd. `name` is `"namespace::name"`."""

    def make(function: Callable[..., Any]) -> CustomOpDef:
        namespace, separator, short = name.partition("::")
        if not separator:
            raise ValueError(f"expected a name of the form namespace::name, found {name!r}")
        text = infer_schema(function, mutates_args=mutates_args) if schema is None else schema
        made = CustomOpDef(namespace, short, text, function)
        made.register_kernel(device_types, function)
        return made

    return make if fn is None else make(fn)


triton_op = custom_op


def wrap_triton(triton_kernel: Any, /) -> Any:
    """Raise: Triton kernels run on GPUs."""
    raise NotImplementedError("undertow has no torch.library.wrap_triton: Triton kernels run on GPUs")


# --- operators by name


def _operator(op: Any) -> Operator:
    if isinstance(op, CustomOpDef):
        return op._operator
    if isinstance(op, _ops.OpOverload):
        op = op.name()
    return registered(op)


def define(qualname: str, schema: str | None = None, *, lib: Any = None, tags: Any = ()) -> Any:
    """Define an operator: `define("mylib::sin", "(Tensor x) -> Tensor")`."""
    if schema is None:
        raise ValueError(f"torch.library.define: {qualname} needs a schema")
    namespace, _, short = qualname.partition("::")
    register(namespace, short + schema)


def impl(qualname: Any, types: Any = "", func: Any = None, *, lib: Any = None) -> Any:
    """Register a function that computes an operator on some types of device; also as `impl(library, name, key)`."""
    if isinstance(qualname, Library):
        return _register(_operator(f"{qualname.ns}::{types}"), func or qualname.dispatch_key, None)
    return _register(_operator(qualname), types, func)


def register_kernel(op: Any, device_types: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Register a function that computes an operator on some types of device."""
    return _register(_operator(op), device_types, func)


def register_fake(op: Any, func: Any = None, /, *, lib: Any = None, _stacklevel: int = 1, **options: Any) -> Any:
    """Register a function that computes the shapes of the results, for compilers."""
    # A package that works without its compiled library (torchvision) still registers shapes for its missing operators.
    is_known = not _ops.refused_libraries or not isinstance(op, str) or op in REGISTRY
    operator = _operator(op) if is_known else None

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if operator is not None:
            operator.fake = function
        return function

    return decorate if func is None else decorate(func)


impl_abstract = register_fake


def register_autograd(op: Any, backward: Callable[..., Any], /, *, setup_context: Any = None, lib: Any = None) -> None:
    """Register the derivative of an operator."""
    operator = _operator(op)
    operator.backward, operator.setup_context = backward, setup_context


def register_vmap(op: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Register `func(info, in_dims, *args)`, which returns the results for many examples, and their mapped dims."""
    return _set_vmap(_operator(op), func)


def register_torch_dispatch(op: Any, torch_dispatch_class: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Return the function, without effect: the tensor class's `__torch_dispatch__` decides."""
    _operator(op)
    return (lambda given: given) if func is None else func


def fallthrough_kernel(*args: Any, **kwargs: Any) -> Any:
    """Raise: the function only marks that dispatch continues with the next key."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


def get_ctx() -> Any:
    """Raise: the context of a fake function, for sizes that depend on data, is not supported."""
    raise RuntimeError("get_ctx() can only be called inside a function that is registered with register_fake")


class Library:
    """Operators of one namespace: to define them ("DEF", "FRAGMENT") or to register functions for them ("IMPL")."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in _RESERVED and kind in ("DEF", "FRAGMENT"):
            raise ValueError(f"{ns} is a reserved namespace. Please try creating a library with another name.")
        if kind == "DEF" and ns in _DEFINED:
            raise RuntimeError(
                f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; please put all of your "
                'definitions in a single TORCH_LIBRARY block: the others are of the kind "FRAGMENT" or "IMPL".'
            )
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._defined: list[str] = []
        self._given: list[tuple[str, str]] = []
        if kind == "DEF":
            _DEFINED.add(ns)
        self._forget = weakref.finalize(self, _forget, ns if kind == "DEF" else "", self._defined, self._given)

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an operator, and return its name."""
        operator = register(self.ns, schema)
        self._defined.append(operator.key)
        return operator.name.partition("::")[2]

    def impl(self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", **options: Any) -> None:
        """Register a function that computes an operator under a dispatch key."""
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        if isinstance(op_name, str):
            op_name = op_name if "::" in op_name else f"{self.ns}::{op_name}"
            if op_name not in REGISTRY:
                key = dispatch_key or self.dispatch_key
                AWAITED.setdefault(op_name, {})[_KEYS.get(key, key)] = fn
                return
        operator, key = _operator(op_name), dispatch_key or self.dispatch_key
        _register(operator, key, fn)
        self._given.append((operator.key, _KEYS.get(key, key)))

    def fallback(self, fn: Callable[..., Any], dispatch_key: str = "", **options: Any) -> None:
        """Raise: undertow has no dispatch keys to fall back from."""
        raise NotImplementedError("undertow has no torch.library.Library.fallback")

    def _destroy(self) -> None:
        self._forget()


_RESERVED = frozenset(["prim"])
_DEFINED: set[str] = set()  # namespaces with a library of the kind "DEF"


def _forget(defines: str, defined: list[str], given: list[tuple[str, str]]) -> None:
    """Remove the operators and functions of a library that was freed."""
    for name, key in given:
        if name in REGISTRY:
            REGISTRY[name].kernels.pop(key, None)
    for name in defined:
        REGISTRY.pop(name, None)
        namespace, _, short = name.partition("::")
        vars(_ops.namespace(namespace)).pop(short.partition(".")[0], None)
    _DEFINED.discard(defines)


@contextlib.contextmanager
def _scoped_library(*args: Any, **kwargs: Any) -> Iterator[Library]:
    """Yield a library whose operators are removed at the end of the block."""
    made = Library(*args, **kwargs)
    try:
        yield made
    finally:
        made._destroy()


def get_kernel(op: Any, dispatch_key: Iterable[str] | str) -> Callable[..., Any]:
    """Return the function that computes an operator under a dispatch key."""
    return _operator(op).kernels[_KEYS.get(str(dispatch_key), str(dispatch_key))]
