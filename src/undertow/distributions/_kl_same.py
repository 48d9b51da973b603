"""Divergences between distributions of one family, or of two that are made alike."""

from __future__ import annotations

from math import inf
from typing import Any

from undertow.distributions import _functions as torch
from undertow.distributions._kl_registry import kl_divergence, register_kl
from undertow.distributions.bernoulli import Bernoulli
from undertow.distributions.beta import Beta
from undertow.distributions.binomial import Binomial
from undertow.distributions.categorical import Categorical
from undertow.distributions.cauchy import Cauchy
from undertow.distributions.continuous_bernoulli import ContinuousBernoulli
from undertow.distributions.dirichlet import Dirichlet
from undertow.distributions.exp_family import ExponentialFamily
from undertow.distributions.exponential import Exponential
from undertow.distributions.gamma import Gamma
from undertow.distributions.geometric import Geometric
from undertow.distributions.gumbel import Gumbel
from undertow.distributions.half_normal import HalfNormal
from undertow.distributions.independent import Independent
from undertow.distributions.laplace import Laplace
from undertow.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from undertow.distributions.multivariate_normal import MultivariateNormal
from undertow.distributions.normal import Normal
from undertow.distributions.one_hot_categorical import OneHotCategorical
from undertow.distributions.pareto import Pareto
from undertow.distributions.poisson import Poisson
from undertow.distributions.transformed_distribution import TransformedDistribution
from undertow.distributions.uniform import Uniform
from undertow.distributions.utils import _sum_rightmost, euler_constant


def _weighted(terms: torch.Tensor, weight: torch.Tensor, possible: torch.Tensor) -> torch.Tensor:
    """Return weight · terms: infinite where q can't draw the value, but 0 where p does not either."""
    terms = weight * terms
    return terms.masked_fill((possible == 0).expand_as(terms), inf).masked_fill((weight == 0).expand_as(terms), 0)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> torch.Tensor:
    one = torch.softplus(-q.logits) - torch.softplus(-p.logits)
    other = torch.softplus(q.logits) - torch.softplus(p.logits)
    return _weighted(one, p.probs, q.probs) + _weighted(other, 1 - p.probs, 1 - q.probs)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> torch.Tensor:
    return _weighted(p.logits - q.logits, p.probs, q.probs).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot_categorical(p: OneHotCategorical, q: OneHotCategorical) -> torch.Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> torch.Tensor:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    divergence = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return torch.where(p.total_count > q.total_count, inf, divergence)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> torch.Tensor:
    log_norms = p._cont_bern_log_norm() - q._cont_bern_log_norm()
    return p.mean * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p() + log_norms


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> torch.Tensor:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> torch.Tensor:
    a, b = p.concentration, q.concentration
    mean_log = a.digamma() - p._total.digamma()
    return q._log_normalizer(b) - p._log_normalizer(a) + ((a - b) * mean_log).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> torch.Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: ExponentialFamily, q: ExponentialFamily) -> torch.Tensor:
    """Return the Bregman divergence of the log normalizer."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be had from their log normalizers: "
            "a Bregman divergence compares two members of one family"
        )
    params, normalizer, slopes = p._tangent()
    result = q._log_normalizer(*q._natural_params) - normalizer
    for one, other, slope in zip(params, q._natural_params, slopes, strict=True):
        result = result - _sum_rightmost((other - one) * slope, len(q.event_shape))
    return result


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> torch.Tensor:
    a, b = p.concentration, q.concentration
    log_norms = b.lgamma() - a.lgamma() + b * (p.rate / q.rate).log()
    return log_norms + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> torch.Tensor:
    ratio, moved = p.scale / q.scale, q.loc / q.scale - p.loc / q.scale
    tail = (moved + (1 + ratio).lgamma()).exp()
    return ratio * euler_constant - ratio.log() - moved + tail - (1 + euler_constant)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> torch.Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> torch.Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> torch.Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> torch.Tensor:
    ratio = (p.scale / q.scale).pow(2)
    moved = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + moved - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> torch.Tensor:
    ratio = q.alpha / p.alpha
    return torch.where(p.scale < q.scale, inf, q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1)


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> torch.Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> torch.Tensor:
    return torch.where((q.low > p.low) | (q.high < p.high), inf, (q._length / p._length).log())


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> torch.Tensor:
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> torch.Tensor:
    if p.event_shape != q.event_shape:
        low = {isinstance(each, LowRankMultivariateNormal) for each in (p, q)}
        kind = "(Low Rank) " if len(low) == 2 else "Low Rank " * low.pop()
        raise ValueError(
            f"KL-divergence between two {kind}Multivariate Normals with different event shapes cannot be computed"
        )
    trace = sum(q._whitened_squares(*part) for part in p._covariance_factors())
    log_dets = q._log_det() - p._log_det()
    return 0.5 * (log_dets + trace + q._distance(q.loc - p.loc) - p.event_shape[0])


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> torch.Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> torch.Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
