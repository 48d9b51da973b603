"""Transforms of vectors and matrices, and of the parts of a tensor."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from undertow._src.ops.pad import pad
from undertow.distributions import _functions as torch
from undertow.distributions import constraints
from undertow.distributions._transform_base import Transform, need_dims
from undertow.distributions._transforms_elementwise import TanhTransform, clipped_sigmoid
from undertow.distributions.utils import _sum_rightmost, lazy_property, tril_matrix_to_vec, vec_to_tril_matrix


def _shifted(rows: Any) -> Any:
    """Return rows shifted by one to the right, with a 1 in front."""
    return pad(rows, [1, -1], value=1)


class CorrCholeskyTransform(Transform):
    """Maps a vector of length D (D-1) / 2 to the Cholesky factor of a correlation matrix.

    tanh of each number is a partial correlation; the rows are built from these by stick breaking.
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Any) -> Any:
        bound = 1 - torch.finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(min=-bound, max=bound), diag=-1)
        left = _shifted((1 - partial**2).sqrt()).cumprod(-1)  # of a row's length, at each column
        return left * (partial + torch.eye(partial.shape[-1], dtype=x.dtype, device=x.device))

    def _inverse(self, y: Any) -> Any:
        left = tril_matrix_to_vec(_shifted(1 - (y * y).cumsum(dim=-1)), diag=-1).sqrt()
        t = tril_matrix_to_vec(y, diag=-1) / left
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Any, y: Any, intermediates: Any = None) -> Any:
        left = tril_matrix_to_vec(1 - (y * y).cumsum(dim=-1), diag=-2)
        return TanhTransform().log_abs_det_jacobian(x, y).sum(-1) + 0.5 * left.log().sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        need_dims(shape, 1)
        size = (1 + math.isqrt(1 + 8 * shape[-1])) // 2
        if math.comb(size, 2) != shape[-1]:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return shape[:-1] + (size, size)

    def inverse_shape(self, shape: Any) -> Any:
        need_dims(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return shape[:-2] + (math.comb(shape[-1], 2),)


class SoftmaxTransform(Transform):
    """exp(x), normalized. Not bijective: `inv` returns the logarithm."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    _compared = ()

    def _call(self, x: Any) -> Any:
        probs = (x - x.max(-1, True)[0]).exp()
        return probs / probs.sum(-1, True)

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        need_dims(shape, 1)
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(Transform):
    """Maps a vector to a point of the simplex with one more dim: each number sets the fraction of the rest to take."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True
    _compared = ()

    def _call(self, x: Any) -> Any:
        z = clipped_sigmoid(x - _log_pieces(x))
        return pad(z, [0, 1], value=1) * pad((1 - z).cumprod(-1), [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        broken = y[..., :-1]
        left = (1 - broken.cumsum(-1)).clamp(min=torch.finfo(y.dtype).tiny)
        return broken.log() - left.log() + _log_pieces(broken)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        odds = x - _log_pieces(x)
        return (y[..., :-1].log() - odds - torch.softplus(-odds, threshold=1000.0)).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        need_dims(shape, 1)
        return shape[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape: Any) -> Any:
        need_dims(shape, 1)
        return shape[:-1] + (shape[-1] - 1,)


def _log_pieces(x: Any) -> Any:
    """Return the logarithm of the number of remaining pieces at each break: n, n - 1, … 1."""
    return (x.shape[-1] + 1 - x.new_ones(x.shape[-1]).cumsum(-1)).log()


def _on_diagonal(matrix: Any, function: Callable[[Any], Any]) -> Any:
    """Return the lower triangles of matrices, with a function applied to the diagonal."""
    return matrix.tril(-1) + function(matrix.diagonal(dim1=-2, dim2=-1)).diag_embed()


class LowerCholeskyTransform(Transform):
    """Maps a square matrix to a Cholesky factor: its lower triangle, with exp on the diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky
    _compared = ()

    def _call(self, x: Any) -> Any:
        return _on_diagonal(x, operator.methodcaller("exp"))

    def _inverse(self, y: Any) -> Any:
        return _on_diagonal(y, operator.methodcaller("log"))


class PositiveDefiniteTransform(Transform):
    """Maps a square matrix to a positive definite one, through its Cholesky factor."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite
    _compared = ()

    def _call(self, x: Any) -> Any:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform().inv(torch.cholesky(y))


class _SideBySide(Transform):
    """Transforms of the parts of a tensor along a dim."""

    _join: Callable[..., Any]

    def _set(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        are_transforms = all(isinstance(each, Transform) for each in tseq)
        torch.insist(are_transforms, "All elements of tseq must be Transform instances")
        self.transforms = [each.with_cache(cache_size) for each in tseq] if cache_size else list(tseq)
        self.dim = dim

    def _length(self) -> tuple[str, int]:
        """Return the required length along the dim, and PyTorch's name for it."""
        raise NotImplementedError

    def _split(self, value: Any) -> Sequence[Any]:
        """Return the part of each transform."""
        raise NotImplementedError

    def _parts(self, value: Any, name: str, shown: str) -> Sequence[Any]:
        torch.insist_on_dim(value, self.dim, shown)
        (called, length), size = self._length(), value.size(self.dim)
        torch.insist(size == length, f"{name}.size({self.dim}) = {size} must equal {called} {length}")
        return self._split(value)

    bijective = torch.formula(lambda self: all(each.bijective for each in self.transforms))

    def _call(self, x: Any) -> Any:
        parts = zip(self.transforms, self._parts(x, "x", "tensor"), strict=True)
        return self._join([each(part) for each, part in parts], self.dim)

    def _inverse(self, y: Any) -> Any:
        parts = zip(self.transforms, self._parts(y, "y", "tensor"), strict=True)
        return self._join([each.inv(part) for each, part in parts], self.dim)

    def _log_jacobians(self, x: Any, y: Any) -> list[Any]:
        rows = zip(self.transforms, self._parts(x, "x", "x"), self._parts(y, "y", "y"), strict=True)
        return [each.log_abs_det_jacobian(before, after) for each, before, after in rows]


class CatTransform(_SideBySide):
    """Transforms of consecutive parts along a dim."""

    _arguments = ("transforms", "dim", "lengths")
    _join = staticmethod(torch.cat)

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        self._set(tseq, dim, cache_size)
        super().__init__(cache_size=cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        count, given = len(self.transforms), len(self.lengths)
        torch.insist(given == count, f"lengths ({given}) must match transforms ({count})")

    @lazy_property
    def event_dim(self) -> int:
        return max(each.event_dim for each in self.transforms)

    @lazy_property
    def length(self) -> int:
        return sum(self.lengths)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.cat([each.domain for each in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.cat([each.codomain for each in self.transforms], self.dim, self.lengths)

    def _length(self) -> tuple[str, int]:
        return "length", self.length

    def _split(self, value: Any) -> Sequence[Any]:
        return value.split(self.lengths, self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        terms = [
            _sum_rightmost(term, self.event_dim - each.event_dim)
            for each, term in zip(self.transforms, self._log_jacobians(x, y), strict=True)
        ]
        dim = (self.dim if self.dim < 0 else self.dim - x.dim()) + self.event_dim
        return torch.cat(terms, dim) if dim < 0 else functools.reduce(operator.add, terms)


class StackTransform(_SideBySide):
    """Transforms of the slices along a dim."""

    _arguments = ("transforms", "dim")
    _join = staticmethod(torch.stack)

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        self._set(tseq, dim, cache_size)
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.stack([each.domain for each in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.stack([each.codomain for each in self.transforms], self.dim)

    def _length(self) -> tuple[str, int]:
        return "len(transforms)", len(self.transforms)

    def _split(self, value: Any) -> Sequence[Any]:
        return value.unbind(self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return torch.stack(self._log_jacobians(x, y), self.dim)
