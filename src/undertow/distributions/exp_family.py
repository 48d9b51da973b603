"""Exponential families: the entropy follows from one function."""

from __future__ import annotations

from typing import Any

from undertow._src.engine.differentiate import grad
from undertow.distributions import _functions as torch
from undertow.distributions.distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """A density of the form exp(<t(x), θ> - F(θ) + k(x)), with natural parameters θ and log normalizer F."""

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        """Return θ, as a tuple of tensors."""
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Any:
        """Return F."""
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        """Return the expected k(x)."""
        raise NotImplementedError

    def _tangent(self) -> tuple[list[Any], Any, tuple[Any, ...]]:
        """Return θ, F(θ) and F'(θ)."""
        params = [param.detach().requires_grad_() for param in self._natural_params]
        with torch.enable_grad():
            normalizer = self._log_normalizer(*params)
            return params, normalizer, grad(normalizer.sum(), params, create_graph=True)

    def entropy(self) -> torch.Tensor:
        """Return F - <θ, F'> - E k."""
        params, normalizer, slopes = self._tangent()
        result = -self._mean_carrier_measure + normalizer
        for param, slope in zip(params, slopes, strict=True):
            result = result - (param * slope).reshape((*self._batch_shape, -1)).sum(-1)
        return result
