"""Operators on lists, tables that are not shipped, and marks for what is not here (torch.testing._internal)."""

from __future__ import annotations

import unittest

import pytest

import undertow as torch
from tests.operator_tables import foreach_operators
from undertow.testing._internal import (
    common_methods_invocations,
    common_mkldnn,
    common_xpu,
    inductor_utils,
    triton_utils,
)
from undertow.utils import _triton


def test_operators_on_lists_do_what_they_do_on_each() -> None:
    infos = foreach_operators()
    assert len(infos) > 40
    for info in infos:
        for sample in info.sample_inputs("cpu", torch.float64):
            found = info.op(sample.input, *sample.args)
            for number, (given, result) in enumerate(zip(sample.input, found, strict=True)):
                others = [each[number] if isinstance(each, list) else each for each in sample.args]
                assert torch.equal(result, info.ref(given, *others)) or result.isnan().all(), info.name


def test_tables_of_operators_say_that_they_are_not_shipped() -> None:
    for name in ("op_db", "python_ref_db", "unary_ufuncs", "foreach_unary_op_db"):
        with pytest.raises(ImportError, match=f"{name} is not shipped with undertow"):
            getattr(common_methods_invocations, name)
    with pytest.raises(AttributeError, match="has no attribute 'other'"):
        common_methods_invocations.other  # noqa: B018


def test_random_masks_and_indices() -> None:
    assert common_methods_invocations.mask_not_all_zeros((2, 3)).any()
    for dim in (0, 1):
        made = common_methods_invocations.gather_variable((3, 4), dim, 6)
        assert made.shape == (3, 4) and 0 <= made.min() and made.max() < 6
        assert all(len(set(line.tolist())) == len(line) for line in (made if dim else made.T))
    assert common_methods_invocations.index_variable(5, 2).max() < 2


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
