"""Operators that programs register: a name, a schema, functions that compute it, and its gradient.

`torch.library` makes them and `torch.ops` finds them; here is what a call of one does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from undertow._src.base.modes import is_grad_enabled, slow_path
from undertow._src.base.sites import warn
from undertow._src.base.tree import leaves
from undertow._src.engine.outputs import bump
from undertow._src.tensor.core import TensorCore
from undertow.autograd.function import Function

_PARAMETER = re.compile(
    r"(?P<type>\w+(?:\([^)]*\)|!)?(?:\?|\[\d*\])*)\s+(?P<name>\w+)(?:\s*=\s*(?P<default>.+))?$", re.DOTALL
)
_BASE = re.compile(r"\w+")
_WHOLE_FLOAT = re.compile(r"(=-?\d+\.)0\b")  # shown as `2.`
_NUMBERS = ("int", "SymInt", "float", "bool", "Scalar")
_CONSTANTS = {"None": None, "True": True, "False": False}


class Argument:
    """One parameter of a schema."""

    def __init__(self, text: str, kwarg_only: bool) -> None:
        match = _PARAMETER.match(text.strip())
        if match is None:
            raise RuntimeError(f"expected a type and a name in a schema, found {text!r}")
        self.type, self.name, self.kwarg_only = match["type"], match["name"], kwarg_only
        self.base = _BASE.match(self.type).group()  # type: ignore[union-attr]
        self.alias_info = alias_of(self.type)
        self.is_written = "!" in self.type
        self.has_default = match["default"] is not None
        self.default_value = _constant(match["default"]) if self.has_default else None

    def has_default_value(self) -> bool:
        return self.has_default


class Alias:
    """`(a!)` in a signature: which storage a tensor aliases, and whether it is written to."""

    def __init__(self, names: str) -> None:
        before, _, after = names.partition("->")
        self.is_write = "!" in before
        self.before_set = {name.strip(" !") for name in before.split("|")}
        self.after_set = {name.strip(" !") for name in after.split("|")} if after else self.before_set


def alias_of(type_text: str) -> Alias | None:
    """Return the alias information of a type."""
    inside = type_text.partition("(")[2].partition(")")[0]
    return Alias(inside) if inside else None


class Returned:
    """One result of a schema."""

    def __init__(self, text: str) -> None:
        self.type, _, self.name = text.partition(" ") if "->" not in text else (text, "", "")
        self.alias_info = alias_of(text)


def _constant(text: str) -> Any:
    text = text.strip()
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text.startswith("["):
        return [_constant(part) for part in text[1:-1].split(",") if part.strip()]
    if text[0] in "\"'":
        return text[1:-1]
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text  # the name of a constant, such as contiguous_format


class Schema:
    """The parameters and results of an operator: `foo::bar(Tensor x, int n=2) -> Tensor`."""

    def __init__(self, namespace: str, text: str) -> None:
        name, _, rest = text.strip().partition("(")
        name = name.strip()
        name = name if "::" in name else f"{namespace}::{name}"
        inside, _, returned = rest.rpartition("->")
        self.name, _, self.overload_name = name.partition(".")
        self.text = _WHOLE_FLOAT.sub(r"\1", f"{name}({rest}")
        self.arguments: list[Argument] = []
        kwarg_only = False
        for part in _parts(inside.strip().removesuffix(")")):
            if part.strip() == "*":
                kwarg_only = True
            else:
                self.arguments.append(Argument(part, kwarg_only))
        returned = returned.strip()
        several = returned.startswith("(")
        self.returns = [Returned(part.strip()) for part in _parts(returned[1:-1] if several else returned)]
        self.is_mutable = any(argument.is_written for argument in self.arguments)

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the values of a call's positional and keyword-only parameters, defaults filled in."""
        places = [argument for argument in self.arguments if not argument.kwarg_only]
        if len(args) > len(places):
            raise RuntimeError(
                f"{self.name}() expected at most {len(places)} argument(s) but received {len(args)} argument(s). "
                f"Declaration: {self}"
            )
        rest = dict(kwargs)
        positional: list[Any] = []
        keyword: dict[str, Any] = {}
        for number, argument in enumerate(self.arguments):
            if not argument.kwarg_only and number < len(args):
                value = args[number]
            elif argument.name in rest:
                value = rest.pop(argument.name)
            elif argument.has_default:
                value = argument.default_value
            else:
                raise RuntimeError(
                    f"{self.name}() is missing value for argument '{argument.name}'. Declaration: {self}"
                )
            self._check(argument, number, value)
            if argument.kwarg_only:
                keyword[argument.name] = value
            else:
                positional.append(value)
        if rest:
            raise RuntimeError(
                f"Unknown keyword argument '{next(iter(rest))}' for operator '{self.name}'. Schema: {self}"
            )
        return positional, keyword

    def _check(self, argument: Argument, place: int, value: Any) -> None:
        kind = re.sub(r"\([^)]*\)|!", "", argument.type)
        wrong = (
            (kind == "Tensor" and not isinstance(value, TensorCore))
            or (kind in ("int", "SymInt") and isinstance(value, float))
            or (kind in _NUMBERS and (value is None or isinstance(value, (str, list, tuple, dict))))
            or (kind == "str" and not isinstance(value, str))
        )
        if wrong:
            raise RuntimeError(
                f"{self.name}() Expected a value of type '{kind}' for argument '{argument.name}' but instead found type "
                f"'{type(value).__name__}'.\nPosition: {place}\nValue: {value}\nDeclaration: {self}"
            )


