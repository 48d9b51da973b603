"""`Size`: the shape of a tensor, a tuple of ints that prints as PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from operator import index
from typing import Any, Self

from undertow._src.base import tracer
from undertow._src.base.torch_named import TorchNamed


class WrappedDim(int):
    """A dim counted from the front that was given as a negative number: nodes show it as given."""

    given: int


def wrapped_dim(dim: int, count: int) -> WrappedDim:
    """Return a negative dim as a non-negative one, for a tensor with this number of dims."""
    found = WrappedDim(dim + count)
    found.given = dim
    return found


class EveryDim(tuple[int, ...]):
    """All dims of a tensor, where none was given: nodes show None."""

    given = None


class DefaultInt(int):
    """A number that was not given: nodes show None."""

    given = None


def _dimension(item: Any, position: int) -> int:
    if item.__class__ is int:  # or a number that stands for one in a trace
        return item
    try:
        return index(item)
    except TypeError:
        name = type(item).__name__ if type(item).__module__ != "numpy" else f"numpy.{type(item).__name__}"
        raise TypeError(f"torch.Size() takes an iterable of 'int' (item {position} is '{name}')") from None


class Size(tuple[int, ...], metaclass=TorchNamed):
    """A tuple of ints; slices and concatenations of it are sizes too."""

    __slots__ = ()
    __module__ = "torch"

    def __new__(cls, sizes: Iterable[int] = (), /) -> Self:
        return tuple.__new__(cls, [_dimension(item, position) for position, item in enumerate(sizes)])

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"

    def numel(self) -> int:
        """How many elements a tensor of this size has."""
        count = math.prod(self)
        return count if tracer.current is None else tracer.current.sizes_shown((count,))[0]

    def __getitem__(self, key: Any) -> Any:
        item = tuple.__getitem__(self, key)
        return item if type(item) is not tuple else size_of(item)

    def __add__(self, other: Any) -> Size:
        if isinstance(other, tuple):
            return Size((*self, *other))
        # Try the other side's operator here: left to Python, the error would not have PyTorch's text.
        reflected = getattr(type(other), "__radd__", None)
        result = NotImplemented if reflected is None else reflected(other, self)
        if result is NotImplemented:
            raise TypeError(f"can only concatenate tuple (not {type(other).__name__}) to torch.Size")
        return result

    def __radd__(self, other: Any) -> Size:
        if not isinstance(other, tuple):
            return NotImplemented
        return Size((*other, *self))

    def __mul__(self, times: Any) -> Size:
        return size_of(tuple(self) * times)

    __rmul__ = __mul__

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (tuple(self),)


def _rebuild(sizes: tuple[int, ...]) -> Size:
    return Size(sizes)


# A Size from a tuple already known to hold ints, such as an array's shape: no checks, so no Python frame.
size_of: Callable[[tuple[int, ...]], Size] = partial(tuple.__new__, Size)
