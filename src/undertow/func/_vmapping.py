"""The open vmaps, and conversion between examples and whole tensors, which derivatives inside a vmap need."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from undertow import overrides
from undertow._src.base.modes import local
from undertow._src.engine.transforms.levels import order_of_levels
from undertow._src.tensor.core import TensorCore
from undertow.utils import _pytree as pytree


class MappedLevel:
    """One open vmap: the number of examples, and what random functions may do."""

    __slots__ = ("began", "number", "randomness", "size")

    is_legacy = False  # whether to raise the errors of an older vmap
    example_class: Any = None  # BatchedTensor, set when it is imported, which slows down all tensors

    def __init__(self, number: int, size: int, randomness: str) -> None:
        self.number, self.size, self.randomness = number, size, randomness
        self.began = next(order_of_levels)  # the position among open derivatives

    def wrap(self, value: Any, given_at: int = 0) -> Any:
        """Return an example for a whole tensor, mapped dim in front. `given_at`: the caller's position of the dim."""
        example = object.__new__(self.example_class)
        example._value, example._level, example._given_at = value, self, given_at
        example._edge = example._storage = example._view = example._meta = None
        example._requires_grad = False
        return example

    def wrap_all(self, results: Any) -> Any:
        """Wrap every tensor in nested containers."""
        return pytree.tree_map_only(TensorCore, self.wrap, results)

    def holds(self, value: Any) -> bool:
        return isinstance(value, TensorCore) and getattr(value, "_level", None) is self

    def whole(self, value: Any) -> Any:
        """Return a tensor with the mapped dim in front, repeated along it if it is the same for every example."""
        if self.holds(value):
            return value._value
        return value.unsqueeze(0).expand(self.size, *value.shape)


class LevelMode(overrides.TorchFunctionMode):
    """The function mode of an open vmap: pass every call to `look_after`, which handles random functions."""

    def __init__(self, level: MappedLevel, look_after: Callable[..., Any]) -> None:
        super().__init__()
        self.level, self.look_after = level, look_after

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.look_after(self.level, func, args, kwargs or {})


@contextlib.contextmanager
def transforming() -> Iterator[None]:
    """Count an open transform inside the block."""
    local.modes.transforms += 1
    try:
        yield
    finally:
        local.modes.transforms -= 1


def open_levels() -> list[MappedLevel]:
    """Return the open vmaps of this thread, outermost first."""
    return [mode.level for mode in local.modes.function_modes if isinstance(mode, LevelMode)]


def required_in_place(
    function: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Sequence[Any], dict[str, Any]]:
    """Return the arguments of a call with the required ones by position, as rules want them, however they were given."""
    if not kwargs:
        return args, kwargs
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    defaults = getattr(getattr(function, "__wrapped__", function), "__defaults__", None) or ()
    required = () if code is None else code.co_varnames[: code.co_argcount - len(defaults)]
    placed, named = list(args), dict(kwargs)
    for name in required[len(args) :]:
        if name not in named:
            break
        placed.append(named.pop(name))
    return placed, named


def in_vmap() -> bool:
    """Whether the calling code runs inside a vmap."""
    return bool(open_levels())


def to_whole(tensor: Any, levels: Sequence[MappedLevel]) -> Any:
    """Return a tensor with the dims of all these levels in front, outermost first."""
    if not levels:
        return tensor
    *outer, innermost = levels
    if innermost.holds(tensor):
        return to_whole(tensor._value, outer)
    whole = to_whole(tensor, outer)
    place = len(outer)
    shape = whole.shape
    return whole.unsqueeze(place).expand(*shape[:place], innermost.size, *shape[place:])


def from_whole(tensor: Any, levels: Sequence[MappedLevel]) -> Any:
    """Undo `to_whole`."""
    for level in levels:
        tensor = level.wrap(tensor)
    return tensor


def check_randomness(randomness: str) -> None:
    """Check that `randomness` is a valid option of vmap."""
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
