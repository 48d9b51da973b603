"""Functions of arrays outside of a compiled step, each as one program: XLA then fuses what it is made of.

JAX dispatches operation by operation, and compiles each of them for each shape; a convolution's gradient or a loss is ten
operations. A function whose shapes depend on values, or that is given too many different numbers, is called as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache, partial
from types import FunctionType
from typing import Any

import jax

from undertow._src.arrays.jax.tracing import ShapeNeedsValues, is_traced
from undertow._src.arrays.target import traced_for

_HOME = "undertow._src.arrays."
_MANY = 32  # programs of one function for different numbers and options
_NEEDS_VALUES = (ShapeNeedsValues, jax.errors.ConcretizationTypeError, jax.errors.NonConcreteBooleanIndexError)

ARRAY = object()  # in the place of an array
_programs: dict[Any, Callable[..., Any] | None] = {}  # None: the function is called as it is
_counts: Counter[Callable[..., Any]] = Counter()


def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of arrays, as a program if it is one of this folder's."""
    if not _is_ours(function):
        return function(*args, **kwargs)
    given, structure = jax.tree.flatten((args, kwargs))
    arrays = [each for each in given if isinstance(each, jax.Array)]
    if not arrays or is_traced(*arrays):
        return function(*args, **kwargs)
    platform = next(iter(arrays[0].devices())).platform
    key = function, structure, platform, tuple(map(_option, given))
    try:
        program = _programs.get(key, function)
    except TypeError:  # an option that can't be hashed
        return function(*args, **kwargs)
    if program is function:
        program = _programs[key] = _program(function, structure, platform, given)
    if program is None:
        return function(*args, **kwargs)
    try:
        return program(*arrays)
    except _NEEDS_VALUES:
        _programs[key] = None
        return function(*args, **kwargs)


@lru_cache(maxsize=512)
def _is_ours(function: Callable[..., Any]) -> bool:
    """Return whether a function is one of undertow's array functions, and not one that is made for a single call."""
    made_of = function.func if type(function) is partial else function
    return type(made_of) is FunctionType and not made_of.__closure__ and made_of.__module__.startswith(_HOME)


def _option(given: Any) -> Any:
    """Return what a program depends on besides shapes: 1, 1.0 and True are different options, and so are 0.0 and -0.0."""
    return None if isinstance(given, jax.Array) else (type(given), given.hex() if type(given) is float else given)


def _program(
    function: Callable[..., Any], structure: Any, platform: str, given: list[Any]
) -> Callable[..., Any] | None:
    """Return a new program, None if the function has too many."""
    _counts[function] += 1
    if _counts[function] > _MANY:
        return None
    options = [ARRAY if isinstance(each, jax.Array) else each for each in given]

    def run(*arrays: Any) -> Any:
        left = iter(arrays)
        args, kwargs = structure.unflatten([next(left) if each is ARRAY else each for each in options])
        with traced_for(platform):
            return function(*args, **kwargs)

    return jax.jit(run)
