"""Correlation matrices at random, by their Cholesky factors."""

from __future__ import annotations

import math
from typing import Any

from undertow._src.types.sizes import Size
from undertow.distributions import _functions as torch
from undertow.distributions import constraints
from undertow.distributions.beta import Beta
from undertow.distributions.distribution import Distribution
from undertow.distributions.utils import broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Factors L of correlation matrices LLᵀ with density ∝ det(LLᵀ)^(concentration − 1) (Lewandowski, Kurowicka, Joe 2009).

    At concentration 1 all correlation matrices are equally likely; above it, those near the identity are likelier.
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        event_shape = Size((dim, dim))
        # The onion method: row after row, how much of it lies off the diagonal is a beta variable.
        row = torch.cat([torch.zeros(1), torch.arange(dim - 1)]).to(self.concentration)
        rest = (self.concentration + 0.5 * (dim - 2)).unsqueeze(-1) - 0.5 * row
        self._beta = Beta(row + 0.5, rest)
        super().__init__(self.concentration.size(), event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(LKJCholesky, _instance)
        batch_shape = Size(batch_shape)
        new.dim = self.dim
        new.concentration = self.concentration.expand(batch_shape)
        new._beta = self._beta.expand((*batch_shape, self.dim))
        super(LKJCholesky, new).__init__(batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def sample(self, sample_shape: Any = ()) -> Any:
        share = self._beta.sample(sample_shape).unsqueeze(-1)
        like = self.concentration
        direction = torch.randn(self._extended_shape(sample_shape), dtype=like.dtype, device=like.device).tril(-1)
        direction = direction / direction.norm(dim=-1, keepdim=True)
        direction[..., 0, :] = 0.0  # the first row has nothing off the diagonal
        below = share.sqrt() * direction
        diagonal = (1 - (below**2).sum(-1)).clamp(min=torch.finfo(below.dtype).tiny).sqrt()
        return below + diagonal.diag_embed()

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        dim, concentration = self.dim, self.concentration
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        exponents = (2 * (concentration - 1)).unsqueeze(-1) + dim - torch.arange(2, dim + 1)
        alpha = concentration + 0.5 * (dim - 1)
        log_volume = 0.5 * (dim - 1) * math.log(math.pi) + (alpha - 0.5).mvlgamma(dim - 1) - alpha.lgamma() * (dim - 1)
        return (exponents * diagonal.log()).sum(-1) - log_volume
