"""Determinants, inverses, solutions of linear systems and decompositions of matrices.

Rules marked as not holomorphic use conjugates and so take complex gradients unchanged; the others state the plain
derivative, with transposes where PyTorch's documentation has adjoints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow._src.rules.linalg import transposed
from undertow._src.rules.rule import op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace
    from undertow._src.rules.rule import Spec


def adjoint(xp: Namespace, x: Array) -> Array:
    """Return the conjugate transpose."""
    return xp.conj(xp.swapaxes(x, -2, -1))


def column(xp: Namespace, x: Array) -> Array:
    """Return vectors as one-column matrices."""
    return xp.expand_dims(x, x.ndim)


def row(xp: Namespace, x: Array) -> Array:
    """Return vectors as one-row matrices."""
    return xp.expand_dims(x, x.ndim - 1)


def cell(xp: Namespace, x: Array) -> Array:
    """Return one number per matrix, shaped to multiply the matrices."""
    return xp.reshape(x, (*x.shape, 1, 1))


def identity(xp: Namespace, n: int, dtype: Any) -> Array:
    """Return the unit matrix."""
    return xp.constant(xp.eye((n, n), dtype))


# --- determinants

linalg_det = op("linalg_det", lambda xp, A: xp.det(A), promote="same",
                A=lambda xp, g, A, result:
                    cell(xp, g) * xp.cofactors(A, result) if A.shape[-1] else xp.zeros_like(A))  # fmt: skip


def slogdet_gradient(xp: Namespace, g: Any, A: object, sign: Array) -> Array:
    """Return g A⁻ᴴ for log |det A|; for complex numbers also the part of the sign, which varies."""
    weight = g[1]
    if xp.dtype_of(A).kind == "c":
        turned = xp.imag(xp.conj(g[0]) * sign)
        weight = weight - 1j * turned
    return cell(xp, weight) * adjoint(xp, xp.inverse(A))


linalg_slogdet = op("linalg_slogdet", lambda xp, A: xp.slogdet(A), promote="same", outputs=2, holomorphic=False,
                    names=("sign", "logabsdet"), A=slogdet_gradient)  # fmt: skip

# --- inverses and solutions

linalg_inv_ex = op("linalg_inv_ex", lambda xp, A: xp.inverse(A), promote="same", names=("inverse",),
                   A=lambda xp, g, inverse: -xp.matmul(
                       transposed(xp, inverse), xp.matmul(g, transposed(xp, inverse))))  # fmt: skip


def solution(xp: Namespace, A: Array, B: Array, left: bool, vector: bool) -> Array:
    """Return X with A X = B, or X A = B; B is a matrix, or with `vector` a single column."""
    if vector:
        return xp.squeeze(xp.solve(A, column(xp, B)), (max(A.ndim, B.ndim + 1) - 1,))
    return xp.solve(A, B) if left else transposed(xp, xp.solve(transposed(xp, A), transposed(xp, B)))


def solution_gradient(
    xp: Namespace, g: Array, needs: tuple[bool, ...], A: Array, result: Array, left: bool, vector: bool, A_spec: Spec,
    B_spec: Spec,
) -> tuple[Any, Any]:  # fmt: skip
    """Return A⁻ᵀ g for B, and that times −Xᵀ for A."""
    of_B = solution(xp, transposed(xp, A), g, left, vector)
    of_A = None
    if needs[0]:
        if vector:
            of_A = -column(xp, of_B) * row(xp, result)
        elif left:
            of_A = -xp.matmul(of_B, transposed(xp, result))
        else:
            of_A = -xp.matmul(transposed(xp, result), of_B)
        of_A = xp.sum_to_shape(of_A, A_spec.shape)
    return of_A, xp.sum_to_shape(of_B, B_spec.shape)


linalg_solve_ex = op("linalg_solve_ex", lambda xp, A, B, *, left, vector: solution(xp, A, B, left, vector),
                     promote="same", joint=solution_gradient)  # fmt: skip


def triangular_solution(xp: Namespace, A: Array, B: Array, upper: bool, left: bool, unitriangular: bool) -> Array:
    """Return X with A X = B, or X A = B, for a triangular A."""
    if left:
        return xp.solve_triangular(A, B, upper, unitriangular)
    return transposed(xp, xp.solve_triangular(transposed(xp, A), transposed(xp, B), not upper, unitriangular))


def triangle(xp: Namespace, x: Array, upper: bool, strict: bool) -> Array:
    """Return one triangle of a matrix; `strict`: without the diagonal."""
    return xp.triu(x, int(strict)) if upper else xp.tril(x, -int(strict))


def triangular_gradient(
    xp: Namespace, g: Array, needs: tuple[bool, ...], A: Array, result: Array, upper: bool, left: bool,
    unitriangular: bool, A_spec: Spec, B_spec: Spec,
) -> tuple[Any, Any]:  # fmt: skip
    """Return `solution_gradient`, restricted to the triangle of A that is read."""
    of_B = triangular_solution(xp, transposed(xp, A), g, not upper, left, unitriangular)
    of_A = None
    if needs[0]:
        if left:
            of_A = -xp.matmul(of_B, transposed(xp, result))
        else:
            of_A = -xp.matmul(transposed(xp, result), of_B)
        of_A = xp.sum_to_shape(triangle(xp, of_A, upper, unitriangular), A_spec.shape)
    return of_A, xp.sum_to_shape(of_B, B_spec.shape)


linalg_solve_triangular = op(
    "linalg_solve_triangular", lambda xp, self, B, *, upper, left, unitriangular:
        triangular_solution(xp, self, B, upper, left, unitriangular),
    promote="same",
    joint=lambda xp, g, needs, self, result, upper, left, unitriangular, self_spec, B_spec: triangular_gradient(
        xp, g, needs, self, result, upper, left, unitriangular, self_spec, B_spec))  # fmt: skip


def old_triangular_gradient(
    xp: Namespace, g: Any, needs: object, A: Array, result: Any, upper: bool, transpose: bool, unitriangular: bool,
    self_spec: Spec, A_spec: Spec,
) -> tuple[Any, Any]:  # fmt: skip
    """Return the same where a copy of A is a result too, with its own gradient."""
    X = result[0]
    of_B = triangular_solution(xp, A if transpose else transposed(xp, A), g[0], upper is transpose, True, unitriangular)
    of_A = -xp.matmul(X, transposed(xp, of_B)) if transpose else -xp.matmul(of_B, transposed(xp, X))
    of_A = xp.sum_to_shape(triangle(xp, of_A, upper, unitriangular) + g[1], A_spec.shape)
    return xp.sum_to_shape(of_B, self_spec.shape), of_A


triangular_solve = op(
    "triangular_solve", lambda xp, self, A, *, upper, transpose, unitriangular: (
        triangular_solution(xp, transposed(xp, A) if transpose else A, self, upper is not transpose, True, unitriangular),
        xp.copy(A)),
    promote="same", outputs=2, joint=old_triangular_gradient)  # fmt: skip

# --- Cholesky


def cholesky_gradient(xp: Namespace, g: Array, result: Array, upper: bool) -> Array:
    """½ L⁻ᴴ (tril(Lᴴ g) + tril(Lᴴ g, −1)ᴴ) L⁻¹."""
    L, g = (adjoint(xp, result), adjoint(xp, g)) if upper else (result, g)
    Lh = adjoint(xp, L)
    inner = xp.matmul(Lh, g)
    inner = (xp.tril(inner) + adjoint(xp, xp.tril(inner, -1))) * 0.5
    inner = xp.solve_triangular(Lh, inner, True, False)  # L⁻ᴴ inner L⁻¹
    return adjoint(xp, xp.solve_triangular(Lh, adjoint(xp, inner), True, False))


linalg_cholesky_ex = op("linalg_cholesky_ex", lambda xp, self, *, upper: xp.cholesky(self, upper), promote="same",
                        holomorphic=False, names=("L",),
                        self=lambda xp, g, L, upper: cholesky_gradient(xp, g, L, upper))  # fmt: skip

cholesky = op("cholesky", lambda xp, self, *, upper: xp.cholesky(self, upper), promote="same", holomorphic=False,
              self=cholesky_gradient)  # fmt: skip


def cholesky_solve_gradient(
    xp: Namespace, g: Array, needs: tuple[bool, ...], input2: Array, result: Array, upper: bool, self_spec: Spec,
    input2_spec: Spec,
) -> tuple[Any, Any]:  # fmt: skip
    """Return A⁻¹ g for B; for L it is −(C + Cᴴ) L with C = A⁻¹ g Xᴴ."""
    of_B = xp.cholesky_solve(g, input2, upper)
    common = xp.matmul(of_B, adjoint(xp, result))
    common = common + adjoint(xp, common)
    of_L = -xp.matmul(input2, common) if upper else -xp.matmul(common, input2)
    return xp.sum_to_shape(of_B, self_spec.shape), xp.sum_to_shape(of_L, input2_spec.shape)


cholesky_solve = op("cholesky_solve", lambda xp, self, input2, *, upper: xp.cholesky_solve(self, input2, upper),
                    promote="same", holomorphic=False, joint=cholesky_solve_gradient)  # fmt: skip


def cholesky_inverse_gradient(xp: Namespace, g: Array, self: Array, result: Array, upper: bool) -> Array:
    """−P (g + gᴴ) P L, where P is the inverse of L Lᴴ."""
    common = xp.matmul(xp.matmul(result, g + adjoint(xp, g)), result)
    return -xp.matmul(self, common) if upper else -xp.matmul(common, self)


cholesky_inverse = op("cholesky_inverse", lambda xp, self, *, upper: xp.cholesky_solve(
                          identity(xp, self.shape[-1], xp.dtype_of(self)), self, upper),
                      promote="same", holomorphic=False, self=cholesky_inverse_gradient)  # fmt: skip

# --- LU: the pivots carry no gradient


def lu_gradient(xp: Namespace, of_L: Array, of_U: Array, L: Array, U: Array, permutation: Array) -> Array:
    """Return P L⁻ᴴ [tril(Lᴴ gL, -1) + triu(gU Uᴴ)] U⁻ᴴ for a square matrix, from which the rest follows."""
    rows, columns, last = L.shape[-2], U.shape[-1], L.ndim - 1
    few = min(rows, columns)

    def split(x: Array, dim: int) -> tuple[Any, Any]:
        return xp.slice_along(x, dim, 0, few, 1), xp.slice_along(x, dim, few, x.shape[dim], 1)

    (L, L_below), (of_L, of_L_below) = split(L, last - 1), split(of_L, last - 1)
    (U, U_right), (of_U, of_U_right) = split(U, last), split(of_U, last)
    lower, upper = xp.matmul(adjoint(xp, L), of_L), xp.matmul(of_U, adjoint(xp, U))
    if columns > few:
        lower = lower - xp.matmul(of_U_right, adjoint(xp, U_right))
    if rows > few:
        upper = upper - xp.matmul(adjoint(xp, L_below), of_L_below)
    inner = xp.solve_triangular(adjoint(xp, L), xp.tril(lower, -1) + xp.triu(upper), True, True)
    found = adjoint(xp, xp.solve_triangular(U, adjoint(xp, inner), True, False))
    if columns > few:
        found = xp.concatenate((found, xp.solve_triangular(adjoint(xp, L), of_U_right, True, True)), last)
    if rows > few:
        below = adjoint(xp, xp.solve_triangular(U, adjoint(xp, of_L_below), True, False))
        found = xp.concatenate((found, below), last - 1)
    return xp.matmul(permutation, found)


def lu_factor_gradient(xp: Namespace, g: Any, LU: Array, permutation: Array) -> Array:
    """Return `lu_gradient`, where g holds both triangles in one matrix."""
    few, last = min(LU.shape[-2:]), LU.ndim - 1
    of_L, of_U = xp.slice_along(g[0], last, 0, few, 1), xp.slice_along(g[0], last - 1, 0, few, 1)
    return lu_gradient(xp, xp.tril(of_L, -1), xp.triu(of_U), *triangles(xp, LU), permutation)


linalg_lu_factor_ex = op("linalg_lu_factor_ex", lambda xp, A: xp.lu_factor(A), promote="same", outputs=3,
                         differentiable=1, names=("LU", "pivots", "permutation"), holomorphic=False,
                         materialize=False, A=lu_factor_gradient)  # fmt: skip


def lu_parts_gradient(xp: Namespace, g: Any, P: Array, L: Array, U: Array) -> Array:
    """Return `lu_gradient` for separate L and U; P is constant."""
    return lu_gradient(xp, g[1], g[2], L, U, P)


linalg_lu = op("linalg_lu", lambda xp, A: xp.lu_parts(A), promote="same", outputs=3, names=("P", "L", "U"),
               holomorphic=False, A=lu_parts_gradient)  # fmt: skip


def unpacked_gradient(xp: Namespace, g: Any, LU_spec: Spec) -> Array:
    """Return the triangles' gradients in one matrix."""
    of_L, of_U = g
    rows, columns = LU_spec.shape[-2:]
    few = min(rows, columns)
    lead = ((0, 0),) * (len(LU_spec.shape) - 2)
    lower = xp.pad(xp.tril(of_L, -1), (*lead, (0, 0), (0, columns - few)), 0)
    return lower + xp.pad(xp.triu(of_U), (*lead, (0, rows - few), (0, 0)), 0)


