"""What is known of an array while a program is traced: its shape and dtype, not its values."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.core import Tracer

Array = Any


class ShapeNeedsValues(jax.errors.ConcretizationTypeError):
    """A shape that depends on values was asked of arrays that have none yet."""

    def __init__(self, word: str, cure: str) -> None:
        TypeError.__init__(
            self,
            f"{word}: the shape of the result depends on the values of its input, which are not known while a step is "
            f"compiled. {cure}",
        )


def is_traced(*arrays: Any) -> bool:
    """Whether any of these stands for values that are not known yet."""
    return any(isinstance(array, Tracer) for array in arrays)


def values_of(word: str, cure: str, *arrays: Any) -> list[Any]:
    """Arrays as NumPy's, for a word that has to look at values; says what to do instead while tracing."""
    if is_traced(*arrays):
        raise ShapeNeedsValues(word, cure)
    return [None if array is None else np.asarray(array) for array in arrays]


def as_short_index(index: Array) -> Array:
    """An index in int32, in which XLA gathers and scatters fastest; int64 only says what PyTorch's indices are."""
    return index if index.dtype.itemsize <= 4 else index.astype(np.int32)
