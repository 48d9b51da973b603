"""Products of reflections: the orthogonal matrix that `geqrf` returns in factored form, as a matrix and as a factor.

Column i of a matrix holds, below its diagonal, a vector vᵢ (whose entry on the diagonal is 1, above it 0). It stands for
the reflection Hᵢ = I − τᵢ vᵢ vᵢᴴ, and the matrix for Q = H₁ H₂ … Hₖ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow._src.rules.factor import adjoint, cell, column, identity
from undertow._src.rules.rule import op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace


def reflector(xp: Namespace, input: Array, place: int) -> Array:
    """vᵢ as a column."""
    rows, last = input.shape[-2], input.ndim - 2
    below = xp.slice_along(xp.select(input, input.ndim - 1, place), last, place + 1, rows, 1)
    vector = xp.pad(below, (*((0, 0),) * last, (place + 1, 0)), 0)
    return column(xp, vector + xp.select(identity(xp, rows, xp.dtype_of(input)), 0, place))


def reflect(xp: Namespace, x: Array, vector: Array, weight: Array) -> Array:
    """(I − weight · v vᴴ) x."""
    return x - cell(xp, weight) * vector * xp.matmul(adjoint(xp, vector), x)


def in_order(xp: Namespace, input: Array, tau: Array, conjugated: bool) -> list[tuple[int, Any, Any]]:
    """Yield (position, vector, weight) of the reflections in the order in which Q, or Qᴴ, applies them."""
    steps = [
        (place, reflector(xp, input, place), xp.select(tau, tau.ndim - 1, place)) for place in range(tau.shape[-1])
    ]
    return [(place, v, xp.conj(weight)) for place, v, weight in steps] if conjugated else steps[::-1]


def reflected(xp: Namespace, input: Array, tau: Array, x: Array, conjugated: bool) -> Array:
    """Q x, or Qᴴ x."""
    for _, vector, weight in in_order(xp, input, tau, conjugated):
        x = reflect(xp, x, vector, weight)
    return x


def gradients(xp: Namespace, g: Array, input: Array, tau: Array, x: Array, conjugated: bool) -> tuple[Any, Any, Any]:
    """Return the gradients of Q x (or Qᴴ x) by the matrix, tau and x, one reflection at a time from the last."""
    steps = in_order(xp, input, tau, conjugated)
    states = []
    for _, vector, weight in steps:
        states.append(x)
        x = reflect(xp, x, vector, weight)
    vectors, weights = {}, {}
    for (place, vector, weight), state in zip(reversed(steps), reversed(states), strict=True):
        forward = xp.matmul(g, xp.matmul(adjoint(xp, state), vector))  # M v with M = g · stateᴴ
        back = xp.matmul(state, xp.matmul(adjoint(xp, g), vector))  # Mᴴ v
        slope = -xp.squeeze(xp.matmul(adjoint(xp, vector), forward), (vector.ndim - 2, vector.ndim - 1))
        weights[place] = xp.conj(slope) if conjugated else slope
        of_vector = -(cell(xp, xp.conj(weight)) * forward + cell(xp, weight) * back)
        vectors[place] = xp.squeeze(of_vector, (vector.ndim - 1,))
        g = reflect(xp, g, vector, xp.conj(weight))
    count, columns = tau.shape[-1], input.shape[-1]
    if not count:
        return xp.zeros_like(input), xp.zeros_like(tau), g
    of_input = xp.tril(xp.stack([vectors[place] for place in range(count)], input.ndim - 1), -1)
    of_input = xp.pad(of_input, (*((0, 0),) * (input.ndim - 1), (0, columns - count)), 0)
    return of_input, xp.stack([weights[place] for place in range(count)], tau.ndim - 1), g


def first_columns(xp: Namespace, input: Array) -> Array:
    """Return the columns of the identity that Q is applied to, a copy for each matrix of a stack."""
    eye = xp.constant(xp.eye(input.shape[-2:], xp.dtype_of(input)))
    return xp.broadcast_to(eye, input.shape)


def sided(xp: Namespace, x: Array, left: bool) -> Array:
    """Compute X Q as (Qᴴ Xᴴ)ᴴ: an operand on the left is transposed before and after."""
    return x if left else adjoint(xp, x)


def ormqr_gradients(
    xp: Namespace, g: Array, needs: tuple[bool, ...], self: Array, input2: Array, input3: Array, left: bool,
    transpose: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    conjugated = transpose if left else not transpose
    of_self, of_tau, of_other = gradients(xp, sided(xp, g, left), self, input2, sided(xp, input3, left), conjugated)
    return of_self, of_tau, sided(xp, of_other, left)


linalg_householder_product = op(
    "linalg_householder_product",
    lambda xp, input, tau: reflected(xp, input, tau, first_columns(xp, input), False),
    promote="same",
    holomorphic=False,
    joint=lambda xp, g, needs, input, tau: gradients(xp, g, input, tau, first_columns(xp, input), False)[:2],
)

ormqr = op(
    "ormqr",
    lambda xp, self, input2, input3, *, left, transpose: sided(
        xp, reflected(xp, self, input2, sided(xp, input3, left), transpose if left else not transpose), left
    ),
    promote="same",
    holomorphic=False,
    joint=ormqr_gradients,
)
