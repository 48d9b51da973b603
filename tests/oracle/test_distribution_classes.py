"""What the classes of torch.distributions share: signatures, construction, expansion, copies and refusals."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest
import torch as real_torch

import undertow
from tests.oracle.distribution_programs import MODULES, make, signature
from tests.oracle.harness import agree
from tests.oracle.programs import attempt

FAMILIES = sorted(
    name
    for name in MODULES.__all__
    if isinstance(getattr(MODULES, name), type) and issubclass(getattr(MODULES, name), MODULES.Distribution)
)
TRANSFORMS = sorted(name for name in MODULES.__all__ if name.endswith("Transform"))


@pytest.fixture(autouse=True)
def checked() -> None:
    """Parts of real torch that other tests load turn these checks off for the whole process."""
    real_torch.distributions.Distribution.set_default_validate_args(True)


def _methods(kind: type) -> list[str]:
    """What users call or override: the public methods, and the private ones that PyTorch documents for subclasses."""
    private = ("_extended_shape", "_validate_sample", "_get_checked_instance", "_call", "_inverse", "_new")
    return [n for n in dir(kind) if inspect.isfunction(getattr(kind, n)) and (n[0] != "_" or n in private)]


@pytest.mark.parametrize("name", FAMILIES + TRANSFORMS)
def test_signatures(name: str) -> None:
    theirs, ours = getattr(real_torch.distributions, name), getattr(undertow.distributions, name)
    assert signature(ours) == signature(theirs)
    for method in _methods(theirs):
        assert signature(getattr(ours, method)) == signature(getattr(theirs, method)), method
    assert ours.__module__ == theirs.__module__.replace("torch", "undertow", 1)
    public = [base.__name__ for base in theirs.__mro__ if base.__name__ in MODULES.__all__]
    assert [base.__name__ for base in ours.__mro__ if base.__name__ in MODULES.__all__] == public
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_next_constructor_is_the_one_of_pytorch(name: str) -> None:
    """Subclasses skip a family's constructor by super(Family, self).__init__(batch_shape, event_shape)."""

    def next_constructor(kind: Any) -> str:
        after = kind.__mro__[kind.__mro__.index(kind) + 1 :]
        return next(base.__name__ for base in after if "__init__" in vars(base))

    theirs, ours = getattr(real_torch.distributions, name), getattr(undertow.distributions, name)
    assert next_constructor(ours) == next_constructor(theirs)


