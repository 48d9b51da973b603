"""Tensors on the device `meta`: shapes and dtypes without values, and modules that get their values later."""

from __future__ import annotations

import copy
import pickle
from types import ModuleType
from typing import Any

import pytest

from tests.oracle.harness import agree

# m is 2 × 3 on meta, r an ordinary tensor, l a linear layer on meta.
EXPRESSIONS = (
    """
m; (m.device, m.is_meta, m.shape, m.dtype, m.stride(), m.numel(), m.requires_grad, m.is_leaf, m.is_contiguous())
m + 1; m.sum()
(m @ torch.empty(3, 4, device="meta")).shape; m.view(6); m.t().stride(); m.fill_(3); m.normal_(); m.item()
m.sum().item()
bool(m.sum() > 0); m.tolist(); m.numpy(); m.to("cpu"); m.cpu(); m.to(torch.float64); m.half(); r.to("meta")
torch.zeros_like(m)
torch.empty_like(m, device="cpu").shape; torch.empty_like(r, device="meta"); torch.zeros(2, device="meta"); m.data_ptr()
torch.tensor([1.0, 2.0], device="meta"); torch.arange(3, device="meta"); torch.randn(2, device="meta")
r.copy_(m[0]); m.copy_(r)
l.weight; l(torch.empty(2, 3, device="meta")); isinstance(l.weight, torch.nn.Parameter); list(l.state_dict())
l.to("cpu")
l.to_empty(device="cpu").weight.shape; (l.to_empty(device="cpu"), l.weight.device, type(l.weight).__name__); repr(l)
l.load_state_dict({"weight": torch.ones(4, 3), "bias": torch.ones(4)}); l.weight.sum().backward()
torch.nn.Parameter(m).requires_grad
torch.cat([m, m]).shape; m[0].shape; m.clone().device; m.detach().device; m.data.device; copy.deepcopy(l).weight.device
pickle.loads(pickle.dumps(m)).shape; torch.nn.utils.skip_init(torch.nn.Linear, 2, 3).weight.shape
m.max(0).indices.dtype
sum(p.numel() for p in torch.nn.Transformer(8, 2, 1, 1, 16, device="meta").parameters()); m.requires_grad_()
m.split(1)[0]
torch.nn.functional.cross_entropy(m, torch.zeros(2, dtype=torch.int64, device="meta")); m.unsqueeze_(0).shape; m.long()
""".strip()
    .replace("\n", ";")
    .split(";")
)


@pytest.mark.parametrize("text", [text.strip() for text in EXPRESSIONS])
def test_meta(text: str) -> None:
    def program(torch: Any) -> Any:
        names = {
            "torch": torch,
            "copy": copy,
            "pickle": pickle,
            "m": torch.empty(2, 3, device="meta"),
            "r": torch.ones(3),
        }
        return repr(eval(text, names | {"l": torch.nn.Linear(3, 4, device="meta")}))

    agree(program)


MIXED = """
x + m
m - x
m == x
torch.cat([m, x])
torch.where(m > 0, m, x)
torch.nn.Linear(4, 2, device="meta")(x)
torch.nn.Linear(4, 2)(m)
torch.nn.functional.layer_norm(m, (4,), torch.ones(4))
torch.nn.functional.mse_loss(m, x)
m.masked_fill(x > 0, 0)
torch.lerp(m, x, 0.5)
(m + torch.tensor(2.0)).shape, (torch.tensor(2.0) * m).shape, m.add_(x).shape, (m @ x.T).shape
x.expand_as(m), x.view_as(m), x.reshape_as(m), torch.cat([m, m]).shape
""".strip().splitlines()


@pytest.mark.parametrize("text", MIXED)
def test_tensors_with_and_without_values(text: str) -> None:
    def program(torch: ModuleType) -> Any:
        return eval(text, {"torch": torch, "x": torch.ones(3, 4), "m": torch.ones(3, 4, device="meta")})

    agree(program, words=12)


def test_the_class_of_a_parameter_makes_parameters() -> None:
    def program(torch: Any, log: Any) -> Any:
        old = torch.nn.Linear(2, 1, device="meta").weight
        for data in (torch.ones(1, 2), torch.ones(1, 2, device="meta")):
            new = type(old)(data, requires_grad=False)
            log(str(new.device), isinstance(new, torch.nn.Parameter), new.requires_grad, repr(new))

    agree(program)


def test_a_module_is_built_without_values_and_given_them() -> None:
    def program(torch: Any, log: Any) -> Any:
        before = torch.get_rng_state()
        with torch.device("meta"):
            net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2), torch.nn.Embedding(3, 2))
            log(str(torch.ones(3).device))
        log([str(value.device) for value in net.state_dict().values()], torch.equal(before, torch.get_rng_state()))
        net.load_state_dict({k: torch.ones(v.shape, dtype=v.dtype) for k, v in net.state_dict().items()}, assign=True)
        log([value.is_meta for value in net.state_dict().values()])
        out = net[1](net[0](torch.tensor([[1.0, 2.0], [3.0, 5.0]])))
        out.sum().backward()
        return out, net[1].bias.grad

    agree(program)


