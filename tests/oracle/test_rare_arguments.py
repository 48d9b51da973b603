"""Rare forms of arguments: `out=` of another shape, numbers beside tensors, indices without elements, defaults."""

from __future__ import annotations

import inspect

import pytest

import undertow
from tests.oracle.snippets import agree_snippet, refuse_snippet

GIVEN = """
p = torch.rand(3, 5, 5).double(); p = p @ p.mT; p[1, 3, 3] = -1; p[2, 0, 0] = 0; torch.linalg.cholesky_ex(p, upper=True), p
p = torch.rand(4, 4, dtype=torch.cdouble); p = p @ p.mH; p[2, 2] = 0; torch.linalg.cholesky_ex(p)
p = torch.rand(4, 4, dtype=torch.cdouble); p = p @ p.mH; p[2, 2] = 0; torch.linalg.cholesky_ex(p, upper=True)
torch.tensor_split(x, sections=2, dim=1), x.tensor_split(indices=[1]), torch.hsplit(x, sections=1), x.vsplit(indices=(1,))
torch.tensor_split(x, tensor_indices_or_sections=torch.tensor([1])), torch.dsplit(x[None], indices=[1])
torch.clamp(x, min=torch.tensor(2), max=5)
torch.clamp(g, torch.tensor(2.5), 4)
torch.clamp(x.int(), torch.tensor(2), 4.5)
torch.clamp(x, 2, torch.tensor(3.))
x.clamp_(torch.tensor(1), 3)
torch.fill(g, 2), torch.fill(g, torch.tensor(2)), torch.fill(x, torch.tensor(True)), torch.fill(x.t(), torch.tensor(2))
v = torch.tensor(2., requires_grad=True); torch.fill(g, v).sum().backward(); v.grad, g.grad
torch.isin(x, torch.tensor([1., 2]), out=torch.empty(0, dtype=torch.bool))
torch.bernoulli(x, torch.tensor(0.5)), x.bernoulli_(torch.tensor(.5))
[torch.scatter_add(x, 0, i[:0], x), torch.scatter(x, 0, i[:0], x), torch.scatter(x, 0, i[:0], 1.0)]
torch.scatter_reduce(x, 0, i[:0], x, "sum"), torch.gather(x, 0, i[:0].clone()).shape
torch.scatter_add(g, 0, i[:0], x).sum().backward(); g.grad
x.scatter_add_(0, i[:0], x.clone()), x.scatter_(0, i[:0], 2.0), x.scatter_reduce_(0, i[:0], x.clone(), "amax")
torch.Generator(None).device, torch.Generator(device=None).device
torch.diff(x, n=0, prepend=x)
torch.histogram(x), torch.histogram(torch.tensor([.51, -1, 2, .02]), 100), torch.histogram(torch.arange(0, 1.01, .1), 10)
torch.histogram(s, 10), torch.histogram(e, 4), torch.histogram(x / 3, 7, density=True), torch.histogramdd(x / 3 - 1.5, 2)
torch.isin(2, x.bfloat16()), torch.isin(x.bfloat16(), torch.tensor([2.]))
torch.scatter_add(i[:4], -1, torch.tensor(2), i[:4]), torch.scatter(x[0], 0, torch.tensor(2), x[1])
torch.all(x, dim=[]), torch.any(x, dim=()), x.all(dim=[], keepdim=True), torch.conj_physical(g) is g
torch.slice_scatter(x[0, :0].clone(), x[0, :0]), torch.slice_scatter(x[0].clone(), torch.ones(2), 0, 0, 4, 2)
torch.pairwise_distance(i[None], i[None] + 1), torch.nn.functional.margin_ranking_loss(i, i + 1, i, margin=0.5)
torch.nn.functional.poisson_nll_loss(i, i.float(), log_input=False)
torch.quantile(g, 0.5, out=torch.empty(0)), torch.tensordot(g, g, 2, out=torch.empty(()))
torch.quantile(x, 0.5, out=torch.empty(0)), torch.nanquantile(x, 0.5, dim=0, out=torch.empty(0))
torch.kron(x, x, out=torch.empty(0)), torch.tensordot(x, x, 2, out=torch.empty(0)), torch.diff(x, out=torch.empty(0))
torch.linalg.multi_dot([x, x.T], out=torch.empty(0)), torch.linalg.vecdot(x, x, out=torch.empty(0))
torch.nanmean(x, 0, out=torch.empty(0)), torch.linalg.norm(x, out=torch.empty(0))
torch.fft.fftfreq(4, out=torch.empty(0)), torch.fft.rfftfreq(4, pin_memory=False)
""".strip().splitlines()