def triangles(xp: Namespace, LU: Array) -> tuple[Any, Any]:
    """Return L, with ones on its diagonal, and U from the matrix that holds both."""
    rows, columns = LU.shape[-2:]
    few, last = min(rows, columns), LU.ndim - 1
    lower = xp.tril(xp.slice_along(LU, last, 0, few, 1), -1)
    ones = xp.constant(xp.eye((rows, few), xp.dtype_of(LU)))
    return lower + ones, xp.triu(xp.slice_along(LU, last - 1, 0, few, 1))


lu_unpack = op("lu_unpack", lambda xp, LU: triangles(xp, LU), promote="same", outputs=2, LU=unpacked_gradient)


def lu_solution(xp: Namespace, LU: Array, B: Array, permutation: object, left: bool, adjoint_: bool) -> Array:
    """X with A X = B for the A whose triangles LU holds; X A = B if not left, Aᴴ for A if adjoint."""
    if not left:
        return adjoint(xp, lu_solution(xp, LU, adjoint(xp, B), permutation, True, not adjoint_))
    if adjoint_:
        inner = xp.solve_triangular(adjoint(xp, LU), B, False, False)
        return xp.matmul(permutation, xp.solve_triangular(adjoint(xp, LU), inner, True, True))
    inner = xp.solve_triangular(LU, xp.matmul(xp.swapaxes(permutation, -2, -1), B), False, True)
    return xp.solve_triangular(LU, inner, True, False)


