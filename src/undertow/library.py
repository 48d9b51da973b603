"""`torch.library`: operators of a program's own, which `torch.ops` finds and autograd treats as one step.

    @torch.library.custom_op("mylib::scaled_sin", mutates_args=())
    def scaled_sin(x: torch.Tensor, factor: float) -> torch.Tensor:
        return torch.sin(x) * factor
"""

from __future__ import annotations

import contextlib
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator
from types import NoneType, UnionType
from typing import Any

from undertow import _ops, dtypes
from undertow._core import TensorCore, tensor_class
from undertow.devices import device as Device
from undertow.operators import REGISTRY, Operator, register, registered

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
    """A schema from a function's annotations; `mutates_args` names the tensors that it writes to.

    >>> def scale(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor: ...
    >>> torch.library.infer_schema(scale, mutates_args=())
    '(Tensor x, float factor=2.0) -> Tensor'
    """
    signature = inspect.signature(prototype_function)
    hints = typing.get_type_hints(prototype_function)
    parameters: list[str] = []
    keyword_only = False
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            parameters.append("*")
        if name not in hints:
            raise ValueError(
                f"infer_schema(func): Parameter {name} must have a type annotation. Got func with signature {signature})"
            )
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
    return f'"{value}"' if isinstance(value, str) else str(value)


# --- one operator


