"""Random correlation matrices, by their Cholesky factors."""

from __future__ import annotations

import math

from undertow.distributions._family import Distribution, constraints, torch, validated
from undertow.distributions.beta import Beta

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Factors L of correlation matrices LLᵀ with density ∝ det(LLᵀ)^(concentration - 1) (Lewandowski, Kurowicka, Joe 2009).

    At concentration 1 all correlation matrices are equally likely; above it, those near the identity are likelier.
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _batch_attributes = ("concentration", "_beta")
    _shared_attributes = ("dim",)

    def __init__(self, dim: int, concentration: torch.Value = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than 1, found dim={dim}: it counts correlated values."
            )
        self.dim, batch_shape = dim, self._broadcast(concentration)
        # The onion method: in each row, the squared norm of the off-diagonal part is a beta variable.
        row = torch.cat([torch.zeros(1), torch.arange(dim - 1)]).to(self.concentration)
        rest = (self.concentration + 0.5 * (dim - 2)).unsqueeze(-1) - 0.5 * row
        self._beta = Beta(row + 0.5, rest)
        super().__init__(batch_shape, torch.Size((dim, dim)), validate_args=validate_args)

    def sample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        share = self._beta.sample(sample_shape).unsqueeze(-1)
        like, shape = self.concentration, self._extended_shape(sample_shape)
        direction = torch.randn(shape, dtype=like.dtype, device=like.device).tril(-1)
        direction = direction / direction.norm(dim=-1, keepdim=True)
        direction[..., 0, :] = 0.0  # the first row has nothing off the diagonal
        below = share.sqrt() * direction
        diagonal = (1 - (below**2).sum(-1)).clamp(min=torch.finfo(below.dtype).tiny).sqrt()
        return below + diagonal.diag_embed()

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        dim, concentration = self.dim, self.concentration
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        exponents = (2 * (concentration - 1)).unsqueeze(-1) + dim - torch.arange(2, dim + 1)
        alpha = concentration + 0.5 * (dim - 1)
        log_volume = 0.5 * (dim - 1) * math.log(math.pi) + (alpha - 0.5).mvlgamma(dim - 1) - alpha.lgamma() * (dim - 1)
        return (exponents * diagonal.log()).sum(-1) - log_volume
