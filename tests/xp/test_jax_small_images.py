"""Convolutions of small images: on a CPU they are products, for which XLA has fast code."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from tests.xp.test_jax_images_on_gpu import GEOMETRIES, assert_same, images, jax_xp, numpy_xp


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_values(geometry: Any, size: int) -> None:
    groups = geometry[3]
    x, w = images(2, 4, size + 2, size), images(6, 4 // groups, 3, 2)
    out = numpy_xp.conv(x, w, *geometry)
    g = images(*out.shape)
    assert_same("conv", x, w, *geometry, images(6))
    assert_same("conv_input_grad", g, w, x.shape, *geometry)
    assert_same("conv_weight_grad", g, x, w.shape, *geometry)


@pytest.mark.parametrize(("stride", "size"), [(1, 2), (2, 4)])
def test_none_is_left_to_xla(stride: int, size: int) -> None:
    """XLA exchanges image and kernel if the kernel is the larger one, and then takes up to a hundred times as long."""
    w, geometry = np.ones((5, 4, 3, 3)), ((stride, stride), (1, 1), (1, 1), 1)
    x, g = np.ones((2, 4, 2, 2)), np.ones((2, 5, 2, 2))
    forward = jax.make_jaxpr(lambda x, w: jax_xp.conv(x, w, *geometry))(x, w)
    backward = jax.make_jaxpr(lambda g, w: jax_xp.conv_input_grad(g, w, (2, 4, size, size), *geometry))(g, w)
    for program in (forward, backward):
        assert "conv_general_dilated" not in str(program)
