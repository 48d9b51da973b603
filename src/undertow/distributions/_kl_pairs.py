"""Divergences between different families of continuous distributions.

Each is -entropy(p) minus the expected log density of q under p, which needs a few expectations of p: the mean, the
variance, the mean of the logarithm. Where p reaches beyond the support of q the divergence is infinite.
"""

from __future__ import annotations

import math
from math import inf
from typing import Any

from undertow.distributions import _functions as torch
from undertow.distributions._kl_registry import infinite_like, register_kl
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

# --- the expected log density of q, given expectations of p


def _under_normal(mean: Any, variance: Any, q: Any) -> Any:
    return -q.scale.log() - _HALF_LOG_2PI - 0.5 * (variance + (mean - q.loc).pow(2)) / q.scale.pow(2)


def _under_exponential(mean: Any, q: Any) -> Any:
    return q.rate.log() - q.rate * mean


def _under_gamma(mean: Any, mean_log: Any, q: Any) -> Any:
    a = q.concentration
    return a * q.rate.log() - a.lgamma() + (a - 1) * mean_log - q.rate * mean


def _under_beta(mean_log: Any, mean_log_rest: Any, q: Any) -> Any:
    a, b = q.concentration1, q.concentration0
    return (a - 1) * mean_log + (b - 1) * mean_log_rest - a.lgamma() - b.lgamma() + (a + b).lgamma()


def _under_continuous_bernoulli(mean: Any, q: Any) -> Any:
    return mean * q.logits + (-q.probs).log1p() + q._cont_bern_log_norm()


def _under_gumbel(mean: Any, mean_exp: Any, q: Any) -> Any:
    """mean_exp is the expected exp(-x / scale)."""
    return -q.scale.log() - (mean - q.loc) / q.scale - (q.loc / q.scale).exp() * mean_exp


# --- expectations of p


def _mean_log(p: Any) -> Any:
    if isinstance(p, Gamma):
        return p.concentration.digamma() - p.rate.log()
    if isinstance(p, Exponential):
        return -euler_constant - p.rate.log()
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return (torch.xlogy(p.high, p.high) - torch.xlogy(p.low, p.low)) / (p.high - p.low) - 1  # Uniform


def _mean_exp(p: Any, scale: Any) -> Any:
    """The expected exp(-x / scale)."""
    if isinstance(p, Gamma):
        return (1 + 1 / (p.rate * scale)).pow(-p.concentration)
    if isinstance(p, Exponential):
        return p.rate * scale / (p.rate * scale + 1)
    if isinstance(p, Normal):
        return (-p.loc / scale + 0.5 * (p.scale / scale).pow(2)).exp()
    return scale * ((-p.low / scale).exp() - (-p.high / scale).exp()) / (p.high - p.low)  # Uniform


# --- the pairs


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
@register_kl(Uniform, Normal)
def _to_normal(p: Any, q: Any) -> Any:
    return -p.entropy() - _under_normal(p.mean, p.variance, q)


@register_kl(Pareto, Normal)
def _pareto_normal(p: Any, q: Any) -> Any:
    return torch.where(p.alpha <= 2, inf, -p.entropy() - _under_normal(p.mean, p.variance, q))


@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
@register_kl(Gamma, Exponential)
def _to_exponential(p: Any, q: Any) -> Any:
    return -p.entropy() - _under_exponential(p.mean, q)


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Any, q: Any) -> Any:
    return torch.where(p.alpha <= 1, inf, -p.entropy() - _under_exponential(p.mean, q))


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Any, q: Any) -> Any:
    return torch.where(p.low < q.support.lower_bound, inf, -p.entropy() - _under_exponential(p.mean, q))


@register_kl(Beta, Gamma)
@register_kl(Exponential, Gamma)
def _to_gamma(p: Any, q: Any) -> Any:
    return -p.entropy() - _under_gamma(p.mean, _mean_log(p), q)


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Any, q: Any) -> Any:
    return torch.where(p.alpha <= 1, inf, -p.entropy() - _under_gamma(p.mean, _mean_log(p), q))


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Any, q: Any) -> Any:
    result = -p.entropy() - _under_gamma(p.mean, _mean_log(p), q)
    return torch.where(p.low < q.support.lower_bound, inf, result)


@register_kl(Exponential, Gumbel)
@register_kl(Gamma, Gumbel)
@register_kl(Normal, Gumbel)
@register_kl(Uniform, Gumbel)
def _to_gumbel(p: Any, q: Any) -> Any:
    return -p.entropy() - _under_gumbel(p.mean, _mean_exp(p, q.scale), q)


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Any:
    moved = p.loc - q.loc
    in_deviations = moved / p.scale
    near = math.sqrt(2 / math.pi) * p.scale * (-0.5 * in_deviations.pow(2)).exp()
    distance = near + moved * (math.sqrt(0.5) * in_deviations).erf()
    return -p.entropy() + (2 * q.scale).log() + distance / q.scale


@register_kl(Beta, ContinuousBernoulli)
def _beta_continuous_bernoulli(p: Any, q: Any) -> Any:
    return -p.entropy() - _under_continuous_bernoulli(p.mean, q)


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Any, q: Any) -> Any:
    result = -p.entropy() - _under_continuous_bernoulli(p.mean, q)
    beyond = (p.high >= q.support.upper_bound) | (p.low <= q.support.lower_bound)
    return torch.where(beyond, torch.ones_like(result) * inf, result)


@register_kl(Beta, Uniform)
def _beta_uniform(p: Any, q: Any) -> Any:
    result = -p.entropy() + (q.high - q.low).log()
    return torch.where((q.low > p.support.lower_bound) | (q.high < p.support.upper_bound), inf, result)


@register_kl(ContinuousBernoulli, Uniform)
def _continuous_bernoulli_uniform(p: Any, q: Any) -> Any:
    result = -p.entropy() + (q.high - q.low).log()
    beyond = (q.low >= p.support.lower_bound) | (q.high <= p.support.upper_bound)
    return torch.where(beyond, torch.ones_like(result) * inf, result)


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Any:
    rest_high, rest_low = 1 - p.low, 1 - p.high
    mean_log_rest = (torch.xlogy(rest_high, rest_high) - torch.xlogy(rest_low, rest_low)) / (p.high - p.low) - 1
    result = -p.entropy() - _under_beta(_mean_log(p), mean_log_rest, q)
    return torch.where((p.high > q.support.upper_bound) | (p.low < q.support.lower_bound), inf, result)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Any:
    under = q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * _mean_log(p)
    return torch.where(p.low < q.support.lower_bound, inf, -p.entropy() - under)


def _infinite(p: Any, q: Any) -> Any:
    """p reaches where q does not."""
    for name in ("concentration1", "rate", "concentration", "loc", "scale", "probs"):
        if hasattr(p, name):
            return infinite_like(getattr(p, name))
    raise AssertionError("a distribution without parameters")


_BEYOND = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Uniform, Pareto, ContinuousBernoulli, Beta),
    Gamma: (Uniform, Pareto, ContinuousBernoulli, Beta),
    Gumbel: (Uniform, Pareto, Gamma, Exponential, ContinuousBernoulli, Beta),
    Laplace: (Uniform, Pareto, Gamma, Exponential, ContinuousBernoulli, Beta),
    Normal: (Uniform, Pareto, Gamma, Exponential, ContinuousBernoulli, Beta),
    Pareto: (Uniform, ContinuousBernoulli, Beta),
    Poisson: (Bernoulli, Binomial),
}
for _p, _others in _BEYOND.items():
    for _q in _others:
        register_kl(_p, _q)(_infinite)
