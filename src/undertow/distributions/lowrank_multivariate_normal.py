"""Multivariate normal distributions with a covariance of low rank plus a diagonal."""

from __future__ import annotations

from undertow.distributions._family import constraints, lazy_property, torch
from undertow.distributions.multivariate_normal import Gaussian, _batch_mahalanobis, _batch_mv, _batch_trace_XXT

__all__ = ["LowRankMultivariateNormal"]


def _factor_plus_identity(K: torch.Tensor) -> torch.Tensor:
    """Return the Cholesky factor of I + K."""
    return torch.cholesky(K + torch.eye(K.shape[-1], dtype=K.dtype, device=K.device))


def _batch_capacitance_tril(W: torch.Tensor, D: torch.Tensor) -> torch.Tensor:
    """Return the Cholesky factor of I + Wᵀ D⁻¹ W, a small matrix."""
    return _factor_plus_identity(torch.matmul(W.mT / D.unsqueeze(-2), W))


def _batch_lowrank_logdet(W: torch.Tensor, D: torch.Tensor, capacitance_tril: torch.Tensor) -> torch.Tensor:
    """Return log |W Wᵀ + D| by the matrix determinant lemma."""
    return 2 * capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1) + D.log().sum(-1)


def _batch_lowrank_mahalanobis(
    W: torch.Tensor, D: torch.Tensor, x: torch.Tensor, capacitance_tril: torch.Tensor
) -> torch.Tensor:
    """Return xᵀ (W Wᵀ + D)⁻¹ x by Woodbury's formula."""
    projected = _batch_mv(W.mT / D.unsqueeze(-2), x)
    return (x.pow(2) / D).sum(-1) - _batch_mahalanobis(capacitance_tril, projected)


class LowRankMultivariateNormal(Gaussian):
    """Normal vectors with covariance cov_factor cov_factorᵀ + cov_diag, of which only small matrices are factored."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    _batch_attributes = ("cov_factor", "cov_diag")
    _shared_attributes = ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")

    def __init__(
        self, loc: torch.Tensor, cov_factor: torch.Tensor, cov_diag: torch.Tensor, validate_args: bool | None = None
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        size = loc.shape[-1]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2] != size:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {size} x m")
        if cov_diag.shape[-1:] != (size,):
            raise ValueError(f"cov_diag must be a batch of vectors with shape {loc.shape[-1:]}")
        try:
            batch = torch.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from error
        self.cov_factor = cov_factor.expand((*batch, -1, -1))
        self.loc, self.cov_diag = [vector.expand((*batch, size)) for vector in (loc, cov_diag)]
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)
        super().__init__(torch.Size(batch), loc.shape[-1:], validate_args=validate_args)

    @lazy_property
    def variance(self) -> torch.Tensor:
        total = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return total.expand(self._batch_shape + self._event_shape)

    def _full(self, matrix: torch.Tensor) -> torch.Tensor:
        return matrix.expand((*self._batch_shape, -1, -1))

    @lazy_property
    def scale_tril(self) -> torch.Tensor:
        """Return the Cholesky factor of the covariance, computed from that of a better conditioned matrix."""
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        return self._full(root * _factor_plus_identity(torch.matmul(scaled, scaled.mT)))

    @lazy_property
    def covariance_matrix(self) -> torch.Tensor:
        factor = self._unbroadcasted_cov_factor
        return self._full(torch.matmul(factor, factor.mT) + self._unbroadcasted_cov_diag.diag_embed())

    def _solved(self) -> torch.Tensor:
        """Return C⁻¹ Wᵀ D⁻¹ for the factor C of the small matrix."""
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        return torch.solve_triangular(self._capacitance_tril, scaled, upper=False)

    @lazy_property
    def precision_matrix(self) -> torch.Tensor:
        solved = self._solved()
        return self._full(self._unbroadcasted_cov_diag.reciprocal().diag_embed() - torch.matmul(solved.mT, solved))

    def rsample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        shape = self._extended_shape(sample_shape)
        narrow = torch.normal_as(self.loc, (*shape[:-1], self.cov_factor.shape[-1]))
        wide = torch.normal_as(self.loc, shape)
        own = self._unbroadcasted_cov_diag.sqrt() * wide
        return self.loc + _batch_mv(self._unbroadcasted_cov_factor, narrow) + own

    def _log_det(self) -> torch.Tensor:
        return _batch_lowrank_logdet(
            self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril
        )

    def _distance(self, x: torch.Tensor) -> torch.Tensor:
        return _batch_lowrank_mahalanobis(
            self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, x, self._capacitance_tril
        )

    def _covariance_factors(self) -> list[tuple[torch.Tensor, bool]]:
        return [(self._unbroadcasted_cov_factor, False), (self._unbroadcasted_cov_diag.sqrt(), True)]

    def _whitened_squares(self, factor: torch.Tensor, is_diagonal: bool) -> torch.Tensor:
        D, solved = self._unbroadcasted_cov_diag, self._solved()
        if is_diagonal:
            return (factor.square() / D).sum(-1) - _batch_trace_XXT(solved * factor.unsqueeze(-2))
        return _batch_trace_XXT(factor * D.rsqrt().unsqueeze(-1)) - _batch_trace_XXT(torch.matmul(solved, factor))
