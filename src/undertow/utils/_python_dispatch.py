"""`torch.utils._python_dispatch`: modes that see every operator below autograd, and helpers for wrapper classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import undertow._src.overrides.dispatch.running  # noqa: F401  from here on operators are offered
from undertow._src.base.modes import local, slow_path
from undertow._src.base.tree import leaves
from undertow._src.tensor.core import TensorCore

__all__ = [
    "BaseTorchDispatchMode", "TorchDispatchMode", "autograd_would_have_decomposed", "get_alias_info",
    "is_traceable_wrapper_subclass", "is_traceable_wrapper_subclass_type", "return_and_correct_aliasing",
    "transform_subclass",
]  # fmt: skip


class TorchDispatchMode:
    """Passes every operator inside the block to `__torch_dispatch__(func, types, args, kwargs)`.

    `func` is an overload such as `torch.ops.aten.mul.Tensor`; operators of the backward pass are passed too. While the
    handler runs, the mode is off and nothing is recorded, so it may compute freely; `func(*args, **kwargs)` calls the
    next outer mode and finally runs the operator.
    """

    def __init__(self, _dispatch_key: Any = None) -> None:
        pass

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Self:
        _push_mode(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _pop_mode()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Self:
        """Return an instance; enter it with `with`."""
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Whether this is one of the modes of PyTorch's compiler: never."""
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that runs every operator unchanged."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


# --- active modes


def _push_mode(mode: TorchDispatchMode) -> None:
    local.modes.dispatch_modes.append(mode)
    slow_path.enter()


def _pop_mode(mode_key: Any = None) -> TorchDispatchMode:
    slow_path.leave()
    return local.modes.dispatch_modes.pop()


_push_on_torch_dispatch_stack = _push_mode
_pop_torch_dispatch_stack = _pop_mode


@contextmanager
def _pop_mode_temporarily(mode_key: Any = None) -> Iterator[TorchDispatchMode]:
    """Disable the innermost mode inside the block."""
    mode = _pop_mode()
    try:
        yield mode
    finally:
        _push_mode(mode)


def _get_current_dispatch_mode() -> TorchDispatchMode | None:
    """Return the innermost active mode."""
    stack = local.modes.dispatch_modes
    return stack[-1] if stack else None


def _get_current_dispatch_mode_stack() -> list[TorchDispatchMode]:
    """Return the active modes, the innermost last."""
    return list(local.modes.dispatch_modes)


def _get_dispatch_stack_at(index: int) -> TorchDispatchMode:
    return local.modes.dispatch_modes[index]


def _len_torch_dispatch_stack() -> int:
    return len(local.modes.dispatch_modes)


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Whether a mode is active."""
    return bool(local.modes.dispatch_modes)


def any_torch_dispatch_mode_on_stack(*, include_infra_modes: bool = True) -> bool:
    """Whether a mode is active."""
    return bool(local.modes.dispatch_modes)


@contextmanager
def _disable_current_modes() -> Iterator[list[TorchDispatchMode]]:
    """Disable all modes inside the block; yield those that were active, the innermost first."""
    modes = local.modes
    before, modes.dispatch_modes = modes.dispatch_modes, []
    try:
        yield before[::-1]
    finally:
        modes.dispatch_modes = before


# --- classes that wrap other tensors


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Whether a tensor or tensor class can be flattened into inner tensors and rebuilt from them."""
    is_tensor = isinstance(t, TensorCore) or (isinstance(t, type) and issubclass(t, TensorCore))
    return is_tensor and hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


is_traceable_wrapper_subclass_type = is_traceable_wrapper_subclass


def transform_subclass(
    t: Any, callback: Callable[[str, Any], Any], outer_size: Any = None, outer_stride: Any = None
) -> Any:
    """Return the same kind of wrapper around new inner tensors: the results of `callback(name, inner)`."""
    size = outer_size if outer_size is not None else t.size()
    stride = outer_stride if outer_stride is not None else t.stride()
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    made = type(t).__tensor_unflatten__(inner, context, size, stride)
    if made.shape != size:
        raise AssertionError(
            f"Expected return value from {type(t)}__tensor_unflatten__() to have shape equal to {size}, but got: "
            f"{made.shape}"
        )
    return made


# --- aliasing in operator schemas


@dataclass
class AliasInfo:
    """The aliasing of one argument or result of an operator: its alias set, and whether it is written to."""

    alias_set: set[str]
    is_write: bool
    name: str | None


@dataclass
class SchemaInfo:
    """The aliasing of all arguments and results of an operator."""

    args: list[AliasInfo]
    outs: list[AliasInfo]
    is_inplace_view_op: bool = False


def get_alias_info(func: Any) -> SchemaInfo:
    """Return the aliasing of an operator's arguments and results, from its schema."""

    def said(part: Any) -> AliasInfo:
        alias = part.alias_info
        return AliasInfo(set() if alias is None else alias.before_set, alias is not None and alias.is_write, part.name)

    schema = func._schema
    return SchemaInfo([said(part) for part in schema.arguments], [said(part) for part in schema.returns])


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """Return the result of a wrapper's `__torch_dispatch__`; for an in-place operator, the argument it writes to.

    A view shares the storage of its base, so that a write to one counts for the other.
    """
    info = get_alias_info(func)
    by_name = dict(zip([part.name for part in info.args], args, strict=False)) | (kwargs or {})
    for result in info.outs:
        if result.is_write:
            return next(by_name[part.name] for part in info.args if part.alias_set == result.alias_set)
    sources = [by_name.get(part.name) for part in info.args if part.alias_set]
    if sources and isinstance(sources[0], TensorCore) and info.outs and info.outs[0].alias_set:
        for each in leaves(out):
            if isinstance(each, TensorCore):
                each._storage = sources[0]._get_storage()
    return out


def autograd_would_have_decomposed(func: Any, flat_args: Any) -> bool:
    """Whether autograd would decompose an operator before a handler sees it."""
    return False