# Over `D` (torch.distributions), `T` (torch.tensor of numbers) and the classes of torch.distributions.
BUILT = """
Normal(1, 2)
Normal(T(1), 2.5)
Normal(loc=T(1, 2).double(), scale=2)
Normal(T(1, 2).half(), T(1, 3).half())
Normal(T(1, 2).view(2, 1), T(1, 3, 4))
Normal(True, 2.0)
LogNormal(0, T(1, 2))
Uniform(low=T(0, 1), high=3)
Laplace(0, 1)
Cauchy(0, T(1, 2))
Exponential(3)
Exponential(rate=T(3).double())
Gamma(2, T(1, 2))
Chi2(3)
Chi2(T(3, 4))
InverseGamma(3, T(1, 2))
Beta(2, 3)
Beta(2, T(3, 4).double())
Dirichlet(concentration=T(1, 2, 3))
Bernoulli(1)
Bernoulli(T(0, 1))
Bernoulli(logits=0.5)
Bernoulli(probs=T(0.5).double())
Geometric(0.5)
Geometric(1)
Geometric(logits=T(0.5, 2))
Categorical(T(1, 3))
Categorical(logits=T(1, 3, 2, 2).view(2, 2))
OneHotCategorical(logits=T(1, 3))
OneHotCategoricalStraightThrough(T(1, 3))
Binomial(3, 0.5)
Binomial(T(3, 4), T(0.5).double())
Binomial(probs=T(0.5, 1))
NegativeBinomial(3, 0.5)
NegativeBinomial(T(3, 4), logits=0.5)
Poisson(rate=2)
Multinomial(probs=T(1, 3))
Multinomial(2, logits=T(1, 3))
StudentT(3)
StudentT(T(3, 4), scale=2)
Gumbel(0, 1)
Gumbel(T(0, 1).double(), 1)
HalfNormal(2)
HalfCauchy(T(2, 3))
FisherSnedecor(3, T(5, 9))
Pareto(1, 3)
Pareto(T(1, 2), 3)
Weibull(1, 2)
Weibull(T(1, 2), T(1.5))
Kumaraswamy(2, 3)
VonMises(0, 1)
VonMises(T(0, 1), T(2).double())
ContinuousBernoulli(0.3)
ContinuousBernoulli(logits=T(0.3), lims=(0.4, 0.6))
MultivariateNormal(T(0, 1), 2 * torch.eye(2))
MultivariateNormal(T(0, 1, 2, 3).view(2, 2), precision_matrix=2 * torch.eye(2))
MultivariateNormal(T(0, 1), scale_tril=2 * torch.eye(2).expand(3, 2, 2))
LowRankMultivariateNormal(T(0, 1), torch.ones(2, 1), T(1, 2))
LowRankMultivariateNormal(torch.zeros(3, 2), torch.ones(2, 1), T(1, 2))
LogisticNormal(0, 1)
LogisticNormal(T(0, 1), 1)
GeneralizedPareto(0, 1, 0.1)
LKJCholesky(2)
LKJCholesky(3, T(1, 2))
Wishart(3, torch.eye(2))
Wishart(T(3, 4), scale_tril=torch.eye(2))
RelaxedBernoulli(T(0.5), 0.3)
RelaxedBernoulli(T(0.5), logits=T(0.3, 1))
RelaxedOneHotCategorical(T(0.5), T(1, 3))
Independent(Normal(torch.zeros(2, 3), 1), 2)
Independent(Normal(torch.zeros(2, 3), 1), reinterpreted_batch_ndims=0)
MixtureSameFamily(Categorical(T(1, 3)), Normal(torch.zeros(3, 2), 1))
TransformedDistribution(Normal(0, 1), ExpTransform())
TransformedDistribution(Normal(torch.zeros(2), 1), [])
TransformedDistribution(Normal(0, 1), [AffineTransform(T(1, 2, 3), 2)])
""".strip().splitlines()


# Of a Wishart, PyTorch also keeps a list, and the factors of the full batch; of probs and logits, `_param` is either.
_OTHERWISE = ("_batch_dims", "_unbroadcasted_scale_tril", "_param")


def _state(d: Any) -> dict[str, Any]:
    """The attributes of a distribution, nested ones and transforms by their names."""
    kept = {name: value for name, value in vars(d).items() if name not in _OTHERWISE}
    return {name: kept[name] if hasattr(kept[name], "dtype") else repr(kept[name]) for name in sorted(kept)}


@pytest.mark.parametrize("text", BUILT)
def test_built_from_numbers_and_tensors(text: str) -> None:
    def program(torch: Any, log: Any) -> None:
        d = make(torch, text)
        log(repr(d), d.batch_shape, d.event_shape, _state(d))
        log({name: repr(constraint) for name, constraint in d.arg_constraints.items()})
        for name in sorted({*d.arg_constraints, "probs", "logits", "param_shape", "temperature", "df"}):
            attempt(log, name, lambda: getattr(d, name))
        log(_state(d))

    agree(program, rtol=1e-5)


