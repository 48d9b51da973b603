"""Transpositions that are moved along a program: the same values, fewer of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from undertow._src.arrays.jax import namespace as jax_namespace
from undertow._src.arrays.jax.layout import without_transposes

jax_xp: Any = jax_namespace

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(2, 3, 4, 6))


def last(x: Any) -> Any:
    return jnp.transpose(x, (0, 2, 3, 1))


def first(x: Any) -> Any:
    return jnp.transpose(x, (0, 3, 1, 2))


def count(function: Callable[..., Any], *args: Any) -> int:
    return str(jax.make_jaxpr(function)(*args)).count(" transpose[")


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda x: last(jnp.tanh(first(last(x) * 2)) + 1),
    "two arrays": lambda x: last(first(jnp.exp(last(x))) * x),
    "per channel": lambda x: last(first(last(x)) * jnp.arange(3.0).reshape(1, 3, 1, 1) + jnp.ones(6)),
    "where": lambda x: last(jnp.where(first(last(x)) > 0, first(last(x) + 1), 0)),
    "sum of channels": lambda x: jnp.sum(first(last(x) ** 2), (0, 2, 3)),
    "sum of images": lambda x: jnp.sum(first(last(x) ** 2), 0),
    "kept sum": lambda x: last(first(last(x)) - jnp.mean(first(last(x)), (2, 3), keepdims=True)),
    "argmax": lambda x: jnp.argmax(first(last(x)), 2),
    "slices": lambda x: last(first(last(x))[:, 1:, ::2, 1:5:2]),
    "pad": lambda x: last(jnp.pad(first(last(x)), ((0, 0), (1, 0), (0, 2), (3, 1)))),
    "flip": lambda x: last(jnp.flip(first(last(x)), (1, 3))),
    "concatenate": lambda x: last(jnp.concatenate([first(last(x)), x], 1)),
    "split axes": lambda x: first(last(x)).reshape(2, 3, 2, 2, 3, 2).max((3, 5)),
    "split and merge": lambda x: last(jnp.exp(first(last(x)).reshape(2, 3, 2, 2, 3, 2)).reshape(2, 3, 4, 6)),
    "merge what lies apart": lambda x: jnp.exp(first(last(x))).reshape(2, 72),
    "merge what lies together": lambda x: jnp.exp(first(last(x))).reshape(2, 3, 24).sum(2),
    "axes of one": lambda x: first(last(x)).reshape(1, 2, 3, 1, 4, 6, 1) * 2,
    "without axes of one": lambda x: jnp.squeeze(first(last(x))[:, 1:2], 1),
    "new axes": lambda x: jnp.broadcast_to(first(last(x))[:, :, :, None, :, None], (2, 3, 4, 5, 6, 2)).sum((3, 5)),
    "inner function": lambda x: last(jax.jit(lambda y: jax.nn.relu(y) * 2)(first(last(x)))),
    "loop": lambda x: jax.lax.fori_loop(0, 3, lambda _, y: y * 2, first(last(x))),
    "matrix product": lambda x: first(last(x)).reshape(6, 24) @ first(last(x)).reshape(6, 24).T,
    "turned product": lambda x: (x[0, 0].T @ x[0, 1]).T + 1,
    "product with a turned matrix": lambda x: jnp.tanh(x[0, 0] @ x[0, 1].T) + x[0, 0].T.T @ x[0, 1].T,
    "product both ways": lambda x: (lambda p: (p + 1, p.T * 2, p @ p.T))(x[0, 0].T @ x[0, 1]),
    "turned matrices": lambda x: jnp.where(x[0, 0].T > 0, x[0, 0].T * 2, x[0, 1].T) + jnp.ones(4),
    "matrix times vector": lambda x: x[0, 0].T @ x[0, 1, :, 0],
    "several results": lambda x: (first(last(x)), {"a": last(x)}),
    "only numbers": lambda x: jnp.broadcast_to(jnp.sum(x), (2, 3)) * jnp.broadcast_to(2.0, (2, 3)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_results(name: str) -> None:
    program = PROGRAMS[name]
    expected, found = program(jnp.asarray(X)), jax.jit(without_transposes(program))(X)
    assert jax.tree.structure(expected) == jax.tree.structure(found)
    for want, got in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
        assert want.dtype == got.dtype
        np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize(
    "name", ["elementwise", "per channel", "where", "kept sum", "slices", "pad", "split and merge"]
)
def test_opposite_transpositions_cancel(name: str) -> None:
    program = PROGRAMS[name]
    assert count(program, X) >= 3
    assert count(without_transposes(program), X) == 1


def test_a_weights_gradient_is_computed_as_the_weight_lies() -> None:
    """(xᵀ g)ᵀ is gᵀ x, with the left side laid out by rows; the weight is not turned to meet it."""

    def update(w: Any, x: Any, g: Any) -> Any:
        return w - jax_xp.transpose(jax_xp.matmul(jax_xp.transpose(x), g)) * 0.1

    w, x, g = RANDOM.normal(size=(5, 3)), RANDOM.normal(size=(7, 3)), RANDOM.normal(size=(7, 5))
    found = jax.make_jaxpr(without_transposes(update))(w, x, g)
    turned = [line for line in str(found).splitlines() if " transpose[" in line]
    assert len(turned) == 1 and "f64[5,7]" in turned[0], found
    np.testing.assert_allclose(jax.jit(without_transposes(update))(w, x, g), w - g.T @ x * 0.1)


def blocks(x: Any, w1: Any, w2: Any) -> Any:
    """Two convolutions with what usually lies between, and the gradients of all of it."""
    one, ones = (1, 1), (1, 1)
    y = jax_xp.conv(x, w1, one, ones, one, 1)
    mean, variance = jax_xp.channel_moments(y)
    rstd = 1 / jax_xp.sqrt(variance + 1e-5)
    a = jax_xp.maximum(jax_xp.channel_affine(y, rstd, -mean * rstd), 0)
    pooled, places = jax_xp.max_pool(a, (2, 2), (2, 2), (0, 0), (1, 1))
    out = jax_xp.conv(pooled, w2, one, ones, one, 1)
    g = jax_xp.conv_input_grad(out, w2, pooled.shape, one, ones, one, 1)
    g = jax_xp.where(a <= 0, 0, jax_xp.max_pool_grad(g, places, a.shape[2:], (2, 2), (2, 2), (0, 0), (1, 1)))
    g, _, _ = jax_xp.batch_norm_grad(g, y, mean, rstd, None, True, (True, False, False), 1e-5)
    return jax_xp.conv_weight_grad(out, pooled, w2.shape, one, ones, one, 1), jax_xp.conv_weight_grad(
        g, x, w1.shape, one, ones, one, 1
    )


def test_between_convolutions_nothing_is_turned() -> None:
    given = X, RANDOM.normal(size=(4, 3, 3, 3)), RANDOM.normal(size=(5, 4, 3, 3))
    for want, got in zip(blocks(*map(jnp.asarray, given)), jax.jit(without_transposes(blocks))(*given), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10)
    laid = str(jax.make_jaxpr(without_transposes(blocks))(*given))
    big = [line for line in laid.splitlines() if " transpose[" in line and "f64[2," in line]
    assert len({line.split()[-1] for line in big}) <= 1, big  # the image itself; weights are turned, which is little
