"""`torch.distributions`: random values with densities, entropies, transforms and divergences."""

from typing import TYPE_CHECKING

from undertow._src.base.lazy import homes_of, lazy_names

if TYPE_CHECKING:
    from undertow.distributions import constraint_registry as constraint_registry
    from undertow.distributions import constraints as constraints
    from undertow.distributions import kl as kl
    from undertow.distributions import transforms as transforms
    from undertow.distributions import utils as utils
    from undertow.distributions.bernoulli import Bernoulli as Bernoulli
    from undertow.distributions.beta import Beta as Beta
    from undertow.distributions.binomial import Binomial as Binomial
    from undertow.distributions.categorical import Categorical as Categorical
    from undertow.distributions.cauchy import Cauchy as Cauchy
    from undertow.distributions.chi2 import Chi2 as Chi2
    from undertow.distributions.constraint_registry import biject_to as biject_to
    from undertow.distributions.constraint_registry import transform_to as transform_to
    from undertow.distributions.continuous_bernoulli import ContinuousBernoulli as ContinuousBernoulli
    from undertow.distributions.dirichlet import Dirichlet as Dirichlet
    from undertow.distributions.distribution import Distribution as Distribution
    from undertow.distributions.exp_family import ExponentialFamily as ExponentialFamily
    from undertow.distributions.exponential import Exponential as Exponential
    from undertow.distributions.fishersnedecor import FisherSnedecor as FisherSnedecor
    from undertow.distributions.gamma import Gamma as Gamma
    from undertow.distributions.generalized_pareto import GeneralizedPareto as GeneralizedPareto
    from undertow.distributions.geometric import Geometric as Geometric
    from undertow.distributions.gumbel import Gumbel as Gumbel
    from undertow.distributions.half_cauchy import HalfCauchy as HalfCauchy
    from undertow.distributions.half_normal import HalfNormal as HalfNormal
    from undertow.distributions.independent import Independent as Independent
    from undertow.distributions.inverse_gamma import InverseGamma as InverseGamma
    from undertow.distributions.kl import kl_divergence as kl_divergence
    from undertow.distributions.kl import register_kl as register_kl
    from undertow.distributions.kumaraswamy import Kumaraswamy as Kumaraswamy
    from undertow.distributions.laplace import Laplace as Laplace
    from undertow.distributions.lkj_cholesky import LKJCholesky as LKJCholesky
    from undertow.distributions.log_normal import LogNormal as LogNormal
    from undertow.distributions.logistic_normal import LogisticNormal as LogisticNormal
    from undertow.distributions.lowrank_multivariate_normal import (
        LowRankMultivariateNormal as LowRankMultivariateNormal,
    )
    from undertow.distributions.mixture_same_family import MixtureSameFamily as MixtureSameFamily
    from undertow.distributions.multinomial import Multinomial as Multinomial
    from undertow.distributions.multivariate_normal import MultivariateNormal as MultivariateNormal
    from undertow.distributions.negative_binomial import NegativeBinomial as NegativeBinomial
    from undertow.distributions.normal import Normal as Normal
    from undertow.distributions.one_hot_categorical import OneHotCategorical as OneHotCategorical
    from undertow.distributions.one_hot_categorical import (
        OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough,
    )
    from undertow.distributions.pareto import Pareto as Pareto
    from undertow.distributions.poisson import Poisson as Poisson
    from undertow.distributions.relaxed_bernoulli import RelaxedBernoulli as RelaxedBernoulli
    from undertow.distributions.relaxed_categorical import RelaxedOneHotCategorical as RelaxedOneHotCategorical
    from undertow.distributions.studentT import StudentT as StudentT
    from undertow.distributions.transformed_distribution import TransformedDistribution as TransformedDistribution
    from undertow.distributions.transforms import AbsTransform as AbsTransform
    from undertow.distributions.transforms import AffineTransform as AffineTransform
    from undertow.distributions.transforms import CatTransform as CatTransform
    from undertow.distributions.transforms import ComposeTransform as ComposeTransform
    from undertow.distributions.transforms import CorrCholeskyTransform as CorrCholeskyTransform
    from undertow.distributions.transforms import CumulativeDistributionTransform as CumulativeDistributionTransform
    from undertow.distributions.transforms import ExpTransform as ExpTransform
    from undertow.distributions.transforms import IndependentTransform as IndependentTransform
    from undertow.distributions.transforms import LowerCholeskyTransform as LowerCholeskyTransform
    from undertow.distributions.transforms import PositiveDefiniteTransform as PositiveDefiniteTransform
    from undertow.distributions.transforms import PowerTransform as PowerTransform
    from undertow.distributions.transforms import ReshapeTransform as ReshapeTransform
    from undertow.distributions.transforms import SigmoidTransform as SigmoidTransform
    from undertow.distributions.transforms import SoftmaxTransform as SoftmaxTransform
    from undertow.distributions.transforms import SoftplusTransform as SoftplusTransform
    from undertow.distributions.transforms import StackTransform as StackTransform
    from undertow.distributions.transforms import StickBreakingTransform as StickBreakingTransform
    from undertow.distributions.transforms import TanhTransform as TanhTransform
    from undertow.distributions.transforms import Transform as Transform
    from undertow.distributions.transforms import identity_transform as identity_transform
    from undertow.distributions.uniform import Uniform as Uniform
    from undertow.distributions.von_mises import VonMises as VonMises
    from undertow.distributions.weibull import Weibull as Weibull
    from undertow.distributions.wishart import Wishart as Wishart

