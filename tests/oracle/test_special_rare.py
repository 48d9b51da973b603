"""Bessel and Airy functions and orthogonal polynomials, in both precisions and at their edges."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.oracle.harness import agree, agree_error
from undertow._src.ops.special_rare import NAMES

OF_ONE = [name for name in NAMES if "polynomial" not in name]
POLYNOMIALS = [name for name in NAMES if "polynomial" in name]
PLACES = np.array([0.0, 1e-3, 0.4, 1.0, 2.5, 4.9, 5.1, 7.9, 8.1, 13.0, 24.9, 25.1, 60.0, 300.0])


@pytest.mark.parametrize("name", OF_ONE)
def test_functions_of_one_argument(name: str) -> None:
    def program(torch: ModuleType) -> Any:
        function = getattr(torch.special, name)
        both = torch.from_numpy(np.concatenate([PLACES, -PLACES, [np.inf, np.nan]]))
        both = both if "modified" not in name else both[both.abs() < 80]
        small = function(both[both.abs() < 70].float())
        into = function(both.float()[:3], out=torch.empty(0))
        return function(both), small, function(torch.tensor([1, 2])), function(torch.tensor(True)), into

    agree(program, rtol=3e-5, atol=2e-6)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name: str) -> None:
    def program(torch: ModuleType) -> Any:
        function = getattr(torch.special, name)
        x = torch.tensor([0.0, 0.3, -0.7, 1.0, -1.0, 2.5], requires_grad=True)
        degrees = torch.tensor([[0], [1], [2], [5], [-1], [7]])
        numbers = function(0.3, degrees), function(degrees, 2), function(x, 3.7)
        return function(x.double(), degrees), function(x, 3), *numbers

    agree(program, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", ["airy_ai", "bessel_j0", "modified_bessel_k1"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64"])
def test_dtypes_without_kernels(name: str, dtype: str) -> None:
    agree_error(lambda torch: getattr(torch.special, name)(torch.ones(2, dtype=getattr(torch, dtype))))


def test_polynomials_of_numbers_alone_are_refused() -> None:
    agree_error(lambda torch: torch.special.hermite_polynomial_h(1, 2), words=6)