class CustomOpDef:
    """An operator made of a Python function; `register_autograd` says how gradients pass through it."""

    def __init__(self, namespace: str, name: str, schema: str, fn: Callable[..., Any]) -> None:
        self._namespace, self._name, self._qualname = namespace, name, f"{namespace}::{name}"
        self._init_fn = fn
        REGISTRY.pop(self._qualname, None)  # a function that is defined again takes the place of the old one
        self._operator = register(namespace, f"{name}{schema}")
        self._operator.is_custom = True
        vars(_ops.namespace(namespace)).pop(name, None)

    @property
    def _opoverload(self) -> Any:
        return getattr(_ops.namespace(self._namespace), self._name).default

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._operator(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def register_kernel(self, device_types: Any, fn: Callable[..., Any] | None = None, /) -> Any:
        """A function for some kinds of device; None stands for all."""
        return _register(self._operator, device_types, fn)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """A function that gives results of the right shapes, for compilers."""
        self._operator.fake = fn
        return fn

    def register_autograd(self, backward: Callable[..., Any], /, *, setup_context: Any = None) -> None:
        """`backward(ctx, *grads)` gives a gradient for each input; `setup_context(ctx, inputs, output)` saves for it."""
        self._operator.backward, self._operator.setup_context = backward, setup_context

    def register_vmap(self, func: Callable[..., Any] | None = None, /) -> Any:
        """A function for many examples at once; kept, but `torch.vmap` here does not ask for it."""
        return (lambda given: given) if func is None else func

    register_torch_dispatch = register_kernel


def _register(operator: Operator, device_types: Any, fn: Any) -> Any:
    names = ["default"] if device_types is None else [device_types] if isinstance(device_types, str) else device_types

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            operator.kernels[_KEYS.get(name, name)] = function
        return function

    return decorate if fn is None else decorate(fn)


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: Any,
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Makes a function an operator that autograd sees as one step. `name` is `"namespace::name"`."""

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
    """Refuses: Triton's programs run on GPUs."""
    raise NotImplementedError("undertow has no torch.library.wrap_triton: Triton's programs run on GPUs")


# --- by name


def _operator(op: Any) -> Operator:
    if isinstance(op, CustomOpDef):
        return op._operator
    if isinstance(op, _ops.OpOverload):
        op = op.name()
    return registered(op)


def define(qualname: str, schema: str | None = None, *, lib: Any = None, tags: Any = ()) -> Any:
    """Makes an operator known: `define("mylib::sin", "(Tensor x) -> Tensor")`."""
    if schema is None:
        raise ValueError(f"torch.library.define: {qualname} needs a schema")
    namespace, _, short = qualname.partition("::")
    register(namespace, short + schema)


def impl(qualname: Any, types: Any = "", func: Any = None, *, lib: Any = None) -> Any:
    """A function that computes an operator, for some kinds of device; also `impl(library, name, key)`."""
    if isinstance(qualname, Library):
        return _register(_operator(f"{qualname.ns}::{types}"), func or qualname.dispatch_key, None)
    return _register(_operator(qualname), types, func)


def register_kernel(op: Any, device_types: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """A function that computes an operator on some kinds of device."""
    return _register(_operator(op), device_types, func)


def register_fake(op: Any, func: Any = None, /, *, lib: Any = None, _stacklevel: int = 1, **options: Any) -> Any:
    """A function that gives results of the right shapes, for compilers."""
    # A package that lives without its compiled library (torchvision) still says what shapes its operators would give.
    is_known = not _ops.refused_libraries or not isinstance(op, str) or op in REGISTRY
    operator = _operator(op) if is_known else None

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if operator is not None:
            operator.fake = function
        return function

    return decorate if func is None else decorate(func)


impl_abstract = register_fake


def register_autograd(op: Any, backward: Callable[..., Any], /, *, setup_context: Any = None, lib: Any = None) -> None:
    """How gradients pass through an operator."""
    operator = _operator(op)
    operator.backward, operator.setup_context = backward, setup_context


def register_vmap(op: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """A function for many examples at once; kept, but `torch.vmap` here does not ask for it."""
    _operator(op)
    return (lambda given: given) if func is None else func


def register_torch_dispatch(op: Any, torch_dispatch_class: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """What a class of tensors does with an operator; kept, but nothing here dispatches below autograd."""
    return register_vmap(op, func)


def fallthrough_kernel(*args: Any, **kwargs: Any) -> Any:
    """Stands for "whatever comes next"."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


def get_ctx() -> Any:
    """What a fake function asks for sizes that depend on data."""
    raise RuntimeError("get_ctx() can only be called inside a function that is registered with register_fake")


def opcheck(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, **options: Any) -> dict[str, str]:
    """Runs an operator and its gradient once. Raises what they raise."""
    given = [value.detach()._asking(value.requires_grad) if _is_tensor(value) else value for value in args]
    result = op(*given, **(kwargs or {}))
    for value in result if isinstance(result, tuple) else (result,):
        if _is_tensor(value) and value.requires_grad:
            value.sum().backward()
    return {"test_schema": "SUCCESS", "test_autograd_registration": "SUCCESS"}


def _is_tensor(value: Any) -> bool:
    return isinstance(value, tensor_class())


class Library:
    """Operators of one namespace, as they are defined ("DEF", "FRAGMENT") or given functions ("IMPL")."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._defined: list[str] = []

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Makes an operator known; returns its name."""
        operator = register(self.ns, schema)
        self._defined.append(operator.key)
        return operator.name.partition("::")[2]

    def impl(self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", **options: Any) -> None:
        """A function that computes an operator under a dispatch key."""
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        if isinstance(op_name, str):
            op_name = op_name if "::" in op_name else f"{self.ns}::{op_name}"
        _register(_operator(op_name), dispatch_key or self.dispatch_key, fn)

    def fallback(self, fn: Callable[..., Any], dispatch_key: str = "", **options: Any) -> None:
        """Refuses: there are no operators below undertow's functions to fall back from."""
        raise NotImplementedError("undertow has no torch.library.Library.fallback")

    def _destroy(self) -> None:
        for name in self._defined:
            REGISTRY.pop(name, None)
            namespace, _, short = name.partition("::")
            vars(_ops.namespace(namespace)).pop(short.partition(".")[0], None)


@contextlib.contextmanager
def _scoped_library(*args: Any, **kwargs: Any) -> Iterator[Library]:
    """A library whose operators are forgotten at the end of the block."""
    made = Library(*args, **kwargs)
    try:
        yield made
    finally:
        made._destroy()


def get_kernel(op: Any, dispatch_key: Iterable[str] | str) -> Callable[..., Any]:
    """The function that computes an operator under a dispatch key."""
    return _operator(op).kernels[_KEYS.get(str(dispatch_key), str(dispatch_key))]
