"""Public functions of square matrices: determinants, inverses, solutions of systems, powers."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow import return_types
from undertow._src.arrays.device.array import values_known
from undertow._src.arrays.numpy.linalg import first_zero_pivot
from undertow._src.base.errors import _LinAlgError
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import as_int, broadcast_two, check_tensor
from undertow._src.engine.outputs import into
from undertow._src.ops.arithmetic import div
from undertow._src.ops.broadcasting import squeeze
from undertow._src.ops.compare import where
from undertow._src.ops.decompositions import check_inexact, check_matrices, check_square, in_batch, linalg_svdvals
from undertow._src.ops.matmul import matrix_product, product
from undertow._src.ops.named import into_all, run
from undertow._src.ops.norms import linalg_matrix_norm
from undertow._src.ops.public import public
from undertow._src.ops.shape import permuted, reshape_to
from undertow._src.rules import factor as rules
from undertow._src.tensor.core import wrap
from undertow._src.types.dtypes import DTYPE_OF, FLOATING

if TYPE_CHECKING:
    from undertow._src.types.aliases import Number, _size
    from undertow._tensor import Tensor

# --- determinants


@public
def linalg_det(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the determinants of square matrices."""
    check_tensor(A, "linalg_det", "A")
    return _det(A, out)


@public
def det(input: Tensor) -> Tensor:
    """Return the determinants of square matrices."""
    check_tensor(input, "det")
    return _det(input, None)


def _det(A: Tensor, out: Any) -> Tensor:
    check_square(A, "linalg.det")
    check_inexact(A, "linalg.det", "lu_cpu")
    return run("_linalg_det", out, rules.linalg_det, A)


def _slogdet(A: Tensor) -> tuple[Tensor, ...]:
    check_square(A, "linalg.slogdet")
    check_inexact(A, "linalg.slogdet", "")
    return apply(rules.linalg_slogdet, A)


@public
def linalg_slogdet(A: Tensor, *, out: Any = None) -> Any:
    """Return the sign of determinants and the logarithm of their absolute value."""
    check_tensor(A, "linalg_slogdet", "A")
    if out is None:
        return return_types.linalg_slogdet(_slogdet(A))
    return into_all(return_types.linalg_slogdet, "_linalg_slogdet", out, lambda: _slogdet(A), (A,))


@public
def slogdet(input: Tensor, *, out: Any = None) -> Any:
    """Return the sign of determinants and the logarithm of their absolute value."""
    check_tensor(input, "slogdet")
    if out is None:
        return return_types.slogdet(_slogdet(input))
    return into_all(return_types.slogdet, "_linalg_slogdet", out, lambda: _slogdet(input), (input,))


@public
def logdet(input: Tensor) -> Tensor:
    """Return the logarithm of determinants; nan for a negative one."""
    check_tensor(input, "logdet")
    sign, logabs = _slogdet(input)
    if DTYPE_OF[input._array.dtype].is_complex:
        return sign.log() + logabs
    return where(sign.detach() == -1.0, wrap(np.asarray(np.nan, logabs._array.dtype)), logabs)


# --- inverses


def _inverse(A: Tensor, name: str, checked: bool) -> Tensor:
    check_square(A, name)
    check_inexact(A, name, "")
    result = apply(rules.linalg_inv_ex, A)
    if checked and values_known(result._array) and not np.isfinite(result._array).all():
        _refuse_singular(A, name)
    return result


def _refuse_singular(A: Tensor, name: str) -> None:
    found = first_zero_pivot(A._array)
    if found is not None:
        place, pivot = found
        raise _LinAlgError(
            f"{name}: {in_batch(place, A._array.shape)}The diagonal element {pivot} is zero, the inversion could not be "
            "completed because the input matrix is singular."
        )


def infos(A: Tensor, find: Callable[..., Any]) -> Tensor:
    """Return LAPACK's info per matrix: 0, or the pivot (or minor) that failed."""
    array = A._array
    info = np.zeros(array.shape[:-2], np.int32)
    for place in np.ndindex(info.shape):
        found = find(array[place])
        info[place] = 0 if found is None else found[1]
    return wrap(info)


