"""The multivariate normal distribution."""

from __future__ import annotations

import math
from typing import Any

from undertow.distributions._family import Distribution, constraints, lazy_property, torch, validated

__all__ = ["MultivariateNormal"]


def _batch_mv(bmat: torch.Tensor, bvec: torch.Tensor) -> torch.Tensor:
    """Return the batched products of matrices and vectors."""
    return torch.matmul(bmat, bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL: torch.Tensor, bx: torch.Tensor) -> torch.Tensor:
    """Return the squared Mahalanobis distance |L⁻¹ x|².

    bx may have more and larger batch dims than bL. These are moved aside, so that one triangular solve handles all
    vectors of a matrix.
    """
    own, n = bL.shape[:-2], bx.shape[-1]
    if bx.dim() - 1 < len(own):
        bx = bx.expand((*own, n))
    batch, outer = bx.shape[:-1], bx.dim() - 1 - len(own)
    # Split each dim that they share into (vectors of one matrix, matrices), then gather the former in front.
    pairs = [size for wide, narrow in zip(batch[outer:], own, strict=True) for size in (wide // narrow, narrow)]
    split = bx.reshape((*batch[:outer], *pairs, n))
    front = [*range(outer), *range(outer, split.dim() - 1, 2)]
    order = [*front, *range(outer + 1, split.dim() - 1, 2)]
    sides = split.permute(*order, -1)
    factors = bL.reshape(-1, n, n)
    columns = sides.reshape(-1, len(factors), n).permute(1, 2, 0)
    squares = torch.solve_triangular(factors, columns, upper=False).pow(2).sum(-2)
    back = sorted(range(len(order)), key=order.__getitem__)
    return squares.t().reshape(sides.shape[:-1]).permute(back).reshape(batch)


def _batch_trace_XXT(bmat: torch.Tensor) -> torch.Tensor:
    """Return the trace of X Xᵀ for each matrix of a batch."""
    return bmat.square().sum((-2, -1))


def _precision_to_scale_tril(P: torch.Tensor) -> torch.Tensor:
    """Return the Cholesky factor of a matrix's inverse."""
    flipped = torch.cholesky(P.flip((-2, -1)))
    inverse = flipped.flip((-2, -1)).transpose(-2, -1)
    return torch.solve_triangular(inverse, torch.eye(P.shape[-1], dtype=P.dtype, device=P.device), upper=False)


_FACTORS = {
    "scale_tril": lambda m: m,
    "covariance_matrix": torch.cholesky,
    "precision_matrix": _precision_to_scale_tril,
}


class ByCovariance(Distribution):
    """A distribution with a covariance given by one of three matrices; the others are computed on first use."""

    _batch_attributes: tuple[str, ...] = ("covariance_matrix", "precision_matrix", "scale_tril")
    _shared_attributes = ("_unbroadcasted_scale_tril",)
    _unbroadcasted_scale_tril: Any

    def _set_matrix(self, matrix: torch.Tensor, name: str, parameter_shape: torch.Shape) -> torch.Size:
        """Set the given matrix, and return its batch shape broadcast with that of another parameter."""
        batch_shape = torch.broadcast_shapes(matrix.shape[:-2], parameter_shape)
        setattr(self, name, matrix.expand((*batch_shape, -1, -1)))
        return torch.Size(batch_shape)

    def _full(self, matrix: torch.Tensor) -> torch.Tensor:
        """Return a matrix for every distribution of the batch."""
        return matrix.expand((*self._batch_shape, -1, -1))

    def _half_log_det(self) -> torch.Tensor:
        """Return half of the covariance's log determinant."""
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    @lazy_property
    def scale_tril(self) -> torch.Tensor:
        """Return the Cholesky factor of the covariance."""
        return self._full(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> torch.Tensor:
        return self._full(torch.matmul(self._unbroadcasted_scale_tril, self._unbroadcasted_scale_tril.mT))

    @lazy_property
    def precision_matrix(self) -> torch.Tensor:
        """Return the inverse of the covariance."""
        return self._full(torch.cholesky_inverse(self._unbroadcasted_scale_tril))


def only_matrix(error: type[Exception], **matrices: Any) -> tuple[str, Any]:
    """Return the name and the value of the one matrix that is given."""
    given = [(name, matrix) for name, matrix in matrices.items() if matrix is not None]
    if len(given) != 1:
        raise error("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
    return given[0]


class Gaussian(Distribution):
    """Normal vectors with mean `loc`, and a covariance Σ that each subclass stores in its own form."""

    support = constraints.real_vector
    has_rsample = True
    _batch_attributes: tuple[str, ...] = ("loc",)
    mean = mode = torch.alias("loc")

    def _log_det(self) -> torch.Tensor:
        """Return log |Σ|."""
        raise NotImplementedError

    def _distance(self, x: torch.Tensor) -> torch.Tensor:
        """Return xᵀ Σ⁻¹ x."""
        raise NotImplementedError

    def _covariance_factors(self) -> list[tuple[torch.Tensor, bool]]:
        """Return matrices F whose F Fᵀ add up to Σ; a diagonal one as a vector, with True."""
        raise NotImplementedError

    def _whitened_squares(self, factor: torch.Tensor, is_diagonal: bool) -> torch.Tensor:
        """Return the trace of Σ⁻¹ F Fᵀ."""
        raise NotImplementedError

    def _with_volume(self, half_width: float, squared_distance: torch.Tensor | float) -> torch.Tensor:
        """Return `half_width` times (n log 2π + log |Σ| + the squared distance from the mean)."""
        return half_width * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + squared_distance)

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        return self._with_volume(-0.5, self._distance(value - self.loc))

    def entropy(self) -> torch.Tensor:
        entropy = self._with_volume(0.5, self._event_shape[0])
        return entropy.expand(self._batch_shape) if self._batch_shape else entropy


class MultivariateNormal(Gaussian, ByCovariance):
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
    _batch_attributes = ()

    def __init__(
        self, loc: torch.Tensor, covariance_matrix: torch.Tensor | None = None,
        precision_matrix: torch.Tensor | None = None, scale_tril: torch.Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = only_matrix(
            ValueError, scale_tril=scale_tril, covariance_matrix=covariance_matrix, precision_matrix=precision_matrix
        )
        if matrix.dim() < 2:
            shown = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(f"{shown} must be at least two-dimensional, with optional leading batch dimensions")
        batch_shape = self._set_matrix(matrix, name, loc.shape[:-1])
        self.loc = loc.expand((*batch_shape, -1))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = _FACTORS[name](matrix)

    @property
    def variance(self) -> torch.Tensor:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        eps = torch.normal_as(self.loc, self._extended_shape(sample_shape))
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, eps)

    def _log_det(self) -> torch.Tensor:
        return 2 * self._half_log_det()

    def _with_volume(self, half_width: float, squared_distance: torch.Tensor | float) -> torch.Tensor:
        around = half_width * (self._event_shape[0] * math.log(2 * math.pi) + squared_distance)
        return around + self._half_log_det() if half_width > 0 else around - self._half_log_det()

    def _distance(self, x: torch.Tensor) -> torch.Tensor:
        return _batch_mahalanobis(self._unbroadcasted_scale_tril, x)

    def _covariance_factors(self) -> list[tuple[torch.Tensor, bool]]:
        return [(self._unbroadcasted_scale_tril, False)]

    def _whitened_squares(self, factor: torch.Tensor, is_diagonal: bool) -> torch.Tensor:
        matrix = factor.diag_embed() if is_diagonal else factor
        return _batch_trace_XXT(torch.solve_triangular(self._unbroadcasted_scale_tril, matrix, upper=False))
