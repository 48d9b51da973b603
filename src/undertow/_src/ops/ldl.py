"""LDL factors of symmetric and Hermitian matrices (Bunch and Kaufman's, as LAPACK stores them), and solving with them.

A = L D Lᵀ (Lᴴ for Hermitian ones), D with blocks of one or two on its diagonal. Both come in one matrix: D on the diagonal
and, in a block of two, below it; L below. A positive pivot is the row that one row was exchanged with, counted from one;
two equal negative ones mark a block of two whose second row was.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow import return_types
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import broadcast_two, check_tensor
from undertow._src.ops.decompositions import check_inexact, check_matrices, check_square
from undertow._src.ops.named import into_all, run
from undertow._src.ops.public import public
from undertow._src.rules.elementwise import not_differentiated
from undertow._src.rules.rule import op
from undertow._src.tensor.core import wrap
from undertow._src.types.dtypes import DTYPE_OF
from undertow.storage import Array

if TYPE_CHECKING:
    from undertow._tensor import Tensor

_GROWTH = (1 + math.sqrt(17)) / 8

_factors = op("linalg_ldl_factor_ex", lambda xp, self, *, found: found, node="NotImplemented", promote="same",
              self=not_differentiated("linalg_ldl_factor_ex"))  # fmt: skip
_solution = op("linalg_ldl_solve", lambda xp, LD, B, *, found: found, node="NotImplemented", promote="same",
               LD=not_differentiated("linalg_ldl_solve"), B=not_differentiated("linalg_ldl_solve"))  # fmt: skip


def _size(x: Any) -> Any:
    return np.abs(x.real) + np.abs(x.imag)


def _exchange(a: Array, one: int, two: int, hermitian: bool) -> None:
    """Exchange two rows and columns of the rest of a matrix, given by its lower triangle."""
    a[two + 1 :, [one, two]] = a[two + 1 :, [two, one]]
    between = a[one + 1 : two, one].copy()
    a[one + 1 : two, one] = _turned(a[two, one + 1 : two], hermitian)
    a[two, one + 1 : two] = _turned(between, hermitian)
    a[two, one] = _turned(a[two, one], hermitian)
    a[one, one], a[two, two] = a[two, two], a[one, one]


def _turned(x: Any, hermitian: bool) -> Any:
    return np.conj(x) if hermitian else x


def _pivot(a: Array, k: int) -> tuple[int, int]:
    """Which row to exchange at step k, and whether the block has one row or two."""
    below = _size(a[k + 1 :, k])
    here = float(_size(a[k, k]))
    if not below.size or here >= _GROWTH * below.max():
        return k, 1
    row = k + 1 + int(below.argmax())
    others = np.concatenate([_size(a[row, k:row]), _size(a[row + 1 :, row])])
    if here >= _GROWTH * below.max() * (below.max() / others.max()):
        return k, 1
    return row, 1 if _size(a[row, row]) >= _GROWTH * others.max() else 2


def _factored(a: Array, hermitian: bool) -> tuple[Array, Array, int]:
    """Return the factors of one matrix, its pivots, and the first step that had nothing to divide by."""
    a, n = np.tril(a), a.shape[-1]
    pivots, failed, k = np.zeros(n, np.int32), 0, 0
    while k < n:
        if hermitian:
            np.fill_diagonal(a, a.diagonal().real)
        row, rows = _pivot(a, k)
        if not _size(a[k:, k]).any():
            failed, row, rows = failed or k + 1, k, 1
        last = k + rows - 1
        if row != last:
            _exchange(a, last, row, hermitian)
            if rows == 2:
                a[[k + 1, row], k] = a[[row, k + 1], k]
        block = a[k : last + 1, k : last + 1]
        if rows == 2:
            block = np.array([[block[0, 0], _turned(block[1, 0], hermitian)], [block[1, 0], block[1, 1]]])
        under = a[last + 1 :, k : last + 1].copy()
        if under.size and not (rows == 1 and a[k, k] == 0):
            factor = np.linalg.solve(block.T, under.T).T if rows == 2 else under / block
            a[last + 1 :, last + 1 :] -= np.tril(factor @ _turned(under, hermitian).T)
            a[last + 1 :, k : last + 1] = factor
        pivots[k : last + 1] = row + 1 if rows == 1 else -row - 1
        k = last + 1
    return a, pivots, failed


def _solved(ld: Array, pivots: Array, b: Array, hermitian: bool) -> Array:
    """X with A X = B, for one matrix."""
    x, n = b.copy(), len(pivots)
    blocks, k = list[tuple[int, int]](), 0
    while k < n:
        last = k + int(pivots[k] < 0)
        other = abs(int(pivots[k])) - 1
        x[[last, other]] = x[[other, last]]
        x[last + 1 :] -= ld[last + 1 :, k : last + 1] @ x[k : last + 1]
        block = ld[k : last + 1, k : last + 1].copy()
        if last > k:
            block[0, 1] = _turned(block[1, 0], hermitian)
        x[k : last + 1] = np.linalg.solve(block, x[k : last + 1])
        blocks.append((k, last))
        k = last + 1
    for k, last in reversed(blocks):
        x[k : last + 1] -= _turned(ld[last + 1 :, k : last + 1], hermitian).T @ x[last + 1 :]
        other = abs(int(pivots[k])) - 1
        x[[last, other]] = x[[other, last]]
    return x


def _columns_first(shape: tuple[int, ...], kind: Any) -> Array:
    """Return matrices in column-major order, as LAPACK makes them."""
    return np.empty((*shape[:-2], shape[-1], shape[-2]), kind).swapaxes(-1, -2)


def _factor_all(A: Tensor, hermitian: bool) -> tuple[Any, Any, Array]:
    array = A._array
    check_square(A, "torch.linalg.ldl_factor_ex")
    check_inexact(A, "torch.linalg.ldl_factor_ex", "ldl_factor_cpu")
    factors, pivots = _columns_first(array.shape, array.dtype), np.zeros(array.shape[:-1], np.int32)
    failed = np.zeros(array.shape[:-2], np.int32)
    for place in np.ndindex(failed.shape):
        factors[place], pivots[place], failed[place] = _factored(array[place], hermitian)
    return apply(_factors, A, found=factors), wrap(pivots), failed


def _refuse(failed: Array, name: str) -> None:
    if failed.any():
        raise RuntimeError(
            f"false INTERNAL ASSERT FAILED: torch.linalg.{name}: the matrix is singular, at step {failed[failed != 0][0]}"
        )


@public
def linalg_ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False, out: Any = None) -> Any:
    """Return the LDL factors of symmetric (Hermitian) matrices in one matrix, the pivots, and which step failed."""
    check_tensor(A, "linalg_ldl_factor_ex")

    def compute() -> tuple[Any, Any, Any]:
        factors, pivots, failed = _factor_all(A, hermitian)
        if check_errors:
            _refuse(failed, "ldl_factor_ex")
        return factors, pivots, wrap(failed)

    kind = return_types.linalg_ldl_factor_ex
    return kind(compute()) if out is None else into_all(kind, "linalg_ldl_factor_ex", out, compute, (A,))


@public
def linalg_ldl_factor(A: Tensor, *, hermitian: bool = False, out: Any = None) -> Any:
    """Return the LDL factors of symmetric (Hermitian) matrices in one matrix, and the pivots."""
    check_tensor(A, "linalg_ldl_factor")

    def compute() -> tuple[Any, Any]:
        factors, pivots, failed = _factor_all(A, hermitian)
        _refuse(failed, "ldl_factor")
        return factors, pivots

    kind = return_types.linalg_ldl_factor
    return kind(compute()) if out is None else into_all(kind, "linalg_ldl_factor", out, compute, (A,))


@public
def linalg_ldl_solve(
    LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False, out: Tensor | None = None
) -> Tensor:
    """X with A X = B, given `ldl_factor(A)`."""
    for place, (argument, value) in enumerate({"LD": LD, "pivots": pivots, "B": B}.items(), 1):
        check_tensor(value, "linalg_ldl_solve", argument, place)
    return run("linalg_ldl_solve", out, _solution, LD, B, found=_solve_all(LD, pivots, B, hermitian))


def _solve_all(LD: Tensor, pivots: Tensor, B: Tensor, hermitian: bool) -> Array:
    ld, rows, b = LD._array, pivots._array, B._array
    check_square(LD, "torch.linalg.ldl_solve")
    if b.ndim < 2:
        raise IndexError(f"Dimension out of range (expected to be in range of [-{b.ndim}, {b.ndim - 1}], but got -2)")
    check_matrices(B, "torch.linalg.ldl_solve", "B")
    if ld.shape[-1] != b.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for torch.linalg.ldl_solve: each A matrix is {ld.shape[-1]} by {ld.shape[-1]} but "
            f"each b matrix is {b.shape[-2]} by {b.shape[-1]}"
        )
    if ld.shape[:-1] != rows.shape:
        raise RuntimeError(
            "torch.linalg.ldl_solve: Expected LD.shape[:-1] and pivots.shape to be the same; that is not so for "
            f"{list(rows.shape)}, the pivots'"
        )
    if ld.dtype != b.dtype:
        names = [DTYPE_OF[each.dtype].scalar_name for each in (b, ld)]
        raise RuntimeError(f"Expected b and A to have the same dtype, but found {names[0]} and {names[1]}.")
    batch = broadcast_two(ld.shape[:-2], b.shape[:-2])
    found = _columns_first((*batch, *b.shape[-2:]), b.dtype)
    ld, rows, b = (
        np.broadcast_to(ld, (*batch, *ld.shape[-2:])), np.broadcast_to(rows, (*batch, rows.shape[-1])),
        np.broadcast_to(b, (*batch, *b.shape[-2:])),
    )  # fmt: skip
    for place in np.ndindex(batch):
        found[place] = _solved(ld[place], rows[place], b[place], hermitian)
    return found