def test_factories_take_no_memory_and_draw_nothing():
    def program(torch, log):
        torch.manual_seed(0)
        many = 2**20
        made = [
            torch.rand(2**10, 3, 2**16, 2**16, device="meta"), torch.randn(many, many, device="meta"),
            torch.randint(0, 3, (many, many), device="meta"), torch.zeros(many, many, device="meta"),
            torch.full((many, many), 1.5, device="meta"), torch.eye(many, device="meta"),
            torch.arange(many * many, device="meta"), torch.arange(0, 1, 0.3, device="meta"),
            torch.linspace(0, 1, many * many, device="meta"), torch.randperm(many * many, device="meta"),
            torch.normal(0.0, 1.0, (many, many), device="meta"), torch.nn.Linear(many, many, device="meta").weight,
        ]  # fmt: skip
        made += [torch.zeros_like(made[1]), torch.rand_like(made[1]), made[1].new_ones(many, many)]
        for tensor in made:
            log(tensor.shape, tensor.stride(), tensor.dtype, tensor.device, tensor.view(-1).shape)
        log(torch.rand(3))

    agree(program)


# x is 2²⁰ × 2²⁰ on meta: 4 TiB, which no function may ask for or walk through.
HUGE = (
    """
x + 1; x * x; x > 0; x.t(); x[0]; x[:, 5:10]; x.view(-1); x.t().reshape(-1); x.t().contiguous(); x.clone(); x.half()
x.sum(); x.mean(1); x.max(1); x.argmax(0); x.softmax(-1); x.std(); x.var(0); x.cumsum(0); x.sort(); x.topk(3); x.norm()
x @ x; x @ x[0]; torch.addmm(x[0], x, x); torch.cat([x, x]); torch.stack([x, x]); x.split(2**18); x.flip(0)
torch.where(x > 0, x, x * 2); x.masked_fill(x > 0, 0.0); x.add_(1); x.zero_(); x.normal_(); x.gather(0, i); x[i[:, 0]]
F.gelu(x); F.dropout(x); F.layer_norm(x, (2**20,)); F.linear(x, x[:3]); F.cross_entropy(x, i[:, 0]); F.mse_loss(x, x)
torch.nn.Linear(2**20, 2**20, device="meta")(x); torch.nn.BatchNorm1d(2**20, device="meta")(x); x.bernoulli(); x.type()
torch.nn.Conv2d(3, 64, 3, device="meta")(p); F.max_pool2d(p, 2); F.avg_pool2d(p, 2); F.adaptive_avg_pool2d(p, 1)
torch.nn.TransformerEncoderLayer(2**14, 8, device="meta")(s); torch.empty_strided((2**20, 2**20), (1, 2**20), device="meta")
x.requires_grad_().mul(2).sum().backward(); torch.autograd.grad((x.requires_grad_() @ x).exp().sum(), x)
torch.autograd.grad(F.linear(x.requires_grad_(), x).softmax(-1).log().mean(), x); x.nonzero(); x.unique(); x[x > 0]
torch.equal(x, x); torch.allclose(x, x); x.sum().item(); torch.zeros(2, 2**20, device="meta").mul_(x[:2].requires_grad_())
x.requires_grad_().add_(1)
""".strip()
    .replace("\n", ";")
    .split(";")
)


@pytest.mark.parametrize("text", [text.strip() for text in HUGE])
def test_functions_of_huge_tensors_compute_shapes_only(text: str) -> None:
    def described(torch: ModuleType, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return tuple(value.shape), value.dtype, value.stride(), value.requires_grad, str(value.device)
        return [described(torch, part) for part in value] if isinstance(value, (tuple, list)) else value

    def program(torch: ModuleType) -> Any:
        names = {
            "x": torch.empty(2**20, 2**20, device="meta"), "i": torch.zeros(2**20, 3, dtype=torch.int64, device="meta"),
            "p": torch.empty(2**10, 3, 2**13, 2**13, device="meta"), "s": torch.empty(2**12, 2**10, 2**14, device="meta"),
        }  # fmt: skip
        return described(torch, eval(text, {"torch": torch, "F": torch.nn.functional, **names}))

    agree(program)


def test_nothing_is_drawn_for_tensors_without_values() -> None:
    def program(torch: Any) -> Any:
        x = torch.ones(5, 4, device="meta")
        drawn = [torch.nn.functional.dropout(x), x.bernoulli(), x.multinomial(2), torch.poisson(x), x.normal_()]
        return [value.shape for value in drawn], torch.rand(2)

    agree(program)


def test_gradients_hooks_and_optimizers_stay_without_values() -> None:
    def program(torch: Any, log: Any) -> None:
        net = torch.nn.Sequential(torch.nn.Linear(4, 5, device="meta"), torch.nn.Dropout(), torch.nn.ReLU())
        net[0].register_full_backward_hook(lambda module, given, made: log(given[0].is_meta, repr(made[0])))
        optimizer = torch.optim.Adam(net.parameters())
        x = torch.empty(3, 4, device="meta", requires_grad=True)
        x.register_hook(lambda gradient: log(repr(gradient)))
        for _ in range(2):
            optimizer.zero_grad()
            net(x).sum().backward()
            optimizer.step()
        log([repr(value.grad) for value in (x, *net.parameters())])
        (gradient,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        log(gradient.is_meta, torch.autograd.grad(gradient.sum(), x)[0].is_meta)
        log(torch.func.grad(lambda value: value.exp().sum())(x.detach()).is_meta)

    agree(program)


def test_loading_values_into_parameters_without_memory() -> None:
    def program(torch: Any, log: Any) -> None:
        layer = torch.nn.Linear(2, 2, device="meta")
        layer.load_state_dict({"weight": torch.ones(2, 2), "bias": torch.ones(2)})
        log(repr(layer.weight))

    agree(program, warns=True)
