"""Divergences between different families of distributions.

Each is -entropy(p) minus the expected log density of q under p, which needs a few expectations of p: the mean, the
variance, the mean of the logarithm. Where p reaches beyond the support of q the divergence is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from math import inf
from typing import Any

from undertow.distributions import _functions as torch
from undertow.distributions._kl_registry import Form, register_kl
from undertow.distributions.bernoulli import Bernoulli
from undertow.distributions.beta import Beta
from undertow.distributions.binomial import Binomial
from undertow.distributions.continuous_bernoulli import ContinuousBernoulli
from undertow.distributions.exponential import Exponential
from undertow.distributions.gamma import Gamma
from undertow.distributions.gumbel import Gumbel
from undertow.distributions.laplace import Laplace
from undertow.distributions.normal import Normal
from undertow.distributions.pareto import Pareto
from undertow.distributions.poisson import Poisson
from undertow.distributions.uniform import Uniform
from undertow.distributions.utils import euler_constant

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def _to(q_kind: type, *p_kinds: type, beyond: Form | None = None) -> Callable[[Form], Form]:
    """Decorate the expected log density of q under p: it gives the divergence, infinite where `beyond` of (p, q)."""

    def decorate(expected: Form) -> Form:
        def divergence(p: Any, q: Any) -> torch.Tensor:
            result = -p.entropy() - expected(p, q)
            return result if beyond is None else torch.where(beyond(p, q), inf, result)

        for p_kind in p_kinds:
            register_kl(p_kind, q_kind)(divergence)
        return expected

    return decorate


def _starts_below(p: Any, q: Any) -> torch.Tensor:
    return p.low < q.support.lower_bound


# --- expectations of p


def _mean_x_log_x(low: Any, high: Any) -> torch.Tensor:
    """Return the mean of the logarithm between two numbers."""
    return (high.xlogy(high) - low.xlogy(low)) / (high - low) - 1


def _mean_log(p: Any) -> torch.Tensor:
    if isinstance(p, Gamma):
        return p.concentration.digamma() - p.rate.log()
    if isinstance(p, Exponential):
        return -euler_constant - p.rate.log()
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return _mean_x_log_x(p.low, p.high)  # Uniform


def _mean_exp(p: Any, scale: torch.Tensor) -> torch.Tensor:
    """Return the expected exp(-x / scale)."""
    if isinstance(p, Gamma):
        return (1 + 1 / (p.rate * scale)).pow(-p.concentration)
    if isinstance(p, Exponential):
        return p.rate * scale / (p.rate * scale + 1)
    if isinstance(p, Normal):
        return (-p.loc / scale + 0.5 * (p.scale / scale).pow(2)).exp()
    return scale * ((-p.low / scale).exp() - (-p.high / scale).exp()) / (p.high - p.low)  # Uniform


# --- the expected log density of q


@_to(Normal, Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Uniform)
@_to(Normal, Pareto, beyond=lambda p, q: p.alpha <= 2)
def _normal(p: Any, q: Normal) -> torch.Tensor:
    return -q.scale.log() - _HALF_LOG_2PI - 0.5 * (p.variance + (p.mean - q.loc).pow(2)) / q.scale.pow(2)


@_to(Exponential, Beta, ContinuousBernoulli, Gamma)
@_to(Exponential, Pareto, beyond=lambda p, q: p.alpha <= 1)
@_to(Exponential, Uniform, beyond=_starts_below)
def _exponential(p: Any, q: Exponential) -> torch.Tensor:
    return q.rate.log() - q.rate * p.mean


@_to(Gamma, Beta, Exponential)
@_to(Gamma, Pareto, beyond=lambda p, q: p.alpha <= 1)
@_to(Gamma, Uniform, beyond=_starts_below)
def _gamma(p: Any, q: Gamma) -> torch.Tensor:
    a = q.concentration
    return a * q.rate.log() - a.lgamma() + (a - 1) * _mean_log(p) - q.rate * p.mean


@_to(Gumbel, Exponential, Gamma, Normal, Uniform)
def _gumbel(p: Any, q: Gumbel) -> torch.Tensor:
    return -q.scale.log() - (p.mean - q.loc) / q.scale - (q.loc / q.scale).exp() * _mean_exp(p, q.scale)


@_to(Laplace, Normal)
def _laplace(p: Normal, q: Laplace) -> torch.Tensor:
    moved = p.loc - q.loc
    in_deviations = moved / p.scale
    near = math.sqrt(2 / math.pi) * p.scale * (-0.5 * in_deviations.pow(2)).exp()
    distance = near + moved * (math.sqrt(0.5) * in_deviations).erf()
    return -(2 * q.scale).log() - distance / q.scale


@_to(ContinuousBernoulli, Beta)
@_to(ContinuousBernoulli, Uniform, beyond=lambda p, q: (p.high >= 1) | (p.low <= 0))
def _continuous_bernoulli(p: Any, q: ContinuousBernoulli) -> torch.Tensor:
    return p.mean * q.logits + (-q.probs).log1p() + q._cont_bern_log_norm()


@_to(Uniform, Beta, beyond=lambda p, q: (q.low > 0) | (q.high < 1))
@_to(Uniform, ContinuousBernoulli, beyond=lambda p, q: (q.low >= 0) | (q.high <= 1))
def _uniform(p: Any, q: Uniform) -> torch.Tensor:
    return -(q.high - q.low).log()


@_to(Beta, Uniform, beyond=lambda p, q: (p.high > 1) | (p.low < 0))
def _beta(p: Uniform, q: Beta) -> torch.Tensor:
    a, b = q.concentration1, q.concentration0
    log_norm = a.lgamma() + b.lgamma() - (a + b).lgamma()
    return (a - 1) * _mean_log(p) + (b - 1) * _mean_x_log_x(1 - p.high, 1 - p.low) - log_norm


@_to(Pareto, Uniform, beyond=_starts_below)
def _pareto(p: Uniform, q: Pareto) -> torch.Tensor:
    return q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * _mean_log(p)


@_to(Poisson, Bernoulli)
def _poisson(p: Bernoulli, q: Poisson) -> torch.Tensor:
    return p.probs * q.rate.log() - q.rate


# --- pairs where p always reaches beyond q


def _infinite(p: Any, q: Any) -> torch.Tensor:
    return p.mean.new_full(p.batch_shape, inf)


_EVERYWHERE = (Uniform, Pareto, Gamma, Exponential, ContinuousBernoulli, Beta)
_BEYOND: dict[type, tuple[type, ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Uniform, Pareto, ContinuousBernoulli, Beta),
    Gamma: (Uniform, Pareto, ContinuousBernoulli, Beta),
    Gumbel: _EVERYWHERE,
    Laplace: _EVERYWHERE,
    Normal: _EVERYWHERE,
    Pareto: (Uniform, ContinuousBernoulli, Beta),
    Poisson: (Bernoulli, Binomial),
}
for _p, _others in _BEYOND.items():
    for _q in _others:
        register_kl(_p, _q)(_infinite)
