"""What programs for GPUs compute differently: convolutions, norms and moments of images, traced for a GPU and run here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from undertow._src.arrays.jax import namespace as jax_namespace
from undertow._src.arrays.jax.layout import without_transposes
from undertow._src.arrays.numpy import namespace as numpy_namespace
from undertow._src.arrays.target import traced_for

jax_xp: Any = jax_namespace
numpy_xp: Any = numpy_namespace
RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def for_a_gpu() -> Iterator[None]:
    with traced_for("gpu"):
        yield


def images(*shape: int) -> Any:
    return RANDOM.normal(size=shape)


def assert_same(word: str, *args: Any) -> None:
    """Compare a word of the JAX namespace, with its transpositions moved along, with NumPy's."""
    places = [place for place, arg in enumerate(args) if isinstance(arg, np.ndarray)]

    def called(*arrays: Any) -> Any:
        given = list(args)
        for place, array in zip(places, arrays, strict=True):
            given[place] = array
        return getattr(jax_xp, word)(*given)

    found = jax.jit(without_transposes(called))(*[jnp.asarray(args[place]) for place in places])
    expected = getattr(numpy_xp, word)(*args)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


GEOMETRIES = {
    "plain": ((1, 1), (1, 1), (1, 1), 1),
    "strided": ((2, 2), (1, 1), (1, 1), 1),
    "unevenly": ((2, 1), (0, 2), (1, 2), 1),
    "in groups": ((1, 1), (1, 1), (1, 1), 2),
    "in strided groups": ((2, 2), (1, 0), (2, 1), 2),
}


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_convolutions(geometry: Any) -> None:
    x, w = images(2, 4, 9, 8), images(6, 4 // geometry[-1], 3, 3)
    out = numpy_xp.conv(x, w, *geometry)
    g = images(*out.shape)
    assert_same("conv", x, w, *geometry, images(6))
    assert_same("conv_input_grad", g, w, x.shape, *geometry)
    assert_same("conv_weight_grad", g, x, w.shape, *geometry)


@pytest.mark.parametrize("rank", [1, 3])
def test_convolutions_of_sequences_and_volumes(rank: int) -> None:
    geometry = (2,) * rank, (1,) * rank, (1,) * rank, 1
    x, w = images(2, 3, *[7] * rank), images(4, 3, *[3] * rank)
    g = images(*numpy_xp.conv(x, w, *geometry).shape)
    assert_same("conv", x, w, *geometry)
    assert_same("conv_input_grad", g, w, x.shape, *geometry)
    assert_same("conv_weight_grad", g, x, w.shape, *geometry)


def test_a_reversed_kernel_reaches_the_convolution_as_it_is() -> None:
    """XLA recognises the gradient of a strided convolution by this."""
    g, w = images(2, 6, 4, 4), images(6, 4, 3, 3)
    gradient = lambda g, w: jax_xp.conv_input_grad(g, w, (2, 4, 8, 8), (2, 2), (1, 1), (1, 1), 1)
    equations = jax.make_jaxpr(without_transposes(gradient))(g, w).jaxpr.eqns
    (convolution,) = [each for each in equations if each.primitive.name == "conv_general_dilated"]
    (made,) = [each for each in equations if convolution.invars[1] in each.outvars]
    assert made.primitive.name == "rev"


@pytest.mark.parametrize("shape", [(2, 6), (2, 6, 5), (2, 6, 4, 5), (1, 6, 2, 3, 4)])
@pytest.mark.parametrize("affine", [True, False])
def test_norms_of_groups(shape: tuple[int, ...], affine: bool) -> None:
    x, g = images(*shape), images(*shape)
    weight, bias = (images(6), images(6)) if affine else (None, None)
    sizes = shape[0], 6, int(np.prod(shape[2:])), 3
    assert_same("group_norm", x, weight, bias, sizes, 1e-5)
    _, mean, rstd = numpy_xp.group_norm(x, weight, bias, sizes, 1e-5)
    assert_same("group_norm_grad", g, x, mean, rstd, weight, sizes, (True, affine, affine))


def test_norms_of_groups_of_one_and_of_all_channels() -> None:
    x = images(2, 6, 4, 4)
    for groups in (1, 6):
        assert_same("group_norm", x, images(6), images(6), (2, 6, 16, groups), 1e-5)


@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 5), (2, 3, 4, 5), (2, 3, 0, 5)])
def test_moments_of_channels(shape: tuple[int, ...]) -> None:
    assert_same("channel_moments", images(*shape))


def test_moments_far_from_zero_keep_their_variance() -> None:
    x = (images(8, 3, 16, 16) + 1e4).astype(np.float32)
    mean, variance = jax.jit(lambda x: jax_xp.channel_moments(x))(x)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean((0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(variance, wide.var((0, 2, 3)), rtol=1e-4)
    sizes = 8, 3, 256, 3
    _, mean, rstd = jax.jit(lambda x: jax_xp.group_norm(x, None, None, sizes, 0.0))(x)
    np.testing.assert_allclose(rstd, 1 / wide.std((2, 3)), rtol=1e-4)


def test_no_image_is_transposed_between_two_convolutions() -> None:
    """Only the first image is, and the last one; parameters and what is per channel are small."""
    geometry = (1, 1), (1, 1), (1, 1), 1
    x, weights = images(2, 3, 8, 8), [images(4, 3, 3, 3), images(4, 4, 3, 3), images(2, 4, 3, 3)]

    def network(x: Any, weights: Any) -> Any:
        for number, weight in enumerate(weights):
            x = jax_xp.conv(x, weight, *geometry)
            if number == 0:
                x, _, _ = jax_xp.group_norm(x, jnp.ones(4), jnp.zeros(4), (2, 4, 64, 2), 1e-5)
            elif number == 1:
                mean, variance = jax_xp.channel_moments(x)
                x = jax_xp.channel_affine(x, 1 / jnp.sqrt(variance), None, mean)
            x = jnp.maximum(x, 0)
        return x

    equations = jax.make_jaxpr(without_transposes(network))(x, weights).jaxpr.eqns
    turned = [each.invars[0].aval.shape for each in equations if each.primitive.name == "transpose"]
    assert [shape for shape in turned if np.prod(shape[2:]) > 4 and np.prod(shape[1:3]) > 4] == [x.shape, (2, 8, 8, 2)]
    np.testing.assert_allclose(
        jax.jit(without_transposes(network))(x, weights), jax.jit(network)(x, weights), rtol=1e-10, atol=1e-12
    )
