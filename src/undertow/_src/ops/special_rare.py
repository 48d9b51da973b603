"""The functions of `torch.special` without derivatives: Bessel and Airy functions, orthogonal polynomials."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.numpy import bessel as bessel
from undertow._src.arrays.numpy import gamma as gamma
from undertow._src.engine.arguments import check_tensor, invalid_combination, no_kernel
from undertow._src.engine.outputs import into
from undertow._src.ops.numbers import is_number
from undertow._src.ops.public import overloaded, public
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.dtypes import DTYPE_OF, FLOATING, get_default_dtype

if TYPE_CHECKING:
    from undertow._tensor import Tensor

Array = np.ndarray[Any, Any]


def _spherical(x: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.where(np.isinf(x), 0.0, np.where(x == 0, 1.0, np.sin(x) / x))


_OF_ONE: dict[str, tuple[Callable[[Array], Array], str]] = {
    "airy_ai": (bessel.airy_ai, "The Airy function Ai."),
    "bessel_j0": (lambda x: bessel.bessel_j(0, x), "The Bessel function of the first kind of order 0."),
    "bessel_j1": (lambda x: bessel.bessel_j(1, x), "The Bessel function of the first kind of order 1."),
    "bessel_y0": (lambda x: bessel.bessel_y(0, x), "The Bessel function of the second kind of order 0."),
    "bessel_y1": (lambda x: bessel.bessel_y(1, x), "The Bessel function of the second kind of order 1."),
    "modified_bessel_i0": (gamma.i0, "The modified Bessel function of the first kind of order 0."),
    "modified_bessel_i1": (gamma.i1, "The modified Bessel function of the first kind of order 1."),
    "modified_bessel_k0": (lambda x: bessel.bessel_k(0, x, False), "The modified Bessel function K of order 0."),
    "modified_bessel_k1": (lambda x: bessel.bessel_k(1, x, False), "The modified Bessel function K of order 1."),
    "scaled_modified_bessel_k0": (lambda x: bessel.bessel_k(0, x, True), "eˣ K₀(x)."),
    "scaled_modified_bessel_k1": (lambda x: bessel.bessel_k(1, x, True), "eˣ K₁(x)."),
    "spherical_bessel_j0": (_spherical, "sin(x) / x, the spherical Bessel function of order 0."),
}


def _result_dtype(name: str, input: Any) -> Any:
    """Floats stay as they are, whole numbers become floats; halves and complex numbers have no kernel."""
    kind = DTYPE_OF[input._array.dtype]
    if kind.category < FLOATING:
        return get_default_dtype().numpy
    if kind.opmath is not kind or kind.is_complex:
        raise no_kernel(f"{name}_cpu", input)
    return kind.numpy


def _finished(name: str, values: Array, kind: Any, out: Tensor | None) -> Any:
    result = wrap(np.asarray(values, kind))
    return result if out is None else into(out, result.detach, (), f"special_{name}")


def _of_one(name: str) -> Callable[..., Any]:
    compute, doc = _OF_ONE[name]

    def function(input: Tensor, *, out: Tensor | None = None) -> Any:
        check_tensor(input, f"special_{name}")
        kind = _result_dtype(name, input)
        return _finished(name, compute(np.asarray(input._array, np.float64)), kind, out)

    return _named(public, function, name, doc)


def _polynomial(name: str) -> Callable[..., Any]:
    def function(input: Any, n: Any, *, out: Any = None) -> Any:
        tensors = [value for value in (input, n) if isinstance(value, TensorCore)]
        if not tensors or not all(isinstance(value, TensorCore) or is_number(value) for value in (input, n)):
            raise invalid_combination(f"special_{name}", (input, n))
        kinds = [_result_dtype(name, value) for value in tensors]
        arrays = [
            np.asarray(value._array if isinstance(value, TensorCore) else value, np.float64) for value in (input, n)
        ]
        return _finished(name, bessel.polynomial_of_degree(name, *arrays), np.result_type(*kinds), out)

    return _named(overloaded, function, name, f"The {name.replace('_', ' ')} of degree n.")


def _named(decorate: Callable[..., Any], function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return decorate(function)


_SHIFTED = [f"shifted_{name}" for name in bessel.POLYNOMIALS if name.startswith("chebyshev")]
NAMES = (*_OF_ONE, *bessel.POLYNOMIALS, *_SHIFTED)
globals().update({name: _of_one(name) for name in _OF_ONE})
globals().update({name: _polynomial(name) for name in (*bessel.POLYNOMIALS, *_SHIFTED)})