def lu_solve_gradient(
    xp: Namespace, g: Array, needs: tuple[bool, ...], LU: Array, permutation: object, result: Array, left: bool,
    adjoint_: bool, LU_spec: Spec, B_spec: Spec,
) -> tuple[Any, Any]:  # fmt: skip
    """Return A⁻ᴴ g for B; for A that times −Xᴴ, and for its triangles what follows from A = P L U."""
    of_B = lu_solution(xp, LU, g, permutation, left, not adjoint_)
    of_A = -xp.matmul(of_B, adjoint(xp, result)) if left else -xp.matmul(adjoint(xp, result), of_B)
    of_A = xp.matmul(xp.swapaxes(permutation, -2, -1), adjoint(xp, of_A) if adjoint_ else of_A)
    L, U = triangles(xp, LU)
    of_LU = xp.tril(xp.matmul(of_A, adjoint(xp, U)), -1) + xp.triu(xp.matmul(adjoint(xp, L), of_A))
    return xp.sum_to_shape(of_LU, LU_spec.shape), xp.sum_to_shape(of_B, B_spec.shape)


linalg_lu_solve = op("linalg_lu_solve", lambda xp, LU, B, permutation, *, left, adjoint_: lu_solution(
                         xp, LU, B, permutation, left, adjoint_),
                     promote="same", holomorphic=False, slots=2, joint=lu_solve_gradient)  # fmt: skip
