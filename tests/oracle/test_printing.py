"""Printed tensors, character for character against PyTorch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import _tensor_str as torch_printing

from undertow._src.tensor import printing
from undertow._src.types import dtypes

KINDS = [each.name for each in dtypes.ALL if each is not dtypes.complex32]


def torch_tensor(array: np.ndarray[Any, Any]) -> torch.Tensor:
    if array.dtype == dtypes.bfloat16.numpy:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


@contextmanager
def both_options(options: dict[str, Any]) -> Iterator[None]:
    with torch_printing.printoptions(**options), printing.printoptions(**options):
        assert printing.get_printoptions() == torch_printing.get_printoptions()
        yield
    assert printing.get_printoptions() == torch_printing.get_printoptions()


def check(array: np.ndarray[Any, Any], **options: Any) -> None:
    with both_options(options):
        assert printing.tensor_repr(array) == repr(torch_tensor(array))


# --- random arrays and options

SPECIAL = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, 1.5, 1e-4, 0.99e-4, 1e8, 1.1e8, 1000.0, 1001.0, -9999.5]


@st.composite
def floats(draw: st.DrawFn, count: int) -> np.ndarray[Any, Any]:
    """Values of one character: a wide range, whole numbers, one scale, or the special ones."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(["wide", "whole", "scaled", "special", "nothing ordinary"]))
    if kind == "wide":
        return random.normal(size=count) * 10.0 ** random.integers(-12, 13, size=count)
    if kind == "whole":
        return random.integers(-999, 1000, size=count) * 10.0 ** draw(st.integers(0, 8))
    if kind == "scaled":
        return random.normal(size=count) * 10.0 ** draw(st.integers(-12, 12))
    return random.choice(SPECIAL if kind == "special" else SPECIAL[:5], size=count)


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    dtype = getattr(dtypes, draw(st.sampled_from(KINDS)))
    rank = draw(st.integers(0, 5))
    shape = draw(
        st.tuples(*[st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, (60, 60, 12, 7, 4, 3)[rank])] * rank)
    )
    count = math.prod(shape)
    values: np.ndarray[Any, Any] = draw(floats(count))
    with np.errstate(all="ignore"):
        if dtype.is_complex:
            values = values + 1j * draw(floats(count))
        elif not dtype.is_floating_point:
            values = np.nan_to_num(values, posinf=7, neginf=-7)
        return values.astype(dtype.numpy).reshape(shape)


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "precision": st.integers(0, 9),
        "threshold": st.sampled_from([0, 1, 10, 100, math.inf]),
        "edgeitems": st.integers(0, 4),
        "linewidth": st.sampled_from([1, 10, 25, 40, 80, 200, 10_000]),
        "sci_mode": st.sampled_from([True, False, None]),
        "profile": st.sampled_from(["default", "short", "full", "unknown"]),
    },
)


@settings(max_examples=400, deadline=None)
@given(arrays(), OPTIONS)
@example(np.arange(3), {"edgeitems": 0})
@example(np.arange(3), {"edgeitems": 0, "threshold": 0})
@example(np.zeros(()), {"edgeitems": 0, "threshold": 0})
@example(np.array([1.0, 2000.5, 1e30]), {"sci_mode": False})
@example(np.zeros((0, 3), np.int32), {"linewidth": 10})
def test_any_array_with_any_options(array: np.ndarray[Any, Any], options: dict[str, Any]) -> None:
    check(array, **options)


# --- what the random test may miss


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0), (1,), (2, 3), (1001,), (7, 200), (2, 1, 2, 1, 2)])
def test_every_dtype(kind: str, shape: tuple[int, ...]) -> None:
    check(np.arange(math.prod(shape)).astype(getattr(dtypes, kind).numpy).reshape(shape))