REFUSED = """
torch.fill(x, torch.ones(2))
torch.isin(torch.tensor([True]), torch.tensor([True]))
torch.bernoulli(x, torch.full((3, 4), .3))
torch.binomial(torch.tensor([3]), torch.tensor([.5]))
torch.clamp(x, torch.tensor([1., 2, 3, 4]), 5)
torch.linalg.norm(torch.ones(2, 2, 2), "fro")
torch.linalg.norm(x, out=torch.empty(0, dtype=torch.float64))
torch.quantile(x, 0.5, out=torch.empty(0, dtype=torch.float64))
torch.diff(x, prepend=x[0])
c.index_add(-1, i[:4], x[0, :3])
x.index_copy(1, i[:0], x[0])
x.index_reduce(1, i[:4], x[0], "amax")
torch.slice_scatter(s, x, start=0)
torch.slice_scatter(x, x[0], step=0)
torch.searchsorted(s, -0.5)
torch.searchsorted(s, x)
torch.searchsorted(x, x, sorter=i[:4])
torch.fft.rfftn(s, dim=[0])
torch.fft.hfftn(s, dim=[-1])
torch.fft.ifftshift(s, dim=[0])
torch.trapezoid(x, s)
torch.dist(m, m)
torch.dist(x, m)
torch.linalg.cross(m[:3], m[:3], dim=0)
torch.tensor([1j]).random_()
torch.tensor([1j]).random_(3)
torch.randint_like(z, 3)
torch.linalg.lstsq(x, s)
torch.linalg.lstsq(x, x.double())
torch.triangular_solve(x[0], s)
torch.triangular_solve(x, x)
torch.triangular_solve(x, x[:, :3].double())
torch.cholesky_solve(x, x)
torch.linalg.cholesky_ex(x)
torch.linalg.matrix_rank(m)
torch.scatter_reduce(x[0], 0, i[:4], s, "prod")
torch.nanmedian(e, 0)
""".strip().splitlines()


@pytest.mark.parametrize("text", GIVEN)
def test_rare_arguments(text: str) -> None:
    agree_snippet(text, layout="gather" not in text)


@pytest.mark.parametrize("text", REFUSED)
def test_rare_arguments_that_are_refused(text: str) -> None:
    refuse_snippet(text, words=6)


def test_an_output_of_another_shape_is_resized_with_a_warning() -> None:
    agree_snippet("torch.quantile(x, 0.5, dim=0, out=torch.empty(3))", warns=True)


NUMBERS_IN_TENSORS = """
x.add_(torch.tensor(.5), x), x.add(torch.tensor(2), x), torch.addcdiv(x, torch.tensor(.5), x, x + 1)
torch.nn.functional.pad(x, (1, 1), value=torch.tensor(2.))
torch.normal(0, torch.tensor(2.), (3,)), torch.normal(torch.tensor(1.), torch.tensor(2), torch.Size([3]))
torch.normal(torch.tensor(1.), 2, (3,)), torch.normal(mean=0, std=torch.tensor(2.), size=(3,))
torch.autograd.functional._construct_standard_basis_for((x[0], i[:2]), (4, 2))
""".strip().splitlines()


@pytest.mark.parametrize("text", NUMBERS_IN_TENSORS)
def test_tensors_of_no_dims_as_numbers(text: str) -> None:
    agree_snippet(text)


