"""Nested inputs and outputs of legacy functions: `NestedIOFunction`, and traversals of nested values."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

from undertow._src.base.hooks import Hook, RemovableHandle
from undertow._src.tensor.core import TensorCore
from undertow.autograd.function import Function

Condition = Callable[[Any], bool]


class NestedIOFunction(Function):
    """A legacy function of nested inputs and outputs: it can be constructed, but not called any more."""

    __module__ = "undertow.autograd.function"  # where PyTorch has it

    def forward_extended(self, *input: object) -> NoReturn:
        """Compute the result. To be overridden."""
        raise NotImplementedError

    def backward_extended(self, *grad_output: object) -> NoReturn:
        """Compute the gradients. To be overridden."""
        raise NotImplementedError

    def __call__(self, *args: object, **kwargs: object) -> Any:
        raise AttributeError(
            "'super' object has no attribute '_do_forward': functions in the old style can't be called. Write static "
            "forward and backward, and call apply()."
        )


class _HookMixin:
    """Adds a hook to a map of hooks, which is made if there is none."""

    __module__ = "undertow.autograd.function"  # where PyTorch has it

    @staticmethod
    def _register_hook(backward_hooks: Any, hook: Hook) -> tuple[Any, RemovableHandle]:
        if backward_hooks is None:
            backward_hooks = OrderedDict()
        handle = RemovableHandle(backward_hooks)
        backward_hooks[handle.id] = hook
        return backward_hooks, handle


# --- traversals of nested values


def _unknown(value: object, condition_msg: str | None) -> ValueError:
    accepted = f". Accepted types: {condition_msg}, or lists/tuples of them" if condition_msg else ""
    return ValueError(
        f"Auto nesting doesn't know how to process an input object of type {type(value).__name__}{accepted}"
    )


def _nested_map(
    condition: Condition, fn: Callable[[Any], Any], condition_msg: str | None = None
) -> Callable[[Any], Any]:
    """Return a function of nested lists, tuples and dicts that maps by `fn` each value that satisfies a condition."""

    def mapped(obj: object) -> Any:
        if condition(obj):
            return fn(obj)
        if obj is None:
            return None
        if isinstance(obj, (list, tuple)):
            parts = [mapped(each) for each in obj]
            return type(obj)(*parts) if hasattr(obj, "_fields") else type(obj)(parts)
        if isinstance(obj, dict):
            return {key: mapped(each) for key, each in obj.items()}
        raise _unknown(obj, condition_msg)

    return mapped


def _jit_unwrap_structured(obj: object) -> Any:
    """Return what an object stands for, if it has `_jit_unwrap`."""
    return obj._jit_unwrap() if hasattr(obj, "_jit_unwrap") else obj


def _iter_filter(
    condition: Condition, allow_unknown: bool = False, condition_msg: str | None = None,
    conversion: Callable[[Any], Any] | None = None,
) -> Callable[[Any], Iterator[Any]]:  # fmt: skip
    """Return a generator function over nested lists, tuples and dicts that yields each value satisfying a condition.

    A conversion is applied at every level of nesting, so that deep values undergo it several times, as in PyTorch.
    """

    def walk(obj: object) -> Iterator[Any]:
        value = obj if conversion is None else conversion(obj)
        parts = _parts(value)
        if condition(value) or (parts is None and allow_unknown):
            yield value
        elif parts is None:
            raise _unknown(value, condition_msg)
        else:
            for part in parts:
                yield from walk(part)

    return walk


def _parts(value: object) -> Iterable[Any] | None:
    """Return the items of a container; None if it is none."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, (list, tuple)) else () if value is None else None


def _is_tensor(value: object) -> bool:
    return isinstance(value, TensorCore)


_iter_tensors = _iter_filter(_is_tensor, condition_msg="Tensors", conversion=_jit_unwrap_structured)
_iter_tensors_permissive = _iter_filter(_is_tensor, allow_unknown=True, condition_msg="Tensors (permissive)")
_iter_None_tensors = _iter_filter(lambda value: value is None or _is_tensor(value), condition_msg="Tensors or None")
_map_tensor_data = _nested_map(_is_tensor, lambda tensor: tensor.data, condition_msg="Tensors")


def _unflatten(input: Any, proto: object) -> Any:
    """Return a flat sequence of values in the nesting of `proto`."""
    values = list(input)

    def take(like: object) -> Any:
        if hasattr(like, "_jit_wrap"):
            return like._jit_wrap(values)
        if not isinstance(like, (list, tuple)):
            return values.pop(0)
        parts = []
        for each in like:
            if hasattr(each, "_jit_wrap"):
                wrapped, values[:] = each._jit_wrap(values)
                parts.append(wrapped)
            else:
                parts.append(take(each))
        return type(like)(parts)

    return take(proto)[0] if hasattr(proto, "_jit_wrap") else take(proto)
