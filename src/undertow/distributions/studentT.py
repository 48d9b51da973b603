"""Student's t-distribution."""

from __future__ import annotations

import math

from undertow.distributions._family import Distribution, constraints, torch, validated
from undertow.distributions.chi2 import Chi2

__all__ = ["StudentT"]


class StudentT(Distribution):
    """Normal values divided by a standard deviation estimated from `df` others, scaled and shifted."""

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _batch_attributes = ("df", "loc", "scale", "_chi2")

    def __init__(
        self, df: torch.Value, loc: torch.Value = 0.0, scale: torch.Value = 1.0, validate_args: bool | None = None
    ) -> None:
        batch_shape = self._broadcast(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(batch_shape, validate_args=validate_args)

    mode = torch.alias("loc")
    mean = torch.formula(lambda self: self.loc.masked_fill(self.df <= 1, math.nan))

    @property
    def variance(self) -> torch.Tensor:
        infinite = self.df <= 2
        df = self.df.masked_fill(infinite, 3.0)  # replaced below; a finite value keeps the gradients finite
        return (self.scale.pow(2) * df / (df - 2)).masked_fill(infinite, math.inf).masked_fill(self.df <= 1, math.nan)

    def rsample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        x = torch.normal_as(self.df, self._extended_shape(sample_shape))
        z = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * (x * (z / self.df).rsqrt())

    def _halves(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return df / 2, (df + 1) / 2 and log(√df · B(df / 2, 1 / 2))."""
        low, high = 0.5 * self.df, 0.5 * (self.df + 1)
        return low, high, low.lgamma() - high.lgamma() + 0.5 * (math.pi * self.df).log()

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        _, high, log_norm = self._halves()
        z = (value - self.loc) / self.scale
        return -high * (z**2 / self.df).log1p() - log_norm - self.scale.log()

    def entropy(self) -> torch.Tensor:
        low, high, log_norm = self._halves()
        return high * (high.digamma() - low.digamma()) + log_norm + self.scale.log()
