"""Products of vectors and matrices.

`flipped` says which operands are transposed in memory: their gradients get the same layout, so that a weight's gradient
has the weight's strides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow._src.rules.rule import op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace


def transposed(xp: Namespace, x: Array) -> Array:
    """Exchange rows and columns of matrices."""
    return xp.swapaxes(x, -2, -1)


def left_gradient(xp: Namespace, g: Array, right: Array, flipped: bool) -> Array:
    """Return the gradient of x in x @ right, all of them matrices."""
    if flipped:
        return xp.transpose(xp.matmul(right, xp.transpose(g)))
    return xp.matmul(g, xp.transpose(right))


def right_gradient(xp: Namespace, g: Array, left: Array, flipped: bool) -> Array:
    """Return the gradient of x in left @ x, all of them matrices."""
    if flipped:
        return xp.transpose(xp.matmul(xp.transpose(g), left))
    return xp.matmul(xp.transpose(left), g)


def left_gradients(xp: Namespace, g: Array, right: Array, flipped: bool) -> Array:
    """Return the gradient of x in x @ right, stacks of matrices."""
    if flipped:
        return transposed(xp, xp.matmul(right, transposed(xp, g)))
    return xp.matmul(g, transposed(xp, right))


def right_gradients(xp: Namespace, g: Array, left: Array, flipped: bool) -> Array:
    """Return the gradient of x in left @ x, stacks of matrices."""
    if flipped:
        return transposed(xp, xp.matmul(transposed(xp, g), left))
    return xp.matmul(transposed(xp, left), g)


def scaled(x: Array, factor: Any) -> Array:
    """Return x times a factor, which is mostly 1."""
    return x if factor == 1 else x * factor


# --- products

mm = op("mm", lambda xp, self, mat2, *, flipped: xp.matmul(self, mat2), promote="same", half=True,
        self=lambda xp, g, mat2, flipped: left_gradient(xp, g, mat2, flipped[0]),
        mat2=lambda xp, g, self, flipped: right_gradient(xp, g, self, flipped[1]))  # fmt: skip

bmm = op("bmm", lambda xp, self, mat2, *, flipped: xp.matmul(self, mat2), promote="same", half=True,
         self=lambda xp, g, mat2, flipped: left_gradients(xp, g, mat2, flipped[0]),
         mat2=lambda xp, g, self, flipped: right_gradients(xp, g, self, flipped[1]))  # fmt: skip

mv = op("mv", lambda xp, self, vec: xp.matmul(self, vec), promote="same",
        self=lambda xp, g, vec: xp.expand_dims(g, 1) * vec,
        vec=lambda xp, g, self: xp.matmul(transposed(xp, self), g))  # fmt: skip

dot = op("dot", lambda xp, self, tensor: xp.matmul(self, tensor), promote="same",
         self=lambda g, tensor: g * tensor,
         tensor=lambda g, self: g * self)  # fmt: skip

vdot = op("vdot", lambda xp, self, other: xp.matmul(xp.conj(self), other), promote="same", holomorphic=False,
          self=lambda xp, g, other: xp.conj(g) * other,
          other=lambda g, self: g * self)  # fmt: skip

# Any two stacks of matrices, broadcast: what gradients of the decompositions are made of.
product = op("matmul", lambda xp, self, other: xp.matmul(self, other), promote="same", half=True,
             self=lambda xp, g, other, self_spec: xp.sum_to_shape(
                 xp.matmul(g, transposed(xp, other)), self_spec.shape),
             other=lambda xp, g, self, other_spec: xp.sum_to_shape(
                 xp.matmul(transposed(xp, self), g), other_spec.shape))  # fmt: skip

# --- products with a summand: beta self + alpha product

addmm = op("addmm", lambda xp, self, mat1, mat2, *, beta, alpha, flipped: xp.addmm(self, mat1, mat2, beta, alpha),
           promote="same", half=True,
           self=lambda xp, g, self_spec, beta: scaled(xp.sum_to_shape(g, self_spec.shape), beta),
           mat1=lambda xp, g, mat2, alpha, flipped: scaled(left_gradient(xp, g, mat2, flipped[0]), alpha),
           mat2=lambda xp, g, mat1, alpha, flipped: scaled(
               right_gradient(xp, g, mat1, flipped[1]), alpha))  # fmt: skip

baddbmm = op("baddbmm", lambda xp, self, batch1, batch2, *, beta, alpha: xp.addmm(self, batch1, batch2, beta, alpha),
             promote="same", half=True,
             self=lambda xp, g, self_spec, beta: scaled(xp.sum_to_shape(g, self_spec.shape), beta),
             batch1=lambda xp, g, batch2, alpha: scaled(left_gradients(xp, g, batch2, False), alpha),
             batch2=lambda xp, g, batch1, alpha: scaled(right_gradients(xp, g, batch1, False), alpha))  # fmt: skip


def side_by_side(xp: Namespace, batch: Array) -> Array:
    """Return a stack of matrices as one wide matrix."""
    count, rows, columns = batch.shape
    return xp.reshape(xp.transpose(batch, (1, 0, 2)), (rows, count * columns))


def on_top(xp: Namespace, batch: Array) -> Array:
    """Return a stack of matrices as one tall matrix."""
    count, rows, columns = batch.shape
    return xp.reshape(batch, (count * rows, columns))


addbmm = op("addbmm", lambda xp, self, batch1, batch2, *, beta, alpha: xp.addmm(
                self, side_by_side(xp, batch1), on_top(xp, batch2), beta, alpha),
            promote="same",
            self=lambda xp, g, self_spec, beta: scaled(xp.sum_to_shape(g, self_spec.shape), beta),
            batch1=lambda xp, g, batch2, alpha: scaled(xp.matmul(g, transposed(xp, batch2)), alpha),
            batch2=lambda xp, g, batch1, alpha: scaled(xp.matmul(transposed(xp, batch1), g), alpha))  # fmt: skip

addmv = op("addmv", lambda xp, self, mat, vec, *, beta, alpha: xp.addmm(self, mat, vec, beta, alpha), promote="same",
           self=lambda xp, g, self_spec, beta: scaled(xp.sum_to_shape(g, self_spec.shape), beta),
           mat=lambda xp, g, vec, alpha: scaled(xp.expand_dims(g, 1) * vec, alpha),
           vec=lambda xp, g, mat, alpha: scaled(xp.matmul(transposed(xp, mat), g), alpha))  # fmt: skip

addr = op("addr", lambda xp, self, vec1, vec2, *, beta, alpha: xp.addmm(
              self, xp.expand_dims(vec1, 1), xp.expand_dims(vec2, 0), beta, alpha),
          promote="same",
          self=lambda xp, g, self_spec, beta: scaled(xp.sum_to_shape(g, self_spec.shape), beta),
          vec1=lambda xp, g, vec2, alpha: scaled(xp.matmul(g, vec2), alpha),
          vec2=lambda xp, g, vec1, alpha: scaled(xp.matmul(transposed(xp, g), vec1), alpha))  # fmt: skip

# --- others

trace = op("trace", lambda xp, self: xp.sum(xp.diagonal(self)), promote="same",
           self=lambda xp, g, self_spec: g * xp.constant(xp.eye(self_spec.shape, self_spec.dtype)))  # fmt: skip

linalg_cross = op("linalg_cross", lambda xp, self, other, *, dim: xp.cross(self, other, dim), promote="numeric",
                  rows=True,
                  self=lambda xp, g, other, dim: xp.cross(other, g, dim),
                  other=lambda xp, g, self, dim: xp.cross(g, self, dim))  # fmt: skip