__getattr__, __dir__ = lazy_names(__name__, homes_of(__name__, """
    bernoulli: Bernoulli; beta: Beta; binomial: Binomial; categorical: Categorical; cauchy: Cauchy; chi2: Chi2;
    constraint_registry: biject_to transform_to; constraints:; continuous_bernoulli: ContinuousBernoulli; dirichlet:
    Dirichlet; distribution: Distribution; exp_family: ExponentialFamily; exponential: Exponential; fishersnedecor:
    FisherSnedecor; gamma: Gamma; generalized_pareto: GeneralizedPareto; geometric: Geometric; gumbel: Gumbel;
    half_cauchy: HalfCauchy; half_normal: HalfNormal; independent: Independent; inverse_gamma: InverseGamma; kl:
    kl_divergence register_kl; kumaraswamy: Kumaraswamy; laplace: Laplace; lkj_cholesky: LKJCholesky; log_normal:
    LogNormal; logistic_normal: LogisticNormal; lowrank_multivariate_normal: LowRankMultivariateNormal;
    mixture_same_family: MixtureSameFamily; multinomial: Multinomial; multivariate_normal: MultivariateNormal;
    negative_binomial: NegativeBinomial; normal: Normal; one_hot_categorical: OneHotCategorical
    OneHotCategoricalStraightThrough; pareto: Pareto; poisson: Poisson; relaxed_bernoulli: RelaxedBernoulli;
    relaxed_categorical: RelaxedOneHotCategorical; studentT: StudentT; transformed_distribution:
    TransformedDistribution; transforms: AbsTransform AffineTransform CatTransform ComposeTransform
    CorrCholeskyTransform CumulativeDistributionTransform ExpTransform IndependentTransform LowerCholeskyTransform
    PositiveDefiniteTransform PowerTransform ReshapeTransform SigmoidTransform SoftmaxTransform SoftplusTransform
    StackTransform StickBreakingTransform TanhTransform Transform identity_transform; uniform: Uniform; utils:;
    von_mises: VonMises; weibull: Weibull; wishart: Wishart
"""))  # fmt: skip

__all__ = [
    "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "ContinuousBernoulli", "Dirichlet",
    "Distribution", "ExponentialFamily", "Exponential", "FisherSnedecor", "Gamma", "GeneralizedPareto", "Geometric",
    "Gumbel", "HalfCauchy", "HalfNormal", "Independent", "InverseGamma", "kl_divergence", "register_kl",
    "Kumaraswamy", "LKJCholesky", "Laplace", "LogNormal", "LogisticNormal", "LowRankMultivariateNormal",
    "MixtureSameFamily", "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal", "OneHotCategorical",
    "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "RelaxedBernoulli", "RelaxedOneHotCategorical",
    "StudentT", "TransformedDistribution", "Uniform", "VonMises", "Weibull", "Wishart", "biject_to", "transform_to",
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftplusTransform",
    "TanhTransform", "SoftmaxTransform", "StackTransform", "StickBreakingTransform", "Transform",
    "identity_transform",
]  # fmt: skip
