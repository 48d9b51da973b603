"""The functions that a rule may use, on `BatchedArray`s.

They are those of another namespace, NumPy's or that of tensors, called on whole arrays: elementwise ones as they are,
others by the rules in `rules.py`. One without a rule is called row by row and its results are stacked: slower, with the
same values.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from undertow._src.arrays import composed
from undertow._src.arrays.batched.array import BatchedArray
from undertow._src.arrays.vocabulary import ELEMENTWISE, LAYERS

Function = Callable[..., Any]
Rule = Callable[..., Any]  # rule(namespace, function, *args, **kwargs)

RULES: dict[str, Rule] = {}
_COMPOSED = {name for name in LAYERS if hasattr(composed, name)} | {"gelu_tanh", "gelu_tanh_grad"}
_ALONG_AXES = {"softmax", "log_softmax", "softmax_grad", "log_softmax_grad", "view_as_real", "view_as_complex"}
_NUMPYS = frozenset(
    "abs add arccos arccosh arcsin arcsinh arctan arctan2 arctanh ceil copysign cos cosh divide exp exp2 expm1 floor fmax "
    "fmin frexp gcd hypot isfinite isinf isnan isneginf isposinf lcm log log1p log2 log10 logaddexp logaddexp2 logical_and "
    "logical_not logical_or logical_xor maximum minimum multiply nextafter signbit sin sinh sqrt square subtract tan tanh "
    "trunc where imag igammac digamma polygamma i1 i0e i1e erfc erfcx erfinv silu log_sigmoid logit ndtri log_ndtr "
    "right_shift sgn".split()
)
_ELEMENTWISE = (ELEMENTWISE.keys() | _NUMPYS | {"gelu_grad", "silu_grad"}) - _ALONG_AXES - _COMPOSED


class BatchedNamespace:
    """The functions of a namespace for one batch."""

    def __init__(self, inner: Any, size: int, wrap: Function, is_legacy: bool) -> None:
        self.inner, self.size, self.wrap = inner, size, wrap
        self.RECORDED: bool = inner.RECORDED
        self._is_legacy = is_legacy
        self._level: Any = None

    @property
    def level(self) -> Any:
        """The vmap that hooks see themselves in, from the first of them until the end of the pass."""
        if self._level is None:
            self._level = importlib.import_module("undertow.func._backward_level").begin(self, self._is_legacy)
        return self._level

    def close(self) -> None:
        """End the pass."""
        if self._level is not None:
            self._level.end()

    def __getattr__(self, word: str) -> Function:
        if word in _COMPOSED:
            function: Function = _with_namespace(getattr(composed, word), self, getattr(self.inner, word))
        else:
            function = self._made(word, getattr(self.inner, word))
        setattr(self, word, function)
        return function

    def _made(self, word: str, function: Function) -> Function:
        rule = RULES.get(word)

        def call(*args: Any, **kwargs: Any) -> Any:
            if not _has_rows((args, *kwargs.values())):
                return function(*args, **kwargs)
            args, kwargs = _carried(args), {name: _carried(value) for name, value in kwargs.items()}
            if word in _ELEMENTWISE:
                return self.elementwise(function, args, kwargs)
            found = NotImplemented if rule is None else rule(self, function, *args, **kwargs)
            return self.by_rows(function, args, kwargs) if found is NotImplemented else found

        return call

    # --- what rules are made of

    def batched(self, raw: Any) -> Any:
        """Return whole arrays as rows; so each of a tuple."""
        return tuple(map(self.batched, raw)) if type(raw) is tuple else BatchedArray(raw, self)

    def whole(self, x: Any) -> Any:
        """Return an array with the dim of the batch in front, repeated along it if it is the same for every row."""
        if type(x) is BatchedArray:
            return x.raw
        return self.inner.broadcast_to(x, (self.size, *x.shape))

    def raised(self, x: BatchedArray, ndim: int) -> Any:
        """Return whole rows with this number of dims each; new dims are in front."""
        missing = ndim - x.ndim
        return self.inner.reshape(x.raw, (self.size, *[1] * missing, *x.shape)) if missing > 0 else x.raw

    def elementwise(self, function: Function, args: Iterable[Any], kwargs: dict[str, Any]) -> Any:
        """Call a function that broadcasts its arguments."""
        args = _carried(tuple(args))
        ndim = max([x.ndim for x in args if hasattr(x, "ndim")])
        return self.batched(function(*[self.raised(x, ndim) if type(x) is BatchedArray else x for x in args], **kwargs))

    def by_rows(self, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function once per row, and stack what it gives."""
        results = [
            function(*_row(args, place), **{name: _row(value, place) for name, value in kwargs.items()})
            for place in range(self.size)
        ]
        return self._stacked(results)

    def _stacked(self, results: list[Any]) -> Any:
        first = results[0]
        if isinstance(first, (tuple, list)):
            return tuple([self._stacked([*column]) for column in zip(*results, strict=True)])
        if first is None or not hasattr(first, "ndim"):
            return first
        return BatchedArray(self.inner.stack(results), self)

    # --- what every namespace has besides the vocabulary

    def dtype_of(self, x: Any) -> np.dtype[Any]:
        x = _carried(x)
        return self.inner.dtype_of(x.raw if type(x) is BatchedArray else x)

    def tied(self, result: Any, saved: Any) -> Any:
        """See the tensors' namespace."""
        if type(result) is not BatchedArray:
            return self.inner.tied(result, saved)
        return BatchedArray(self.inner.tied(result.raw, saved), self)


def _with_namespace(function: Function, xp: BatchedNamespace, plain: Function) -> Function:
    """Return a kernel made of the vocabulary, for rows; without any, the namespace's own."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if not _has_rows((args, *kwargs.values())):
            return plain(*args, **kwargs)
        if not xp.RECORDED and args[0].dtype.itemsize < 4:  # kernels compute in float32 then
            return xp.by_rows(plain, _carried(args), kwargs)
        return function(xp, *_carried(args), **kwargs)

    return call


def _has_rows(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_has_rows, value))
    return type(value) is BatchedArray or hasattr(type(value), "_level")


def _carried(value: Any) -> Any:
    """Return rows that were shown as tensors, as rows again."""
    if type(value) in (tuple, list):
        return type(value)(map(_carried, value))
    return value._array if hasattr(type(value), "_level") else value


def _row(value: Any, place: int) -> Any:
    if type(value) is BatchedArray:
        return value.raw[place]
    return type(value)([_row(each, place) for each in value]) if type(value) in (tuple, list) else value
