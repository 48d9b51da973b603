"""What is known of an array while a program is traced: its shape and dtype, not its values."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from undertow._src.arrays.device.memory import TraceAborted, Target
from undertow._src.arrays.quiet import quietly

Array = Any


class ShapeNeedsValues(jax.errors.ConcretizationTypeError):
    """A shape depends on values that are not known yet."""

    def __init__(self, word: str, cure: str) -> None:
        TypeError.__init__(
            self,
            f"{word}: the shape of the result depends on the values of its input, which are not known while a step is "
            f"compiled. {cure}",
        )
        TraceAborted.note(self)


def refuse_shape(word: str) -> None:
    """Raise the error for a function whose result has an unknown shape."""
    raise ShapeNeedsValues(
        word,
        "Keep the shape, with torch.where or by multiplying with a mask, or do this outside the compiled step. Or run "
        'the step eagerly: compile(step, fallback="eager").',
    )


def is_traced(*arrays: Any) -> bool:
    """Whether any of these is a tracer."""
    return any(isinstance(array, Tracer) for array in arrays)


def platform_of(x: Any) -> str:
    """Return the platform that will compute with this array, in JAX's terms: "cpu", "gpu"."""
    if Target.platform is not None:
        return Target.platform
    if isinstance(x, jax.Array) and not is_traced(x):
        return next(iter(x.devices())).platform
    return jax.default_backend()


def values_of(word: str, cure: str, *arrays: Any) -> list[Any]:
    """Return arrays as NumPy's, for a function that has to read values; while tracing, raise with the cure."""
    if is_traced(*arrays):
        raise ShapeNeedsValues(word, cure)
    return [None if array is None else np.asarray(array) for array in arrays]


def as_short_index(index: Array) -> Array:
    """Return an index in int32, in which XLA gathers and scatters fastest; int64 is only PyTorch's dtype of indices."""
    return index if index.dtype.itemsize <= 4 else index.astype(np.int32)


IN_BOUNDS: dict[str, Any] = {"mode": "promise_in_bounds"}


def picked(x: Array, index: Array, axis: int) -> Array:
    """Return the slices of an axis that an index selects; the index's axes replace it."""
    return jnp.asarray(x).at[(*[slice(None)] * (axis % x.ndim), as_short_index(index))].get(**IN_BOUNDS)


def on_host(function: Any, like: Any, *arrays: Any) -> Any:
    """Apply a NumPy function to the values of arrays, in a trace when the program runs; `like` describes its result.

    This is for functions that XLA lacks and that training does not use.
    """
    if not is_traced(*arrays):
        return jax.tree.map(jnp.asarray, quietly(function, *[np.asarray(array) for array in arrays]))
    return jax.pure_callback(lambda *given: quietly(function, *map(np.asarray, given)), like, *arrays)


def shaped(shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
    """Return a description of an array, for `on_host`."""
    return jax.ShapeDtypeStruct(shape, dtype)
