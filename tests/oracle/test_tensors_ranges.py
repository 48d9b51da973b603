"""arange and linspace equal PyTorch's to the last bit, whatever the bounds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import undertow
from tests.oracle.cpus import assert_same_bits

KINDS = ["float16", "bfloat16", "float32", "float64", "int32", "int64", "uint8"]


def array(tensor: torch.Tensor | undertow.Tensor) -> np.ndarray:
    """A tensor's numbers; those of bfloat16 are all numbers of float32."""
    return (tensor.float() if "bfloat16" in str(tensor.dtype) else tensor).numpy()


bound = st.floats(-50, 50).map(lambda value: round(value, 3))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "float" in kind])
@settings(max_examples=60, deadline=None)
@given(start=bound, step=st.floats(0.01, 3).map(lambda value: round(value, 4)), count=st.integers(0, 150))
def test_arange(kind: str, start: float, step: float, count: int) -> None:
    arguments = start, start + step * count, step
    expected = torch.arange(*arguments, dtype=getattr(torch, kind))
    assert_same_bits(array(undertow.arange(*arguments, dtype=getattr(undertow, kind))), array(expected))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(start=bound, end=bound, count=st.integers(0, 150))
def test_linspace(kind: str, start: float, end: float, count: int) -> None:
    if kind == "uint8":
        start, end = abs(start), abs(end)
    expected = torch.linspace(start, end, count, dtype=getattr(torch, kind))
    assert_same_bits(array(undertow.linspace(start, end, count, dtype=getattr(undertow, kind))), array(expected))


@settings(max_examples=60, deadline=None)
@given(start=st.integers(-(2**62), 2**62), step=st.integers(-(2**40), 2**40).filter(bool), count=st.integers(0, 20))
def test_arange_of_large_integers_is_exact(start: int, step: int, count: int) -> None:
    end = start + step * count
    assert (
        undertow.arange(start, end, step).tolist()
        == torch.arange(start, end, step).tolist()
        == list(np.array([start + step * place for place in range(count)], dtype=object))
    )