@pytest.mark.parametrize("value", [*SPECIAL, 1e-45, 5e-324, 1.7e308, 123456.789, 0.1, 1e7, 99999999.0])
def test_single_values(value: float) -> None:
    check(np.array(value))
    check(np.array([value, -value]))
    check(np.array([value, 0.0, math.nan]))
    check(np.array([complex(value, -value), complex(1, value)]))


def test_views_print_their_own_elements() -> None:
    array = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    for view in (array.T, array[:, ::2], array[0, :, 1], np.broadcast_to(array[0], (5, 3, 4))):
        assert printing.tensor_repr(view) == repr(torch.from_numpy(view.copy()))
        with both_options({"threshold": 3, "edgeitems": 1}):
            assert printing.tensor_repr(view) == repr(torch.from_numpy(view.copy()))


@pytest.mark.parametrize("linewidth", [10, 30, 47, 48, 49, 80])
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_notes_wrap(linewidth: int, name: str) -> None:
    for count in (0, 1, 3, 7):
        leaf = torch.ones(count, dtype=getattr(torch, name), requires_grad=True)
        array = leaf.detach().numpy()
        with both_options({"linewidth": linewidth}):
            assert printing.tensor_repr(array, notes=["requires_grad=True"]) == repr(leaf)
            assert printing.tensor_repr(array * 2, notes=["grad_fn=<MulBackward0>"]) == repr(leaf * 2)


def test_prefix_device_and_contents() -> None:
    class Labelled(torch.Tensor):
        pass

    tensor = torch.arange(40.0).reshape(2, 20)
    assert printing.tensor_repr(tensor.numpy(), prefix="Labelled(") == repr(tensor.as_subclass(Labelled))
    assert printing.tensor_repr(tensor.numpy(), contents="abc") == tensor.__repr__(tensor_contents="abc")
    empty = torch.zeros(0, 3, dtype=torch.int32)
    assert printing.tensor_repr(empty.numpy(), contents="abc") == empty.__repr__(tensor_contents="abc")
    assert printing.tensor_repr(np.ones(2), device="cuda:0") == (
        "tensor([1., 1.], device='cuda:0', dtype=torch.float64)"
    )


@pytest.mark.parametrize("default", ["float16", "bfloat16", "float32", "float64"])
def test_default_dtype_is_not_printed(default: str) -> None:
    try:
        dtypes.set_default_dtype(getattr(dtypes, default))
        torch.set_default_dtype(getattr(torch, default))
        for kind in KINDS:
            for shape in ((2,), (0,)):
                check(np.ones(shape).astype(getattr(dtypes, kind).numpy))
    finally:
        dtypes.set_default_dtype(dtypes.float32)
        torch.set_default_dtype(torch.float32)


def test_set_printoptions_keeps_what_is_not_given() -> None:
    try:
        for options in (
            {"precision": 2}, {"sci_mode": True}, {"linewidth": 50}, {"profile": "short"}, {"profile": "Full"},
            {"profile": "full", "threshold": 5}, {"edgeitems": 1}, {},
        ):  # fmt: skip
            printing.set_printoptions(**options)
            torch.set_printoptions(**options)
            assert printing.get_printoptions() == torch_printing.get_printoptions()
    finally:
        printing.set_printoptions(profile="default")
        torch.set_printoptions(profile="default")


def test_printoptions_are_put_back_after_an_error() -> None:
    before = printing.get_printoptions()
    with pytest.raises(ZeroDivisionError), printing.printoptions(precision=1, sci_mode=True):
        _ = 1 / 0
    assert printing.get_printoptions() == before


@pytest.mark.parametrize("shape", [(10**12,), (10, 10**11), (10**11, 10), (10**4, 10**4, 10**4)])
def test_summaries_of_large_arrays_look_at_what_they_print(shape: tuple[int, ...]) -> None:
    text = printing.tensor_repr(np.broadcast_to(np.float32(1), shape))  # to go through it all would take hours
    assert text == repr(torch.ones(1).expand(shape))
