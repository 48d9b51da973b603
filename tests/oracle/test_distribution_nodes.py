"""Which operation computes a result of a distribution last: printed as the grad_fn of a log probability."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.harness import agree

MADE = """
Normal(g(.1, .2), g(1., 2.))
LogNormal(g(.1, .2), g(1., 2.))
StudentT(g(3., 4.), g(.1, .2), g(1., 2.))
NegativeBinomial(g(3., 4.), logits=g(.1, .2))
NegativeBinomial(g(3., 4.), probs=g(.1, .2))
Gamma(g(2., 3.), g(1., 2.))
Beta(g(2., 3.), g(1., 2.))
Dirichlet(g(2., 3., 4.))
Bernoulli(logits=g(.1, .2))
Bernoulli(probs=g(.1, .2))
Binomial(5, logits=g(.1, .2))
Binomial(5, probs=g(.1, .2))
Categorical(logits=g(.1, .2))
Categorical(probs=g(.1, .2))
OneHotCategorical(logits=g(.1, .2, .3))
Multinomial(4, logits=g(.1, .2, .3))
Cauchy(g(.1, .2), g(1., 2.))
HalfCauchy(g(1., 2.))
HalfNormal(g(1., 2.))
Chi2(g(1., 2.))
ContinuousBernoulli(probs=g(.1, .2))
Exponential(g(1., 2.))
FisherSnedecor(g(3., 4.), g(5., 6.))
Geometric(probs=g(.1, .2))
Geometric(logits=g(.1, .2))
Gumbel(g(.1, .2), g(1., 2.))
Laplace(g(.1, .2), g(1., 2.))
LogisticNormal(g(.1, .2), g(1., 2.))
Kumaraswamy(g(2., 3.), g(1., 2.))
Pareto(g(1., 1.), g(2., 3.))
Poisson(g(1., 2.))
RelaxedBernoulli(torch.tensor(.5), logits=g(.1, .2))
Uniform(g(0., 0.), g(1., 2.))
VonMises(g(.1, .2), g(1., 2.))
RelaxedOneHotCategorical(torch.tensor(.5), logits=g(.1, .2, .3))
Weibull(g(1., 2.), g(2., 3.))
InverseGamma(g(2., 3.), g(1., 2.))
MultivariateNormal(g(.1, .2), covariance_matrix=eye)
MultivariateNormal(g(.1, .2), precision_matrix=eye)
MultivariateNormal(g(.1, .2), scale_tril=eye)
MultivariateNormal(torch.zeros(3, 2), scale_tril=eye)
LowRankMultivariateNormal(g(.1, .2), column, g(1., 2.))
Independent(D.Normal(g(.1, .2), g(1., 2.)), 1)
TransformedDistribution(D.Normal(g(.1, .2), g(1., 2.)), [D.SigmoidTransform(), D.AffineTransform(1., g(2., 3.))])
TransformedDistribution(D.Normal(g(.1, .2), g(1., 2.)), D.TanhTransform())
TransformedDistribution(D.Normal(g(.1), g(1.)), [])
MixtureSameFamily(D.Categorical(logits=g(.1, .2)), D.Normal(g(.1, .2), g(1., 2.)))
""".strip().splitlines()


@pytest.mark.parametrize("text", MADE)
def test_last_operation(text: str) -> None:
    def program(torch: Any) -> Any:
        torch.manual_seed(0)
        names = {
            "torch": torch,
            "D": torch.distributions,
            "g": lambda *values: torch.tensor(values).requires_grad_(),
            "eye": torch.eye(2).requires_grad_(),
            "column": torch.ones(2, 1).requires_grad_(),
        }
        made = eval(f"D.{text}", names)
        drawn = made.sample()
        computed = [made.log_prob(drawn)]
        for ask in (made.entropy, lambda: made.variance, lambda: torch.distributions.kl_divergence(made, made)):
            try:
                computed.append(ask())
            except NotImplementedError:
                continue
        if text.startswith(
            ("Mixture", "StudentT", "Binomial", "Pareto", "Uniform")
        ):  # written through a mask in PyTorch
            computed = computed[:1]
        return [(each.grad_fn.name() if each.grad_fn else None, tuple(each.shape)) for each in computed]

    agree(program)
