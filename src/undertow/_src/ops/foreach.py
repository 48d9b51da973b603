"""`torch._foreach_*`: one operation on every tensor of a list, as packages' own optimizers use them.

    torch._foreach_add_(parameters, gradients, alpha=-0.1)

Each is the tensor method of that name, called once per tensor; what comes besides the list is one number or tensor for
all, or a list with one for each. Functions ending in an underscore write in place and return the list they were given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from undertow._src.engine.arguments import invalid_combination
from undertow._src.ops.arithmetic import pow as power
from undertow._src.ops.norms import norm
from undertow._src.tensor.core import TensorCore

if TYPE_CHECKING:
    from undertow._src.types.dtypes import dtype
    from undertow._src.types.layouts import memory_format
    from undertow._tensor import Tensor

_UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round rsqrt "
    "sigmoid sign sin sinh sqrt tan tanh trunc"
).split()
_BINARY = "add sub mul div maximum minimum clamp_max clamp_min pow".split()
_TERNARY = "lerp addcmul addcdiv".split()
# Methods that replace those that tensors lack in place or with a number.
_METHODS = {"maximum": "clamp_min", "minimum": "clamp_max"}


def _tensors(name: str, given: object, place: int = 0) -> Sequence[Any]:
    if not isinstance(given, (list, tuple)):
        raise TypeError(
            f"{name}() received an invalid combination of arguments: argument {place} must be a tuple of Tensors, "
            f"not {type(given).__name__}"
        )
    for index, tensor in enumerate(given):
        if not isinstance(tensor, TensorCore):
            raise TypeError(f"expected Tensor as element {index} in argument {place}, but got {type(tensor).__name__}")
    if not given:
        raise RuntimeError("Tensor list must have at least one tensor.")
    return given


def _one_for_each(self: Sequence[Any], given: object) -> Sequence[Any]:
    """Return an operand as a list as long as the tensors'."""
    if not isinstance(given, (list, tuple)):
        return [given] * len(self)
    if len(given) != len(self):
        if given and isinstance(given[0], TensorCore):
            raise RuntimeError(f"Tensor lists must have the same number of tensors, got {len(self)} and {len(given)}")
        raise RuntimeError("Tensor list must have same number of elements as scalar list.")
    return given


def _results(self: Sequence[Tensor], results: list[Any], in_place: bool) -> Any:
    return self if in_place else tuple(results)


def _unary(name: str, method: str, in_place: bool) -> Callable[..., Any]:
    call = methodcaller(method)

    def foreach(self: Any) -> Any:
        return _results(self, [call(tensor) for tensor in _tensors(name, self)], in_place)

    return foreach


def _binary(name: str, method: str, in_place: bool) -> Callable[..., Any]:
    def foreach(self: Any, *operands: Any, alpha: object = None, **named: Any) -> Any:
        operands = (
            *operands,
            *[named.pop(word) for word in ("other", "scalar", "scalars", "exponent") if word in named],
        )
        if len(operands) != 1 or named:
            raise invalid_combination(name, (self, *operands), named)
        (other,) = operands
        if method == "pow" and not isinstance(self, (list, tuple)):  # a number to the power of each
            return tuple(power(self, exponent) for exponent in _tensors(name, other, 1))
        others = _one_for_each(_tensors(name, self), other)
        options = {} if alpha is None else {"alpha": alpha}
        calls = [getattr(tensor, method)(operand, **options) for tensor, operand in zip(self, others, strict=True)]
        return _results(self, calls, in_place)

    return foreach


def _ternary(name: str, method: str, in_place: bool) -> Callable[..., Any]:
    def foreach(self: Any, tensors1: Any, tensors2: object = None, value: Any = 1, **options: Any) -> Any:
        if tensors2 is None:
            tensors2 = options.pop("weight", options.pop("weights", None))
        if "scalars" in options:
            value = options.pop("scalars")
        firsts = _one_for_each(_tensors(name, self), tensors1)
        seconds = _one_for_each(self, tensors2)
        if method.startswith("lerp"):
            calls = [getattr(t, method)(end, weight) for t, end, weight in zip(self, firsts, seconds, strict=True)]
        else:
            values = _one_for_each(self, value.tolist() if isinstance(value, TensorCore) and value.dim() else value)
            calls = [
                getattr(t, method)(first, second, value=float(factor) if isinstance(factor, TensorCore) else factor)
                for t, first, second, factor in zip(self, firsts, seconds, values, strict=True)
            ]
        return _results(self, calls, in_place)

    return foreach


def _foreach_norm(self: object, ord: object = 2, dtype: dtype | None = None) -> tuple[Any, ...]:
    """Return the norm of each tensor."""
    return tuple(norm(tensor, ord, dtype=dtype) for tensor in _tensors("_foreach_norm", self))


def _foreach_max(self: object) -> tuple[Any, ...]:
    """Return the largest element of each tensor."""
    return tuple(tensor.max() for tensor in _tensors("_foreach_max", self))


def _foreach_clone(self: object, *, memory_format: memory_format | None = None) -> tuple[Any, ...]:
    """Return a copy of each tensor."""
    options = {} if memory_format is None else {"memory_format": memory_format}
    return tuple(tensor.clone(**options) for tensor in _tensors("_foreach_clone", self))


def _foreach_copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Copy to each tensor the values of its counterpart."""
    for tensor, source in zip(self, _one_for_each(_tensors("_foreach_copy_", self), src), strict=True):
        tensor.copy_(source, non_blocking)
    return self


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_foreach_norm": _foreach_norm,
    "_foreach_max": _foreach_max,
    "_foreach_clone": _foreach_clone,
    "_foreach_copy_": _foreach_copy_,
    "_foreach_zero_": _unary("_foreach_zero_", "zero_", True),
}
for _kind, _names in ((_unary, _UNARY), (_binary, _BINARY), (_ternary, _TERNARY)):
    for _name in _names:
        for _suffix in ("", "_"):
            _full = f"_foreach_{_name}{_suffix}"
            FUNCTIONS[_full] = _kind(_full, _METHODS.get(_name, _name) + _suffix, _suffix == "_")
for _full, _function in FUNCTIONS.items():
    _function.__name__ = _function.__qualname__ = _full

globals().update(FUNCTIONS)
