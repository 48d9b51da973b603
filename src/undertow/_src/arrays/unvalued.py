"""Arrays that have a shape, strides and a dtype but no values, however large: for tensors on the device `meta`.

An `Unvalued` array is address space without memory. Views of it are NumPy's, so that strides are right; a computation
only yields its result's shape and dtype. JAX infers those where it is installed (`jax.eval_shape`), with the functions
that compile a step. Without it NumPy computes, which is right but may be slow.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import mmap
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from undertow._src.arrays import namespaces
from undertow._src.arrays.numpy import namespace as numpy_xp
from undertow._src.arrays.device.memory import jax_namespace
from undertow._src.arrays.numpy.pool import pool_counts
from undertow._src.arrays.numpy.shape import view_strides

LARGE = 1 << 22  # bytes from which an array is made without memory
_VIEWS = frozenset(
    "alias broadcast_to transpose swapaxes expand_dims squeeze select slice_along diagonal windows as_strided real imag "
    "view_as_real view_as_complex dtype_of".split()
)
_COPIES = frozenset("copy contiguous in_rows".split())


class Unvalued(np.ndarray[Any, Any]):
    """A NumPy array whose values are never read."""

    without_values = True

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        if out is not None:
            return out[0]
        if method == "__call__" and ufunc.signature is None:
            small = [
                np.zeros((1,) * part.ndim, part.dtype) if isinstance(part, np.ndarray) else part for part in inputs
            ]
            shape = np.broadcast_shapes(*[part.shape for part in inputs if isinstance(part, np.ndarray)])
            return _made(ufunc(*small, **options), shape)
        return evaluated(ufunc if method == "__call__" else getattr(ufunc, method), inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is np.copyto:
            return None
        if function in (np.may_share_memory, np.shares_memory):
            return function(*_plain(args), **kwargs)
        return evaluated(function, args, kwargs)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write nothing."""

    def astype(
        self, dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: bool = True, copy: Any = True
    ) -> Any:
        return self if not copy and self.dtype == dtype else without_values(self.shape, np.dtype(dtype))

    def copy(self, order: Any = "C") -> Any:
        return without_values(self.shape, self.dtype)


def without_values(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return a new row-major array without values; code that reads a small one's values finds zeros."""
    size = math.prod(shape) * dtype.itemsize
    if size <= LARGE:
        return np.zeros(shape, dtype).view(Unvalued)
    unbacked = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    try:
        space = mmap.mmap(-1, size, unbacked, mmap.PROT_READ)
    except (OSError, ValueError):  # more than the process may address: the strides are wrong then
        return np.broadcast_to(np.zeros((), dtype), shape).view(Unvalued)
    return np.frombuffer(space, dtype).reshape(shape).view(Unvalued)


def evaluated(function: Callable[..., Any], args: Any, kwargs: Any, word: Callable[..., Any] | None = None) -> Any:
    """Return what a NumPy function would give, as arrays without values. `word` is the same function on JAX arrays."""
    if not _has_jax() or _size_of((args, kwargs)) <= LARGE:
        return _unvalued(function(*_plain(args), **_plain(kwargs)))
    outline = importlib.import_module("undertow._src.arrays.jax.shape").outline
    return _without_values(outline(word or function, args, kwargs))


class UnvaluedNamespace:
    """The array functions that rules are written with, on arrays without values."""

    RECORDED = False

    def __getattr__(self, name: str) -> Any:
        usual = getattr(numpy_xp, name)
        if not callable(usual):
            return usual

        def word(*args: Any, **kwargs: Any) -> Any:
            if name in _VIEWS:
                return _unvalued(usual(*_plain(args), **_plain(kwargs)))
            if name in _COPIES:
                array = args[0]
                return array if name == "in_rows" and array.flags.c_contiguous else array.copy()
            return evaluated(usual, args, kwargs, getattr(jax_namespace(), name) if _has_jax() else None)

        word.__name__ = name
        setattr(self, name, word)
        return word

    def reshape(self, x: Any, shape: Any) -> Any:
        """Return a view where the strides allow it, else a copy."""
        array = _plain(x)
        wanted = (shape,) if isinstance(shape, int) else tuple(shape)
        if -1 in wanted:
            rest = math.prod([n for n in wanted if n != -1])
            wanted = tuple([x.size // rest if n == -1 else n for n in wanted])
        strides = view_strides(array, wanted)
        return without_values(wanted, x.dtype) if strides is None else _unvalued(numpy_xp.reshape(array, wanted))

    def max_pool(self, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool = False) -> Any:
        """Return maxima of windows and their indices: JAX's function needs tables as large as the result."""
        lead = x.ndim - len(kernel)
        shape = (*x.shape[:lead], *pool_counts(x.shape[lead:], kernel, stride, padding, dilation, ceil_mode))
        return without_values(shape, x.dtype), without_values(shape, np.dtype(np.int64))


@cache
def _has_jax() -> bool:
    return importlib.util.find_spec("jax") is not None


def _plain(args: Any) -> Any:
    """Replace arrays without values in arguments by plain NumPy arrays."""
    if type(args) is Unvalued:
        return args.view(np.ndarray)
    if type(args) in (tuple, list):
        return type(args)(map(_plain, args))
    if type(args) is dict:
        return {name: _plain(arg) for name, arg in args.items()}
    return args


def _size_of(args: Any) -> int:
    """Return how many bytes the arrays among arguments would take."""
    if isinstance(args, np.ndarray):
        return args.nbytes
    parts = args.values() if type(args) is dict else args if type(args) in (tuple, list) else ()
    return sum([_size_of(part) for part in parts])


def _unvalued(result: Any) -> Any:
    if type(result) in (tuple, list):
        return type(result)(map(_unvalued, result))
    return result.view(Unvalued) if type(result) is np.ndarray else result


def _without_values(result: Any) -> Any:
    """Replace arrays in results, or JAX's descriptions of them, by arrays without values."""
    if type(result) in (tuple, list):
        return type(result)(map(_without_values, result))
    return without_values(tuple(result.shape), np.dtype(result.dtype)) if hasattr(result, "shape") else result


def _made(small: Any, shape: tuple[int, ...]) -> Any:
    if type(small) is tuple:
        return tuple([_made(part, shape) for part in small])
    return without_values(shape, small.dtype)


namespaces.register(Unvalued, UnvaluedNamespace())
