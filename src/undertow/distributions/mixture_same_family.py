"""Mixtures of distributions of one kind."""

from __future__ import annotations

from typing import Any

from undertow.distributions._family import Distribution, constraints, torch
from undertow.distributions.categorical import Categorical

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A draw from one of the components along the last batch dim, chosen by a `Categorical`."""

    arg_constraints: dict[str, Any] = {}
    has_rsample = False
    _batch_attributes = ("_mixture_distribution", "_component_distribution")
    _shared_attributes = ("_num_component", "_event_ndims")

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None
    ) -> None:
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution needs to be an instance of torch.distributions.Distribution")
        batch_shape, choices = component_distribution.batch_shape[:-1], mixture_distribution.batch_shape
        self._num_component = component_distribution.batch_shape[-1]
        for one, other in zip(choices[::-1], batch_shape[::-1], strict=False):
            if one != 1 and other != 1 and one != other:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({choices}) is not compatible with "
                    f"`component_distribution.batch_shape`({batch_shape})"
                )
        weights = mixture_distribution.logits.shape[-1]
        if weights != self._num_component:
            raise ValueError(
                f"`mixture_distribution component` ({weights}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({self._num_component})"
            )
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    mixture_distribution = torch.alias("_mixture_distribution")
    component_distribution = torch.alias("_component_distribution")

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    def _average(self, values: torch.Tensor) -> torch.Tensor:
        """Return the mean over the components, weighted by their probabilities."""
        weights = self._pad_mixture_dimensions(self.mixture_distribution.probs)
        return (weights * values).sum(dim=-1 - self._event_ndims)

    mean = torch.formula(lambda self: self._average(self.component_distribution.mean))

    @property
    def variance(self) -> torch.Tensor:
        """Return the mean of the components' variances plus the variance of their means."""
        moved = self.component_distribution.mean - self._pad(self.mean)
        return self._average(self.component_distribution.variance) + self._average(moved.pow(2.0))

    def cdf(self, x: torch.Tensor) -> torch.Tensor:
        return (self.component_distribution.cdf(self._pad(x)) * self.mixture_distribution.probs).sum(dim=-1)

    def log_prob(self, x: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(x)
        weights = self.mixture_distribution.logits.log_softmax(dim=-1)
        return (self.component_distribution.log_prob(self._pad(x)) + weights).logsumexp(dim=-1)

    def sample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        with torch.no_grad():
            chosen = self.mixture_distribution.sample(sample_shape)
            drawn = self.component_distribution.sample(sample_shape)
            dim = len(sample_shape) + len(self._batch_shape)
            index = chosen.reshape((*chosen.shape, *[1] * (self._event_ndims + 1)))
            return drawn.gather(dim, index.expand((*chosen.shape, 1, *self._event_shape))).squeeze(dim)

    def _pad(self, x: torch.Tensor) -> torch.Tensor:
        """Return values with a dim for the components."""
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x: torch.Tensor) -> torch.Tensor:
        """Return weights of components in the shape of the components' events."""
        extra = len(self._batch_shape) - len(self.mixture_distribution.batch_shape)
        return x.reshape((*x.shape[:-1], *[1] * extra, x.shape[-1], *[1] * self._event_ndims))

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
