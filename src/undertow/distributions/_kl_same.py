"""Divergences between distributions of one family."""

from __future__ import annotations

from math import inf
from typing import Any

from undertow.autograd.differentiate import grad
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
from undertow.distributions.lowrank_multivariate_normal import (
    LowRankMultivariateNormal,
    _batch_lowrank_logdet,
    _batch_lowrank_mahalanobis,
)
from undertow.distributions.multivariate_normal import MultivariateNormal, _batch_mahalanobis
from undertow.distributions.normal import Normal
from undertow.distributions.one_hot_categorical import OneHotCategorical
from undertow.distributions.pareto import Pareto
from undertow.distributions.poisson import Poisson
from undertow.distributions.transformed_distribution import TransformedDistribution
from undertow.distributions.uniform import Uniform
from undertow.distributions.utils import _sum_rightmost as sum_rightmost
from undertow.distributions.utils import euler_constant


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    one = p.probs * (torch.softplus(-q.logits) - torch.softplus(-p.logits))
    one = one.masked_fill(q.probs == 0, inf).masked_fill(p.probs == 0, 0)
    other = (1 - p.probs) * (torch.softplus(q.logits) - torch.softplus(p.logits))
    other = other.masked_fill(q.probs == 1, inf).masked_fill(p.probs == 1, 0)
    return one + other


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Any:
    total_p, total_q = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
    return (
        q.concentration1.lgamma() + q.concentration0.lgamma() + total_p.lgamma()
        - (p.concentration1.lgamma() + p.concentration0.lgamma() + total_q.lgamma())
        + (p.concentration1 - q.concentration1) * p.concentration1.digamma()
        + (p.concentration0 - q.concentration0) * p.concentration0.digamma()
        + (total_q - total_p) * total_p.digamma()
    )  # fmt: skip


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Any:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    divergence = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    more, divergence = torch.broadcast_tensors(p.total_count > q.total_count, divergence)
    return divergence.masked_fill(more, inf)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Any:
    terms = p.probs * (p.logits - q.logits)
    terms = terms.masked_fill((q.probs == 0).expand_as(terms), inf).masked_fill((p.probs == 0).expand_as(terms), 0)
    return terms.sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot_categorical(p: Any, q: Any) -> Any:
    return _categorical(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Any:
    of_p = p._cont_bern_log_norm() + (-p.probs).log1p()
    return p.mean * (p.logits - q.logits) + of_p - q._cont_bern_log_norm() - (-q.probs).log1p()


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    total_p, total_q = p.concentration.sum(-1), q.concentration.sum(-1)
    log_ratio = (p.concentration.lgamma() - q.concentration.lgamma()).sum(-1)
    moved = (p.concentration - q.concentration) * (p.concentration.digamma() - total_p.digamma().unsqueeze(-1))
    return total_p.lgamma() - total_q.lgamma() - log_ratio + moved.sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: Any, q: Any) -> Any:
    """The Bregman divergence of the log normaliser."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman divergences"
        )
    p_params = [param.detach().requires_grad_() for param in p._natural_params]
    normalizer = p._log_normalizer(*p_params)
    slopes = grad(normalizer.sum(), p_params, create_graph=True)
    result = q._log_normalizer(*q._natural_params) - normalizer
    for one, other, slope in zip(p_params, q._natural_params, slopes, strict=True):
        result = result - sum_rightmost((other - one) * slope, len(q.event_shape))
    return result


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Any:
    return (
        q.concentration * (p.rate / q.rate).log()
        + q.concentration.lgamma() - p.concentration.lgamma()
        + (p.concentration - q.concentration) * p.concentration.digamma()
        + (q.rate - p.rate) * (p.concentration / p.rate)
    )  # fmt: skip


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Any:
    ratio, p_place, q_place = p.scale / q.scale, p.loc / q.scale, q.loc / q.scale
    tail = (q_place - p_place + (1 + ratio).lgamma()).exp()
    return ratio * euler_constant - ratio.log() - q_place + p_place + tail - (1 + euler_constant)


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Any:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Any:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).pow(2)
    moved = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + moved - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Any:
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return torch.where(p.support.lower_bound < q.support.lower_bound, inf, result)


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Any:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return torch.where((q.low > p.low) | (q.high < p.high), inf, result)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Any:
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


# --- vectors


def _half_log_det(matrix: Any) -> Any:
    return matrix.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _batch_trace_XXT(matrix: Any) -> Any:
    """The trace of X Xᵀ."""
    return matrix.reshape((*matrix.shape[:-2], -1)).pow(2).sum(-1)


def _check_dims(p: Any, q: Any, names: str) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(f"KL-divergence between two {names} with different event shapes cannot be computed")


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> Any:
    _check_dims(p, q, "Multivariate Normals")
    left, right = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    n = p.event_shape[0]
    shape = torch.broadcast_tensors(left, right)[0].shape[:-2]
    solved = torch.solve_triangular(right.expand((*shape, n, n)), left.expand((*shape, n, n)), upper=False)
    moved = _batch_mahalanobis(right, q.loc - p.loc)
    return _half_log_det(right) - _half_log_det(left) + 0.5 * (_batch_trace_XXT(solved) + moved - n)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _lowrank(p: Any, q: Any) -> Any:
    _check_dims(p, q, "Low Rank Multivariate Normals")
    term = _log_det_of(q) - _log_det_of(p)
    moved = _batch_lowrank_mahalanobis(
        q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag, q.loc - p.loc, q._capacitance_tril
    )
    scaled = q._unbroadcasted_cov_factor.mT / q._unbroadcasted_cov_diag.unsqueeze(-2)
    A = torch.solve_triangular(q._capacitance_tril, scaled, upper=False)
    root, factor = p._unbroadcasted_cov_diag.sqrt(), p._unbroadcasted_cov_factor
    trace = (
        (p._unbroadcasted_cov_diag / q._unbroadcasted_cov_diag).sum(-1)
        + _batch_trace_XXT(factor * q._unbroadcasted_cov_diag.rsqrt().unsqueeze(-1))
        - _batch_trace_XXT(A * root.unsqueeze(-2))
        - _batch_trace_XXT(A.matmul(factor))
    )
    return 0.5 * (term + trace + moved - p.event_shape[0])


def _log_det_of(d: Any) -> Any:
    return _batch_lowrank_logdet(d._unbroadcasted_cov_factor, d._unbroadcasted_cov_diag, d._capacitance_tril)


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _multivariate_lowrank(p: Any, q: Any) -> Any:
    _check_dims(p, q, "(Low Rank) Multivariate Normals")
    term = _log_det_of(q) - 2 * _half_log_det(p._unbroadcasted_scale_tril)
    moved = _batch_lowrank_mahalanobis(
        q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag, q.loc - p.loc, q._capacitance_tril
    )
    scaled = q._unbroadcasted_cov_factor.mT / q._unbroadcasted_cov_diag.unsqueeze(-2)
    A = torch.solve_triangular(q._capacitance_tril, scaled, upper=False)
    own = p._unbroadcasted_scale_tril
    trace = _batch_trace_XXT(own * q._unbroadcasted_cov_diag.rsqrt().unsqueeze(-1)) - _batch_trace_XXT(A.matmul(own))
    return 0.5 * (term + trace + moved - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _lowrank_multivariate(p: Any, q: Any) -> Any:
    _check_dims(p, q, "(Low Rank) Multivariate Normals")
    term = 2 * _half_log_det(q._unbroadcasted_scale_tril) - _log_det_of(p)
    moved = _batch_mahalanobis(q._unbroadcasted_scale_tril, q.loc - p.loc)
    n = p.event_shape[0]
    theirs, factor = q._unbroadcasted_scale_tril, p._unbroadcasted_cov_factor
    diagonal = p._unbroadcasted_cov_diag.sqrt().diag_embed()
    shape = torch.broadcast_tensors(theirs[..., 0, 0], factor[..., 0, 0])[0].shape
    solve = lambda b: torch.solve_triangular(theirs.expand((*shape, n, n)), b.expand((*shape, n, b.shape[-1])), upper=False)
    trace = _batch_trace_XXT(solve(factor)) + _batch_trace_XXT(solve(diagonal))
    return 0.5 * (term + trace + moved - n)


# --- made of others


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Any:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Any:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)