def test_testing_overrides_have_the_parameters_of_their_functions() -> None:
    dummies = undertow.overrides.get_testing_overrides()
    assert len(dummies) > 1000 and dummies[undertow.nn.functional.relu](1) == -1
    assert list(inspect.signature(dummies[undertow.nn.functional.relu]).parameters) == ["input", "inplace"]


KEYWORDS = """
torch.split(tensor=x, split_size_or_sections=2), x.split(split_size=2), torch.isin(element=3, test_elements=i)
torch.isin(i, test_element=3), torch.result_type(tensor=x, other=3), torch.result_type(scalar=3, tensor=x)
x.clone().swapaxes_(axis0=0, axis1=1), torch.linalg.cholesky(input=torch.eye(2)), torch.linalg.norm(input=x)
torch.linalg.eigh(input=torch.eye(2)), torch.linalg.pinv(input=x), torch.linalg.matrix_rank(input=x)
torch.linalg.vector_norm(input=x), torch.linalg.vector_norm(x=x), torch.linalg.lstsq(torch.eye(2), b=torch.eye(2))
torch.linalg.matrix_exp(input=torch.eye(2)), torch.linalg.cond(input=torch.eye(2))
torch.linalg.tensorsolve(input=torch.eye(4).reshape(2, 2, 2, 2), other=torch.ones(2, 2))
""".strip().splitlines()


@pytest.mark.parametrize("text", KEYWORDS)
def test_names_of_parameters(text: str) -> None:
    agree_snippet(text)


# Where PyTorch's own samples of its operators found another answer here; b: bytes, w: numbers that want gradients.
SAMPLES = """
torch.cumprod(b, 0, dtype=torch.uint8), torch.prod(b, dtype=torch.uint8), torch.cumprod(i, 0, dtype=torch.int32)
b.add(b, alpha=-3), b.sub(b, alpha=-3), b.clone().add_(b, alpha=-3), torch.rsub(b, b, alpha=-3)
b.index_add(0, torch.tensor([0]), b[:1], alpha=-1)
torch.tensordot(torch.ones(1, 1, 1).int(), torch.ones(2, 1, 2).int(), dims=[[0, 1], [2, 0]])
torch.logspace(1, 1.2, 4, 5.0, dtype=torch.int64), torch.logspace(torch.tensor(4.5), 2, 2, dtype=torch.int64)
torch.logsumexp(torch.tensor([[1 + 6j, 2 - 5j, -1 + 1j]]), 1)
torch.gather(x, 0, torch.ones(0, 4)), x.scatter(0, torch.ones(0, 4), 1.0)
torch.take_along_dim(x, torch.tensor([[-1, 2]]), 1), torch.take_along_dim(x[0], torch.tensor([-6, 2]), 0)
torch.unique_consecutive(torch.ones(5, 0, 5), dim=1), torch.unique_consecutive(torch.ones(0), dim=0)
torch.searchsorted(torch.ones(0, 0, 0), torch.ones(0, 0, 0)), torch.searchsorted(torch.ones(2, 0), torch.ones(2, 3))
F.multi_margin_loss(s, torch.tensor(0)), F.multilabel_margin_loss(s, torch.tensor(0))
torch.round(g, decimals=0), torch.round(g), c[None].requires_grad_().to(torch.double, memory_format=torch.channels_last)
grads(torch.cov(g, aweights=w), g, w), grads(torch.cov(g, correction=0, aweights=w), w)
grads(torch.quantile(g, w[:2], dim=1), g, w), grads(torch.nanquantile(g, w[0], dim=0), w)
grads(torch.quantile(g, w[:2], dim=1, interpolation="midpoint"), g, w)
grads(g.index_fill(1, torch.tensor([0, 1, 1, 3]), w[1]), w)
torch.linalg.lu_factor(z.new_tensor([[1 + 3j, 2], [3.5, 1j]]))
[grads(torch.linalg.lu_factor(v)[0], g) for v in (f, f.t())]
[grads(sum(part.sum() for part in torch.linalg.lu(v)[1:]), g) for v in (f, f.t())]
F.conv_transpose1d(c, c[:, :, :2].transpose(0, 1), stride=2, padding=1, output_padding=3, dilation=4)
grads(F.conv_transpose1d(g[None].sin(), w.reshape(1, 1, 4).expand(3, 2, 4), None, 2, 1, 3, 1, 4), w)
"""


