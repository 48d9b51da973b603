"""Transformed distributions."""

from __future__ import annotations

from typing import Any

from undertow.distributions._family import Distribution, constraints, torch, validated
from undertow.distributions._transform_base import log_jacobian
from undertow.distributions.independent import Independent
from undertow.distributions.transforms import ComposeTransform, Transform

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """Draws from `base_distribution`, mapped through `transforms` in order."""

    arg_constraints: dict[str, Any] = {}
    _batch_attributes: tuple[str, ...] = ("base_dist",)
    _shared_attributes = ("transforms",)

    def __init__(
        self, base_distribution: Distribution, transforms: Transform | list[Transform],
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(transforms, (Transform, list)):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        self.transforms = transforms if isinstance(transforms, list) else [transforms]
        if not all(isinstance(each, Transform) for each in self.transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        whole = ComposeTransform(self.transforms)
        needed, given = whole.domain.event_dim, len(base_distribution.event_shape)
        shape = base_distribution.batch_shape + base_distribution.event_shape
        if len(shape) < needed:
            raise ValueError(f"base_distribution needs to have shape with size at least {needed}, but got {shape}.")
        drawn = whole.forward_shape(shape)
        wide = whole.inverse_shape(drawn)  # the transforms' parameters may have a larger batch
        base = base_distribution if wide == shape else base_distribution.expand(wide[: len(wide) - given])
        self.base_dist = Independent(base, needed - given) if needed > given else base
        batch = len(drawn) - whole.codomain.event_dim - max(given - needed, 0)
        super().__init__(torch.Size(drawn[:batch]), torch.Size(drawn[batch:]), validate_args=validate_args)

    has_rsample = torch.alias("base_dist.has_rsample")

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        last = self.transforms[-1].codomain
        extra = len(self._event_shape) - last.event_dim
        return constraints.independent(last, extra) if extra > 0 else last

    def _forward(self, x: torch.Tensor) -> torch.Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def _backward(self, y: torch.Tensor) -> list[torch.Tensor]:
        """Return the values before, between and after the transforms."""
        points = [y]
        for transform in reversed(self.transforms):
            points.append(transform.inv(points[-1]))
        return points[::-1]

    def sample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        with torch.no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    @validated
    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        points = self._backward(value)
        stretched = log_jacobian(self.transforms, points, len(self.base_dist.event_shape))
        return -stretched + self.base_dist.log_prob(points[0])

    def _monotonize_cdf(self, value: torch.Tensor) -> torch.Tensor:
        """Return 1 - value where the transforms are decreasing."""
        sign = ComposeTransform(self.transforms).sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: torch.Tensor) -> torch.Tensor:
        drawn = self._backward(value)[0]
        if self._validate_args:
            self.base_dist._validate_sample(drawn)
        return self._monotonize_cdf(self.base_dist.cdf(drawn))

    def icdf(self, value: torch.Tensor) -> torch.Tensor:
        return self._forward(self.base_dist.icdf(self._monotonize_cdf(value)))
