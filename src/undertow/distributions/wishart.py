"""The Wishart distribution."""

from __future__ import annotations

import math
from typing import Any

from undertow._src.base.sites import warn
from undertow._src.types.sizes import Size
from undertow.distributions import _functions as torch
from undertow.distributions import constraints
from undertow.distributions.chi2 import Chi2
from undertow.distributions.exp_family import ExponentialFamily
from undertow.distributions.multivariate_normal import ByCovariance, _precision_to_scale_tril
from undertow.distributions.utils import is_number
from undertow.ops.stretch import broadcast_shapes
from undertow.ops.triangular import cholesky_solve

__all__ = ["Wishart"]

_MATRICES = ("covariance_matrix", "precision_matrix", "scale_tril")


class Wishart(ByCovariance, ExponentialFamily):
    """Sums of the outer products of `df` normal vectors with mean 0, and one of covariance_matrix, precision_matrix or
    scale_tril (a Cholesky factor); df may be any number above their length − 1.
    """

    support = constraints.positive_definite
    has_rsample = True

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """The least df depends on the size."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        given = dict(zip(_MATRICES, (covariance_matrix, precision_matrix, scale_tril), strict=True))
        if sum(value is not None for value in given.values()) != 1:
            raise AssertionError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
            )
        name, matrix = next((name, value) for name, value in given.items() if value is not None)
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        df = torch.tensor(df, dtype=matrix.dtype) if is_number(df) else df
        batch_shape, event_shape = broadcast_shapes(matrix.shape[:-2], df.shape), matrix.shape[-2:]
        if (df <= event_shape[-1] - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {event_shape[-1] - 1}.")
        setattr(self, name, matrix.expand((*batch_shape, -1, -1)))
        self.df = df.expand(batch_shape)
        if (self.df < event_shape[-1]).any():
            warn("Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.")
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        if scale_tril is not None:
            self._unbroadcasted_scale_tril = scale_tril
        elif covariance_matrix is not None:
            self._unbroadcasted_scale_tril = torch.cholesky(covariance_matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(precision_matrix)
        self._dist_chi2 = self._squared_diagonal()

    def _squared_diagonal(self) -> Chi2:
        """Of the factor of a draw: as many squares as there are degrees of freedom left, row after row."""
        row = torch.arange(self._event_shape[-1]).to(self._unbroadcasted_scale_tril)
        return Chi2(self.df.unsqueeze(-1) - row)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Wishart, _instance)
        batch_shape = Size(batch_shape)
        for name in _MATRICES:
            if name in self.__dict__:
                setattr(new, name, self.__dict__[name].expand(batch_shape + self.event_shape))
        new.df = self.df.expand(batch_shape)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        super(Wishart, new).__init__(batch_shape, self.event_shape, validate_args=False)
        new._dist_chi2 = new._squared_diagonal()
        new._validate_args = self._validate_args
        return new

    def _full(self, matrix: Any) -> Any:
        return matrix.expand(self._batch_shape + self._event_shape)

    def _per_matrix(self, number: Any) -> Any:
        return number.view((*self._batch_shape, 1, 1))

    @property
    def mean(self) -> Any:
        return self._per_matrix(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Any:
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        return self._per_matrix(factor.masked_fill(factor <= 0, math.nan)) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        V = self.covariance_matrix
        diagonal = V.diagonal(dim1=-2, dim2=-1)
        return self._per_matrix(self.df) * (V.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _bartlett_sampling(self, sample_shape: Any = ()) -> Any:
        """LLᵀ, where L is the factor of the covariance times one of chi variables and, below them, normal ones."""
        size = self._event_shape[-1]
        noise = self._dist_chi2.rsample(sample_shape).sqrt().diag_embed(dim1=-2, dim2=-1)
        row, column = torch.tril_indices(size, size, offset=-1)
        shape = (*sample_shape, *self._batch_shape, size * (size - 1) // 2)
        noise[..., row, column] = torch.randn(shape, dtype=noise.dtype, device=noise.device)
        factor = torch.matmul(self._unbroadcasted_scale_tril, noise)
        return torch.matmul(factor, factor.transpose(-2, -1))

    def rsample(self, sample_shape: Any = (), max_try_correction: int | None = None) -> Any:
        """Draws; those that rounding has made singular are drawn again, up to max_try_correction (10) times.

        PyTorch's first check is the wrong way round, so that it warns of every first draw that is good, and discards it.
        So does this: the same seed then gives the same draws.
        """
        sample = self._bartlett_sampling(tuple(sample_shape))
        again = self._any(self.support.check(sample))
        if again.any():
            warn("Singular sample detected.")
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

    def _any(self, flags: Any) -> Any:
        """Whether any of a batch has a flag: a batch is drawn again as a whole."""
        return flags.amax(tuple(range(-len(self._batch_shape), 0))) if self._batch_shape else flags

    def _log_det(self) -> Any:
        """Half of the covariance's log determinant."""
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        nu, p = self.df, self._event_shape[-1]
        distance = cholesky_solve(value, self._unbroadcasted_scale_tril).diagonal(dim1=-2, dim2=-1).sum(dim=-1)
        return (
            -nu * (p * math.log(2) / 2 + self._log_det())
            - (nu / 2).mvlgamma(p=p)
            + (nu - p - 1) / 2 * torch.slogdet(value).logabsdet
            - distance / 2
        )

    def entropy(self) -> Any:
        nu, p = self.df, self._event_shape[-1]
        digammas = ((nu / 2).unsqueeze(-1) - torch.arange(p, dtype=nu.dtype, device=nu.device) / 2).digamma().sum(-1)
        return (
            (p + 1) * (p * math.log(2) / 2 + self._log_det())
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

    _mean_carrier_measure = 0
