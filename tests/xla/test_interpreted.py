"""NumPy computes what XLA does for each primitive that `numpy_primitives.py` knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.xla import numpy_primitives
from tests.xla.interpreted import interpret

X = np.array([[0.5, -1.5, 2.0], [3.25, 0.0, -0.25]], np.float32)
Y = np.array([[2.0, 0.5, -1.0], [-4.0, 1.5, 0.75]], np.float32)
POSITIVE, HALVES, WHOLE = np.abs(X) + 1, X.astype(np.float16), np.arange(6, dtype=np.int64).reshape(2, 3)
ODD = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-3], np.float64)
CUBE, OTHER = np.arange(24.0).reshape(2, 3, 4), np.arange(40.0).reshape(2, 4, 5) / 7

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "abs": (lax.abs, (ODD,)),
    "add": (lax.add, (X, Y)),
    "and": (lax.bitwise_and, (WHOLE, WHOLE + 3)),
    "broadcast_in_dim": (lambda x: lax.broadcast_in_dim(x, (4, 2, 3), (1, 2)), (X,)),
    "concatenate": (lambda x, y: lax.concatenate([x, y], 1), (X, Y)),
    "convert_element_type": (
        lambda x: (lax.convert_element_type(x, bool), lax.convert_element_type(x, float)),
        (WHOLE,),
    ),
    "copy": (jnp.copy, (X,)),
    "cos": (lax.cos, (X,)),
    "div": (lax.div, (X, Y)),
    "dot_general": (lambda x, y: (lax.batch_matmul(x, y), jnp.einsum("bij,bjk->ik", x, y), x[0] @ y[1]), (CUBE, OTHER)),
    "eq": (lax.eq, (ODD, ODD)),
    "exp": (lax.exp, (X,)),
    "floor": (lax.floor, (X,)),
    "ge": (lax.ge, (X, Y)),
    "gt": (lax.gt, (X, Y)),
    "integer_pow": (lambda x: (lax.integer_pow(x, 3), lax.integer_pow(x, -2)), (POSITIVE,)),
    "is_finite": (lax.is_finite, (ODD,)),
    "le": (lax.le, (X, Y)),
    "log": (lax.log, (ODD,)),
    "log1p": (lax.log1p, (ODD,)),
    "lt": (lax.lt, (X, Y)),
    "max": (lax.max, (ODD, np.ones_like(ODD))),
    "min": (lax.min, (ODD, np.ones_like(ODD))),
    "mul": (lax.mul, (X, Y)),
    "ne": (lax.ne, (ODD, ODD)),
    "neg": (lax.neg, (ODD,)),
    "not": (lambda x, y: (lax.bitwise_not(x), lax.bitwise_not(y)), (WHOLE, WHOLE > 2)),
    "optimization_barrier": (lambda x, y: lax.optimization_barrier((x, y)), (X, Y)),
    "or": (lax.bitwise_or, (WHOLE, WHOLE + 3)),
    "pow": (lax.pow, (POSITIVE, Y)),
    "reduce_and": (lambda x: jnp.all(x, axis=0), (X > 0,)),
    "reduce_max": (lambda x: (jnp.max(x, axis=1), jnp.max(x)), (X,)),
    "reduce_min": (lambda x: jnp.min(x, axis=1), (ODD[None],)),
    "reduce_or": (lambda x: jnp.any(x, axis=0), (X > 0,)),
    "reduce_prod": (lambda x: jnp.prod(x, axis=1), (X,)),
    "reduce_sum": (lambda x, n: (jnp.sum(x, axis=0), jnp.sum(n.astype(np.int32), dtype=np.int32)), (X, WHOLE)),
    "reshape": (lambda x: lax.reshape(x, (3, 2)), (X,)),
    "rsqrt": (lax.rsqrt, (POSITIVE,)),
    "select_n": (lax.select_n, (X > 0, X, Y)),
    "sign": (lax.sign, (ODD,)),
    "sin": (lax.sin, (X,)),
    "slice": (lambda x: lax.slice(x, (0, 1), (2, 3), (1, 2)), (X,)),
    "sqrt": (lax.sqrt, (ODD,)),
    "square": (lax.square, (X,)),
    "squeeze": (lambda x: lax.squeeze(x, (0,)), (X[None],)),
    "stack": (lambda x, y: jnp.stack([x, y], axis=1), (X, Y)),
    "sub": (lax.sub, (X, Y)),
    "tanh": (lax.tanh, (X,)),
    "transpose": (lambda x: lax.transpose(x, (2, 0, 1)), (CUBE,)),
    "what is left to JAX": (
        lambda x, half, n: (
            x.astype(int),
            half * half,
            lax.div(n, n + 1),
            lax.cumsum(x),
            jnp.where(x > 0, x, 1).sort(),
        ),
        (X, HALVES, WHOLE),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_numpy_computes_what_xla_does(name: str) -> None:
    function, arguments = PROGRAMS[name]
    expected = jax.tree.leaves(jax.jit(function)(*arguments))
    results = interpret(jax.make_jaxpr(function)(*arguments), arguments)
    for result, wanted in zip(results, expected, strict=True):
        assert result.dtype == wanted.dtype and result.shape == wanted.shape
        np.testing.assert_allclose(np.asarray(result), np.asarray(wanted), rtol=1e-6, strict=True)


def test_every_primitive_has_a_program() -> None:
    used = {each.primitive.name for function, arguments in PROGRAMS.values()
            for each in jax.make_jaxpr(function)(*arguments).eqns}  # fmt: skip
    assert numpy_primitives.FUNCTIONS.keys() <= used
