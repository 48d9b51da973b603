"""A backward pass for many gradients at once gives each the same as a pass of its own, whatever the graph is made of.

The samples of `tests/oracle` run with three grad_outputs, once with `is_grads_batched` and once one by one.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import undertow
from tests.autograd.test_shortcuts import outputs_of, samples_of
from tests.oracle.sampling import Sample, Table
from tests.oracle.test_functions import TABLES, direction

ROWS = 3


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.family)
def test_rows_at_once_are_rows_one_by_one(table: Table) -> None:
    for sample in samples_of(table):
        for create_graph in (False, True):
            compare(sample, create_graph)


def compare(sample: Sample, create_graph: bool) -> None:
    found = outputs_of(sample)
    if found is None:
        return
    wanted = [tensor for tensor in found[0] if isinstance(tensor, undertow.Tensor) and tensor.requires_grad]
    outputs = [tensor for tensor in found[1] if tensor.requires_grad and tensor.layout is undertow.strided]
    if not wanted or not outputs:
        return
    seeds = [undertow.stack([direction(undertow, tensor, row) for row in range(ROWS)]) for tensor in outputs]
    options = {"allow_unused": True, "retain_graph": True, "create_graph": create_graph}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            rows = [
                undertow.autograd.grad(outputs, wanted, [seed[row] for seed in seeds], **options) for row in range(ROWS)
            ]
        except RuntimeError:
            return
        together = undertow.autograd.grad(outputs, wanted, seeds, is_grads_batched=True, **options)
    for column, whole in zip(zip(*rows), together, strict=True):
        agree(sample, column, whole)


def agree(sample: Sample, column: tuple[Any, ...], whole: Any) -> None:
    if column[0] is None:
        assert whole is None, sample
        return
    dense = [each.detach().to_dense() if each.layout is not undertow.strided else each.detach() for each in column]
    expected = undertow.stack(dense)
    whole = whole.detach().to_dense() if whole.layout is not undertow.strided else whole.detach()
    assert whole.shape == expected.shape and whole.dtype is expected.dtype, sample
    rtol = atol = 1e-9 if whole.dtype in (undertow.float64, undertow.complex128) else 1e-4
    if whole.dtype.itemsize == 2:  # a kernel may round another step to half precision than the vocabulary does
        rtol, atol = sample.tolerance or (rtol, atol)
    wide = undertow.complex128 if whole.is_complex() else undertow.float64
    ours, theirs = (np.asarray(each.to(wide)) for each in (whole, expected))
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol, err_msg=str(sample))
