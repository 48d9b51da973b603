"""Memory shared between undertow, NumPy and PyTorch itself: no copies, and writes seen on both sides."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import undertow

KINDS = ["bool", "uint8", "int16", "int64", "float16", "bfloat16", "float32", "float64", "complex64"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", ["whole", "transposed", "strided", "row"])
def test_dlpack_both_ways(kind: str, part: str) -> None:
    def cut(tensor: Any) -> Any:
        return {"whole": tensor, "transposed": tensor.t(), "strided": tensor[:, ::2], "row": tensor[1]}[part]

    source = torch.arange(12).reshape(3, 4).to(getattr(torch, kind))
    taken = undertow.from_dlpack(cut(source))
    assert (taken.dtype.name, tuple(taken.shape), taken.stride()) == (
        kind,
        tuple(cut(source).shape),
        cut(source).stride(),
    )
    assert taken.tolist() == cut(source).tolist()
    cut(source).zero_()
    assert not any(np.ravel(taken.tolist()))

    given = undertow.arange(12).reshape(3, 4).to(getattr(undertow, kind))
    received = torch.from_dlpack(cut(given))
    assert (received.dtype, received.stride()) == (getattr(torch, kind), cut(given).stride())
    assert received.tolist() == cut(given).tolist()
    received.zero_()
    assert not any(np.ravel(cut(given).tolist()))


def test_capsules_are_consumed_once() -> None:
    capsule = undertow.utils.dlpack.to_dlpack(undertow.ones(2))
    assert undertow.utils.dlpack.from_dlpack(capsule).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="from_dlpack received an invalid capsule"):
        undertow.from_dlpack(capsule)


def test_numpy_shares_both_ways() -> None:
    array = np.zeros((3, 4), np.float32)
    tensor = undertow.from_numpy(array)
    tensor[1] = 5
    array[0, 0] = 7
    assert array[1].tolist() == [5, 5, 5, 5]
    assert tensor[0, 0].item() == 7
    tensor.numpy()[2] = 3
    assert array[2].tolist() == [3, 3, 3, 3]
    array.shape = (4, 3)  # the tensor keeps its own shape
    assert tuple(tensor.shape) == (3, 4)


def test_an_offset_counts_from_what_was_given() -> None:
    tensor = undertow.from_numpy(np.arange(10.0)[4:])
    assert (tensor.storage_offset(), tensor[2:].storage_offset(), tensor[2:].detach().storage_offset()) == (0, 2, 2)
    assert tensor.untyped_storage().nbytes() == 48
    assert tensor[1:].untyped_storage() == tensor.untyped_storage()


def test_bfloat16_arrays_of_ml_dtypes() -> None:
    array = np.ones(3, ml_dtypes.bfloat16)
    tensor = undertow.from_numpy(array[1:])
    tensor.mul_(3)
    assert tensor.dtype is undertow.bfloat16
    assert array.astype(float).tolist() == [1, 3, 3]


def test_a_deep_copy_keeps_tensors_and_arrays_apart_from_their_sources() -> None:
    array = np.arange(6.0)
    whole = undertow.from_numpy(array)
    copied_array, copied, part = copy.deepcopy([array, whole, whole[2:4]])
    copied[2] = 100
    assert part.tolist() == [100, 3]
    assert (copied_array.dtype, copied_array.tolist()) == (array.dtype, [0, 1, 2, 3, 4, 5])
    assert whole.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("kind", KINDS)
def test_pickles_keep_dtype_strides_and_values(kind: str) -> None:
    base = undertow.arange(24).reshape(2, 3, 4).to(getattr(undertow, kind))
    for tensor in (base, base.permute(2, 0, 1), base[1:, ::2], base[0, 0, 0], base[:0]):
        again = pickle.loads(pickle.dumps(tensor))
        assert (again.dtype, again.stride(), again.tolist()) == (tensor.dtype, tensor.stride(), tensor.tolist())
