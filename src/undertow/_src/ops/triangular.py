"""Public triangular factors, and solutions of systems that have them: Cholesky, LU, solve_triangular."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.linalg import LinAlgError

from undertow import return_types
from undertow._src.arrays.device.array import values_known
from undertow._src.arrays.numpy.linalg import (
    cholesky_as_far_as_it_goes,
    first_bad_minor,
    first_zero_pivot,
    zero_on_diagonal,
)
from undertow._src.base.errors import _LinAlgError
from undertow._src.base.sites import warn_once
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import check_tensor, no_kernel
from undertow._src.engine.outputs import into
from undertow._src.ops.decompositions import check_inexact, check_matrices, check_square, in_batch
from undertow._src.ops.factor import check_same_dtype, check_system, infos
from undertow._src.ops.named import into_all, run, run_named
from undertow._src.ops.public import public
from undertow._src.rules import factor as rules
from undertow._src.tensor.core import wrap
from undertow._src.types.dtypes import DTYPE_OF, FLOATING

if TYPE_CHECKING:
    from undertow._src.rules.rule import Rule
    from undertow._tensor import Tensor

# --- triangular systems


@public
def linalg_solve_triangular(
    input: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False, out: Tensor | None = None
) -> Tensor:
    """X with A X = B (X A = B with left=False) for triangular A."""
    check_tensor(input, "linalg_solve_triangular")
    check_tensor(B, "linalg_solve_triangular", "B", 2)
    check_square(input, "linalg.solve_triangular")
    check_same_dtype(input, B, "linalg.solve_triangular")
    check_system(input, B, left, "linalg.solve_triangular", False)
    check_inexact(input, "linalg.solve_triangular", "triangular_solve_cpu")
    return run("linalg_solve_triangular", out, rules.linalg_solve_triangular, input, B, upper=bool(upper),
               left=bool(left), unitriangular=bool(unitriangular))  # fmt: skip


def _check_alike(b: Tensor, A: Tensor, end: str = "") -> None:
    one, two = DTYPE_OF[b._array.dtype], DTYPE_OF[A._array.dtype]
    if one is not two:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found {one.scalar_name} and {two.scalar_name}{end}"
        )


def _check_square(A: Tensor) -> None:
    rows, columns = A._array.shape[-2:]
    if rows != columns:
        raise RuntimeError(f"A must be batches of square matrices, but they are {rows} by {columns} matrices")


@public
def triangular_solve(
    input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False, *,
    out: Any = None,
) -> Any:  # fmt: skip
    """X with A X = input (Aᵀ X with transpose) for triangular A, and a copy of A."""
    check_tensor(input, "triangular_solve")
    check_tensor(A, "triangular_solve", "A", 2)
    for name, given in (("b", input), ("A", A)):
        if given._array.ndim < 2:
            raise RuntimeError(
                f"torch.triangular_solve: Expected {name} to have at least 2 dimensions, but it has {given._array.ndim} "
                "dimensions instead"
            )
    _check_alike(input, A, ".")
    _check_square(A)
    warn_once(
        "torch.triangular_solve is deprecated in favor of torch.linalg.solve_triangularand will be removed in a future "
        "PyTorch release.\nThe new function takes the matrix first and gives the solution alone:\n"
        "torch.linalg.solve_triangular(A, B, upper=...) for torch.triangular_solve(B, A).solution."
    )
    statics = {"upper": upper, "transpose": transpose, "unitriangular": unitriangular}
    return run_named(
        return_types.triangular_solve, "triangular_solve", out, rules.triangular_solve, input, A, **statics
    )


# --- Cholesky


def _cholesky(A: Tensor, upper: bool, name: str, rule: Rule) -> Tensor:
    check_square(A, name)
    try:
        result = apply(rule, A, upper=bool(upper))
        failed = values_known(result._array) and bool(np.isnan(result._array).any())
    except LinAlgError:
        failed = True
    if failed:
        found = first_bad_minor(A._array, upper)
        place, order = found if found is not None else ((), 1)
        raise _LinAlgError(
            f"{name}: {in_batch(place, A._array.shape)}The factorization could not be completed because the input is not "
            f"positive-definite, as its leading minor of order {order} shows."
        )
    return result


@public
def linalg_cholesky(input: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """Lower triangular L with input = L Lᴴ (or upper triangular U with input = Uᴴ U) of positive definite matrices."""
    check_tensor(input, "linalg_cholesky")
    check_inexact(input, "linalg.cholesky", "cholesky_cpu")
    compute = lambda: _cholesky(input, upper, "linalg.cholesky", rules.linalg_cholesky_ex)
    return compute() if out is None else into(out, compute, (input,), "linalg_cholesky_ex")


@public
def linalg_cholesky_ex(input: Tensor, *, upper: bool = False, check_errors: bool = False, out: Any = None) -> Any:
    """`cholesky` with, for each matrix, the order of the minor that is not positive definite (0 for none)."""
    check_tensor(input, "linalg_cholesky_ex")
    check_square(input, "linalg.cholesky")
    check_inexact(input, "linalg.cholesky_ex", "cholesky_cpu")

    def compute() -> tuple[Tensor, ...]:
        info = infos(input, lambda matrix: first_bad_minor(matrix, upper))
        if info._array.any() and not check_errors:
            return wrap(cholesky_as_far_as_it_goes(np.asarray(input._array), bool(upper))), info
        return _cholesky(input, upper, "linalg.cholesky_ex", rules.linalg_cholesky_ex), info

    if out is None:
        return return_types.linalg_cholesky_ex(compute())
    return into_all(return_types.linalg_cholesky_ex, "linalg_cholesky_ex", out, compute, (input,))


@public
def cholesky(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Lower triangular L with input = L Lᴴ (or upper triangular U with input = Uᴴ U)."""
    check_tensor(input, "cholesky")
    warn_once(
        "torch.cholesky is deprecated in favor of torch.linalg.cholesky and will be removed in a future PyTorch release.\n"
        "Write torch.linalg.cholesky(A), and torch.linalg.cholesky(A).mH for upper=True."
    )
    kind = DTYPE_OF[input._array.dtype]
    if kind.category < FLOATING or kind.opmath is not kind:
        raise no_kernel("cholesky_cpu", input)
    compute = lambda: _cholesky(input, upper, "cholesky", rules.cholesky)
    return compute() if out is None else into(out, compute, (input,), "cholesky")


