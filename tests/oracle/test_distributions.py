"""torch.distributions against torch: draws for one seed, densities, moments, gradients, divergences, and the checks."""

from __future__ import annotations

from typing import Any

import pytest
import torch as real_torch

import undertow
from tests.oracle.harness import agree
from tests.oracle.programs import attempt


@pytest.fixture(autouse=True)
def checked() -> None:
    """Parts of real torch that other tests load turn these checks off for the whole process."""
    real_torch.distributions.Distribution.set_default_validate_args(True)


# Each over `t` (a tensor of the given numbers that asks for gradients) and the classes of torch.distributions.
MADE = """
Normal(0.5, 2.0)
Normal(t(0.0, 1.0, -3.0), t(1.0, 0.5, 2.0))
Normal(t(0.0, 1.0, -3.0), 2.0)
LogNormal(t(0.0, 0.3), t(1.0, 0.5))
Uniform(-1.0, 2.0)
Uniform(t(0.0, 1.0), t(2.0, 5.0))
Laplace(t(0.0, 1.0), t(1.0, 0.5))
Cauchy(t(0.0, 1.0), t(1.0, 0.5))
Exponential(2.0)
Exponential(t(0.5, 3.0))
Gamma(t(0.5, 2.0, 30.0), t(1.0, 0.5, 2.0))
Gamma(2.0, 3.0)
Chi2(t(1.0, 4.0))
InverseGamma(t(3.0, 4.5), t(1.0, 0.5))
Beta(t(0.5, 2.0), t(1.5, 0.7))
Beta(2.0, 3.0)
Dirichlet(t(0.5, 2.0, 3.0))
Dirichlet(t(0.5, 2.0, 3.0, 1.0, 0.3, 4.0).view(2, 3))
Bernoulli(0.3)
Bernoulli(t(0.2, 0.7))
Bernoulli(logits=t(-1.0, 2.0))
Geometric(t(0.2, 0.7))
Geometric(logits=t(-1.0, 0.5))
Categorical(t(0.2, 0.5, 0.3))
Categorical(t(1.0, 5.0, 3.0, 2.0, 2.0, 1.0).view(2, 3))
Categorical(logits=t(-1.0, 2.0, 0.3))
OneHotCategorical(t(0.2, 0.5, 0.3))
OneHotCategorical(logits=t(1.0, 5.0, 3.0, 2.0, 2.0, 1.0).view(2, 3))
OneHotCategoricalStraightThrough(t(0.2, 0.5, 0.3))
Binomial(5, t(0.2, 0.7))
Binomial(torch.tensor([3.0, 40.0]), logits=t(0.2, -0.7))
NegativeBinomial(t(2.0, 5.0), t(0.2, 0.7))
NegativeBinomial(3.0, logits=t(0.2, -0.7))
Poisson(t(0.5, 3.0, 20.0))
Poisson(2.0)
Multinomial(4, t(0.2, 0.5, 0.3))
Multinomial(3, logits=t(1.0, 5.0, 3.0, 2.0, 2.0, 1.0).view(2, 3))
StudentT(t(1.5, 3.0, 0.5), t(0.0, 1.0, 2.0), 2.0)
Gumbel(t(0.0, 1.0), t(1.0, 2.0))
Gumbel(0.5, 2.0)
HalfNormal(t(0.5, 2.0))
HalfCauchy(t(0.5, 2.0))
FisherSnedecor(t(3.0, 7.0), t(5.0, 9.0))
Pareto(t(0.5, 2.0), t(2.5, 3.0))
Weibull(t(0.5, 2.0), t(1.5, 3.0))
Kumaraswamy(t(1.5, 2.0), t(1.2, 3.0))
VonMises(t(0.5, 2.0), t(1.2, 3.0))
ContinuousBernoulli(t(0.2, 0.5, 0.9))
ContinuousBernoulli(logits=t(-1.0, 0.0, 2.0))
MultivariateNormal(t(0.0, 1.0), torch.tensor([[2.0, 0.3], [0.3, 0.5]]))
MultivariateNormal(t(0.0, 1.0), precision_matrix=torch.tensor([[2.0, 0.3], [0.3, 0.5]]))
MultivariateNormal(t(0.0, 1.0, 2.0, 3.0).view(2, 2), scale_tril=torch.tensor([[2.0, 0.0], [0.3, 0.5]]))
MultivariateNormal(t(0.0, 1.0), torch.stack([torch.eye(2), 2 * torch.eye(2)]))
LowRankMultivariateNormal(t(0.0, 1.0, 2.0), torch.tensor([[1.0], [0.5], [0.2]]), t(0.5, 0.6, 0.7))
LogisticNormal(t(0.0, 1.0), t(1.0, 0.5))
GeneralizedPareto(t(0.0, 1.0, -1.0), t(1.0, 0.5, 2.0), t(0.3, 0.0, -0.6))
GeneralizedPareto(0.5, 2.0, t(1.5, 0.6, -1.0))
LKJCholesky(3, 1.0)
LKJCholesky(2, t(0.5, 2.0))
LKJCholesky(4, t(1.5, 2.0, 1.0, 3.0).view(2, 2))
Wishart(t(4.0).squeeze(), torch.tensor([[2.0, 0.3], [0.3, 0.5]]))
Wishart(t(4.0, 6.5), precision_matrix=torch.tensor([[2.0, 0.3], [0.3, 0.5]]))
Wishart(7.0, scale_tril=t(2.0, 0.0, 0.0, 0.3, 0.5, 0.0, 0.1, 0.2, 1.0).view(3, 3))
RelaxedBernoulli(torch.tensor(0.7), t(0.2, 0.7))
RelaxedBernoulli(torch.tensor(0.7), logits=t(0.2, -0.7))
RelaxedOneHotCategorical(torch.tensor(0.7), t(0.2, 0.5, 0.3))
Independent(Normal(t(0.0, 1.0, 2.0), t(1.0, 2.0, 3.0)), 1)
Independent(Bernoulli(t(0.2, 0.5)), 1)
Independent(Normal(torch.zeros(2, 3), 1.0), 1)
MixtureSameFamily(Categorical(t(0.3, 0.7)), Normal(t(0.0, 3.0), t(1.0, 0.5)))
MixtureSameFamily(Categorical(t(0.3, 0.7)), Independent(Normal(torch.zeros(2, 3), 1.0), 1))
TransformedDistribution(Normal(t(0.0, 1.0), 1.0), [ExpTransform()])
TransformedDistribution(Normal(t(0.0, 1.0), 1.0), [AffineTransform(1.0, 2.0), TanhTransform()])
TransformedDistribution(Uniform(0.0, 1.0), [SigmoidTransform().inv, AffineTransform(loc=1.0, scale=-2.0)])
TransformedDistribution(Normal(torch.zeros(2, 3), 1.0), [StickBreakingTransform()])
TransformedDistribution(Normal(torch.zeros(4), 1.0), [ReshapeTransform((4,), (2, 2))])
"""
LINES = [line for line in MADE.strip().split("\n") if line]


