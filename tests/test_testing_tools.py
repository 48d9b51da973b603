"""Tests written with PyTorch's own tools (`torch.testing._internal`) run under `undertow run`, under the same names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import torch
from torch.testing._internal.common_cuda import TEST_CUDA
from torch.testing._internal.common_device_type import (
    dtypes, instantiate_device_type_tests, onlyCUDA, tol, toleranceOverride,
)
from torch.testing._internal.common_dtype import floating_types
from torch.testing._internal.common_utils import (
    TestCase, decorateIf, gradcheck, instantiate_parametrized_tests, parametrize, run_tests, skipIfTorchDynamo, slowTest,
    subtest,
)
import unittest


class TestParts(TestCase):
    @parametrize("x", [1, 2.5, subtest(torch.float32, name="f32")])
    @parametrize("flag", [True, False])
    def test_combined(self, x, flag):
        self.assertIsInstance(flag, bool)

    @decorateIf(unittest.expectedFailure, lambda given: given["n"] == 2)
    @parametrize("n", [1, 2])
    def test_some_fail(self, n):
        self.assertEqual(n, 1)

    @skipIfTorchDynamo("not compiled")
    def test_equal(self):
        self.assertEqual(torch.tensor(1.0), 1)
        self.assertEqual([1, torch.ones(1)], (1, torch.ones(1)))
        self.assertEqual(torch.ones(2).numpy(), torch.ones(2))
        self.assertEqual(float("nan"), float("nan"))
        self.assertEqual({"a": torch.ones(1)}, {"a": torch.ones(1)})
        self.assertEqual(1.0, 1.0 + 1e-9)
        self.assertNotEqual("a", "b")
        for wrong in (torch.zeros(2), torch.ones(2).double(), torch.ones(3), None):
            with self.assertRaises(AssertionError):
                self.assertEqual(torch.ones(2), wrong)

    def test_seeded(self):
        torch.manual_seed(1234)
        expected = torch.rand(2)
        self.setUp()
        self.assertEqual(torch.rand(2), expected)

    @slowTest
    def test_slow(self):
        raise ValueError


instantiate_parametrized_tests(TestParts)


class TestDevices(TestCase):
    @dtypes(*floating_types())
    def test_dtypes(self, device, dtype):
        self.assertIs(torch.ones(2, device=device, dtype=dtype).dtype, dtype)

    @onlyCUDA
    def test_cuda(self, device):
        raise ValueError

    @parametrize("n", [1, 2])
    @dtypes((torch.float32, torch.int64))
    def test_pairs(self, device, dtypes, n):
        self.assertEqual(len(dtypes), 2)

    @toleranceOverride({torch.float32: tol(atol=1, rtol=0)})
    @dtypes(torch.float32, torch.float64)
    def test_tolerance(self, device, dtype):
        if dtype is torch.float32:
            self.assertEqual(torch.zeros(1), torch.full((1,), 0.9))
        else:
            self.assertNotEqual(torch.zeros(1), torch.full((1,), 0.9))

    def test_gradients(self, device):
        self.assertTrue(gradcheck(torch.sin, (torch.rand(3, dtype=torch.float64, requires_grad=True),)))


instantiate_device_type_tests(TestDevices, globals())
if __name__ == "__main__":
    assert not TEST_CUDA
    run_tests(["program", "-v"])
"""
NAMES = """
test_combined_f32_flag_False test_combined_f32_flag_True test_combined_x_1_flag_False test_combined_x_1_flag_True
test_combined_x_2_5_flag_False test_combined_x_2_5_flag_True test_cuda_cpu test_dtypes_cpu_float32
test_dtypes_cpu_float64 test_equal test_gradients_cpu test_pairs_n_1_cpu_float32_int64 test_pairs_n_2_cpu_float32_int64
test_seeded test_slow test_some_fail_n_1 test_some_fail_n_2 test_tolerance_cpu_float32 test_tolerance_cpu_float64
""".split()


def test_a_file_of_tests_runs_under_the_same_names(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "undertow", "run", str(tmp_path / "program.py")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stderr.splitlines() if " ... " in line]
    assert sorted(words[0] for words in lines) == NAMES
    assert "OK (skipped=2, expected failures=1)" in done.stderr