@pytest.mark.parametrize("text", BUILT)
def test_expanded(text: str) -> None:
    """The attributes of the wider distribution; what was worked out before it was made goes along."""

    def program(torch: Any, log: Any) -> None:
        for warm in (False, True):
            d = make(torch, text)
            if warm:
                for name in ("probs", "logits", "scale_tril", "covariance_matrix"):
                    getattr(d, name, None)
            for shape in (d.batch_shape, (4, *d.batch_shape), [2, 1, *d.batch_shape]):
                wide = d.expand(shape)
                log(type(wide).__name__, repr(wide), wide.batch_shape, wide.event_shape, _state(wide))
            attempt(log, "too small", lambda: d.expand((7, *d.batch_shape)).expand((5, *d.batch_shape)))
            if not hasattr(d, "transforms"):  # some of their parameters accept a number
                attempt(log, "not a shape", lambda: d.expand(3))
            again = make(torch, text).expand((2, *d.batch_shape)).expand((3, 2, *d.batch_shape))
            torch.manual_seed(1)
            log(again.batch_shape, again.sample((2,)))

    agree(program, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("text", BUILT)
def test_a_subclass_expands_to_its_own_class(text: str) -> None:
    def program(torch: Any, log: Any) -> None:
        d = make(torch, text)
        kind: Any = type(d)

        class Plain(kind):
            note = "of the class"

        class Extra(kind):
            def __init__(self, *args: Any, **options: Any) -> None:
                super().__init__(*args, **options)
                self.note = "of the instance"

        class Expanding(Extra):
            def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
                new = self._get_checked_instance(Expanding, _instance)
                new.note = self.note
                return super().expand(batch_shape, _instance=new)

        arguments = text.replace(f"{kind.__name__}(", "", 1)
        made = lambda cls: _make_as(torch, cls, text, kind.__name__)
        wide = made(Plain).expand((2, *d.batch_shape))
        log(arguments, type(wide).__name__, wide.note, wide.batch_shape, repr(wide))
        attempt(log, "extra", lambda: repr(made(Extra).expand((2, *d.batch_shape))))
        if kind.__name__ != "VonMises":  # its expand makes an instance by itself
            wide = made(Expanding).expand((2, *d.batch_shape))
            log(type(wide).__name__, wide.note, wide.batch_shape, repr(wide))

    agree(program)


def _make_as(torch: Any, cls: type, text: str, name: str) -> Any:
    """The distribution of a text, with another class in the outermost place."""
    D = torch.distributions
    original = getattr(D, name)
    arguments = make(torch, f"(lambda *args, **options: (args, options))({text.split('(', 1)[1]}")
    assert issubclass(cls, original)
    return cls(*arguments[0], **arguments[1])


@pytest.mark.parametrize("text", BUILT)
def test_copies_and_pickles(text: str) -> None:
    def program(torch: Any, log: Any) -> None:
        d = make(torch, text)
        for other in (copy.copy(d), copy.deepcopy(d), pickle.loads(pickle.dumps(d))):
            log(type(other).__name__, repr(other), other.batch_shape, _state(other))
            torch.manual_seed(1)
            log(other.sample((2,)), other.expand((2, *d.batch_shape)).batch_shape)

    agree(program, rtol=2e-5, atol=2e-6)


REFUSED = """
Normal()
Normal(0.0)
Normal(0.0, 1.0, 2.0, 3.0)
Normal(0.0, sigma=1.0)
Normal(None, 1.0)
Normal(0.0, [1.0])
Normal(1j, 1.0)
Normal(T(1, 2), T(1, 2, 3))
Normal(0.0, -1.0)
Normal(0.0, 0)
Exponential('a')
Exponential(T(1, -1))
Gamma(1.0, None)
Gamma(T(1, 0), 1.0)
Chi2(None)
Chi2(-1.0)
Chi2(T(1, -1))
Beta(None, 1.0)
Beta(1.0, 0.0)
Beta(T(1, 2), T(1, 2, 3))
Uniform(1.0, 1.0)
Uniform(0.0, None)
Bernoulli(None)
Bernoulli(0.5, logits=0.5)
Bernoulli([0.5])
Bernoulli(T(-0.1))
Bernoulli(logits=T(float('nan')))
Geometric()
Geometric(0.5, 0.5)
Geometric(0.0)
Geometric(T(0.5, 1.5))
Geometric(logits=T(float('nan')))
Categorical(T(0.5), T(0.5))
Categorical(logits=T(0.5))
Categorical([0.5])
Categorical(logits=T(float('nan'), 1.0))
OneHotCategorical()
OneHotCategorical(T(0.5))
OneHotCategorical(T(-1, 2))
Binomial()
Binomial(1.5, 0.5)
Binomial(3, 0.5, 0.5)
Binomial(T(1, 2), T(0.5, 0.5, 0.5))
NegativeBinomial(3)
NegativeBinomial(-1, 0.5)
NegativeBinomial(3, 1.0)
Multinomial(2)
Multinomial(2.0, T(1, 2))
ContinuousBernoulli()
ContinuousBernoulli(T(1.5))
ContinuousBernoulli(T(1.5), validate_args=True)
ContinuousBernoulli(T(1.5), validate_args=False).probs
RelaxedBernoulli(T(0.5))
RelaxedBernoulli(T(0.5), T(1.5))
RelaxedOneHotCategorical(T(0.5), T(0.5))
RelaxedOneHotCategorical(0.5, T(0.5, 0.5)).log_prob(T(0.4, 0.6))
StudentT(0.0)
StudentT(T(1, 2), T(1, 2, 3))
FisherSnedecor(0.0, 1.0)
Pareto(0.0, 1.0)
Weibull(-1.0, 1.0)
Kumaraswamy(1.0, -1.0)
Gumbel(0.0, 0.0)
HalfNormal(-1.0)
HalfCauchy(T(-1))
HalfCauchy(T(1)).log_prob(1.0)
HalfCauchy(T(1)).log_prob(T(-1))
HalfNormal(T(1)).log_prob(T(-1))
InverseGamma(-1.0, 1.0)
LogNormal(0.0, -1.0)
LogisticNormal(0.0, -1.0)
VonMises(0.0, -1.0)
Poisson(-1)
LKJCholesky(1)
LKJCholesky(2.5)
MultivariateNormal(T(0, 1), torch.eye(2), scale_tril=torch.eye(2))
MultivariateNormal(T(0, 1), torch.eye(3))
MultivariateNormal(T(0, 1), precision_matrix=T(1, 2))
MultivariateNormal(T(0, 1), scale_tril=T(1, 2))
MultivariateNormal(T(0, 1), torch.ones(2, 2))
LowRankMultivariateNormal(T(0), torch.ones(2, 1), T(1, 2))
LowRankMultivariateNormal(T(0, 1), T(1, 2), T(1, 2))
LowRankMultivariateNormal(T(0, 1), torch.ones(3, 1), T(1, 2))
LowRankMultivariateNormal(T(0, 1), torch.ones(2, 1), T(1, 2, 3))
LowRankMultivariateNormal(torch.zeros(3, 2), torch.ones(4, 2, 1), T(1, 2))
LowRankMultivariateNormal(T(0, 1), torch.ones(2, 1), T(-1, 2))
Independent(Normal(T(0, 1), 1.0), 2)
MixtureSameFamily(Categorical(torch.ones(4, 2)), Normal(torch.zeros(3, 2), 1.0))
TransformedDistribution(Normal(0.0, 1.0), (ExpTransform(),))
TransformedDistribution(Normal(0.0, 1.0), None)
AffineTransform()
AffineTransform(0.0, 1.0, cache_size=2)
ExpTransform(cache_size=-1)
ReshapeTransform((2,), (3,))
ReshapeTransform((2,), (2, 1)).forward_shape((3,))
ReshapeTransform((2,), (2, 1)).forward_shape(())
CorrCholeskyTransform().forward_shape(())
CorrCholeskyTransform().forward_shape((4,))
CorrCholeskyTransform().inverse_shape((2, 3))
CorrCholeskyTransform().inverse_shape((2,))
StickBreakingTransform().forward_shape(())
StickBreakingTransform().inverse_shape(())
SoftmaxTransform().forward_shape(())
IndependentTransform(ExpTransform(), 1)(T(1))
IndependentTransform(ExpTransform(), 1).inv(T(1))
StickBreakingTransform().sign
SoftmaxTransform().log_abs_det_jacobian(T(1, 2), T(1, 2))
D.biject_to(D.constraints.lower_triangular)
D.biject_to(D.constraints.boolean)
D.biject_to.register(3, lambda c: c)
D.biject_to.register(int)(lambda c: c)
D.constraints.dependent.check(T(1))
D.constraints.dependent.event_dim
D.constraints.dependent.is_discrete
D.constraints.dependent_property(is_discrete=True).event_dim
D.constraints.independent(D.constraints.real, 2).check(T(1, 2))
D.constraints.MixtureSameFamilyConstraint(D.constraints.simplex).check(T(1))
D.constraints.Constraint().check(T(1))
CatTransform([ExpTransform(), TanhTransform()])(torch.ones(3))
CatTransform([ExpTransform(), TanhTransform()])(T(1))
CatTransform([ExpTransform(), TanhTransform()]).inv(torch.ones(1))
CatTransform([ExpTransform(), TanhTransform()]).log_abs_det_jacobian(torch.ones(2), torch.ones(1))
CatTransform([ExpTransform(), TanhTransform()]).log_abs_det_jacobian(T(1), torch.ones(2))
CatTransform([ExpTransform()], 0, [1, 2])
CatTransform([ExpTransform(), 3])
StackTransform([ExpTransform(), TanhTransform()])(torch.ones(3))
StackTransform([ExpTransform(), TanhTransform()]).inv(T(1))
StackTransform([ExpTransform(), TanhTransform()]).log_abs_det_jacobian(torch.ones(3), torch.ones(2))
StackTransform([3])
D.constraints.cat([D.constraints.real, 3])
D.constraints.cat([D.constraints.real], 0, [1, 2])
D.constraints.cat([D.constraints.real, D.constraints.real]).check(T(1))
D.constraints.stack([3])
D.constraints.stack([D.constraints.real]).check(T(1))
D.constraints.independent(3, 1)
D.constraints.independent(D.constraints.real, -1)
D.constraints.independent(D.constraints.real, 1.5)
D.constraints.MixtureSameFamilyConstraint(3)
D.kl_divergence(Categorical(T(1, 2)), Normal(0.0, 1.0))
D.kl_divergence(Normal(0.0, 1.0), Bernoulli(0.5))
D.kl_divergence(LowRankMultivariateNormal(T(0, 1), torch.ones(2, 1), T(1, 2)), MultivariateNormal(T(0), torch.eye(1)))
D.kl_divergence(*[LowRankMultivariateNormal(torch.zeros(n), torch.ones(n, 1), torch.ones(n)) for n in (2, 3)])
D.kl_divergence(Binomial(2, 0.5), Binomial(3, 0.5))
D.kl_divergence(Gamma(1.0, 1.0), Poisson(1.0))
D.kl_divergence(Independent(Normal(T(0, 1), 1.0), 1), Independent(Normal(T(0, 1), 1.0), 0))
D.kl_divergence(MultivariateNormal(T(0, 1), torch.eye(2)), MultivariateNormal(T(0, 1, 2), torch.eye(3)))
D.register_kl(Normal, 3)
D.register_kl('a', Normal)
D.Distribution.set_default_validate_args(3)
""".strip().splitlines()


@pytest.mark.parametrize("text", REFUSED)
def test_refusals(text: str) -> None:
    agree(lambda torch: make(torch, text))


@pytest.mark.parametrize("text", BUILT)
def test_values_of_a_wrong_kind(text: str) -> None:
    def program(torch: Any, log: Any) -> None:
        d = make(torch, text)
        for name in ("log_prob", "cdf"):
            attempt(log, name, lambda: getattr(d, name)(0.5))
            attempt(log, name, lambda: getattr(d, name)(torch.zeros(5, 7, 3)))
            attempt(log, name, lambda: getattr(d, name)(torch.full(tuple(d.batch_shape + d.event_shape), float("nan"))))
        attempt(log, "keyword", lambda: d.log_prob(value=d.sample()).shape)

    agree(program, rtol=1e-5)


def test_a_class_that_declares_nothing() -> None:
    def program(torch: Any, log: Any) -> None:
        class Bare(torch.distributions.Distribution):
            pass

        log(Bare().batch_shape, Bare((2,), (3,), validate_args=False).event_shape)
        attempt(log, "repr", lambda: repr(Bare(validate_args=False)))
        attempt(log, "constraints", lambda: Bare(validate_args=False).arg_constraints)
        attempt(log, "support", lambda: Bare(validate_args=False).support)
        attempt(log, "expand", lambda: Bare(validate_args=False).expand((2,)))
        attempt(log, "sample", lambda: Bare(validate_args=False)._validate_sample(torch.ones(())))

    agree(program)
