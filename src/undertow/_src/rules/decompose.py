"""QR, singular values, eigenvalues, pseudo-inverses and the matrix exponential."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from undertow._src.rules.elementwise import no_derivative
from undertow._src.rules.factor import adjoint, column, identity, row
from undertow._src.rules.linalg import transposed
from undertow._src.rules.rule import op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace
    from undertow._src.rules.rule import Spec


def is_complex(xp: Namespace, x: Array) -> bool:
    return xp.dtype_of(x).kind == "c"


def embed(xp: Namespace, x: Array) -> Array:
    """Return diagonal matrices."""
    return xp.diag_embed(x, 0, x.ndim - 1, x.ndim)


def diagonal_of(xp: Namespace, x: Array) -> Array:
    """Return the diagonals of matrices."""
    return xp.diagonal(x, 0, x.ndim - 2, x.ndim - 1)


# --- QR


def qr_gradient(xp: Namespace, g: Any, Q: Array, R: Array, mode: str, A_spec: Spec) -> Array:
    """Return `tall_qr_gradient`; for a wide matrix that of its square part, which determines the rest of R."""
    rows, columns = A_spec.shape[-2:]
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Use mode='reduced'."
        )
    if mode == "complete" and rows > columns:
        raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols.")
    gQ = xp.zeros(Q.shape, xp.dtype_of(Q)) if g[0] is None else g[0]
    gR = xp.zeros(R.shape, xp.dtype_of(R)) if g[1] is None else g[1]
    if rows >= columns:
        return tall_qr_gradient(xp, gQ, gR, Q, R)
    # A = [X | Y] and R = [U | V] with square X, U: Y enters through V = Qᴴ Y alone.
    axis = R.ndim - 1
    U, gU = xp.slice_along(R, axis, 0, rows), xp.slice_along(gR, axis, 0, rows)
    V, gV = xp.slice_along(R, axis, rows, columns), xp.slice_along(gR, axis, rows, columns)
    Y = xp.matmul(Q, V)
    of_X = tall_qr_gradient(xp, gQ + xp.matmul(Y, adjoint(xp, gV)), gU, Q, U)
    return xp.concatenate((of_X, xp.matmul(Q, gV)), axis)


def tall_qr_gradient(xp: Namespace, gQ: Array, gR: Array, Q: Array, R: Array) -> Array:
    """(gQ + Q sym(R gRᴴ - gQᴴ Q)) R⁻ᴴ, where sym copies the lower triangle to the upper."""
    M = xp.matmul(R, adjoint(xp, gR)) - xp.matmul(adjoint(xp, gQ), Q)
    below = xp.tril(M, -1)
    middle = embed(xp, real_part(xp, diagonal_of(xp, M)))
    inner = gQ + xp.matmul(Q, below + adjoint(xp, below) + middle)
    return adjoint(xp, xp.solve_triangular(R, adjoint(xp, inner), True, False))


def real_part(xp: Namespace, x: Array) -> Array:
    """Return the real part, as complex numbers."""
    return (x + xp.conj(x)) * 0.5


linalg_qr = op("linalg_qr", lambda xp, A, *, mode: xp.qr(A, mode), promote="same", outputs=2, names=("Q", "R"),
               holomorphic=False, materialize=False, A=qr_gradient)  # fmt: skip

# --- singular values


def svd_gradient(xp: Namespace, g: Any, U: Array, S: Array, Vh: Array) -> Array:
    """U [ (skew(Uᴴ gU) / E) S + S (skew(Vᴴ gV) / E) + gS ] Vᴴ and what the vectors span no part of; E = s²ₖ - s²ⱼ."""
    gU, gS, gVh = g
    k = S.shape[-1]
    U, Vh = xp.slice_along(U, U.ndim - 1, 0, k), xp.slice_along(Vh, Vh.ndim - 2, 0, k)
    if gU is None and gVh is None:
        return xp.matmul(U, column(xp, gS) * Vh)
    squares = S * S
    gaps = row(xp, squares) - column(xp, squares) + identity(xp, k, xp.dtype_of(S))
    inner: Any = 0
    outside: Any = 0
    if gU is not None:
        gU = xp.slice_along(gU, gU.ndim - 1, 0, k)
        turn = xp.matmul(adjoint(xp, U), gU)
        inner = (turn - adjoint(xp, turn)) / gaps * row(xp, S)
        if is_complex(xp, U):  # a common phase of both vectors
            phase = diagonal_of(xp, turn)
            inner = inner - embed(xp, diagonal_of(xp, inner)) + embed(xp, (phase - xp.conj(phase)) / (2 * S))
        if U.shape[-2] > k:
            outside = outside + xp.matmul((gU - xp.matmul(U, turn)) / row(xp, S), Vh)
    if gVh is not None:
        gV = adjoint(xp, xp.slice_along(gVh, gVh.ndim - 2, 0, k))
        turn = xp.matmul(Vh, gV)
        skew = (turn - adjoint(xp, turn)) / gaps
        if is_complex(xp, U):
            skew = skew - embed(xp, diagonal_of(xp, skew))
        inner = inner + column(xp, S) * skew
        if Vh.shape[-1] > k:
            beyond = adjoint(xp, gV - xp.matmul(adjoint(xp, Vh), turn))
            outside = outside + xp.matmul(U, beyond / column(xp, S))
    if gS is not None:
        inner = inner + embed(xp, gS)
    return xp.matmul(U, xp.matmul(inner, Vh)) + outside


linalg_svd = op("linalg_svd", lambda xp, A, *, full_matrices: xp.svd(A, full_matrices), promote="same", outputs=3,
                names=("U", "S", "Vh"), holomorphic=False, materialize=False, A=svd_gradient)  # fmt: skip

# --- eigenvalues


def eigh_gradient(xp: Namespace, g: Any, eigenvalues: Array, eigenvectors: Array) -> Array:
    """Return V (gL + herm((Vᴴ gV) / E)) Vᴴ with E = lₖ - lⱼ, which is Hermitian as the input is."""
    V, Vh = eigenvectors, adjoint(xp, eigenvectors)
    gL, gV = g
    if gV is None:
        return xp.matmul(V * row(xp, gL), Vh)
    gaps = row(xp, eigenvalues) - column(xp, eigenvalues)
    gaps = gaps + identity(xp, gaps.shape[-1], xp.dtype_of(eigenvalues))
    inner = xp.matmul(Vh, gV) / gaps
    inner = inner - embed(xp, diagonal_of(xp, inner))
    inner = (inner + adjoint(xp, inner)) * 0.5
    if gL is not None:
        inner = inner + embed(xp, gL)
    return xp.matmul(V, xp.matmul(inner, Vh))


linalg_eigh = op("linalg_eigh", lambda xp, A, *, lower: xp.eigh(A, lower), promote="same", outputs=2,
                 names=("eigenvalues", "eigenvectors"), holomorphic=False, materialize=False,
                 A=eigh_gradient)  # fmt: skip


def eig_gradient(xp: Namespace, g: Any, eigenvalues: Array, eigenvectors: Array, self_spec: Spec) -> Array:
    """V⁻ᴴ (gL + (Vᴴ gV - Vᴴ V Re(diag(Vᴴ gV))) / E*) Vᴴ with E = lₖ - lⱼ."""
    V, Vh = eigenvectors, adjoint(xp, eigenvectors)
    gL, gV = g
    if gV is None:
        inner = embed(xp, gL)
    else:
        turn = xp.matmul(Vh, gV)
        turn = turn - xp.matmul(Vh, V * row(xp, real_part(xp, diagonal_of(xp, turn))))
        gaps = row(xp, eigenvalues) - column(xp, eigenvalues)
        gaps = gaps + identity(xp, gaps.shape[-1], xp.dtype_of(eigenvalues))
        inner = turn / xp.conj(gaps)
        inner = inner - embed(xp, diagonal_of(xp, inner))
        if gL is not None:
            inner = inner + embed(xp, gL)
    result = xp.solve(Vh, xp.matmul(inner, Vh))
    return result if self_spec.dtype.kind == "c" else xp.real(result)


linalg_eig = op("linalg_eig", lambda xp, self: xp.eig(self), promote="same", outputs=2,
                names=("eigenvalues", "eigenvectors"), holomorphic=False, materialize=False,
                self=eig_gradient)  # fmt: skip

# --- QR as LAPACK leaves it; the reflections are multiplied out in householder.py

geqrf = op("geqrf", lambda xp, self: xp.geqrf(self), promote="same", outputs=2, names=("a", "tau"),
           self=no_derivative("geqrf"))  # fmt: skip

# --- pseudo-inverses and least squares


def pinv_gradient(xp: Namespace, g: Array, self: Array, result: Array) -> Array:
    """-Pᴴ g Pᴴ + (1 - A P) gᴴ P Pᴴ + Pᴴ P gᴴ (1 - P A)."""
    A, P, Ph, gh = self, result, adjoint(xp, result), adjoint(xp, g)
    left = xp.matmul(gh, xp.matmul(P, Ph))
    right = xp.matmul(xp.matmul(Ph, P), gh)
    return (left - xp.matmul(A, xp.matmul(P, left))) + (right - xp.matmul(xp.matmul(right, P), A)) - xp.matmul(
        Ph, xp.matmul(g, Ph))  # fmt: skip


linalg_pinv = op("linalg_pinv", lambda xp, self, *, cutoff, hermitian: xp.pinv(self, cutoff, hermitian),
                 promote="same", holomorphic=False, self=pinv_gradient)  # fmt: skip


def least_squares_gradient(
    xp: Namespace, g: Any, needs: Sequence[bool], self: Array, b: Array, cutoff: Any
) -> tuple[Any, Any]:
    """X = A⁺ B: of A it goes through the pseudo-inverse, of B it is (A⁺)ᴴ g.

    The residuals are the squared lengths of R = B − A X, where Aᴴ R = 0: of B they are 2 g R, of A −2 g R Xᴴ.
    """
    A, B = self, b
    P = xp.pinv(A, cutoff, False)
    vector = B.ndim == A.ndim - 1
    gX, columns = (column(xp, g[0]), column(xp, B)) if vector else (g[0], B)
    of_A = None
    if needs[0]:
        of_A = xp.sum_to_shape(pinv_gradient(xp, xp.matmul(gX, adjoint(xp, columns)), A, P), A.shape)
    of_B = xp.matmul(adjoint(xp, P), gX)
    if g[1] is not None and 0 not in g[1].shape:
        X = xp.matmul(P, columns)
        R = 2 * xp.expand_dims(g[1], -2) * (columns - xp.matmul(A, X))
        of_B = of_B + R
        of_A = None if of_A is None else of_A - xp.sum_to_shape(xp.matmul(R, adjoint(xp, X)), A.shape)
    return of_A, xp.reshape(of_B, B.shape) if vector else xp.sum_to_shape(of_B, B.shape)


linalg_lstsq = op("linalg_lstsq", lambda xp, self, b, *, cutoff, driver: xp.least_squares(self, b, cutoff, driver),
                  promote="same",
                  outputs=4, differentiable=2, holomorphic=False,
                  joint=least_squares_gradient)  # fmt: skip

# --- exponential


def exponential_gradient(xp: Namespace, g: Array, self: Array) -> Array:
    """Return the upper right block of exp [[Aᵀ, g], [0, Aᵀ]]."""
    n = self.shape[-1]
    At = transposed(xp, self)
    axis = self.ndim - 1
    top = xp.concatenate((At, g), axis)
    bottom = xp.concatenate((xp.zeros_like(At), At), axis)
    whole = xp.matrix_exp(xp.concatenate((top, bottom), axis - 1))
    return xp.slice_along(xp.slice_along(whole, axis, n, 2 * n), axis - 1, 0, n)


linalg_matrix_exp = op("linalg_matrix_exp", lambda xp, self: xp.matrix_exp(self), promote="same",
                       self=exponential_gradient)  # fmt: skip
