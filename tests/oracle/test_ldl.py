"""LDL factors and what is solved with them, as LAPACK has them behind torch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.harness import agree


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_factors_pivots_and_solutions(dtype: str, hermitian: bool) -> None:
    def program(torch: Any) -> Any:
        torch.manual_seed(3)
        found = []
        for shape in ((6, 6), (2, 3, 3), (1, 1), (0, 0)):
            a = torch.randn(*shape, dtype=getattr(torch, dtype))
            a = a + (a.mH if hermitian else a.mT)
            factors = torch.linalg.ldl_factor(a, hermitian=hermitian)
            b = torch.randn(*shape[:-1], 2, dtype=a.dtype)
            found += [*factors, torch.linalg.ldl_solve(*factors, b, hermitian=hermitian)]
            found += torch.linalg.ldl_factor_ex(a, hermitian=hermitian)
        return found

    agree(program)


@pytest.mark.parametrize(
    "code",
    [
        "ldl_factor(torch.ones(3))", "ldl_factor(torch.ones(3, 2))", "ldl_factor(torch.ones(2, 2, dtype=torch.int64))",
        "ldl_factor_ex(torch.zeros(2, 2))", "ldl_factor(torch.eye(2, requires_grad=True))",
        "ldl_solve(torch.eye(3), torch.arange(1, 4).int(), torch.ones(2, 1))",
        "ldl_solve(torch.eye(3), torch.arange(1, 4).int(), torch.ones(5, 3, 1))",
        "ldl_solve(torch.eye(3), torch.arange(1, 3).int(), torch.ones(3, 1))",
        "ldl_solve(torch.eye(3), torch.arange(1, 4).int(), torch.ones(3, 1).double())",
        "ldl_factor(torch.eye(2), out=(torch.empty(0), torch.empty(0, dtype=torch.int32)))",
    ],
)  # fmt: skip
def test_what_is_taken(code: str) -> None:
    agree(lambda torch: list(eval(f"torch.linalg.{code}", {"torch": torch})))
