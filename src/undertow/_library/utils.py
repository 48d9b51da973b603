"""Helpers about operators and their schemas."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from undertow import _ops
from undertow._src.tensor.core import TensorCore


class Kernel:
    """A kernel function and the line that registered it."""

    def __init__(self, func: Callable[..., Any], source: str) -> None:
        self.func, self.source = func, source

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.func(*args, **kwargs)


class RegistrationHandle:
    """Undoes a registration."""

    def __init__(self, on_destroy: Callable[[], None]) -> None:
        self._on_destroy = on_destroy

    def destroy(self) -> None:
        self._on_destroy()


def get_source(stacklevel: int) -> str:
    """Return the file and line of a caller."""
    frame = sys._getframe(stacklevel)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def parse_namespace(qualname: str) -> tuple[str, str]:
    """Split `"mylib::sin"` into `("mylib", "sin")`."""
    parts = qualname.split("::")
    if len(parts) != 2:
        raise ValueError(
            f'Expected `qualname` to be of the form "namespace::name", but got {qualname}. '
            "Write the library, two colons and the operator, such as aten::sin."
        )
    return parts[0], parts[1]


def lookup_op(qualname: str) -> Any:
    """Return the operator with this name."""
    namespace, name = parse_namespace(qualname)
    name, _, overload = name.partition(".")
    return getattr(getattr(_ops.namespace(namespace), name), overload or "default")


def is_builtin(op: Any) -> bool:
    """Whether an operator is one of PyTorch's own."""
    return op.namespace in {"aten", "prim", "prims"}


def is_functional_schema(schema: Any, *, allow_valid_view: bool = False) -> bool:
    """Whether an operator writes to nothing, and returns new tensors."""
    if isinstance(schema, str):
        raise TypeError("is_functional_schema takes a schema, not a string")
    if schema.is_mutable or not schema.returns:
        return False
    return allow_valid_view or all(each.alias_info is None for each in (*schema.arguments, *schema.returns))


def mutates_and_returns_first_arg(op: Any) -> bool:
    """Whether an operator writes to its first argument, and to that only, and returns it."""
    schema = op._schema
    if len(schema.returns) != 1 or schema.returns[0].alias_info is None or not schema.arguments:
        return False
    first, *rest = schema.arguments
    same = first.alias_info is not None and first.alias_info.before_set == schema.returns[0].alias_info.before_set
    return bool(same and first.alias_info.is_write and all(each.alias_info is None for each in rest))


def fill_defaults(schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call, with defaults for those that were not given."""
    placed, named = [], {}
    for number, argument in enumerate(schema.arguments):
        if argument.kwarg_only:
            named[argument.name] = kwargs.get(argument.name, argument.default_value)
        else:
            placed.append(args[number] if number < len(args) else kwargs.get(argument.name, argument.default_value))
    return tuple(placed), named


def zip_schema(schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield each argument of a call with its entry in the schema."""
    for number, argument in enumerate(schema.arguments):
        if not argument.kwarg_only and number < len(args):
            yield argument, args[number]
        elif argument.name in kwargs:
            yield argument, kwargs[argument.name]


def has_kwarg_only_args(schema: Any) -> bool:
    """Whether any argument is keyword-only."""
    return any(argument.kwarg_only for argument in schema.arguments)


def mutated_args_kwargs(schema: Any) -> tuple[list[int], list[str]]:
    """Return which arguments are mutated: positions and keywords."""
    written = [place for place, each in enumerate(schema.arguments) if each.alias_info and each.alias_info.is_write]
    by_name = [schema.arguments[place].name for place in written if schema.arguments[place].kwarg_only]
    return [place for place in written if not schema.arguments[place].kwarg_only], by_name


def iter_tensors(args: tuple[Any, ...], kwargs: dict[str, Any], allowed_nesting: int = 1) -> Iterator[Any]:
    """Yield the tensors among the arguments, also those in lists."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, TensorCore):
            yield value
        elif allowed_nesting and isinstance(value, (tuple, list)):
            yield from iter_tensors(tuple(value), {}, allowed_nesting - 1)