def _make(torch: Any, text: str, leaves: list[Any] | None = None) -> Any:
    def t(*numbers: float) -> Any:
        made = torch.tensor(numbers, requires_grad=leaves is not None)
        if leaves is not None:
            leaves.append(made)
        return made

    return eval(text, {"torch": torch, "t": t, **{name: getattr(torch.distributions, name) for name in _names(torch)}})


def _names(torch: Any) -> list[str]:
    return [name for name in torch.distributions.__all__ if hasattr(torch.distributions, name)]


@pytest.mark.parametrize("text", LINES)
def test_distribution(text: str) -> None:
    def program(torch: Any, log: Any) -> None:
        d = _make(torch, text)
        log(repr(d), d.batch_shape, d.event_shape, d.has_rsample, d.has_enumerate_support)
        for name in ("mean", "mode", "variance", "stddev", "support"):
            attempt(log, name, lambda: repr(d.support) if name == "support" else getattr(d, name))
        attempt(log, "entropy", d.entropy)
        attempt(log, "perplexity", d.perplexity)
        for shape in ((), (5,), (2, 3), (20,)):
            torch.manual_seed(3)
            log("sample", shape, d.sample(shape))
        torch.manual_seed(3)
        drawn = d.sample((4,))
        log("log_prob", d.log_prob(drawn))
        attempt(log, "cdf", lambda: d.cdf(drawn))
        attempt(log, "icdf", lambda: d.icdf(torch.full((4, *d.batch_shape), 0.3)))
        attempt(log, "enumerate", d.enumerate_support)
        attempt(log, "enumerate", lambda: d.enumerate_support(False))

    agree(program, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("text", LINES)
def test_gradients(text: str) -> None:
    """Of the density, of the entropy and of draws with respect to the parameters."""

    def program(torch: Any, log: Any) -> None:
        leaves: list[Any] = []
        d = _make(torch, text, leaves)
        torch.manual_seed(3)
        drawn = d.sample((4,))
        asked = lambda out: torch.autograd.grad(out.sum(), leaves, allow_unused=True, retain_graph=True)
        out = d.log_prob(drawn)
        if leaves and out.requires_grad:
            log("log_prob", asked(out))
        if d.has_rsample:
            torch.manual_seed(3)
            out = d.rsample((4,))
            log("rsample", out)
            if leaves and out.requires_grad and "Wishart" not in text:  # PyTorch overwrites what their gradient needs
                log("of draws", asked(out * out))
        attempt(log, "entropy", lambda: asked(d.entropy()) if leaves and d.entropy().requires_grad else None)

    # PyTorch's derivative of gamma and Dirichlet draws is an approximation, good to three digits.
    agree(program, rtol=3e-3, atol=3e-4)


@pytest.mark.parametrize("text", LINES)
def test_expanded(text: str) -> None:
    def program(torch: Any, log: Any) -> None:
        d = _make(torch, text)
        wide = d.expand((3, *d.batch_shape))
        log(repr(wide), wide.batch_shape, wide.event_shape)
        attempt(log, "mean", lambda: wide.mean)
        torch.manual_seed(5)
        drawn = wide.sample((2,))
        log(drawn, wide.log_prob(drawn))

    agree(program, rtol=2e-5, atol=2e-6)


FAMILIES = [
    "Bernoulli(t(0.2, 0.7))", "Beta(t(0.5, 2.0), t(1.5, 0.7))", "Binomial(5, t(0.2, 0.7))", "Categorical(t(0.2, 0.5, 0.3))",
    "Cauchy(t(0.0, 1.0), t(1.0, 0.5))", "ContinuousBernoulli(t(0.2, 0.9))", "Dirichlet(t(0.5, 2.0, 3.0))",
    "Exponential(t(0.5, 3.0))", "Gamma(t(0.5, 2.0), t(1.0, 0.5))", "Geometric(t(0.2, 0.7))",
    "Gumbel(t(0.0, 1.0), t(1.0, 2.0))", "HalfNormal(t(0.5, 2.0))", "Laplace(t(0.0, 1.0), t(1.0, 0.5))",
    "Normal(t(0.3, 1.0), t(1.0, 0.5))", "OneHotCategorical(t(0.2, 0.5, 0.3))", "Pareto(t(0.5, 2.0), t(2.5, 1.5))",
    "Poisson(t(0.5, 3.0))", "Uniform(t(0.1, 0.2), t(0.7, 0.9))", "Uniform(t(0.6, 3.0), t(2.0, 5.0))",
    "LogNormal(t(0.0, 0.3), t(1.0, 0.5))", "Chi2(t(1.0, 4.0))", "StudentT(t(3.0))",
    "Independent(Normal(t(0.3, 1.0), t(1.0, 0.5)), 1)",
    "MultivariateNormal(t(0.0, 1.0), torch.tensor([[2.0, 0.3], [0.3, 0.5]]))",
    "MultivariateNormal(t(0.5, 2.0), scale_tril=torch.tensor([[2.0, 0.0], [0.3, 0.5]]))",
    "LowRankMultivariateNormal(t(0.0, 1.0), torch.tensor([[1.0], [0.5]]), t(0.5, 0.6))",
    "Wishart(t(4.5, 6.0), torch.tensor([[2.0, 0.3], [0.3, 0.5]]))", "LKJCholesky(2, t(0.5, 2.0))",
    "GeneralizedPareto(t(0.5, 1.0), t(0.5, 2.0), t(0.1, 0.2))",
]  # fmt: skip


@pytest.mark.parametrize("text", FAMILIES)
def test_divergence_from(text: str) -> None:
    """To every family, its own with other parameters included: a value, or that it is not known."""

    def program(torch: Any, log: Any) -> None:
        divergence = torch.distributions.kl_divergence
        p = _make(torch, text)
        for other in FAMILIES:
            q = _make(torch, other.replace("0.5", "0.6"))
            if len(p.event_shape) == len(q.event_shape) and "Independent" not in other + text:
                attempt(log, other, lambda: divergence(p, q))
        if "Independent" in text:
            log(divergence(p, _make(torch, "Independent(Normal(t(0.3, 2.0), t(1.5, 0.5)), 1)")))

    agree(program, rtol=1e-4, atol=1e-5)


WRONG = """
Normal(t(0.0), t(-1.0))
Normal(t(float('nan')), t(1.0))
Normal(0.0, 1.0).log_prob(3)
Normal(0.0, 1.0).sample(3)
MixtureSameFamily(Categorical(t(1.0, 1.0)), 3)
GeneralizedPareto(0.0, -1.0, 0.1)
GeneralizedPareto(0.0, 1.0, 0.1).log_prob(torch.tensor(-1.0))
GeneralizedPareto(0.0, 1.0, -0.5).cdf(torch.tensor(3.0))
LKJCholesky(3, t(-1.0))
LKJCholesky(3, 1.0).log_prob(torch.ones(3, 3))
LKJCholesky(3, 1.0).log_prob(torch.eye(2))
LKJCholesky(3, 1.0).rsample()
Wishart(torch.tensor(0.5), torch.eye(2))
Wishart(torch.tensor(3.0))
Wishart(torch.tensor(3.0), torch.eye(2), torch.eye(2))
Wishart(torch.tensor(3.0), torch.ones(2))
Wishart(torch.tensor(3.0), -torch.eye(2))
Wishart(torch.tensor(3.0), torch.eye(2)).log_prob(-torch.eye(2))
Normal(t(0.0, 1.0), t(1.0, 1.0)).log_prob(torch.zeros(3))
Normal(0.0, 1.0, validate_args=False).log_prob(torch.tensor(float('nan')))
Uniform(t(2.0), t(1.0))
Uniform(0.0, 1.0).log_prob(torch.tensor(2.0))
Bernoulli(t(1.5))
Bernoulli()
Bernoulli(0.5, 0.5)
Bernoulli(0.5).log_prob(torch.tensor(0.5))
Categorical(t(-1.0, 1.0))
Categorical(torch.tensor(0.5))
Categorical(t(0.5, 0.5)).log_prob(torch.tensor(2))
Categorical()
OneHotCategorical(t(0.5, 0.5)).log_prob(t(1.0, 1.0))
Gamma(t(-1.0), t(1.0))
Gamma(t(1.0), t(1.0)).log_prob(t(-1.0))
Beta(t(-1.0), t(1.0))
Dirichlet(torch.tensor(1.0))
Dirichlet(t(-1.0, 1.0))
Dirichlet(t(1.0, 1.0)).log_prob(t(0.3, 0.3))
Binomial(-1, t(0.5))
Binomial(2, t(0.5)).log_prob(t(3.0))
Binomial(torch.tensor([1, 2]), torch.tensor([0.5, 0.5])).entropy()
Poisson(t(-1.0))
Poisson(t(1.0)).log_prob(t(0.5))
Geometric(t(0.0))
Multinomial(torch.tensor(3), t(0.5, 0.5))
MultivariateNormal(torch.zeros(2), torch.ones(2))
MultivariateNormal(torch.zeros(2))
MultivariateNormal(torch.tensor(0.0), torch.eye(2))
MultivariateNormal(torch.zeros(2), -torch.eye(2))
MultivariateNormal(torch.zeros(2), scale_tril=-torch.eye(2))
MultivariateNormal(torch.zeros(2), torch.eye(2)).log_prob(torch.zeros(3))
Independent(Normal(0.0, 1.0), 1)
TransformedDistribution(Normal(0.0, 1.0), 3)
TransformedDistribution(Normal(0.0, 1.0), [3])
TransformedDistribution(Normal(0.0, 1.0), StickBreakingTransform())
MixtureSameFamily(Normal(0.0, 1.0), Normal(0.0, 1.0))
MixtureSameFamily(Categorical(torch.ones(3)), Normal(torch.zeros(2), 1.0))
kl_divergence(LogNormal(0.0, 1.0), TransformedDistribution(Normal(0.0, 1.0), [TanhTransform()]))
Normal(0.0, 1.0).enumerate_support()
Laplace(0.0, 0.0)
"""


@pytest.mark.parametrize("text", [line for line in WRONG.strip().split("\n") if line])
def test_refusals(text: str) -> None:
    agree(lambda torch: _make(torch, text), words=30)


TRANSFORMS = """
ExpTransform() | x
SigmoidTransform() | x
TanhTransform() | x
SoftplusTransform() | x
AbsTransform() | x
AffineTransform(1.0, -2.0) | x
AffineTransform(t(1.0, 2.0, 3.0), t(2.0, 3.0, -1.0)) | x
AffineTransform(1.0, 2.0, event_dim=1) | x
PowerTransform(torch.tensor(2.0)) | x.exp()
SoftmaxTransform() | x
StickBreakingTransform() | x
LowerCholeskyTransform() | m
PositiveDefiniteTransform() | m
CorrCholeskyTransform() | x
ComposeTransform([ExpTransform(), AffineTransform(1.0, 2.0)]) | x
ComposeTransform([AffineTransform(0.0, 2.0), StickBreakingTransform()]) | x
ComposeTransform([]) | x
IndependentTransform(ExpTransform(), 1) | x
ReshapeTransform((3,), (3, 1)) | x
CatTransform([ExpTransform(), AffineTransform(0.0, 2.0)], dim=1, lengths=[1, 2]) | x
StackTransform([ExpTransform(), AffineTransform(0.0, 2.0)], dim=0) | x
CumulativeDistributionTransform(Normal(0.0, 1.0)) | x
ExpTransform(cache_size=1) | x
TanhTransform().with_cache() | x
ExpTransform().inv | x.exp()
"""


@pytest.mark.parametrize("line", [line for line in TRANSFORMS.strip().split("\n") if line])
def test_transform(line: str) -> None:
    text, _, given = line.partition(" | ")

    def program(torch: Any, log: Any) -> None:
        transform = _make(torch, text)
        names = {"x": torch.tensor([[0.3, -0.5, 1.1], [0.2, 0.9, -1.3]]), "m": torch.tensor([[0.5, 2.0], [0.3, -0.4]])}
        x = eval(given, names)
        y = transform(x)
        log(repr(transform), repr(transform.domain), repr(transform.codomain), transform.bijective)
        log("y", y)
        attempt(log, "back", lambda: transform.inv(y))
        attempt(log, "same", lambda: transform.inv(y) is x)
        attempt(log, "jacobian", lambda: transform.log_abs_det_jacobian(x, y))
        attempt(log, "of inverse", lambda: transform.inv.log_abs_det_jacobian(y, x))
        attempt(log, "sign", lambda: transform.sign)
        attempt(log, "event_dim", lambda: transform.event_dim)
        log(transform.forward_shape(tuple(x.shape)), transform.inverse_shape(tuple(y.shape)))
        log(transform == transform, transform.inv.inv is transform, transform == _make(torch, text))

    agree(program)


CONSTRAINTS = """
boolean: 0.0, 1.0, 0.5
unit_interval: 0.0, 1.0, 1.5, -0.1
positive: 0.0, 1.0, -1.0
nonnegative: 0.0, 1.0, -1.0
nonnegative_integer: 0.0, 1.0, 1.5, -1.0
positive_integer: 0.0, 1.0, 1.5
real: 0.0, float('nan'), float('inf')
interval(-1.0, 2.0): -1.0, 2.0, 2.1
half_open_interval(0.0, 1.0): 0.0, 1.0
integer_interval(0, 3): 0.0, 3.0, 2.5, 4.0
greater_than(1.0): 1.0, 2.0
greater_than_eq(1.0): 1.0, 0.5
less_than(1.0): 1.0, 0.5
"""


@pytest.mark.parametrize("line", [line for line in CONSTRAINTS.strip().split("\n") if line])
def test_constraint(line: str) -> None:
    name, _, numbers = line.partition(": ")

    def program(torch: Any, log: Any) -> None:
        constraint = eval("c." + name, {"c": torch.distributions.constraints})
        log(repr(constraint), constraint.event_dim, constraint.is_discrete)
        log(constraint.check(torch.tensor(eval(f"[{numbers}]"))))
        for registry in (torch.distributions.biject_to, torch.distributions.transform_to):
            attempt(
                log, "registry", lambda: (repr(registry(constraint)), registry(constraint)(torch.tensor([0.3, -2.0])))
            )

    agree(program)


VECTORS = """
simplex: [0.3, 0.7]; [0.3, 0.6]; [-0.1, 1.1]
one_hot: [0.0, 1.0]; [1.0, 1.0]; [0.5, 0.5]
real_vector: [0.0, 1.0]; [float('nan'), 1.0]
multinomial(3): [1.0, 2.0]; [3.0, 1.0]; [-1.0, 1.0]
lower_cholesky: [[1.0, 0.0], [2.0, 3.0]]; [[1.0, 1.0], [2.0, 3.0]]; [[1.0, 0.0], [2.0, -3.0]]
lower_triangular: [[1.0, 0.0], [2.0, -3.0]]; [[1.0, 1.0], [2.0, 3.0]]
corr_cholesky: [[1.0, 0.0], [0.6, 0.8]]; [[1.0, 0.0], [0.6, 0.9]]
symmetric: [[1.0, 2.0], [2.0, 3.0]]; [[1.0, 0.0], [2.0, 3.0]]
positive_definite: [[2.0, 1.0], [1.0, 3.0]]; [[1.0, 2.0], [2.0, 3.0]]
positive_semidefinite: [[1.0, 1.0], [1.0, 1.0]]; [[1.0, 2.0], [2.0, 3.0]]
square: [[1.0, 2.0], [2.0, 3.0]]
"""


@pytest.mark.parametrize("line", [line for line in VECTORS.strip().split("\n") if line])
def test_constraint_of_vectors(line: str) -> None:
    name, _, values = line.partition(": ")

    def program(torch: Any, log: Any) -> None:
        constraint = eval("c." + name, {"c": torch.distributions.constraints})
        log(repr(constraint), constraint.event_dim, constraint.is_discrete)
        for value in values.split("; "):
            log(constraint.check(torch.tensor(eval(value))))
        for registry in (torch.distributions.biject_to, torch.distributions.transform_to):
            attempt(log, "registry", lambda: repr(registry(constraint)))

    agree(program)


def test_validation_can_be_switched_off() -> None:
    def program(torch: Any, log: Any) -> None:
        D = torch.distributions
        before = D.Distribution._validate_args
        try:
            D.Distribution.set_default_validate_args(False)
            log(D.Normal(torch.tensor(0.0), torch.tensor(-1.0)).scale)
        finally:
            D.Distribution.set_default_validate_args(before)

    agree(program)


def test_registering_a_divergence() -> None:
    def program(torch: Any, log: Any) -> None:
        D = torch.distributions

        class Mine(D.Normal):  # type: ignore[name-defined]
            pass

        @D.register_kl(Mine, Mine)
        def _(p, q):
            return torch.tensor(42.0)

        log(D.kl_divergence(Mine(0.0, 1.0), Mine(0.0, 1.0)), D.kl_divergence(Mine(0.0, 1.0), D.Normal(0.0, 1.0)))

    agree(program)


def test_a_distribution_of_ones_own() -> None:
    def program(torch: Any, log: Any) -> None:
        D = torch.distributions

        class Two(D.Distribution):  # type: ignore[name-defined]
            arg_constraints = {"value": D.constraints.positive}
            support = D.constraints.positive

            def __init__(self, value, validate_args=None):
                self.value = value
                super().__init__(value.shape, validate_args=validate_args)

            def sample(self, sample_shape=()):
                return self.value.expand(self._extended_shape(sample_shape))

            def log_prob(self, value):
                self._validate_sample(value)
                return value * 0

        d = Two(torch.tensor([1.0, 2.0]))
        log(repr(d), d.sample((3,)), d.log_prob(torch.ones(2)))
        for name in ("mean", "variance", "mode"):
            attempt(log, name, lambda: getattr(d, name))
        for name in ("entropy", "rsample", "enumerate_support"):
            attempt(log, name, lambda: getattr(d, name)())
        attempt(log, "expand", lambda: d.expand((2, 2)))
        attempt(log, "wrong", lambda: Two(torch.tensor([-1.0])), words=20)

    agree(program)


@pytest.mark.filterwarnings("ignore:Singular sample")
def test_draws_of_matrices_have_gradients() -> None:
    """PyTorch's Wishart draws have none: compared with differences instead."""

    def drawn(scale_tril: Any) -> Any:
        undertow.manual_seed(3)
        df = undertow.tensor([4.5, 6.0], dtype=undertow.float64)
        return undertow.distributions.Wishart(df, scale_tril=scale_tril.tril()).rsample((4,))

    with undertow.random.fork_rng():
        matrix = undertow.tensor([[2.0, 0.0], [0.3, 0.5]], dtype=undertow.float64, requires_grad=True)
        assert undertow.autograd.gradcheck(drawn, (matrix,))
