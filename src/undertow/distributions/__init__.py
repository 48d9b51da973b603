"""`torch.distributions`: random values with densities, entropies, transforms and divergences."""

from undertow._src.base.lazy import homes_of, lazy_names

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