@public
def linalg_inv(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the inverses of square matrices."""
    check_tensor(A, "linalg_inv", "A")
    compute = lambda: _inverse(A, "linalg.inv", True)
    return compute() if out is None else into(out, compute, (A,), "linalg_inv_ex")


@public
def inverse(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the inverses of square matrices."""
    check_tensor(input, "inverse")
    compute = lambda: _inverse(input, "linalg.inv", True)
    return compute() if out is None else into(out, compute, (input,), "linalg_inv_ex")


@public
def linalg_inv_ex(A: Tensor, *, check_errors: bool = False, out: Any = None) -> Any:
    """Return the inverses of square matrices, and for each which pivot was zero (0 for none)."""
    check_tensor(A, "linalg_inv_ex", "A")
    compute = lambda: (_inverse(A, "linalg.inv_ex", check_errors), infos(A, first_zero_pivot))
    if out is None:
        return return_types.linalg_inv_ex(compute())
    return into_all(return_types.linalg_inv_ex, "linalg_inv_ex", out, compute, (A,))


# --- systems of equations


def _is_vector(A: Tensor, B: Tensor) -> bool:
    a, b = A._array.shape, B._array.shape
    return len(b) == 1 or (len(a) - 1 == len(b) and b == a[:-1])


def check_system(A: Tensor, B: Tensor, left: bool, name: str, vector: bool) -> None:
    if not vector:
        check_matrices(B, name, "B")
    a, b = A._array.shape, B._array.shape
    if vector:
        fits = a[-1] == b[-1]
    else:
        fits = a[-2] == b[-2] if left else a[-1] == b[-1]
    if not fits:
        rows, columns = b[-2:] if not vector else (b[-1], 1)
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({a[-2]}x{a[-1]} and {rows}x{columns})"
        )
    broadcast_two(a[:-2], b[:-1] if vector else b[:-2])


def check_same_dtype(A: Tensor, B: Tensor, name: str) -> None:
    one, two = DTYPE_OF[A._array.dtype], DTYPE_OF[B._array.dtype]
    if one is not two:
        raise RuntimeError(
            f"{name}: Expected A and B to have the same dtype, but found {one.scalar_name} and {two.scalar_name}"
        )


def _solve(A: Tensor, B: Tensor, left: bool, name: str, checked: bool) -> Tensor:
    kind = DTYPE_OF[A._array.dtype]
    if kind.category < FLOATING:
        check_inexact(A, "linalg.solve", "lu_cpu")
    check_same_dtype(A, B, "linalg.solve")
    check_square(A, "linalg.solve")
    if not B._array.ndim:
        check_matrices(B, "linalg.solve", "B")
    vector = left and _is_vector(A, B)
    check_system(A, B, left, "linalg.solve", vector)
    check_inexact(A, "linalg.solve", "lu_cpu")
    result = apply(rules.linalg_solve_ex, A, B, left=left, vector=vector)
    if checked and values_known(result._array) and not np.isfinite(result._array).all():
        found = first_zero_pivot(A._array)
        if found is not None:
            raise _LinAlgError(
                f"{name}: {in_batch(found[0], A._array.shape)}The solver failed because the input matrix is singular."
            )
    return result


@public
def linalg_solve(A: Tensor, B: Tensor, *, left: bool = True, out: Tensor | None = None) -> Tensor:
    """X with A X = B (X A = B with left=False); B holds matrices or single columns."""
    check_tensor(A, "linalg_solve", "A")
    check_tensor(B, "linalg_solve", "B", 2)
    compute = lambda: _solve(A, B, left, "torch.linalg.solve", True)
    return compute() if out is None else into(out, compute, (A, B), "_linalg_solve_ex")


@public
def linalg_solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False, out: Any = None) -> Any:
    """`solve` with, for each matrix, which pivot was zero (0 for none)."""
    check_tensor(A, "linalg_solve_ex", "A")
    check_tensor(B, "linalg_solve_ex", "B", 2)
    compute = lambda: (
        _solve(A, B, left, "torch.linalg.solve_ex", check_errors), infos(A, first_zero_pivot)
    )  # fmt: skip
    if out is None:
        return return_types.linalg_solve_ex(compute())
    return into_all(return_types.linalg_solve_ex, "linalg_solve_ex", out, compute, (A, B))


# --- powers and condition


