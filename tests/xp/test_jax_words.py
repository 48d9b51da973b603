"""What the JAX namespace promises beyond values: dtypes that stay, refusals that help, a choice made by arrays' types."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.jax import conv as jax_conv
from undertow._src.arrays.jax import namespace as jax_namespace
from undertow._src.arrays.jax.attention import is_fused
from undertow._src.arrays.jax.tracing import ShapeNeedsValues
from undertow._src.arrays.namespaces import namespace_of
from undertow._src.arrays.numpy import namespace as numpy_namespace
from undertow._src.arrays.target import traced_for
from undertow._src.engine.operands import operands
from undertow._src.engine.rule_node import UPCAST
from undertow._src.rules import attention, conv, linalg
from undertow._src.tensor.core import wrap

jax_xp: Any = jax_namespace
numpy_xp: Any = numpy_namespace


def test_arrays_choose_their_namespace() -> None:
    ours, theirs = np.ones(2), jnp.ones(2)
    assert namespace_of([ours, None, 2.0]) is numpy_xp
    assert namespace_of([ours, theirs]) is jax_xp
    chosen = []
    jax.jit(lambda x: chosen.append(namespace_of([ours, x])) or x)(theirs)  # type: ignore[func-returns-value]
    jax.vmap(lambda x: chosen.append(namespace_of([x])) or x)(theirs)  # type: ignore[func-returns-value]
    assert chosen == [jax_xp, jax_xp]


def test_a_foreign_array_brings_its_namespace() -> None:
    code = (
        "import sys, undertow; from undertow._src.arrays.namespaces import namespace_of; assert 'jax' not in sys.modules;"
        "import jax; x = jax.numpy.ones(2); assert namespace_of([x]).__name__ == 'undertow._src.arrays.jax.namespace';"
        "print(jax.numpy.ones(2, 'float64').dtype)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "float64"


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(
    "word",
    [
        lambda xp, x: x * 2.5 + 1,
        lambda xp, x: xp.where(x > 0, x, 0.5),
        lambda xp, x: xp.maximum(x, 0),
        lambda xp, x: xp.gelu(x),
        lambda xp, x: xp.mean(x),
        lambda xp, x: xp.softmax(x, 0),
        lambda xp, x: xp.power(x, 1.5),
        lambda xp, x: xp.full_like(x, 3) / 7,
    ],
)
def test_python_numbers_do_not_widen(word: Callable[[Any, Any], Any], dtype: str) -> None:
    x = jnp.ones((3,), dtype)
    assert jax.jit(lambda x: word(jax_xp, x))(x).dtype == dtype


MASK = np.array([True, False, True])
X = np.arange(3.0)


@pytest.mark.parametrize(
    ("word", "cure"),
    [
        (lambda x, mask: jax_xp.masked_select(x, mask), "torch.where"),
        (lambda x, mask: jax_xp.index(x, mask), "torch.where"),
        (lambda x, mask: jax_xp.index_put(x[None], X[:2], np.zeros(1, int), mask, accumulate=False)[0], "torch.where"),
        (lambda x, mask: jax_xp.unique(x)[0], "before the compiled step"),
        (lambda x, mask: jax_xp.bincount(x.astype(int), None, 0), "minlength"),
    ],
)
def test_shapes_that_depend_on_values(word: Callable[[Any, Any], Any], cure: str) -> None:
    """Refused while tracing, with a cure; computed where the values are known."""
    with pytest.raises(ShapeNeedsValues, match=cure):
        jax.jit(word)(X, MASK)
    assert word(jnp.asarray(X), jnp.asarray(MASK)).shape[0] in (2, 3)


def test_a_mask_of_known_values_is_an_index() -> None:
    assert jax.jit(lambda x: jax_xp.index(x, MASK))(X).tolist() == [0.0, 2.0]


def test_writing_one_value_through_a_mask_is_traced() -> None:
    written = jax.jit(lambda x, mask: jax_xp.index_put(x, jnp.asarray(9.0), mask, accumulate=False))(X, MASK)
    assert written.tolist() == [9.0, 1.0, 9.0]


def test_whole_numbers_divided_by_zero() -> None:
    """Raises where the divisor is known, as NumPy's does; a compiled step can't."""
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        jax_xp.floor_divide(jnp.array([1, 2]), jnp.array([1, 0]))
    assert jax.jit(jax_xp.floor_divide)(jnp.array([7]), jnp.array([2])).tolist() == [3]


def test_sums_over_many_elements_keep_their_digits() -> None:
    x = np.full(1_000_000, 0.1, np.float32)
    assert abs(float(jax.jit(jax_xp.sum)(x)) - 100_000) < 5


def test_recurrences_of_uneven_batches_are_numpys() -> None:
    """Packed sequences of different lengths, forwards and backwards in time, with and without projection."""
    random = np.random.default_rng(0)
    sizes, hidden, projected = (4, 4, 2, 1), 3, 2
    for reverse in (False, True):
        for width in (hidden, projected):
            gx = random.normal(size=(sum(sizes), 4 * hidden))
            h0, c0 = random.normal(size=(4, width)), random.normal(size=(4, hidden))
            w_hh = random.normal(size=(4 * hidden, width))
            w_hr = None if width == hidden else random.normal(size=(projected, hidden))
            given: Any = (gx, h0, c0, w_hh, w_hr)
            expected = numpy_xp.lstm_scan(*given, sizes, reverse)
            found = jax_xp.lstm_scan(*given, sizes, reverse)
            for want, got in zip(expected, found, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-10)
            g = random.normal(size=expected[0].shape)
            given = (g, h0, c0, *expected[3:6], w_hh, w_hr, sizes, reverse)
            for want, got in zip(numpy_xp.lstm_scan_grad(*given), jax_xp.lstm_scan_grad(*given), strict=True):
                if got is not None:
                    np.testing.assert_allclose(got, want, rtol=1e-10)


IMAGES: dict[str, Any] = {
    "stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "transposed": False, "output_padding": (0, 0), "groups": 1
}  # fmt: skip
HALVES: list[tuple[Any, list[tuple[int, ...] | None], dict[str, Any]]] = [
    (linalg.mm, [(3, 4), (4, 5)], {"flipped": (False, False)}),
    (linalg.bmm, [(2, 3, 4), (2, 4, 5)], {"flipped": (False, False)}),
    (linalg.addmm, [(5,), (3, 4), (4, 5)], {"beta": 1, "alpha": 1, "flipped": (False, False)}),
    (conv.convolution, [(2, 3, 5, 5), (4, 3, 3, 3), None], IMAGES),
    (conv.convolution, [(2, 8, 5, 5), (4, 8, 3, 3), (4,)], IMAGES),
    (
        attention.scaled_dot_product_attention,
        [(1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8), None],
        {"dropout_p": 0.0, "is_causal": True, "scale": 0.35},
    ),
]


@pytest.mark.parametrize(("rule", "shapes", "statics"), HALVES)
def test_products_take_half_precision_as_it_is(rule: Any, shapes: list[Any], statics: dict[str, Any]) -> None:
    """On a device bfloat16 matrices are multiplied as such; NumPy widens them first. Both round once."""
    random = np.random.default_rng(0)
    given = [None if shape is None else jnp.asarray(random.normal(size=shape), jnp.bfloat16) for shape in shapes]
    tensors = [None if array is None else wrap(DeviceArray(array)) for array in given]
    arrays, post_grad, rounded = operands(rule, tensors)
    assert all(array is None or array.dtype == jnp.bfloat16 for array in arrays)
    assert post_grad & UPCAST == 0 and rounded is None
    found = rule.forward(jax_xp, *given, **statics)
    found = found[0] if isinstance(found, tuple) else found
    assert found.dtype == jnp.bfloat16
    wide = [None if array is None else np.asarray(array, np.float32) for array in given]
    expected = rule.forward(numpy_xp, *wide, **statics)
    expected = expected[0] if isinstance(expected, tuple) else expected
    np.testing.assert_allclose(found.astype(np.float32), expected, rtol=2e-2, atol=2e-2)


def test_a_trace_is_for_the_device_it_is_made_for() -> None:
    """cuDNN's attention is no part of a program for the CPU, whatever device JAX would choose; and the other way about."""
    q = jnp.zeros((1, 2, 16, 64), jnp.bfloat16)
    assert not is_fused(q, q, q, None)
    with traced_for("gpu"):
        assert is_fused(q, q, q, None)
        wide = q.astype(np.float32)
        assert not is_fused(q, q, q, jnp.zeros((16, 16))) and not is_fused(wide, wide, wide, None)
        with traced_for("cpu"):
            assert not is_fused(q, q, q, None)


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_half_precision_convolutions_stay_half_on_a_gpu(platform: str) -> None:
    """Asked for float32 results, XLA would run cuDNN in float32. On the CPU, float32 sums have to be asked for."""
    x, w = jnp.ones((2, 3, 8, 8), jnp.bfloat16), jnp.ones((4, 3, 3, 3), jnp.bfloat16)
    sizes = (1, 1), (1, 1), (1, 1), 1

    def products(x: Any, w: Any) -> tuple[Any, ...]:
        y = jax_conv.conv(x, w, *sizes)
        return y, jax_conv.conv_input_grad(y, w, x.shape, *sizes), jax_conv.conv_weight_grad(y, x, w.shape, *sizes)

    with traced_for(platform):
        jaxpr = jax.make_jaxpr(products)(x, w)
    dtypes = [eqn.outvars[0].aval.dtype for eqn in jaxpr.eqns if eqn.primitive.name == "conv_general_dilated"]
    assert dtypes == [jnp.bfloat16 if platform == "gpu" else jnp.float32] * 3
    assert all(var.aval.dtype == jnp.bfloat16 for var in jaxpr.jaxpr.outvars)