@public
def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """X with A X = input, given the Cholesky factor of A."""
    for name, given in (("b", input), ("u", input2)):
        if given._array.ndim < 2:
            raise RuntimeError(
                f"{name} should have at least 2 dimensions, but has {given._array.ndim} dimensions instead"
            )
    _check_alike(input, input2)
    _check_square(input2)
    a, b = input2._array.shape, input._array.shape
    if a[-2] != b[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for cholesky_solve: each A matrix is {a[-2]} by {a[-1]} but each b matrix is "
            f"{b[-2]} by {b[-1]}"
        )
    return run("cholesky_solve", out, rules.cholesky_solve, input, input2, upper=bool(upper))


@public
def cholesky_inverse(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse of A, given its Cholesky factor."""
    check_square(input, "cholesky_inverse")
    return run("cholesky_inverse", out, rules.cholesky_inverse, input, upper=bool(upper))


# --- LU


def check_pivoted(pivot: bool, name: str) -> None:
    """Refuse LU without row exchanges, which LAPACK lacks."""
    if not pivot:
        raise RuntimeError(f"{name}: LU without pivoting is not implemented on the CPU")


@public
def linalg_lu_factor(A: Tensor, *, pivot: bool = True, out: Any = None) -> Any:
    """L and U of A = P L U in one matrix, and the row exchanges that make P."""
    check_tensor(A, "linalg_lu_factor", "A")

    def compute() -> tuple[Tensor, ...]:
        both, pivots, _ = _lu_factor(A, pivot)
        found = zero_on_diagonal(np.asarray(both._array))
        if found is not None:
            where_, k = found
            raise RuntimeError(
                f"torch.linalg.lu_factor: {in_batch(where_, A._array.shape)}U[{k},{k}] is zero and using it on lu_solve "
                "would result in a division by zero. linalg.lu(A) and linalg.lu_factor_ex(A) factor such matrices too"
            )
        return both, pivots

    kind = return_types.linalg_lu_factor
    return kind(compute()) if out is None else into_all(kind, "linalg_lu_factor_ex", out, compute, (A,))


def _lu_factor(A: Tensor, pivot: bool) -> tuple[Tensor, ...]:
    check_matrices(A, "linalg.lu_factor")
    check_inexact(A, "linalg.lu_factor", "lu_cpu")
    check_pivoted(pivot, "linalg.lu_factor")
    return apply(rules.linalg_lu_factor_ex, A)


@public
def linalg_lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False, out: Any = None) -> Any:
    """`lu_factor` with, for each matrix, which pivot is zero (0 for none)."""
    check_tensor(A, "linalg_lu_factor_ex", "A")
    compute = lambda: (*_lu_factor(A, pivot)[:2], infos(A, first_zero_pivot))
    if out is None:
        return return_types.linalg_lu_factor_ex(compute())
    return into_all(return_types.linalg_lu_factor_ex, "linalg_lu_factor_ex", out, compute, (A,))


@public
def linalg_lu(A: Tensor, *, pivot: bool = True, out: Any = None) -> Any:
    """Return a permutation P and triangular L and U whose product is A."""
    check_tensor(A, "linalg_lu", "A")
    check_matrices(A, "linalg.lu")
    check_inexact(A, "linalg.lu", "lu_cpu")
    check_pivoted(pivot, "linalg.lu_factor")

    def compute() -> tuple[Tensor, ...]:
        P, L, U = apply(rules.linalg_lu, A)
        return wrap(P._array), L, U

    if out is None:
        return return_types.linalg_lu(compute())
    return into_all(return_types.linalg_lu, "linalg_lu", out, compute, (A,))


class TriangularMethods:
    """Triangular factors as methods of a tensor."""

    __slots__ = ()

    cholesky, cholesky_solve, cholesky_inverse, triangular_solve = (
        cholesky, cholesky_solve, cholesky_inverse, triangular_solve)  # fmt: skip
