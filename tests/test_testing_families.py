"""Tables of one family of operators, references in NumPy, and marks for what is not here (torch.testing._internal)."""

from __future__ import annotations

import unittest
from typing import Any

import numpy as np
import pytest

import undertow as torch
from undertow.testing._internal import common_methods_invocations as tables
from undertow.testing._internal import common_mkldnn, common_xpu, inductor_utils, triton_utils
from undertow.testing._internal.opinfo import utils
from undertow.testing._internal.opinfo.definitions import fft, linalg, special
from undertow.utils import _triton


@pytest.mark.parametrize("family", [fft, linalg, special])
def test_families_are_rows_of_the_table(family: Any) -> None:
    prefix = family.__name__.rpartition(".")[2] + "."
    assert len(family.op_db) >= 10
    assert all(op.name.startswith(prefix) for op in family.op_db)
    assert list(family.op_db[0].sample_inputs("cpu", torch.float64))


def test_operators_on_lists_do_what_they_do_on_each() -> None:
    kinds = ("unary", "binary", "pointwise", "reduce", "other")
    infos = [info for kind in kinds for info in getattr(tables, f"foreach_{kind}_op_db")]
    assert len(infos) > 40
    for info in infos:
        for sample in info.sample_inputs("cpu", torch.float64):
            found = info.op(sample.input, *sample.args)
            for number, (given, result) in enumerate(zip(sample.input, found, strict=True)):
                others = [each[number] if isinstance(each, list) else each for each in sample.args]
                assert torch.equal(result, info.ref(given, *others)) or result.isnan().all(), info.name


def test_references() -> None:
    x = np.arange(6).reshape(2, 3)
    assert utils.prod_numpy(x.astype(np.int8) + 1).dtype == np.int64
    total = utils.reference_reduction_numpy(np.sum)
    assert total(x, dim=1, keepdim=True).tolist() == [[3], [12]]
    assert total(x, dim=(0, 1), mask=torch.tensor(x > 2), identity=1) == 13
    argmax = utils.reference_reduction_numpy(np.argmax, supports_keepdims=False)
    assert argmax(x, dim=1, keepdim=True).shape == (2, 1)
    assert argmax(x, keepdim=True).shape == (1, 1)
    assert utils.np_unary_ufunc_integer_promotion_wrapper(np.exp)(x).dtype == np.float32
    assert utils.np_unary_ufunc_integer_promotion_wrapper(np.exp)(x * 1.0).dtype == np.float64


def test_marks_for_what_is_not_here() -> None:
    ran = []

    class Case(unittest.TestCase):
        precision = 0.0

        @common_mkldnn.reduced_f32_on_and_off(0.02)
        def test_once(self) -> None:
            with common_mkldnn.bf32_on(self, 0.5):
                ran.append(self.precision)
            ran.append(self.precision)

        @inductor_utils.requires_gpu
        def test_gpu(self) -> None:
            ran.append(-1.0)

        @triton_utils.requires_gpu_and_triton
        def test_triton(self) -> None:
            ran.append(-1.0)

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
    assert (ran, len(result.skipped), result.errors) == ([0.5, 0.0], 2, [])
    assert not (inductor_utils.HAS_GPU or common_xpu.TEST_XPU or common_mkldnn.bf32_is_not_fp32())
    assert not _triton.has_triton()
    assert _triton.get_triton_version() == (0, 0)


def test_modules_have_what_they_import_from_each_other() -> None:
    with torch.pretend_torch():
        from torch.testing._internal.common_modules import skipIfTorchDynamo, tol, toleranceOverride
        from torch.testing._internal.common_nn import set_default_dtype
        from torch.testing._internal.common_utils import set_default_dtype as own
        from torch.testing._internal.opinfo.core import floating_types
    assert set_default_dtype is own
    assert skipIfTorchDynamo.__module__.startswith("undertow")
    assert torch.float32 in floating_types()
    assert callable(toleranceOverride)
    assert tol(atol=1, rtol=2).atol == 1
