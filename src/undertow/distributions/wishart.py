"""The Wishart distribution."""

from __future__ import annotations

import math
from typing import Any

from undertow.distributions._family import ExponentialFamily, constraints, is_number, torch, validated
from undertow.distributions.chi2 import Chi2
from undertow.distributions.multivariate_normal import _FACTORS, ByCovariance, only_matrix

__all__ = ["Wishart"]


class Wishart(ByCovariance, ExponentialFamily):
    """Sums of the outer products of `df` normal vectors with mean 0, and one of covariance_matrix, precision_matrix or
    scale_tril (a Cholesky factor); df may be any number above their length - 1.
    """

    support = constraints.positive_definite
    has_rsample = True
    _batch_attributes = ("df", "_dist_chi2")
    _mean_carrier_measure = 0

    def __init__(
        self, df: torch.Value, covariance_matrix: torch.Tensor | None = None,
        precision_matrix: torch.Tensor | None = None, scale_tril: torch.Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        name, matrix = only_matrix(
            AssertionError, covariance_matrix=covariance_matrix, precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )  # fmt: skip
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        size = matrix.shape[-1]
        degrees: Any = torch.tensor(df, dtype=matrix.dtype) if is_number(df) else df
        batch_shape = self._set_matrix(matrix, name, degrees.shape)
        if (degrees <= size - 1).any():
            raise ValueError(f"Value of df={degrees} expected to be greater than ndim - 1 = {size - 1}.")
        self.df = degrees.expand(batch_shape)
        if (self.df < size).any():
            torch.warn("Low df values detected. Below the size of the matrix, draws are close to singular.")
        super().__init__(batch_shape, matrix.shape[-2:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = _FACTORS[name](matrix)
        # The squared diagonal of a draw's factor: chi-squared, with one degree of freedom less in each row.
        self._dist_chi2 = Chi2(self.df.unsqueeze(-1) - torch.arange(size).to(matrix))

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """The least df depends on the size."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    def _per_matrix(self, number: torch.Tensor) -> torch.Tensor:
        return number.view((*self._batch_shape, 1, 1))

    mean = torch.formula(lambda self: self._per_matrix(self.df) * self.covariance_matrix)

    @property
    def mode(self) -> torch.Tensor:
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        return self._per_matrix(factor.masked_fill(factor <= 0, math.nan)) * self.covariance_matrix

    @property
    def variance(self) -> torch.Tensor:
        V = self.covariance_matrix
        diagonal = V.diagonal(dim1=-2, dim2=-1)
        return self._per_matrix(self.df) * (V.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _bartlett_sampling(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        """Draw LLᵀ, where L is the factor of the covariance times a triangle of chi (diagonal) and normal variables."""
        size = self._event_shape[-1]
        noise = self._dist_chi2.rsample(sample_shape).sqrt().diag_embed(dim1=-2, dim2=-1)
        row, column = torch.tril_indices(size, size, offset=-1)
        shape = (*sample_shape, *self._batch_shape, size * (size - 1) // 2)
        noise[..., row, column] = torch.randn(shape, dtype=noise.dtype, device=noise.device)
        factor = torch.matmul(self._unbroadcasted_scale_tril, noise)
        return torch.matmul(factor, factor.transpose(-2, -1))

    def rsample(self, sample_shape: torch.Shape = (), max_try_correction: int | None = None) -> torch.Tensor:
        """Draw; draws that rounding made singular are drawn again, up to max_try_correction (10) times.

        PyTorch's first check is inverted: it warns about every good first draw and discards it. This does the same, so
        that the same seed gives the same draws.
        """
        sample = self._bartlett_sampling(tuple(sample_shape))
        again = self._any(self.support.check(sample))
        if again.any():
            torch.warn("Singular sample detected.")
        for _ in range(10 if max_try_correction is None else max_try_correction):
            count = int(again.sum())
            if count == 0:
                break
            drawn = self._bartlett_sampling((count,))
            sample = sample.index_put((again,), drawn)
            still = again.clone()
            still[again] = self._any(~self.support.check(drawn))
            again = still
        return sample

    def _any(self, flags: torch.Tensor) -> torch.Tensor:
        """Return whether any flag of a batch is set: a batch is drawn again as a whole."""
        return flags.amax(tuple(range(-len(self._batch_shape), 0))) if self._batch_shape else flags

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        nu, p = self.df, self._event_shape[-1]
        distance = torch.cholesky_solve(value, self._unbroadcasted_scale_tril).diagonal(dim1=-2, dim2=-1).sum(dim=-1)
        return (
            -nu * (p * math.log(2) / 2 + self._half_log_det())
            - (nu / 2).mvlgamma(p=p)
            + (nu - p - 1) / 2 * torch.slogdet(value).logabsdet
            - distance / 2
        )

    def entropy(self) -> torch.Tensor:
        nu, p = self.df, self._event_shape[-1]
        digammas = ((nu / 2).unsqueeze(-1) - torch.arange(p, dtype=nu.dtype, device=nu.device) / 2).digamma().sum(-1)
        return (
            (p + 1) * (p * math.log(2) / 2 + self._half_log_det())
            + (nu / 2).mvlgamma(p=p)
            - (nu - p - 1) / 2 * digammas
            + nu * p / 2
        )

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        p = self._event_shape[-1]
        half_nu = y + (p + 1) / 2
        return half_nu * (p * math.log(2) - torch.slogdet(-2 * x).logabsdet) + half_nu.mvlgamma(p=p)
