"""Vector norms and distances: Σ|x|ᵖ to the power 1/p, and the cases p = 0, ±inf."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from undertow._src.rules.elementwise import no_derivative
from undertow._src.rules.reduce import Dims, share, unfold
from undertow._src.rules.rule import op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace


def vector_norm(xp: Namespace, x: Array, ord: float, dim: Dims, keepdim: bool) -> Array:
    """Return (Σ |x|ᵖ)^(1/p) for p = `ord`: the maximum for inf, the minimum for −inf, the count of nonzeros for 0."""
    if ord == 2:
        return xp.sqrt(xp.sum_of_squares(x, axis=dim, keepdims=keepdim))
    size = xp.abs(x)
    if ord == inf:
        return xp.max(size, axis=dim, keepdims=keepdim)
    if ord == -inf:
        return xp.min(size, axis=dim, keepdims=keepdim)
    if ord == 1:
        return xp.sum(size, axis=dim, keepdims=keepdim)
    if ord == 0:
        return xp.astype(xp.sum(x != 0, axis=dim, keepdims=keepdim), xp.dtype_of(size))
    return xp.sum(size**ord, axis=dim, keepdims=keepdim) ** (1.0 / ord)


def vector_norm_gradient(
    xp: Namespace, g: Array, self: Array, result: Array, ord: float, dim: Dims, keepdim: bool
) -> Array | None:
    """Return g sgn(x) (|x| / norm)^(p−1): 0 where the norm is, and split among equals for p = ±inf."""
    if ord == 0:
        return None
    g = unfold(xp, g, self.ndim, dim, keepdim)
    norm = unfold(xp, result, self.ndim, dim, keepdim)
    if ord == 1:
        return xp.sgn(self) * g
    if ord in (inf, -inf):
        return xp.sgn(self) * share(xp, g, xp.abs(self) == norm, dim)
    nothing = norm == 0
    if ord == 2:  # whose own derivative is NaN at 0, as in PyTorch, and so below 1
        return g * xp.where(nothing, xp.zeros_like(self), self / norm)
    solid = xp.where(nothing, xp.ones_like(norm), norm)
    size = xp.abs(self)
    if ord < 1:
        direction = xp.where(self == 0, xp.zeros_like(self), xp.sgn(self) * size ** (ord - 1))
        return direction * g * norm ** (1 - ord)
    scale = xp.where(nothing, xp.zeros_like(g), g / solid ** (ord - 1))
    if ord < 2:
        return xp.sgn(self) * size ** (ord - 1) * scale
    return self * size ** (ord - 2) * scale


linalg_vector_norm = op(
    "linalg_vector_norm", lambda xp, self, *, ord, dim, keepdim: vector_norm(xp, self, ord, dim, keepdim),
    promote="same", holomorphic=False, self=vector_norm_gradient)  # fmt: skip

# The norm that `renorm`, `pairwise_distance` and others record under a different name.
norm = op("norm", lambda xp, self, *, ord, dim, keepdim: vector_norm(xp, self, ord, dim, keepdim),
          promote="same", holomorphic=False, node="NormBackward1", self=vector_norm_gradient)  # fmt: skip


def dist_gradient(xp: Namespace, g: Array, self: Array, other: Array, result: Array, p: float) -> Array | None:
    """Return the gradient of the norm of self − other."""
    apart = self - other
    return vector_norm_gradient(xp, g, apart, result, p, tuple(range(apart.ndim)), False)


dist = op("dist", lambda xp, self, other, *, p: vector_norm(xp, self - other, p, None, False), promote="numeric",  # type: ignore[arg-type]
          holomorphic=False,
          self=dist_gradient,
          other=lambda xp, g, self, other, result, p: dist_gradient(xp, g, other, self, result, p))  # fmt: skip

cdist = op("cdist", lambda xp, x1, x2, *, p: xp.pair_distances(x1, x2, p), promote="same",
           joint=lambda xp, g, needs, x1, x2, result, p: tuple([
               slope if need else None
               for need, slope in zip(needs, xp.pair_distances_grad(g, x1, x2, result, p), strict=True)]))  # fmt: skip

# The gradient of cdist, which PyTorch does not differentiate any further.
cdist_backward = op("cdist_backward", lambda xp, grad, x1, x2, cdist, *, p: cdist_gradient(xp, grad, x1, x2, cdist, p),
                    promote="same", outputs=2, joint=no_derivative("_cdist_backward"))  # fmt: skip


def cdist_gradient(xp: Namespace, g: Array, x1: Array, x2: Array, result: Array, p: float) -> tuple[Any, Any]:
    """Return the gradient of every pair's distance, summed over the other side's rows."""
    if p == 0:
        return xp.zeros_like(x1), xp.zeros_like(x2)
    apart = xp.expand_dims(x1, x1.ndim - 1) - xp.expand_dims(x2, x2.ndim - 2)
    if p == inf:  # not split among equals here
        norm, pull = xp.expand_dims(result, result.ndim), xp.expand_dims(g, g.ndim)
        by_pair = xp.sgn(apart) * (xp.abs(apart) == norm) * pull
    else:
        by_pair = vector_norm_gradient(xp, g, apart, result, p, (apart.ndim - 1,), False)
    return (xp.sum_to_shape(xp.sum(by_pair, axis=by_pair.ndim - 2), x1.shape),
            -xp.sum_to_shape(xp.sum(by_pair, axis=by_pair.ndim - 3), x2.shape))  # fmt: skip


def renormed(xp: Namespace, self: Array, p: float, dim: int, maxnorm: float) -> Array:
    """Scale parts along a dim whose norm is above maxnorm down to it."""
    others = tuple([axis for axis in range(self.ndim) if axis != dim])
    norms = vector_norm(xp, self, p, others, True)
    factor = xp.where(norms > maxnorm, maxnorm / (norms + 1e-7), xp.ones_like(norms))
    return xp.in_rows(self * factor)


def renorm_gradient(xp: Namespace, g: Array, self: Array, p: float, dim: int, maxnorm: float) -> Array:
    """Return the gradient of maxnorm x / norm(x) where the norm is above maxnorm; elsewhere g itself."""
    others = tuple([axis for axis in range(self.ndim) if axis != dim])
    norms = vector_norm(xp, self, p, others, True)
    above = norms > maxnorm
    inverse = 1 / (norms + 1e-7)
    along = xp.sum(xp.real(g * xp.conj(self)), axis=others, keepdims=True)
    turned = vector_norm_gradient(xp, along, self, norms, p, others, True)
    return xp.where(above, maxnorm * inverse * (g - inverse * turned), g)


renorm = op("renorm", lambda xp, self, *, p, dim, maxnorm: renormed(xp, self, p, dim, maxnorm), promote="same",
            holomorphic=False, self=renorm_gradient)  # fmt: skip
