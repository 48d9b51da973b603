"""`TestCase` of `torch.testing._internal.common_utils`, its decorators and helpers, as PyTorch 2.13's behave."""

from __future__ import annotations

import unittest
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import undertow as torch
from undertow.testing._internal import common_utils as tools
from undertow.testing._internal.common_device_type import (
    deviceCountAtLeast,
    dtypes,
    expectedFailure,
    instantiate_device_type_tests,
    onlyCUDA,
    skipCPUIf,
)

case = tools.TestCase()
SAME: list[tuple[Any, Any]] = [
    (True, 2), (torch.tensor(1), True), (False, torch.tensor(0.0)), (torch.tensor([1.0]), 1.0), (1, 1.00000001),
    ([1, 2], torch.tensor([1.0, 2.0])), ([torch.tensor(1), torch.tensor(2)], [1, 2]), ([], torch.tensor([])), (1 + 0j, 1),
    (frozenset([1]), {1}), (torch.eye(2).to_sparse(), torch.eye(2)), (float("nan"), float("nan")),
    (np.float32(1), torch.ones(())),
    (torch.ones(2, 3).shape, (2, 3)), (torch.nn.Parameter(torch.ones(1)), torch.ones(1)), (torch.float32, torch.float32),
]  # fmt: skip
DIFFERENT: list[tuple[Any, Any, str]] = [
    (1, 2, "Scalars are not equal!\n\nExpected 2 but got 1.\nAbsolute difference: 1\nRelative difference: 0.5"),
    ("a", "b", "String comparison failed: 'a' != 'b'\n- a\n+ b\n"),
    ({1}, {2}, "Set comparison failed: Items in the first set but not the second:\n1\nItems in the second set but not the "
               "first:\n2"),
    (int, float, "Type comparison failed: <class 'int'> != <class 'float'>"),
    ("1", 1, "Object comparison failed: '1' != 1"),
    ([1, "a"], [1, 2], "Object comparison failed: 'a' != 2\n\nThe failure occurred for item [1]"),
    (True, torch.tensor(False), "Booleans mismatch: True is not False"),
    (np.array([1.0, 2]), torch.tensor([1.0, 2]),
     "The values for attribute 'dtype' do not match: torch.float64 != torch.float32."),
    (None, torch.tensor(1.0), "None mismatch: None is not 1.0"),
]  # fmt: skip


@pytest.mark.parametrize("one, other", SAME)
def test_equal(one: Any, other: Any) -> None:
    case.assertEqual(one, other)
    with pytest.raises(AssertionError):
        case.assertNotEqual(one, other)


@pytest.mark.parametrize("one, other, message", DIFFERENT)
def test_not_equal(one: Any, other: Any, message: str) -> None:
    case.assertNotEqual(one, other)
    with pytest.raises(AssertionError) as caught:
        case.assertEqual(one, other)
    assert str(caught.value) == message


def test_messages_and_tolerances() -> None:
    with pytest.raises(AssertionError, match=r"\nmine$"):
        case.assertEqual(1, 2, "mine")
    with pytest.raises(AssertionError, match=r"^so: Scalars"):
        case.assertEqual(1, 2, lambda text: f"so: {text}")
    with pytest.raises(ValueError, match=r"Only single element tensor-likes can be compared against a number\. Got 2"):
        case.assertEqual(torch.ones(2), 1)
    loose = tools.TestCase()
    loose.precision, loose.rel_tol = 0.5, 0.25
    loose.assertEqual(torch.tensor([1.0]), torch.tensor([1.4]))
    loose.assertEqual(1, 1.4)


def test_what_is_not_implemented_skips() -> None:
    lenient = tools.TestCase()
    lenient._ignore_not_implemented_error = True

    def refuse() -> None:
        raise NotImplementedError("later")

    with pytest.raises(unittest.SkipTest, match="not_implemented: later"):
        lenient.assertRaises(ValueError, refuse)


def test_texts_that_are_expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case.assertExpectedInline("a\n# b\n\nc", "a\nc", ignore_comments=True, ignore_empty_lines=True)
    with pytest.raises(AssertionError):
        case.assertExpectedInline("a", "b")
    case.assertExpectedRaisesInline(ValueError, lambda: int("x"), "invalid literal for int() with base 10: 'x'")
    monkeypatch.setattr(tools.cases, "__file__", str(tmp_path / "cases.py"))
    with pytest.raises(RuntimeError, match="No expect file exists"):
        case.assertExpected("text")
    monkeypatch.setattr(tools.cases, "ACCEPT", True)
    case.assertExpected("text", "part")
    monkeypatch.setattr(tools.cases, "ACCEPT", False)
    case.assertExpected("text", "part")
    with pytest.raises(AssertionError):
        case.assertExpected("other", "part")


