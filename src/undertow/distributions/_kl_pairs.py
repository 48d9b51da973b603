"""Divergences between different families of distributions.

Each is -entropy(p) minus the expected log density of q under p, which needs a few expectations of p: the mean, the
variance, the mean of the logarithm. Where the support of p exceeds that of q the divergence is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from math import inf
from typing import Any

from undertow import distributions as D
from undertow.distributions import _functions as torch
from undertow.distributions._kl_registry import Form, register_kl
from undertow.distributions.utils import euler_constant

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def _to(q_kind: type, *p_kinds: type, beyond: Form | None = None) -> Callable[[Form], Form]:
    """Decorate the expected log density of q under p to return the divergence: infinite where `beyond(p, q)`."""

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
    """Return the mean of log x for x uniform between two numbers."""
    return (high.xlogy(high) - low.xlogy(low)) / (high - low) - 1


def _mean_log(p: Any) -> torch.Tensor:
    if isinstance(p, D.Gamma):
        return p.concentration.digamma() - p.rate.log()
    if isinstance(p, D.Exponential):
        return -euler_constant - p.rate.log()
    if isinstance(p, D.Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, D.Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return _mean_x_log_x(p.low, p.high)  # Uniform


def _mean_exp(p: Any, scale: torch.Tensor) -> torch.Tensor:
    """Return the expected exp(-x / scale)."""
    if isinstance(p, D.Gamma):
        return (1 + 1 / (p.rate * scale)).pow(-p.concentration)
    if isinstance(p, D.Exponential):
        return p.rate * scale / (p.rate * scale + 1)
    if isinstance(p, D.Normal):
        return (-p.loc / scale + 0.5 * (p.scale / scale).pow(2)).exp()
    return scale * ((-p.low / scale).exp() - (-p.high / scale).exp()) / (p.high - p.low)  # Uniform


# --- the expected log density of q


@_to(D.Normal, D.Beta, D.ContinuousBernoulli, D.Exponential, D.Gamma, D.Gumbel, D.Laplace, D.Uniform)
@_to(D.Normal, D.Pareto, beyond=lambda p, q: p.alpha <= 2)
def _normal(p: Any, q: D.Normal) -> torch.Tensor:
    return -q.scale.log() - _HALF_LOG_2PI - 0.5 * (p.variance + (p.mean - q.loc).pow(2)) / q.scale.pow(2)


@_to(D.Exponential, D.Beta, D.ContinuousBernoulli, D.Gamma)
@_to(D.Exponential, D.Pareto, beyond=lambda p, q: p.alpha <= 1)
@_to(D.Exponential, D.Uniform, beyond=_starts_below)
def _exponential(p: Any, q: D.Exponential) -> torch.Tensor:
    return q.rate.log() - q.rate * p.mean


@_to(D.Gamma, D.Beta, D.Exponential)
@_to(D.Gamma, D.Pareto, beyond=lambda p, q: p.alpha <= 1)
@_to(D.Gamma, D.Uniform, beyond=_starts_below)
def _gamma(p: Any, q: D.Gamma) -> torch.Tensor:
    a = q.concentration
    return a * q.rate.log() - a.lgamma() + (a - 1) * _mean_log(p) - q.rate * p.mean


@_to(D.Gumbel, D.Exponential, D.Gamma, D.Normal, D.Uniform)
def _gumbel(p: Any, q: D.Gumbel) -> torch.Tensor:
    return -q.scale.log() - (p.mean - q.loc) / q.scale - (q.loc / q.scale).exp() * _mean_exp(p, q.scale)


@_to(D.Laplace, D.Normal)
def _laplace(p: D.Normal, q: D.Laplace) -> torch.Tensor:
    moved = p.loc - q.loc
    in_deviations = moved / p.scale
    near = math.sqrt(2 / math.pi) * p.scale * (-0.5 * in_deviations.pow(2)).exp()
    distance = near + moved * (math.sqrt(0.5) * in_deviations).erf()
    return -(2 * q.scale).log() - distance / q.scale


@_to(D.ContinuousBernoulli, D.Beta)
@_to(D.ContinuousBernoulli, D.Uniform, beyond=lambda p, q: (p.high >= 1) | (p.low <= 0))
def _continuous_bernoulli(p: Any, q: D.ContinuousBernoulli) -> torch.Tensor:
    return p.mean * q.logits + (-q.probs).log1p() + q._cont_bern_log_norm()


@_to(D.Uniform, D.Beta, beyond=lambda p, q: (q.low > 0) | (q.high < 1))
@_to(D.Uniform, D.ContinuousBernoulli, beyond=lambda p, q: (q.low >= 0) | (q.high <= 1))
def _uniform(p: Any, q: D.Uniform) -> torch.Tensor:
    return -(q.high - q.low).log()


@_to(D.Beta, D.Uniform, beyond=lambda p, q: (p.high > 1) | (p.low < 0))
def _beta(p: D.Uniform, q: D.Beta) -> torch.Tensor:
    a, b = q.concentration1, q.concentration0
    log_norm = a.lgamma() + b.lgamma() - (a + b).lgamma()
    return (a - 1) * _mean_log(p) + (b - 1) * _mean_x_log_x(1 - p.high, 1 - p.low) - log_norm


@_to(D.Pareto, D.Uniform, beyond=_starts_below)
def _pareto(p: D.Uniform, q: D.Pareto) -> torch.Tensor:
    return q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * _mean_log(p)


@_to(D.Poisson, D.Bernoulli)
def _poisson(p: D.Bernoulli, q: D.Poisson) -> torch.Tensor:
    return p.probs * q.rate.log() - q.rate


# --- pairs where the support of p always exceeds that of q


def _infinite(p: Any, q: Any) -> torch.Tensor:
    return p.mean.new_full(p.batch_shape, inf)


_EVERYWHERE = (D.Uniform, D.Pareto, D.Gamma, D.Exponential, D.ContinuousBernoulli, D.Beta)
_BEYOND: dict[type, tuple[type, ...]] = {
    D.Beta: (D.Pareto,),
    D.ContinuousBernoulli: (D.Pareto,),
    D.Exponential: (D.Uniform, D.Pareto, D.ContinuousBernoulli, D.Beta),
    D.Gamma: (D.Uniform, D.Pareto, D.ContinuousBernoulli, D.Beta),
    D.Gumbel: _EVERYWHERE,
    D.Laplace: _EVERYWHERE,
    D.Normal: _EVERYWHERE,
    D.Pareto: (D.Uniform, D.ContinuousBernoulli, D.Beta),
    D.Poisson: (D.Bernoulli, D.Binomial),
}
for _p, _others in _BEYOND.items():
    for _q in _others:
        register_kl(_p, _q)(_infinite)