@pytest.mark.parametrize("text", SAMPLES.strip().splitlines())
def test_samples_of_operators(text: str) -> None:
    begin = (
        "F = torch.nn.functional; b = torch.tensor([5, 2, 3], dtype=torch.uint8); "
        "w = torch.tensor([0.3, 0.6, 0.9, 0.2], requires_grad=True); "
        "f = (g * g / 7).sin() + 2 * torch.eye(3, 4); "
        "grads = lambda r, *inputs: torch.autograd.grad(r.pow(2).sum(), inputs, None, True, allow_unused=True); "
    )
    agree_snippet(begin + text, layout=False)


REFUSED_BY_SAMPLES = """
torch.cov(x, fweights=torch.ones(2, 2).long())
torch.cov(x, aweights=torch.ones(4).long())
torch.cov(x, fweights=torch.ones(1).long())
torch.cov(x, aweights=-torch.ones(4))
F.max_pool1d(torch.ones(2, 0, 10), 1)
F.max_pool2d(torch.ones(1, 2, 9, 9), 3, padding=2, dilation=2)
F.conv1d(c[:, :1], torch.ones(1, 2))
F.conv1d(c, torch.ones(2, 3, 2), groups=3)
F.adaptive_avg_pool2d(x, (1, 1))
F.adaptive_avg_pool2d(c, (1,))
F.adaptive_max_pool2d(c, ())
F.adaptive_max_pool2d(c, (-1, 2))
torch.roll(x, ())
torch.narrow(x, 0, torch.tensor(1.0), 1)
torch.hsplit(x, "a")
torch.ones(1).addmm_(torch.ones(2, 2), torch.ones(2, 3))
torch.ones(1).addmv_(torch.ones(2, 2), torch.ones(2))
torch.unique_consecutive(torch.ones(5, 0), dim=0)
"""


@pytest.mark.parametrize("text", REFUSED_BY_SAMPLES.strip().splitlines())
def test_samples_that_are_refused(text: str) -> None:
    refuse_snippet("F = torch.nn.functional; " + text, words=7)


def test_out_decides_what_is_added_up() -> None:
    agree_snippet(
        "torch.sum(x * 1.7, 0, out=torch.ones(4).int()), torch.cumsum(x[0] * 1.7, 0, out=torch.ones(4).int()), "
        "torch.cumsum(i.int(), 0, out=i.int().clone()), torch.nn.AdaptiveAvgPool2d(1)(x)",
        layout=False,
    )


REFUSED_BY_MODULES = """
torch.nn.RNN(3.0, 4)
torch.nn.LSTM(0, 4)
torch.nn.GRU(3, 4, bias=1)
torch.nn.RNN(3, 4, batch_first=0)
torch.nn.HuberLoss(delta=1j)
torch.nn.BatchNorm1d(4, eps=0.0)(x)
torch.nn.BatchNorm1d(4, eps=-1.0).eval()(x)
torch.nn.functional.gaussian_nll_loss(x, x, torch.ones(1, 1))
torch.nn.functional.fractional_max_pool2d(c.double(), 2, 2, _random_samples=torch.rand(1, 2, 2))
torch.nn.functional.fractional_max_pool2d(c, 2, 2, _random_samples=torch.rand(1, 2))
torch.optim.SparseAdam([x], lr=torch.tensor([1.0, 2.0]))
torch.optim.SparseAdam([z])
"""


@pytest.mark.parametrize("text", REFUSED_BY_MODULES.strip().splitlines())
def test_what_modules_and_optimizers_refuse(text: str) -> None:
    refuse_snippet(text, words=7)


def test_variances_of_one_row() -> None:
    agree_snippet("torch.nn.functional.gaussian_nll_loss(g, x, torch.ones(1, 4) * 2), torch.nn.RNN(2, 3).__constants__")