def _parts(text: str) -> list[str]:
    """Return the pieces between commas outside of brackets."""
    parts, depth, piece = [], 0, ""
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            parts.append(piece)
            piece = ""
        else:
            piece += letter
    return [*parts, piece] if piece.strip() else parts


class Operator:
    """A registered operator."""

    def __init__(self, namespace: str, text: str) -> None:
        self.schema = Schema(namespace, text)
        self.name = self.schema.name
        self.key = ".".join(filter(None, (self.name, self.schema.overload_name)))
        self.kernels: dict[str, Callable[..., Any]] = {}
        self.backward: Callable[..., Any] | None = None
        self.setup_context: Callable[..., Any] | None = None
        self.is_custom = False  # made by custom_op: its functions are opaque to autograd
        self.fake: Callable[..., Any] | None = None
        self.vmap: Callable[..., Any] | None = None
        self.fallback: Callable[..., Any] | None = None  # device types whose function is switched off
        self.switched_off: set[str] = set()
        self._function: type[Function] | None = None

    @property
    def shown(self) -> str:
        return f"{self.name.replace('::', '.')}.{self.schema.overload_name or 'default'}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        positional, keyword = self.schema.bind(args, kwargs)
        if slow_path.count:
            for value in leaves((positional, keyword)):
                if hasattr(value, "_apply_function"):  # one example of a vmap, which knows how to compute all of them
                    return value._apply_function(_Mapped(self, keyword), tuple(positional))
        for key in ("Autograd", "AutogradCPU", "CompositeImplicitAutograd"):
            if key in self.kernels:
                return self.kernels[key](*positional, **keyword)
        kernel = self._kernel()
        tensors = [value for value in (*positional, *keyword.values()) if isinstance(value, TensorCore)]
        if self.is_custom and any(tensor.device.type == "meta" for tensor in tensors):
            return self._without_values()(*positional, **keyword)
        wants = is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
        if not wants:
            result = kernel(*positional, **keyword)
        elif self.backward is None and not self.is_custom:
            warn(
                f"{self.name}: an autograd kernel was not registered to the Autograd key(s) but a backward pass goes "
                "through it: the gradients may be silently wrong."
            )
            result = kernel(*positional, **keyword)
        else:
            result = self._differentiable().apply(*positional, keyword)
        if self.is_custom:
            self._check_aliases(positional, keyword, result)
        return result

    def _without_values(self) -> Callable[..., Any]:
        """Return the function that computes the shapes of the results."""
        if self.fake is None:
            raise RuntimeError(
                f"There was no fake impl registered for <CustomOpDef({self.name})>. It computes the shapes of the results "
                f"where tensors have no values: add one with `{self.name.partition('::')[2]}.register_fake`."
            )
        return self.fake

    def _kernel(self) -> Callable[..., Any]:
        for key in ("CPU", "CompositeExplicitAutograd"):
            if key in self.kernels:
                kernel = self.kernels[key]
                if key in self.switched_off and self.fallback is not None:
                    kernel = self.fallback
                return kernel if slow_path.dispatcher is None else partial(slow_path.dispatcher.custom, self, kernel)
        raise NotImplementedError(
            f"Could not run '{self.name}' with arguments from the 'CPU' backend: no function was registered for it"
        )

    def _check_aliases(self, positional: list[Any], keyword: dict[str, Any], result: Any) -> None:
        """Check that results share no storage with inputs, and count the writes to mutated arguments."""
        values = dict(zip([argument.name for argument in self.schema.arguments], positional, strict=False)) | keyword
        results = result if isinstance(result, tuple) else (result,)
        storages = {id(value._get_storage()) for value in values.values() if isinstance(value, TensorCore)}
        if any(isinstance(value, TensorCore) and id(value._get_storage()) in storages for value in results):
            raise RuntimeError(
                f"{self.name.partition('::')[2]}: The output of this custom operator (1) must not be one of its "
                "inputs and (2) may share memory with none of them, nor with a different output. Return a "
                "clone() instead."
            )
        for argument in self.schema.arguments:
            if argument.is_written and isinstance(values[argument.name], TensorCore):
                bump(values[argument.name])

    def _differentiable(self) -> type[Function]:
        """Return an autograd function around the operator."""
        if self._function is not None:
            return self._function
        operator = self

        def forward(ctx: Any, *given: Any) -> Any:
            *positional, keyword = given
            result = operator._kernel()(*positional, **keyword)
            if operator.setup_context is not None:
                more = {"keyword_only_inputs": keyword} if keyword else {}
                operator.setup_context(ctx=ctx, inputs=tuple(positional), output=result, **more)
            return result

        def backward(ctx: Any, *grads: Any) -> Any:
            if operator.backward is None:
                raise RuntimeError(
                    f"Trying to backward through {operator.shown} but no autograd formula was registered. "
                    "Give it one with register_autograd."
                )
            gradients = operator.backward(ctx, *grads)
            return (*(gradients if isinstance(gradients, tuple) else (gradients,)), None)

        name = f"GeneratedBackwardFor_{self.shown.replace('.', '_')}"
        body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        self._function = type(name, (Function,), body)
        return self._function


