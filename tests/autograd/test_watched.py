"""A mode that lets every operator through changes nothing: the samples of `tests/oracle`, watched and unwatched.

Values, dtypes and names of nodes must be the same forward; gradients must be those of the unwatched pass. A handler that
replaces its tensors by copies makes each operator run by its name alone, from the arguments that it was offered with.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import undertow
from tests.autograd.test_shortcuts import outputs_of, samples_of
from tests.oracle.sampling import Table
from tests.oracle.test_functions import TABLES, direction
from undertow.utils._python_dispatch import BaseTorchDispatchMode


def names(outputs: list[Any]) -> list[Any]:
    return [(str(tensor.dtype), tensor.grad_fn and tensor.grad_fn.name()) for tensor in outputs]


def values(outputs: list[Any]) -> list[Any]:
    return [tensor._array for tensor in outputs]


def gradients(inputs: list[Any], outputs: list[Any]) -> list[Any]:
    leaves = [tensor for tensor in inputs if tensor.requires_grad]
    live = [tensor for tensor in outputs if tensor.requires_grad]
    if not leaves or not live:
        return []
    along = [direction(undertow, tensor, seed) for seed, tensor in enumerate(live)]
    try:
        found = undertow.autograd.grad(live, leaves, along, allow_unused=True)
    except (NotImplementedError, RuntimeError) as error:
        return [type(error).__name__]
    return [None if gradient is None else gradient._array for gradient in found]


def alike(one: Any, other: Any) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str) and isinstance(other, str) and one == other
    if one is None or other is None:
        return (one is None or not np.any(one)) and (other is None or not np.any(other))
    close = 1e-2 if one.dtype.itemsize == 2 else 1e-5  # PyTorch's steps are not undertow's, to the last bits
    return (
        one.shape == other.shape
        and one.dtype == other.dtype
        and bool(np.allclose(one.astype(complex), other.astype(complex), close, close, equal_nan=True))
    )


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.family)
def test_watched(table: Table) -> None:
    different = []
    for sample in samples_of(table)[::3]:  # all of them take 13 s
        plain = outputs_of(sample)
        with BaseTorchDispatchMode():
            watched = outputs_of(sample)
        if (plain is None) != (watched is None):
            different.append(f"{sample.name}: {sample.program}: refused by one only")
            continue
        if plain is None or watched is None:
            continue
        if names(plain[1]) != names(watched[1]) or not all(map(alike, values(plain[1]), values(watched[1]))):
            different.append(f"{sample.name}: {sample.program}: {plain[1]!s:.150} but {watched[1]!s:.150}")
            continue
        expected = gradients(*plain)
        with BaseTorchDispatchMode():
            found = gradients(*watched)
        if not all(map(alike, expected, found)):
            different.append(f"{sample.name}: {sample.program}: {expected!s:.150} but {found!s:.150}".replace("\n", ""))
    assert not different, f"{len(different)} samples\n" + "\n".join(different[:30])


def test_nothing_is_loaded_before_somebody_looks() -> None:
    program = (
        "import sys, undertow; print([each for each in sys.modules if 'undertow._src.overrides.dispatch' in each])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
