"""The Laplace distribution."""

from __future__ import annotations

from undertow.distributions._family import Distribution, constraints, torch, validated

__all__ = ["Laplace"]


class Laplace(Distribution):
    """Values with a density that falls off exponentially on both sides of `loc`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _batch_attributes = ("loc", "scale")

    def __init__(self, loc: torch.Value, scale: torch.Value, validate_args: bool | None = None) -> None:
        super().__init__(self._broadcast(loc, scale), validate_args=validate_args)

    mean = mode = torch.alias("loc")
    variance = torch.formula(lambda self: 2 * self.scale.pow(2))
    stddev = torch.formula(lambda self: 2**0.5 * self.scale)

    def rsample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        u = self.loc.new_empty(self._extended_shape(sample_shape))
        u.uniform_(torch.finfo(u.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * (-u.abs()).log1p()

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    @validated
    def cdf(self, value: torch.Tensor) -> torch.Tensor:
        moved = value - self.loc
        return 0.5 - 0.5 * moved.sign() * (-moved.abs() / self.scale).expm1()

    def icdf(self, value: torch.Tensor) -> torch.Tensor:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * (-2 * term.abs()).log1p()

    def entropy(self) -> torch.Tensor:
        return 1 + (2 * self.scale).log()