class _Mapped:
    """An operator as a custom Function for vmap: it calls the registered batch function, or loops over the examples."""

    def __init__(self, operator: Operator, keyword: dict[str, Any]) -> None:
        self.operator, self.keyword, self.__name__ = operator, keyword, operator.shown
        self.generate_vmap_rule = operator.vmap is None
        self.vmap = Function.vmap if operator.vmap is None else partial(operator.vmap, **keyword)

    def setup_context(self) -> None:
        pass

    def apply(self, *args: Any) -> Any:
        return self.operator(*args, **self.keyword)


REGISTRY: dict[str, Operator] = {}
AWAITED: dict[str, dict[str, Callable[..., Any]]] = {}  # functions for operators that are not defined yet


def register(namespace: str, text: str) -> Operator:
    """Register an operator by its schema."""
    operator = Operator(namespace, text)
    if operator.key in REGISTRY:
        raise RuntimeError(
            f"Tried to register an operator ({operator.schema}) with the same name and overload name multiple times. A "
            "schema is defined once; add implementations with impl()."
        )
    REGISTRY[operator.key] = operator
    operator.kernels.update(AWAITED.pop(operator.key, {}))
    return operator


def registered(name: str) -> Operator:
    """Return the operator of this name."""
    if name not in REGISTRY:
        raise RuntimeError(f"operator {name} does not exist")
    return REGISTRY[name]
