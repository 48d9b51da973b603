"""torch.distributions at the ends of supports, and divergences between batches and subclasses."""

from __future__ import annotations

from typing import Any

import pytest
import torch as real_torch

from tests.oracle.distribution_programs import MODULES, make
from tests.oracle.harness import agree
from tests.oracle.programs import attempt


@pytest.fixture(autouse=True)
def checked() -> None:
    """Parts of real torch that other tests load turn these checks off for the whole process."""
    real_torch.distributions.Distribution.set_default_validate_args(True)


VECTORS = """
MultivariateNormal(torch.zeros(2), torch.tensor([[2.0, 0.3], [0.3, 0.5]]))
MultivariateNormal(torch.ones(3, 1, 2), precision_matrix=torch.tensor([[2.0, 0.3], [0.3, 0.5]]))
MultivariateNormal(T(1, 2), scale_tril=torch.tensor([[2.0, 0.0], [0.3, 0.5]]).expand(4, 2, 2))
LowRankMultivariateNormal(T(0, 1), torch.tensor([[1.0], [0.5]]), T(0.5, 0.6))
LowRankMultivariateNormal(torch.zeros(3, 1, 2), torch.tensor([[[1.0], [0.5]]]).expand(4, 2, 1), T(0.5, 0.6))
LowRankMultivariateNormal(torch.zeros(4, 2), torch.tensor([[1.0, 2.0, 3.0], [0.5, 0.1, 0.2]]), T(1, 2))
""".strip().splitlines()


@pytest.mark.parametrize("text", VECTORS)
def test_divergences_between_batches_of_vectors(text: str) -> None:
    def program(torch: Any, log: Any) -> None:
        p = make(torch, text)
        for other in VECTORS:
            q = make(torch, other.replace("0.5", "0.6"))
            attempt(log, other, lambda: torch.distributions.kl_divergence(p, q))
        torch.manual_seed(0)
        drawn = p.sample((2,))
        log(p.entropy(), p.log_prob(drawn), p.log_prob(drawn[0]), p.scale_tril, p.covariance_matrix, p.precision_matrix)
        log(p.mean, p.mode, p.variance, p.stddev)

    agree(program, rtol=1e-4, atol=1e-5)


AMBIGUOUS = """
Left, Base : Base, Right
Base, Base : Left, Base
Base, Base : Base, Right : Left, Right
Right, Left : Base, Base
""".strip().splitlines()


@pytest.mark.parametrize("line", AMBIGUOUS)
def test_the_closest_registered_divergence(line: str) -> None:
    def program(torch: Any, log: Any) -> None:
        D = torch.distributions
        kinds: dict[str, Any] = {"Base": type("Base", (D.Normal,), {})}
        kinds["Left"], kinds["Right"] = type("Left", (kinds["Base"],), {}), type("Right", (kinds["Base"],), {})
        kinds["Both"] = type("Both", (kinds["Left"], kinds["Right"]), {})
        for number, pair in enumerate(line.split(" : ")):
            first, second = pair.split(", ")
            D.register_kl(kinds[first], kinds[second])(lambda p, q, number=number: torch.tensor(10.0 + number))
        for p in kinds.values():
            for q in kinds.values():
                log(p.__name__, q.__name__, D.kl_divergence(p(0.0, 1.0), q(1.0, 1.0)))

    agree(program)


