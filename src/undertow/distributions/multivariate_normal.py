"""The multivariate normal distribution."""

from __future__ import annotations

import math
from typing import Any

from undertow._src.types.sizes import Size
from undertow.distributions import _functions as torch
from undertow.distributions import constraints
from undertow.distributions.distribution import Distribution
from undertow.distributions.utils import lazy_property, standard_normal
from undertow.ops.stretch import broadcast_shapes
from undertow.ops.triangular import cholesky_inverse

__all__ = ["MultivariateNormal"]


def _batch_mv(bmat: Any, bvec: Any) -> Any:
    """Products of matrices and vectors, broadcast."""
    return torch.matmul(bmat, bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL: Any, bx: Any) -> Any:
    """The squared length of L⁻¹ x: the distance in units of the deviation, squared.

    bx may have more batch dims than bL, and longer ones; they are brought to the side, so that one triangular solve
    serves all vectors of a matrix.
    """
    n = bx.size(-1)
    batch = bx.shape[:-1]
    outer = len(batch) - (bL.dim() - 2)
    if outer < 0:
        bx, batch, outer = bx.expand((*bL.shape[:-2], n)), bL.shape[:-2], 0
    pairs: list[int] = []
    for wide, own in zip(batch[outer:], bL.shape[:-2], strict=True):
        pairs += [wide // own, own]
    count = len(batch) - outer
    split = bx.reshape((*batch[:outer], *pairs, n))
    order = [*range(outer), *range(outer, outer + 2 * count, 2), *range(outer + 1, outer + 2 * count, 2), outer + 2 * count]
    sides = split.permute(order)  # what shares a matrix, then the matrices, then the vector
    flat_L = bL.reshape(-1, n, n)
    flat_x = sides.reshape(-1, flat_L.size(0), n).permute(1, 2, 0)
    solved = torch.solve_triangular(flat_L, flat_x, upper=False).pow(2).sum(-2)
    back = solved.t().reshape(sides.shape[:-1])
    undo = list(range(outer))
    for place in range(count):
        undo += [outer + place, outer + count + place]
    return back.permute(undo).reshape(batch)


def _precision_to_scale_tril(P: Any) -> Any:
    """The Cholesky factor of an inverse, from the matrix itself."""
    flipped = torch.cholesky(P.flip((-2, -1)))
    inverse = flipped.flip((-2, -1)).transpose(-2, -1)
    return torch.solve_triangular(inverse, torch.eye(P.shape[-1], dtype=P.dtype, device=P.device), upper=False)


class ByCovariance(Distribution):
    """A distribution with a covariance, which one of three matrices gives; the others are worked out of it."""

    _unbroadcasted_scale_tril: Any

    def _full(self, matrix: Any) -> Any:
        """A matrix for every distribution of the batch."""
        raise NotImplementedError

    @lazy_property
    def scale_tril(self) -> Any:
        """The Cholesky factor of the covariance."""
        return self._full(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Any:
        return self._full(torch.matmul(self._unbroadcasted_scale_tril, self._unbroadcasted_scale_tril.mT))

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        return self._full(cholesky_inverse(self._unbroadcasted_scale_tril))


class MultivariateNormal(ByCovariance):
    """Normal vectors with mean `loc`, and one of covariance_matrix, precision_matrix or scale_tril (a Cholesky factor).

    >>> torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2)).log_prob(torch.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {"scale_tril": scale_tril, "covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix}
        if sum(value is not None for value in given.values()) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        name, matrix = next((name, value) for name, value in given.items() if value is not None)
        if matrix.dim() < 2:
            shown = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(f"{shown} must be at least two-dimensional, with optional leading batch dimensions")
        batch_shape = broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand((*batch_shape, -1, -1)))
        self.loc = loc.expand((*batch_shape, -1))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        if scale_tril is not None:
            self._unbroadcasted_scale_tril = scale_tril
        elif covariance_matrix is not None:
            self._unbroadcasted_scale_tril = torch.cholesky(covariance_matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(precision_matrix)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(MultivariateNormal, _instance)
        batch_shape = Size(batch_shape)
        new.loc = self.loc.expand(batch_shape + self.event_shape)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        for name in ("covariance_matrix", "scale_tril", "precision_matrix"):
            if name in self.__dict__:
                setattr(new, name, self.__dict__[name].expand(batch_shape + self.event_shape + self.event_shape))
        super(MultivariateNormal, new).__init__(batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _full(self, matrix: Any) -> Any:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        eps = standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, eps)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        half_log_det = self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - half_log_det

    def entropy(self) -> Any:
        half_log_det = self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        entropy = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + half_log_det
        return entropy if len(self._batch_shape) == 0 else entropy.expand(self._batch_shape)
