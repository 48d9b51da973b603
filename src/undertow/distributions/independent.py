"""Batch dims that count as event dims."""

from __future__ import annotations

from typing import Any

from undertow.distributions._family import Distribution, constraints, torch
from undertow.distributions.utils import _sum_rightmost

__all__ = ["Independent"]


class Independent(Distribution):
    """A distribution whose last `reinterpreted_batch_ndims` batch dims count as event dims: log_prob sums over them."""

    arg_constraints: dict[str, Any] = {}
    _batch_attributes = ("base_dist",)
    _shared_attributes = ("reinterpreted_batch_ndims",)

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        batch = base_distribution.batch_shape
        kept = len(batch) - reinterpreted_batch_ndims
        if kept < 0:
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(batch)}"
            )
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        super().__init__(batch[:kept], batch[kept:] + base_distribution.event_shape, validate_args=validate_args)

    has_rsample = torch.alias("base_dist.has_rsample")
    mean = torch.alias("base_dist.mean")
    mode = torch.alias("base_dist.mode")
    variance = torch.alias("base_dist.variance")

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        return not self.reinterpreted_batch_ndims > 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        base, extra = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(base, extra) if extra else base

    def sample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> torch.Tensor:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> torch.Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