def test_warnings_and_destructors() -> None:
    case.assertNotWarn(lambda: None)
    with pytest.raises(AssertionError, match="why"):
        case.assertNotWarn(lambda: warnings.warn("x", stacklevel=1), "why")
    with case.assertWarnsOnceRegex(UserWarning, "ab"):
        warnings.warn("abc", stacklevel=1)
    with pytest.raises(AssertionError, match="no warning caught"), case.assertWarnsOnceRegex(UserWarning):
        pass
    case.assertNoUnraisable(lambda: None)


def test_devices() -> None:
    scope: dict[str, Any] = {}

    class TestIt(tools.TestCase):
        @onlyCUDA
        def test_gpu(self, device: str) -> None:
            raise ValueError

        @skipCPUIf(True, "reason")
        def test_not_here(self, device: str) -> None:
            raise ValueError

        @deviceCountAtLeast(2)
        def test_two(self, devices: list[str]) -> None:
            raise ValueError

        @expectedFailure("cpu")
        def test_fails(self, device: str) -> None:
            raise ValueError

        @tools.parametrize("x", [1.5, torch.float32, None, torch.device("cpu"), tools.subtest(3, name="three")])
        @dtypes(torch.int8)
        def test_names(self, device: str, dtype: Any, x: Any) -> None:
            self.assertEqual((device, dtype), ("cpu", torch.int8))

        def setUp(self) -> None:
            super().setUp()
            self.ready = True

    instantiate_device_type_tests(TestIt, scope, only_for="cpu")
    names = sorted(name for name in vars(scope["TestItCPU"]) if name.startswith("test_names"))
    assert names == [
        "test_names_cpu_cpu_int8", "test_names_float32_cpu_int8", "test_names_three_cpu_int8", "test_names_x2_cpu_int8",
        "test_names_x_1_5_cpu_int8",
    ]  # fmt: skip
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(scope["TestItCPU"]).run(result)
    assert not result.errors + result.failures and result.testsRun == 9
    reasons = sorted(reason for _, reason in result.skipped)
    assert reasons == ["Only runs on cuda", "fewer than 2 devices detected", "reason"]


def test_parametrizing_twice_or_over_nothing_is_refused() -> None:
    class TestTwice(tools.TestCase):
        @tools.parametrize("x", [1])
        @tools.parametrize("x", [2])
        def test_it(self, x: int) -> None: ...

    with pytest.raises(RuntimeError, match=r"is given \{'x'\} by more than one"):
        tools.instantiate_parametrized_tests(TestTwice)
    with pytest.raises(ValueError, match="An empty arg_values was passed to @parametrize"):
        tools.instantiate_parametrized_tests(
            type("T", (), {"test_a": tools.parametrize("x", [])(lambda self, x: None)})
        )


def test_blocks() -> None:
    with tools.set_default_dtype(torch.float64):
        assert torch.ones(1).dtype is torch.float64
    assert torch.get_default_dtype() is torch.float32
    with tools.freeze_rng_state():
        first = torch.rand(2)
    assert torch.equal(torch.rand(2), first)
    with tools.TemporaryFileName() as name:
        assert Path(name).exists()
    assert not Path(name).exists()
    with tools.DeterministicGuard(True):
        assert torch.are_deterministic_algorithms_enabled()
    assert not torch.are_deterministic_algorithms_enabled()


def test_helpers() -> None:
    assert tools.bytes_to_scalar([0, 0, 128, 63], torch.float32, "cpu").item() == 1.0
    sparse, indices, values = case.genSparseTensor((3, 4), 2, 5, True, "cpu", torch.float64)
    assert indices.shape == (2, 5) and values.shape == (5,) and not tools.is_coalesced_indices(sparse)
    assert tools.is_coalesced_indices(sparse.coalesce())
    eigenvalues = torch.linalg.eigvalsh(tools.random_sparse_pd_matrix(4, density=0.5, dtype=torch.float64).to_dense())
    assert torch.allclose(eigenvalues, torch.tensor([0.25, 0.5, 0.75, 1.0], dtype=torch.float64))
    counted: list[int] = []
    tools.run_concurrently(lambda: counted.append(1), num_threads=3)
    assert len(counted) == 3
    assert bool(tools.LazyVal(lambda: 0)) is False
