"""Divergences within one family, or between two of the same structure."""

from __future__ import annotations

from math import inf
from typing import Any

from undertow import distributions as D
from undertow.distributions import _functions as torch
from undertow.distributions._kl_registry import kl_divergence, register_kl
from undertow.distributions.utils import _sum_rightmost, euler_constant


def _weighted(terms: torch.Tensor, weight: torch.Tensor, possible: torch.Tensor) -> torch.Tensor:
    """Return weight · terms: infinite where only p can draw the value, and 0 where p cannot."""
    terms = weight * terms
    return terms.masked_fill((possible == 0).expand_as(terms), inf).masked_fill((weight == 0).expand_as(terms), 0)


@register_kl(D.Bernoulli, D.Bernoulli)
def _bernoulli(p: D.Bernoulli, q: D.Bernoulli) -> torch.Tensor:
    one = torch.softplus(-q.logits) - torch.softplus(-p.logits)
    other = torch.softplus(q.logits) - torch.softplus(p.logits)
    return _weighted(one, p.probs, q.probs) + _weighted(other, 1 - p.probs, 1 - q.probs)


@register_kl(D.Categorical, D.Categorical)
def _categorical(p: D.Categorical, q: D.Categorical) -> torch.Tensor:
    return _weighted(p.logits - q.logits, p.probs, q.probs).sum(-1)


@register_kl(D.OneHotCategorical, D.OneHotCategorical)
def _one_hot_categorical(p: D.OneHotCategorical, q: D.OneHotCategorical) -> torch.Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(D.Binomial, D.Binomial)
def _binomial(p: D.Binomial, q: D.Binomial) -> torch.Tensor:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    divergence = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return torch.where(p.total_count > q.total_count, inf, divergence)


@register_kl(D.ContinuousBernoulli, D.ContinuousBernoulli)
def _continuous_bernoulli(p: D.ContinuousBernoulli, q: D.ContinuousBernoulli) -> torch.Tensor:
    log_norms = p._cont_bern_log_norm() - q._cont_bern_log_norm()
    return p.mean * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p() + log_norms


@register_kl(D.Beta, D.Beta)
def _beta(p: D.Beta, q: D.Beta) -> torch.Tensor:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(D.Dirichlet, D.Dirichlet)
def _dirichlet(p: D.Dirichlet, q: D.Dirichlet) -> torch.Tensor:
    a, b = p.concentration, q.concentration
    mean_log = a.digamma() - p._total.digamma()
    return q._log_normalizer(b) - p._log_normalizer(a) + ((a - b) * mean_log).sum(-1)


@register_kl(D.Exponential, D.Exponential)
def _exponential(p: D.Exponential, q: D.Exponential) -> torch.Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(D.ExponentialFamily, D.ExponentialFamily)
def _exponential_family(p: D.ExponentialFamily, q: D.ExponentialFamily) -> torch.Tensor:
    """Return the Bregman divergence of the log normalizer."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed from their log normalizers: "
            "a Bregman divergence compares two members of one family"
        )
    params, normalizer, slopes = p._tangent()
    result = q._log_normalizer(*q._natural_params) - normalizer
    for one, other, slope in zip(params, q._natural_params, slopes, strict=True):
        result = result - _sum_rightmost((other - one) * slope, len(q.event_shape))
    return result


@register_kl(D.Gamma, D.Gamma)
def _gamma(p: D.Gamma, q: D.Gamma) -> torch.Tensor:
    a, b = p.concentration, q.concentration
    log_norms = b.lgamma() - a.lgamma() + b * (p.rate / q.rate).log()
    return log_norms + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)


@register_kl(D.Gumbel, D.Gumbel)
def _gumbel(p: D.Gumbel, q: D.Gumbel) -> torch.Tensor:
    ratio, moved = p.scale / q.scale, q.loc / q.scale - p.loc / q.scale
    tail = (moved + (1 + ratio).lgamma()).exp()
    return ratio * euler_constant - ratio.log() - moved + tail - (1 + euler_constant)


@register_kl(D.Geometric, D.Geometric)
def _geometric(p: D.Geometric, q: D.Geometric) -> torch.Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(D.HalfNormal, D.HalfNormal)
def _half_normal(p: D.HalfNormal, q: D.HalfNormal) -> torch.Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(D.Laplace, D.Laplace)
def _laplace(p: D.Laplace, q: D.Laplace) -> torch.Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(D.Normal, D.Normal)
def _normal(p: D.Normal, q: D.Normal) -> torch.Tensor:
    ratio = (p.scale / q.scale).pow(2)
    moved = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + moved - 1 - ratio.log())


@register_kl(D.Pareto, D.Pareto)
def _pareto(p: D.Pareto, q: D.Pareto) -> torch.Tensor:
    ratio = q.alpha / p.alpha
    return torch.where(p.scale < q.scale, inf, q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1)


@register_kl(D.Poisson, D.Poisson)
def _poisson(p: D.Poisson, q: D.Poisson) -> torch.Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(D.Uniform, D.Uniform)
def _uniform(p: D.Uniform, q: D.Uniform) -> torch.Tensor:
    return torch.where((q.low > p.low) | (q.high < p.high), inf, (q._length / p._length).log())


@register_kl(D.Cauchy, D.Cauchy)
def _cauchy(p: D.Cauchy, q: D.Cauchy) -> torch.Tensor:
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(D.MultivariateNormal, D.MultivariateNormal)
@register_kl(D.MultivariateNormal, D.LowRankMultivariateNormal)
@register_kl(D.LowRankMultivariateNormal, D.MultivariateNormal)
@register_kl(D.LowRankMultivariateNormal, D.LowRankMultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> torch.Tensor:
    if p.event_shape != q.event_shape:
        low = {isinstance(each, D.LowRankMultivariateNormal) for each in (p, q)}
        kind = "(Low Rank) " if len(low) == 2 else "Low Rank " * low.pop()
        raise ValueError(
            f"KL-divergence between two {kind}Multivariate Normals with different event shapes cannot be computed"
        )
    trace = sum(q._whitened_squares(*part) for part in p._covariance_factors())
    log_dets = q._log_det() - p._log_det()
    spread = trace + q._distance(q.loc - p.loc) - p.event_shape[0]
    if isinstance(p, D.LowRankMultivariateNormal) or isinstance(q, D.LowRankMultivariateNormal):
        return 0.5 * (log_dets + spread)
    return 0.5 * log_dets + 0.5 * spread


@register_kl(D.TransformedDistribution, D.TransformedDistribution)
def _transformed(p: D.TransformedDistribution, q: D.TransformedDistribution) -> torch.Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(D.Independent, D.Independent)
def _independent(p: D.Independent, q: D.Independent) -> torch.Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