# At the ends of supports and of parameters. `T` asks for gradients; those of the sum of the value are compared, too.
EDGES = """
Bernoulli(T(0, 1, 0.5), validate_args=False).log_prob(torch.tensor([0.0, 1.0, 1.0]))
Bernoulli(T(0, 1, 0.5)).mode
Bernoulli(T(0, 1, 0.5)).entropy()
Geometric(T(1, 1, 0.5)).log_prob(torch.tensor([0.0, 2.0, 0.0]))
Geometric(T(1, 0.25)).entropy()
Categorical(T(0, 1, 3)).log_prob(torch.tensor([0, 1, 2]))
Categorical(T(0, 1, 3)).entropy()
Categorical(logits=T(-float('inf'), 1, 3)).entropy()
Multinomial(3, T(0, 1, 3)).log_prob(torch.tensor([0.0, 1.0, 2.0]))
Multinomial(3, logits=T(-float('inf'), 1, 3)).log_prob(torch.tensor([0.0, 1.0, 2.0]))
Multinomial(3, T(1, 1, 3)).entropy()
Binomial(4, T(0, 1, 0.5)).log_prob(torch.tensor([0.0, 4.0, 2.0]))
Binomial(4, logits=T(0, 90, -90)).log_prob(torch.tensor([0.0, 4.0, 0.0]))
Binomial(4, T(0.25, 0.5)).entropy()
NegativeBinomial(T(0, 2), T(0.5, 0.5)).log_prob(torch.tensor([0.0, 0.0]))
StudentT(T(0.5, 1, 1.5, 2, 3), 0.5, 2.0).mean
StudentT(T(0.5, 1, 1.5, 2, 3), 0.5, T(1, 2, 3, 4, 5)).variance
FisherSnedecor(T(1, 2, 3, 3), T(2, 4, 3, 5)).mean
FisherSnedecor(T(1, 2, 3, 3), T(2, 4, 3, 5)).mode
FisherSnedecor(T(1, 2, 3, 3), T(2, 4, 3, 5)).variance
Dirichlet(T(0.5, 0.7, 0.2)).mode
Dirichlet(T(0.5, 2.0, 0.2)).mode
Dirichlet(torch.tensor([[0.5, 0.7], [2.0, 3.0]])).mode
Beta(T(0.5, 2, 1), T(0.5, 3, 1)).mode
Beta(T(1, 2), T(2, 1)).log_prob(torch.tensor([0.0, 1.0]))
Gamma(T(1, 0.5, 2), T(1, 2, 3)).log_prob(torch.tensor([0.0, 1.0, 0.0]))
Gamma(T(1, 0.5), 2.0).mode
InverseGamma(T(0.5, 1, 1.5, 3), 2.0).mean
InverseGamma(T(0.5, 1, 2, 3), 2.0).variance
Pareto(T(1, 2, 3), T(0.5, 1, 3)).mean
Pareto(T(1, 2, 3), T(0.5, 2, 3)).variance
Uniform(T(0, 1), T(1, 3), validate_args=False).log_prob(torch.tensor([1.0, 0.5]))
Uniform(T(0, 1), T(1, 3), validate_args=False).cdf(torch.tensor([2.0, 0.5]))
Uniform(T(0, 1), T(1, 3)).mode
HalfNormal(T(1, 2), validate_args=False).log_prob(torch.tensor([-1.0, 0.0]))
HalfCauchy(T(1, 2), validate_args=False).log_prob(torch.tensor([-1.0, 0.0], dtype=torch.float64))
HalfNormal(T(1, 2), validate_args=False).log_prob(torch.tensor([1.0, 0.0], dtype=torch.float64))
Kumaraswamy(T(0.5, 2, 1), T(2, 0.5, 1)).mode
Weibull(T(1, 2), T(1, 3)).mode
ContinuousBernoulli(T(0, 1, 0.5, 0.4995, 0.3)).mean
ContinuousBernoulli(T(0, 1, 0.5, 0.4995, 0.3)).variance
ContinuousBernoulli(T(0.5, 0.4995, 0.3)).entropy()
ContinuousBernoulli(T(0.5, 0.4995, 0.3)).log_prob(torch.tensor([0.0, 1.0, 0.5]))
ContinuousBernoulli(T(0.5, 0.4995, 0.3)).cdf(torch.tensor([0.0, 1.0, 0.5]))
ContinuousBernoulli(T(0.5, 0.4995, 0.3)).icdf(torch.tensor([0.1, 1.0, 0.5]))
VonMises(T(0, 1, 2), T(0.001, 1, 500)).log_prob(torch.tensor([0.0, 3.0, 2.1]))
VonMises(T(0, 1, 2), T(0.001, 1, 9)).variance
GeneralizedPareto(0.0, T(1, 2, 3), T(1, 0.5, -1)).mean
GeneralizedPareto(0.0, T(1, 2, 3), T(1, 0.5, -1)).variance
Poisson(T(0, 2)).log_prob(torch.tensor([0.0, 3.0]))
Laplace(T(0, 1), T(1, 2)).icdf(torch.tensor([0.0, 0.5]))
RelaxedBernoulli(T(0.5), T(0, 1, 0.5)).log_prob(torch.tensor([0.1, 0.9, 0.5]))
RelaxedOneHotCategorical(T(0.5), T(0, 1, 3)).log_prob(torch.tensor([0.2, 0.3, 0.5]))
D.kl_divergence(Bernoulli(T(0, 1, 0.5)), Bernoulli(T(0.5, 0, 1)))
D.kl_divergence(Categorical(T(0, 1, 3)), Categorical(T(1, 0, 3)))
D.kl_divergence(Categorical(T(0, 1, 3)), Categorical(T(0, 2, 3)))
D.kl_divergence(Poisson(T(1, 2)), Poisson(T(2, 0.5)))
D.kl_divergence(Uniform(T(0, -1), T(1, 0.5)), Beta(2.0, 3.0))
D.kl_divergence(Pareto(T(1, 2), T(1, 3)), Normal(0.0, 1.0))
""".strip().splitlines()


@pytest.mark.parametrize("text", EDGES)
def test_edges(text: str) -> None:
    def program(torch: Any, log: Any) -> None:
        leaves: list[Any] = []

        def T(*numbers: float) -> Any:
            floats = [float(number) for number in numbers]
            leaves.append(torch.tensor(floats if len(floats) > 1 else floats[0], requires_grad=True))
            return leaves[-1]

        D = torch.distributions
        names = {name: getattr(D, name) for name in MODULES.__all__ if hasattr(D, name)}
        value = eval(text, {"torch": torch, "T": T, "D": D, **names})
        log("value", value.detach())
        if value.requires_grad:
            log("gradients", torch.autograd.grad(value.sum(), leaves, allow_unused=True))

    agree(program, rtol=2e-4, atol=2e-5, raises=False)
