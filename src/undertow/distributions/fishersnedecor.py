"""The F-distribution."""

from __future__ import annotations

import math

from undertow.distributions._family import Distribution, constraints, torch, validated
from undertow.distributions.gamma import Gamma

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """Ratios of the mean squares of `df1` and of `df2` normal variables."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _batch_attributes = ("df1", "df2", "_gamma1", "_gamma2")

    def __init__(self, df1: torch.Value, df2: torch.Value, validate_args: bool | None = None) -> None:
        batch_shape = self._broadcast(df1, df2)
        self._gamma1, self._gamma2 = [Gamma(df * 0.5, df) for df in (self.df1, self.df2)]
        super().__init__(batch_shape, validate_args=validate_args)

    @property
    def mean(self) -> torch.Tensor:
        m = self.df2.masked_fill(self.df2 <= 2, math.nan)
        return m / (m - 2)

    @property
    def mode(self) -> torch.Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return mode.masked_fill(self.df1 <= 2, math.nan)

    @property
    def variance(self) -> torch.Tensor:
        n, m = self.df1, self.df2.masked_fill(self.df2 <= 4, math.nan)
        return 2 * (m / (m - 2)).pow(2) * (n + m - 2) / (n * (m - 4))

    def rsample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        squares, others = self._gamma1.rsample(sample_shape), self._gamma2.rsample(sample_shape)
        tiny = torch.finfo(others.dtype).tiny
        return (squares / others.clamp_(min=tiny)).clamp_(min=tiny)

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        log_norm = (half1 + half2).lgamma() - half1.lgamma() - half2.lgamma()
        peak = half1 * ratio.log() + (half1 - 1) * value.log()
        return log_norm + peak - (half1 + half2) * (ratio * value).log1p()
