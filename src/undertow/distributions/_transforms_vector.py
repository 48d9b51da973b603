"""Transforms of vectors and matrices, and of parts of a tensor side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from undertow.distributions import _functions as torch
from undertow.distributions import constraints
from undertow.distributions._transform_base import Transform
from undertow.distributions._transforms_elementwise import clipped_sigmoid
from undertow.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix
from undertow.ops.pad import pad


class CorrCholeskyTransform(Transform):
    """A vector of length D (D-1) / 2 as the Cholesky factor of a correlation matrix.

    Each number goes through tanh and is taken as a partial correlation; the rows are then built by stick breaking.
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Any) -> Any:
        eps = torch.finfo(x.dtype).eps
        r = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        rest = (1 - r**2).sqrt().cumprod(-1)
        r = r + torch.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * pad(rest[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        rest = 1 - (y * y).cumsum(dim=-1)
        shifted = tril_matrix_to_vec(pad(rest[..., :-1], [1, 0], value=1), diag=-1)
        t = tril_matrix_to_vec(y, diag=-1) / shifted.sqrt()
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Any, y: Any, intermediates: Any = None) -> Any:
        rest = 1 - (y * y).cumsum(dim=-1)
        from_rows = 0.5 * tril_matrix_to_vec(rest, diag=-2).log().sum(-1)
        from_tanh = -2 * (x + torch.softplus(-2 * x) - 0.6931471805599453).sum(dim=-1)
        return from_rows + from_tanh

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        count = shape[-1]
        size = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return shape[:-1] + (size, size)

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return shape[:-2] + (shape[-1] * (shape[-1] - 1) // 2,)


class SoftmaxTransform(Transform):
    """exp(x), normalised. Not one to one: `inv` gives the logarithm."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxTransform)

    __hash__ = object.__hash__

    def _call(self, x: Any) -> Any:
        probs = (x - x.max(-1, True)[0]).exp()
        return probs / probs.sum(-1, True)

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(Transform):
    """A vector as a point of the simplex of one more dim: each number says how much of what is left to break off."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StickBreakingTransform)

    __hash__ = object.__hash__

    def _call(self, x: Any) -> Any:
        z = clipped_sigmoid(x - _offset(x).log())
        left = (1 - z).cumprod(-1)
        return pad(z, [0, 1], value=1) * pad(left, [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        cropped = y[..., :-1]
        left = (1 - cropped.cumsum(-1)).clamp(min=torch.finfo(y.dtype).tiny)
        return cropped.log() - left.log() + _offset(cropped).log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        x = x - _offset(x).log()
        return (-x + _log_sigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape[:-1] + (shape[-1] - 1,)


def _offset(x: Any) -> Any:
    """How many pieces each break leaves: n, n - 1, … 1."""
    return x.shape[-1] + 1 - x.new_ones(x.shape[-1]).cumsum(-1)


def _log_sigmoid(x: Any) -> Any:
    return -torch.softplus(-x, threshold=1000.0)


class LowerCholeskyTransform(Transform):
    """Any square matrix as a Cholesky factor: its lower triangle, with exp on the diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LowerCholeskyTransform)

    __hash__ = object.__hash__

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """Any square matrix as a positive definite one, through its Cholesky factor."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositiveDefiniteTransform)

    __hash__ = object.__hash__

    def _call(self, x: Any) -> Any:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform().inv(torch.cholesky(y))


class CatTransform(Transform):
    """Transforms of consecutive parts along a dim."""

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        if cache_size:
            tseq = [each.with_cache(cache_size) for each in tseq]
        super().__init__(cache_size=cache_size)
        self.transforms = list(tseq)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        self.dim = dim

    @property
    def event_dim(self) -> int:
        return max(each.event_dim for each in self.transforms)

    @property
    def length(self) -> int:
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, value: Any) -> list[Any]:
        if value.size(self.dim) != self.length:
            raise ValueError(f"value must have length {self.length} along dim {self.dim}, got {value.size(self.dim)}")
        return list(value.split(self.lengths, self.dim))

    def _call(self, x: Any) -> Any:
        return torch.cat([each(part) for each, part in zip(self.transforms, self._parts(x), strict=True)], dim=self.dim)

    def _inverse(self, y: Any) -> Any:
        return torch.cat([each.inv(part) for each, part in zip(self.transforms, self._parts(y), strict=True)], dim=self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        terms = []
        for each, before, after in zip(self.transforms, self._parts(x), self._parts(y), strict=True):
            term = each.log_abs_det_jacobian(before, after)
            if each.event_dim < self.event_dim:
                extra = self.event_dim - each.event_dim
                term = term.reshape((*term.shape[:-extra], -1)).sum(-1)
            terms.append(term)
        dim = self.dim if self.dim < 0 else self.dim - x.dim()
        dim = dim + self.event_dim
        if dim < 0:
            return torch.cat(terms, dim=dim)
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(each.bijective for each in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.cat([each.domain for each in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.cat([each.codomain for each in self.transforms], self.dim, self.lengths)


class StackTransform(Transform):
    """Transforms of the slices along a dim."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        if cache_size:
            tseq = [each.with_cache(cache_size) for each in tseq]
        super().__init__(cache_size=cache_size)
        self.transforms = list(tseq)
        self.dim = dim

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _slices(self, value: Any) -> list[Any]:
        if value.size(self.dim) != len(self.transforms):
            raise ValueError(f"value must have length {len(self.transforms)} along dim {self.dim}")
        return [value.select(self.dim, place) for place in range(value.size(self.dim))]

    def _call(self, x: Any) -> Any:
        return torch.stack([each(part) for each, part in zip(self.transforms, self._slices(x), strict=True)], self.dim)

    def _inverse(self, y: Any) -> Any:
        return torch.stack([each.inv(part) for each, part in zip(self.transforms, self._slices(y), strict=True)], self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        rows = zip(self.transforms, self._slices(x), self._slices(y), strict=True)
        return torch.stack([each.log_abs_det_jacobian(before, after) for each, before, after in rows], self.dim)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(each.bijective for each in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.stack([each.domain for each in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.stack([each.codomain for each in self.transforms], self.dim)
