"""`torch.utils._python_dispatch`: blocks that see every operator below autograd, and what wrapper classes are made with."""

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
    """In its `with` block every operator is first offered to `__torch_dispatch__(func, types, args, kwargs)`.

    `func` is an overload such as `torch.ops.aten.mul.Tensor`; operators of the backward pass are offered too. While the
    handler runs the mode itself is off and nothing is recorded, so it may compute freely; `func(*args, **kwargs)` asks
    the next mode out, and at last runs the operator.
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
        """Whether this is one of the modes that PyTorch's compiler is built on: none is."""
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that lets every operator through."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


# --- the modes that are on


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
    """Return a block in which the innermost mode is off."""
    mode = _pop_mode()
    try:
        yield mode
    finally:
        _push_mode(mode)


def _get_current_dispatch_mode() -> TorchDispatchMode | None:
    """Return the innermost mode that is on."""
    stack = local.modes.dispatch_modes
    return stack[-1] if stack else None


def _get_current_dispatch_mode_stack() -> list[TorchDispatchMode]:
    """Return the modes that are on, the innermost last."""
    return list(local.modes.dispatch_modes)


def _get_dispatch_stack_at(index: int) -> TorchDispatchMode:
    return local.modes.dispatch_modes[index]


def _len_torch_dispatch_stack() -> int:
    return len(local.modes.dispatch_modes)


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Whether a mode is on."""
    return bool(local.modes.dispatch_modes)


def any_torch_dispatch_mode_on_stack(*, include_infra_modes: bool = True) -> bool:
    """Whether a mode is on."""
    return bool(local.modes.dispatch_modes)


@contextmanager
def _disable_current_modes() -> Iterator[list[TorchDispatchMode]]:
    """Return a block in which no mode is on; gives those that were, the innermost first."""
    modes = local.modes
    before, modes.dispatch_modes = modes.dispatch_modes, []
    try:
        yield before[::-1]
    finally:
        modes.dispatch_modes = before


# --- classes that wrap other tensors


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Whether a tensor, or a class of them, says how to take it apart into plain tensors and put it together again."""
    is_tensor = isinstance(t, TensorCore) or (isinstance(t, type) and issubclass(t, TensorCore))
    return is_tensor and hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


is_traceable_wrapper_subclass_type = is_traceable_wrapper_subclass


def transform_subclass(
    t: Any, callback: Callable[[str, Any], Any], outer_size: Any = None, outer_stride: Any = None
) -> Any:
    """Return the same kind of wrapper around other tensors: `callback(name, inner)` gives each of them."""
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


# --- what operators say about memory


@dataclass
class AliasInfo:
    """One argument or result of an operator: the names of the memory it shows, and whether it is written to."""

    alias_set: set[str]
    is_write: bool
    name: str | None


@dataclass
class SchemaInfo:
    """All arguments and results of an operator."""

    args: list[AliasInfo]
    outs: list[AliasInfo]
    is_inplace_view_op: bool = False


def get_alias_info(func: Any) -> SchemaInfo:
    """Return what an operator says about the memory of its arguments and results."""

    def said(part: Any) -> AliasInfo:
        alias = part.alias_info
        return AliasInfo(set() if alias is None else alias.before_set, alias is not None and alias.is_write, part.name)

    schema = func._schema
    return SchemaInfo([said(part) for part in schema.arguments], [said(part) for part in schema.returns])


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """Return what a wrapper's `__torch_dispatch__` is to return: the very argument that an operator writes to, if it does.

    A view shares the memory of what it was taken from, so that a write to one counts for the other.
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
    """Whether an operator reaches handlers only as the parts it is made of."""
    return False
