"""Elementwise transforms."""

from __future__ import annotations

import math
from typing import Any

from undertow.distributions import _functions as torch
from undertow.distributions import constraints
from undertow.distributions._transform_base import Transform
from undertow.distributions.utils import lazy_property


class ExpTransform(Transform):
    """y = exp(x)."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = +1
    _compared = ()

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class PowerTransform(Transform):
    """y = x to the power of `exponent`, for positive x."""

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True
    _arguments = _compared = ("exponent",)

    def __init__(self, exponent: torch.Value, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.exponent = torch.as_tensor(exponent)

    @lazy_property
    def sign(self) -> Any:
        return self.exponent.sign()

    def _call(self, x: Any) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: Any) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        return torch.broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


def _inside_unit(y: Any) -> Any:
    """Clamp numbers away from 0 and 1."""
    limits = torch.finfo(y.dtype)
    return y.clamp(min=limits.tiny, max=1.0 - limits.eps)


def clipped_sigmoid(x: Any) -> Any:
    """Return the sigmoid, clamped away from 0 and 1."""
    return _inside_unit(x.sigmoid())


class SigmoidTransform(Transform):
    """y = 1 / (1 + exp(-x)); x is the log-odds of y."""

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = +1
    _compared = ()

    def _call(self, x: Any) -> Any:
        return clipped_sigmoid(x)

    def _inverse(self, y: Any) -> Any:
        y = _inside_unit(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -torch.softplus(-x) - torch.softplus(x)


class SoftplusTransform(Transform):
    """y = log(1 + exp(x))."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = +1
    _compared = ()

    def _call(self, x: Any) -> Any:
        return torch.softplus(x)

    def _inverse(self, y: Any) -> Any:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -torch.softplus(-x)


class TanhTransform(Transform):
    """y = tanh(x); better conditioned than an affine sigmoid."""

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = +1
    _compared = ()

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return 2.0 * (math.log(2.0) - x - torch.softplus(-2.0 * x))


class AbsTransform(Transform):
    """y = |x|, which is not invertible: `inv` returns the positive solution."""

    domain = constraints.real
    codomain = constraints.positive
    _compared = ()

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class AffineTransform(Transform):
    """y = loc + scale · x."""

    bijective = True
    _arguments = ("loc", "scale", "event_dim")
    _compared = ("loc", "scale")

    def __init__(self, loc: torch.Value, scale: torch.Value, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    event_dim = torch.alias("_event_dim")

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return constraints.independent(constraints.real, self.event_dim) if self.event_dim else constraints.real

    codomain = domain

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, torch.TensorCore):
            return self.scale.sign()
        return (float(self.scale) > 0) - (float(self.scale) < 0)

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if isinstance(self.scale, torch.TensorCore):
            result = self.scale.abs().log()
        else:
            result = torch.full_like(x, math.log(abs(self.scale)))
        if self.event_dim:
            result = result.view((*result.shape[: result.dim() - self.event_dim], -1)).sum(-1)
        return result.expand(x.shape[: x.dim() - self.event_dim])

    def forward_shape(self, shape: Any) -> Any:
        return torch.broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    inverse_shape = forward_shape


class CumulativeDistributionTransform(Transform):
    """y = the cumulative distribution function of a distribution at x."""

    bijective = True
    codomain = constraints.unit_interval
    sign = +1
    _arguments = ("distribution",)
    domain = torch.alias("distribution.support")

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self.distribution.log_prob(x)