def _matrix_power(A: Tensor, n: int, name: str, first: str) -> Any:
    power = as_int(n, name, "n", 2)
    check_square(A, "linalg.matrix_power")
    if power == 0:
        shape = A._array.shape
        return A.clone().copy_(wrap(np.broadcast_to(np.eye(shape[-1], dtype=A._array.dtype), shape)))
    if power < 0:
        A, power = _inverse(A, "linalg.inv", True), -power
    if power == 1:
        return A.clone()
    multiply = matrix_product if A._array.ndim == 2 else product
    if power == 2:
        return multiply(A, A)
    if power == 3:
        return multiply(multiply(A, A), A)
    square, result = None, None
    while power > 0:
        square = A if square is None else multiply(square, square)
        if power & 1:
            result = square if result is None else multiply(result, square)
        power >>= 1
    return result


@public
def linalg_matrix_power(input: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """Return a whole power of square matrices; a negative one is a power of the inverse."""
    check_tensor(input, "linalg_matrix_power")
    compute = lambda: _matrix_power(input, n, "linalg_matrix_power", "A")
    return compute() if out is None else into(out, compute, (input,), "linalg_matrix_power")


@public
def matrix_power(input: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """Return a whole power of square matrices."""
    check_tensor(input, "matrix_power")
    compute = lambda: _matrix_power(input, n, "matrix_power", "input")
    return compute() if out is None else into(out, compute, (input,), "matrix_power")


@public
def linalg_cond(input: Tensor, p: Number | complex | str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return how much a matrix may amplify errors: the product of the norms of it and its inverse."""
    check_tensor(input, "linalg_cond")
    if input._array.ndim < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    if p not in (None, 2, -2, 1, -1, inf, -inf, "fro", "nuc"):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")

    def compute() -> Tensor:
        if p in (None, 2, -2):
            values = linalg_svdvals(input)
            largest, smallest = values[..., :1], values[..., -1:]
            return squeeze(div(smallest, largest) if p == -2 else div(largest, smallest), -1)
        check_square(input, f"linalg.cond(ord={p})")
        inverted = _inverse(input, "linalg.cond", False)
        failed = wrap(~np.isfinite(inverted._array).all((-2, -1), keepdims=True))
        inverted = inverted.masked_fill(failed, inf)
        result = linalg_matrix_norm(input, p) * linalg_matrix_norm(inverted, p)
        return result if p == "nuc" else result.nan_to_num(inf, inf, inf)

    return compute() if out is None else into(out, compute, (input,), "linalg_cond")


# --- tensors as matrices


@public
def linalg_tensorinv(input: Tensor, ind: int = 2, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse of a tensor seen as a matrix, its first `ind` dims as rows and the others as columns."""
    check_tensor(input, "linalg_tensorinv")
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    shape = input._array.shape
    rows, columns = math.prod(shape[:ind]), math.prod(shape[ind:])
    if rows != columns:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]): "
            f"{columns} != {rows}"
        )
    compute = lambda: reshape_to(
        _inverse(reshape_to(input, (rows, columns)), "linalg.inv", True), (*shape[ind:], *shape[:ind])
    )
    return compute() if out is None else into(out, compute, (input,), "linalg_tensorinv")


@public
def linalg_tensorsolve(input: Tensor, other: Tensor, dims: _size | None = None, *, out: Tensor | None = None) -> Tensor:
    """X with tensordot(input, X, X.ndim) = other."""
    check_tensor(input, "linalg_tensorsolve")
    check_tensor(other, "linalg_tensorsolve", "other", 2)
    if dims is not None:
        moved = [each % input._array.ndim for each in dims]
        input = permuted(input, (*[each for each in range(input._array.ndim) if each not in moved], *moved))
    shape = input._array.shape[other._array.ndim :]
    size = math.prod(shape)
    if size != math.prod(other._array.shape):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == other.numel(), "
            f"not {size} != {math.prod(other._array.shape)}"
        )
    compute = lambda: reshape_to(
        _solve(reshape_to(input, (size, size)), reshape_to(other, (size,)), True, "torch.linalg.solve", True), shape
    )
    return compute() if out is None else into(out, compute, (input, other), "linalg_tensorsolve")


class FactorMethods:
    """Functions of matrices as methods of a tensor."""

    __slots__ = ()

    det, slogdet, logdet, inverse, matrix_power = det, slogdet, logdet, inverse, matrix_power
