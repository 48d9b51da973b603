# Written by `make tables` from the modules themselves: do not edit.
from undertow.distributions.transforms import AbsTransform as AbsTransform, AffineTransform as AffineTransform, CatTransform as CatTransform, ComposeTransform as ComposeTransform, CorrCholeskyTransform as CorrCholeskyTransform, CumulativeDistributionTransform as CumulativeDistributionTransform, ExpTransform as ExpTransform, IndependentTransform as IndependentTransform, LowerCholeskyTransform as LowerCholeskyTransform, PositiveDefiniteTransform as PositiveDefiniteTransform, PowerTransform as PowerTransform, ReshapeTransform as ReshapeTransform, SigmoidTransform as SigmoidTransform, SoftmaxTransform as SoftmaxTransform, SoftplusTransform as SoftplusTransform, StackTransform as StackTransform, StickBreakingTransform as StickBreakingTransform, TanhTransform as TanhTransform, Transform as Transform, identity_transform as identity_transform
from undertow.distributions.bernoulli import Bernoulli as Bernoulli
from undertow.distributions.beta import Beta as Beta
from undertow.distributions.binomial import Binomial as Binomial
from undertow.distributions.categorical import Categorical as Categorical
from undertow.distributions.cauchy import Cauchy as Cauchy
from undertow.distributions.chi2 import Chi2 as Chi2
from undertow.distributions.continuous_bernoulli import ContinuousBernoulli as ContinuousBernoulli
from undertow.distributions.dirichlet import Dirichlet as Dirichlet
from undertow.distributions.distribution import Distribution as Distribution
from undertow.distributions.exponential import Exponential as Exponential
from undertow.distributions.exp_family import ExponentialFamily as ExponentialFamily
from undertow.distributions.fishersnedecor import FisherSnedecor as FisherSnedecor
from undertow.distributions.gamma import Gamma as Gamma
from undertow.distributions.generalized_pareto import GeneralizedPareto as GeneralizedPareto
from undertow.distributions.geometric import Geometric as Geometric
from undertow.distributions.gumbel import Gumbel as Gumbel
from undertow.distributions.half_cauchy import HalfCauchy as HalfCauchy
from undertow.distributions.half_normal import HalfNormal as HalfNormal
from undertow.distributions.independent import Independent as Independent
from undertow.distributions.inverse_gamma import InverseGamma as InverseGamma
from undertow.distributions.kumaraswamy import Kumaraswamy as Kumaraswamy
from undertow.distributions.lkj_cholesky import LKJCholesky as LKJCholesky
from undertow.distributions.laplace import Laplace as Laplace
from undertow.distributions.log_normal import LogNormal as LogNormal
from undertow.distributions.logistic_normal import LogisticNormal as LogisticNormal
from undertow.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal as LowRankMultivariateNormal
from undertow.distributions.mixture_same_family import MixtureSameFamily as MixtureSameFamily
from undertow.distributions.multinomial import Multinomial as Multinomial
from undertow.distributions.multivariate_normal import MultivariateNormal as MultivariateNormal
from undertow.distributions.negative_binomial import NegativeBinomial as NegativeBinomial
from undertow.distributions.normal import Normal as Normal
from undertow.distributions.one_hot_categorical import OneHotCategorical as OneHotCategorical, OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough
from undertow.distributions.pareto import Pareto as Pareto
from undertow.distributions.poisson import Poisson as Poisson
from undertow.distributions.relaxed_bernoulli import RelaxedBernoulli as RelaxedBernoulli
from undertow.distributions.relaxed_categorical import RelaxedOneHotCategorical as RelaxedOneHotCategorical
from undertow.distributions.studentT import StudentT as StudentT
from undertow.distributions.transformed_distribution import TransformedDistribution as TransformedDistribution
from undertow.distributions.uniform import Uniform as Uniform
from undertow.distributions.von_mises import VonMises as VonMises
from undertow.distributions.weibull import Weibull as Weibull
from undertow.distributions.wishart import Wishart as Wishart
from undertow.distributions import bernoulli as bernoulli, beta as beta, binomial as binomial, categorical as categorical, cauchy as cauchy, chi2 as chi2, constraint_registry as constraint_registry, constraints as constraints, continuous_bernoulli as continuous_bernoulli, dirichlet as dirichlet, distribution as distribution, exp_family as exp_family, exponential as exponential, fishersnedecor as fishersnedecor, gamma as gamma, generalized_pareto as generalized_pareto, geometric as geometric, gumbel as gumbel, half_cauchy as half_cauchy, half_normal as half_normal, independent as independent, inverse_gamma as inverse_gamma, kl as kl, kumaraswamy as kumaraswamy, laplace as laplace, lkj_cholesky as lkj_cholesky, log_normal as log_normal, logistic_normal as logistic_normal, lowrank_multivariate_normal as lowrank_multivariate_normal, mixture_same_family as mixture_same_family, multinomial as multinomial, multivariate_normal as multivariate_normal, negative_binomial as negative_binomial, normal as normal, one_hot_categorical as one_hot_categorical, pareto as pareto, poisson as poisson, relaxed_bernoulli as relaxed_bernoulli, relaxed_categorical as relaxed_categorical, studentT as studentT, transformed_distribution as transformed_distribution, transforms as transforms, uniform as uniform, utils as utils, von_mises as von_mises, weibull as weibull, wishart as wishart
from undertow.distributions.constraint_registry import biject_to as biject_to, transform_to as transform_to
from undertow.distributions.kl import kl_divergence as kl_divergence, register_kl as register_kl
__all__: list[str]
