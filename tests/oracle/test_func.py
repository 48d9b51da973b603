"""torch.func against torch: derivatives, vmap, and both inside each other."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt

cases = Table()

# Expressions over x (2 rows of 3), y (3), w (3, asks for gradients), s (0-dim), m (3 by 3) and torch.func's names.
DERIVATIVES = """
vjp(lambda x: x.argmax(), x)
vjp(lambda x: (x, x > 0), x)[1]((x, x))
jacrev(lambda x: x.argmax())(x)
jacfwd(lambda x: x.argmax())(x)
hessian(lambda x: x.sum().long())(x)
jacfwd(lambda y: y * torch.rand(3))(y)
jacfwd(lambda y: y * torch.rand(3), randomness='same')(y).shape
jacfwd(lambda y: F.dropout(y))(y)
jacfwd(lambda y: F.dropout(y, 0.0))(y)
jacfwd(lambda y: F.dropout(y, training=False))(y)
jacfwd(lambda y: y[torch.randperm(3)])(y)
hessian(lambda y: (y * torch.rand(3)).sum())(y)
vmap(jacfwd(lambda y: y * torch.rand(3)), randomness='same')(x)
jvp(lambda x: torch.cdist(x, m), (x,), (x,))
jvp(lambda x: x + torch.cdist(m, m).sum(), (x,), (x,))
jvp(lambda x: (x + torch.cdist(w[None], m).sum()).detach(), (x,), (x,))
jacfwd(lambda x: torch.cdist(x, m))(x)
hessian(lambda x: torch.cdist(x, m).sum())(x)
jvp(lambda x: torch.floor_divide(x, 2.0), (x,), (x,))
jvp(lambda x: torch.heaviside(x, x), (x,), (x,))
torch.autograd.functional.jacobian(lambda x: torch.cdist(x, m), x, vectorize=True, strategy='forward-mode')
jvp(lambda m, x: m.scatter(0, torch.tensor([[0, 2, 1]]), x), (m, x), (m * 2, x + 1))
jvp(lambda m, x: m.scatter_add(0, torch.tensor([[0, 2]]), x), (m, x), (m * 2, x + 1))
jvp(lambda m, x: m.clone().scatter_add_(1, torch.tensor([[0, 2]]), x), (m, x), (m * 2, x + 1))
jvp(lambda m, x: m.scatter_reduce(0, torch.tensor([[0, 2, 1]]), x, 'mean'), (m, x), (m * 2, x + 1))
jvp(lambda m, x: m.scatter_reduce(0, torch.tensor([[0, 2, 1]]), x, 'amax'), (m, x), (m * 2, x + 1))
grad(lambda x: x.sum())(x)
grad(lambda x: x.sin())(x)
grad(lambda x: 3)(x)
grad(lambda x: (x.sum(), x), has_aux=True)(x)
grad(lambda x: x.sum(), has_aux=True)(x)
grad(lambda x, y: (x * y).sum(), argnums=1)(x, y)
grad(lambda x, y: (x * y).sum(), argnums=(0, 1))(x, y)
grad(lambda x, y: (x * y).sum(), argnums=(1,))(x, y)
grad(lambda x, y: (x * y).sum(), argnums=-1)(x, y)
grad(lambda x, y: (x * y).sum(), argnums=2)(x, y)
grad(lambda x, y: (x * y).sum(), argnums=(0, 0))(x, y)
grad(lambda x, y: (x * y).sum(), argnums=())(x, y)
grad(lambda x: x.sum())(3.0)
grad(lambda x: x.sum())(torch.tensor([1, 2]))
grad(lambda x: x.sum())()
grad(lambda x, k=1: (x * k).sum())(x, k=3)
grad(lambda d: (d['a'] * d['b'][0]).sum())({'a': x, 'b': [x * 2]})
grad(lambda x: torch.ones(()))(x)
grad(lambda x: (x * w).sum())(x)
grad(lambda v: (v * v).sum())(w)
grad(lambda v: v.sum())(w)
grad(lambda v: (v * w).sum())(w)
grad(lambda x: (x * x.detach()).sum())(x)
grad_and_value(lambda x: x.pow(2).sum())(x)
grad_and_value(lambda x: (x.pow(2).sum(), {'k': x}), has_aux=True)(x)
grad_and_value(lambda x: (x * w).sum())(x)
grad(grad(torch.sin))(s)
grad(grad(grad(lambda x: x**4)))(s)
grad(lambda x: x * grad(lambda y: x + y)(torch.tensor(2.0)))(s)
grad(lambda x: grad(lambda y: (x * y**2).sum())(y).sum())(y)
vjp(torch.sin, x)[0]
vjp(torch.sin, x)[1](x)
vjp(lambda x: (x, x.sum()), x)[1]((x, s))
vjp(lambda x: {'a': x * 2}, x)[1]({'a': x})
vjp(lambda x: {'a': x * 2}, x)[1](x)
vjp(lambda x: 3, x)
vjp(lambda x: (x, 3), x)
vjp(lambda x, y: x * y, x, y)[1](x)
vjp(lambda x: (x, x * 2), x, has_aux=True)[2]
vjp(lambda x: (x, x * 2), x)[1](x)
vjp(lambda x: x * 2, y)[1](y[:1])
vjp(lambda x: torch.ones(3), y)[1](y)
vjp(lambda x: x * w, y)[1](y)
vjp(torch.sin, w)[0]
vjp(lambda x: x.sum(), 3)
jvp(torch.sin, (x,), (x,))
jvp(torch.sin, x, x)
jvp(torch.sin, (y,), (y[:1],))
jvp(torch.sin, (x,), ())
jvp(torch.sin, (), ())
jvp(torch.sin, (x,), (3,))
jvp(lambda x, y: (x * y, {'a': x}), (x, y), (x, y))
jvp(lambda x: (x * 3, x), (x,), (x,), has_aux=True)
jvp(lambda x: torch.ones(2), (x,), (x,))
jvp(lambda x: 3, (x,), (x,))
jvp(lambda d: d['a'] * 2, ({'a': x},), ({'a': x},))
jvp(lambda x: (x * w).sum(), (y,), (y,))
jvp(lambda m: torch.linalg.inv(m), (m,), (m,))
jacrev(torch.sin)(x)
jacrev(lambda x: (x * 2, x.sum()))(x)
jacrev(lambda x, y: {'a': x * y}, argnums=(0, 1))(x, y)
jacrev(lambda x: (x.exp(), x * 2), has_aux=True)(y)
jacrev(lambda x: 3)(x)
jacrev(torch.sin, chunk_size=1)(y)
jacrev(torch.sin, chunk_size=0)(y)
jacrev(lambda x: torch.ones(3))(x)
jacrev(lambda d: d['a'].sin())({'a': y})
jacrev(lambda x: x @ m)(x)
jacrev(lambda x: x * w)(y)
jacfwd(torch.sin)(x)
jacfwd(lambda x: (x * 2, x.sum()))(x)
jacfwd(lambda x, y: {'a': x * y}, argnums=(0, 1))(x, y)
jacfwd(lambda x: (x.exp(), x * 2), has_aux=True)(y)
jacfwd(lambda x: 3)(x)
jacfwd(lambda x: torch.ones(3))(y)
jacfwd(lambda x: x @ m)(x)
jacrev(jacrev(lambda x: (x**3).sum()))(y)
jacfwd(jacrev(lambda x: (x**3).sum()))(y)
jacrev(jacfwd(lambda x: x**3))(y)
hessian(lambda x: (x**3).sum() * x[0])(y)
hessian(lambda x, y: (x * y**2).sum(), argnums=1)(x, y)
linearize(lambda x: x.sin() * x, y)[0]
linearize(lambda x: x.sin() * x, y)[1](y)
"""

MAPS = """
vmap(torch.sin)(x)
vmap(torch.sin)(3)
vmap(torch.sin, in_dims=None)(x)
vmap(torch.add)(x, y)
vmap(torch.add, in_dims=(0, None))(x, y)
vmap(torch.add, in_dims=(1, 0))(x, y)
vmap(torch.sum, in_dims=-1)(x)
vmap(torch.sum, in_dims=2)(x)
vmap(torch.sum, in_dims='a')(x)
vmap(torch.sum, in_dims=(0, 0))(x)
vmap(lambda d: d['a'] + d['b'], in_dims=({'a': 0, 'b': None},))({'a': x, 'b': y})
vmap(lambda d: d['a'] + 1)({'a': x})
vmap(lambda x: x, out_dims=1)(x)
vmap(lambda x: x, out_dims=-1)(x)
vmap(lambda x: x, out_dims=5)(x)
vmap(lambda x: x, out_dims=(0, 1))(x)
vmap(lambda x: (x, x), out_dims=(0, 1))(x)
vmap(lambda x: (x, x), out_dims=1)(x)
vmap(lambda x: (x, x), out_dims=(0,))(x)
vmap(lambda x: x, out_dims=None)(x)
vmap(lambda x: y)(x)
vmap(lambda x: 3)(x)
vmap(lambda x: {'a': x, 'b': [x * 2]})(x)
vmap(torch.sin)()
vmap(lambda x: x.item())(y)
vmap(lambda x: float(x))(y)
vmap(lambda x: x if x > 0 else -x)(y)
vmap(lambda x: x.nonzero())(x)
vmap(lambda x: x[x > 0])(x)
vmap(lambda x: torch.ones(3).add_(x))(x)
vmap(lambda x, k: x + k)(x, k=x)
vmap(torch.sin, chunk_size=1)(x)
vmap(lambda x, y: (x * 2, x + y), in_dims=(1, None), out_dims=(1, 0), chunk_size=2)(x, s)
vmap(torch.sin, chunk_size=0)(x)
vmap(torch.sin, randomness='foo')(x)
vmap(torch.sin)(s)
vmap(lambda x: torch.equal(x, x))(x)
vmap(lambda x: torch.allclose(x, x))(x)
vmap(lambda x: [a for a in x])(x)
vmap(lambda x, n: x * n, in_dims=(0, None))(x, 3)
vmap(torch.sin)(torch.ones(0, 2))
vmap(vmap(torch.mul, (None, 0)), (0, None))(y, y)
vmap(vmap(vmap(lambda a, b: a - b, (0, None)), (None, 0)), (0, 0))(x, x)
vmap(lambda a: vmap(lambda b: (a * b).sum())(x))(x)
vmap(lambda x: x.sum().backward())(x)
vmap(lambda x: x.data)(x)
vmap(lambda b: b.clone().t_())(b), vmap(lambda b: b.clone().transpose_(0, 1).add_(1))(b)
vmap(lambda b: b.clone().unsqueeze_(-1), in_dims=1)(b), vmap(lambda b: b.clone().swapaxes_(0, 1) + b.T)(b)
vmap(lambda b: b[None].clone().squeeze_())(b), vmap(lambda b: b[:, None].clone().squeeze_(1))(b)
grad(lambda x: vmap(lambda a: (a.clone().unsqueeze_(0).mul_(a) * x[0]).sum())(x).sum())(x)
vmap(lambda b: b.masked_fill(b > 0, b[0, 0]))(b), vmap(lambda b: b.clone().masked_fill_(b > 0, b[0, 0]))(b)
vmap(lambda r: y.masked_fill(r > 0, r[1]))(r), vmap(lambda r: y.masked_fill(mask=y > 0, value=r[1]))(r)
vmap(lambda r: r.masked_fill(r > 0, r[:2]))(r)
vmap(lambda r: torch.fill(r, r[1]))(r), vmap(lambda r: r.clone().fill_(r[2]))(r), vmap(lambda r: torch.fill(y, r[0]))(r)
vmap(lambda r: torch.ones(3).masked_fill_(y > 0, r[0]))(r)
vmap(lambda r: torch.ones(3).fill_(r[0]))(r)
vmap(lambda r: torch.ones(2, 3).sub_(r))(r)
vmap(lambda r: torch.ones(3).sub_(r))(r)
vmap(lambda r: torch.ones(2, 3).add_(r))(r)
vmap(lambda r: torch.ones(3).subtract_(r))(r)
vmap(lambda r: torch.ones(3).clamp_(min=r))(r)
vmap(lambda r: torch.ones(3).index_add_(0, torch.tensor([1]), r[:1]))(r)
vmap(lambda r: torch.ones(3).index_copy_(0, torch.tensor([1]), r[:1]))(r)
grad(lambda x: vmap(lambda a: F.leaky_relu(a * 1, 0.1, inplace=True) * F.elu_(a * 2))(x).sum())(x)
grad(lambda x: vmap(lambda a: (a * 1).copysign_(y) * (a * 1).put_(torch.tensor([1]), y[:1]))(x).sum())(x)
vmap(grad(lambda a: (a * 1).scatter_reduce_(0, torch.tensor([1]), y, 'mean').exp().sum()))(x)
grad(lambda x: vmap(lambda a: a.masked_fill(a > 0, a[0]).sin())(x).sum())(x)
"""

RANDOM = """
vmap(lambda x: torch.rand(2))(y)
vmap(lambda x: x + torch.rand(3), randomness='same')(x)
vmap(lambda x: x + torch.rand(3), randomness='different')(x)
vmap(lambda x: torch.randn(3, 2), randomness='different')(x)
vmap(lambda x: torch.randn_like(x), randomness='different')(x)
vmap(lambda x: torch.randn_like(x), randomness='same')(x)
vmap(lambda x: F.dropout(x + 1), randomness='different')(x)
vmap(lambda x: F.dropout(x + 1), randomness='same')(x)
vmap(lambda x: F.dropout(x + 1))(x)
vmap(lambda x: F.dropout(x + 1, training=False))(x)
vmap(lambda x: x.clone().uniform_(), randomness='different')(x)
vmap(lambda x: x.clone().uniform_(), randomness='same')(x)
vmap(lambda x: torch.bernoulli(x.sigmoid()), randomness='same')(x)
vmap(lambda x: torch.bernoulli(x.sigmoid()), randomness='different')(x)
vmap(lambda x: torch.randperm(3), randomness='different')(x)
vmap(lambda x: torch.randint(0, 5, (2,)), randomness='different')(x)
vmap(lambda x: torch.normal(0.0, 1.0, (2,)), randomness='different')(x)
vmap(lambda x: torch.normal(x, 1.0), randomness='different')(x)
vmap(lambda x: torch.multinomial(x.exp(), 2), randomness='different')(x)
vmap(lambda x: torch.zeros(3).bernoulli_(x.sigmoid()), randomness='different')(x)
vmap(lambda v: jvp(lambda w: w.gather(0, torch.multinomial(w.exp(), 2)), (x[0],), (v,)), randomness='same')(x)
vmap(lambda v: jvp(grad(lambda w: (w.cos() * torch.bernoulli(w.sigmoid())).sum()), (x[0],), (v,)), randomness='same')(x)
vmap(lambda v: vjp(lambda w: w * torch.normal(w, 1.0), x[0])[1](v), randomness='same')(x)
vmap(lambda v: jvp(lambda w: w * torch.zeros(3).bernoulli_(w.sigmoid()), (x[0],), (v,)), randomness='same')(x)
vmap(lambda v: jvp(lambda w: torch.poisson(w.exp()) + w, (v,), (v,)), randomness='same')(x)
"""

# What a mapped function may do, over b (4, 2, 3), c (4, 3, 2), r (4, 3), i (4, 3, ints below 3), t (4, bools)
INSIDE = """
b + 1, 2 - b, b / 3, b**2, -b, abs(b), b > 0, ~t, b * r, b + y, y + b, b * s, r + r, t & t, b % 2, b // 2
torch.where(b > 0, b, r), b.clamp(-0.5, 0.5), b.masked_fill(b > 0, 0.0), torch.maximum(b, r), torch.lerp(r, y, 0.3)
b.sigmoid(), F.relu(b), F.gelu(b), F.softplus(b), b.tanh(), torch.erf(b), F.leaky_relu(b), F.silu(b), F.elu(b)
b.sum(), b.sum(0), b.sum(-1, keepdim=True), b.sum((0, 1)), b.mean(), b.mean(1), b.prod(), b.prod(0), b.var()
b.std(0), b.amax(), b.amax(1), b.max(), b.max(0), b.min(1), b.argmax(), b.argmax(1), b.argmin(0, keepdim=True)
b.logsumexp(1), t.any(), t.all(), (b > 0).any(1), b.norm(), b.norm(dim=1), torch.linalg.vector_norm(b, dim=1)
b.median(), b.median(1), b.sum(0, keepdim=True), b.mean((0, 1), keepdim=True), torch.var_mean(b, 1)
b.count_nonzero(), b.std(), b.var(1, unbiased=False), F.softmax(b, 1), b.softmax(-1), F.log_softmax(b, 0)
b.cumsum(1), b.cumprod(0), b.sort(1), b.argsort(-1), b.topk(2, 1), b.view(6), b.reshape(3, 2), b.reshape(-1)
b.view(-1, 2), b.transpose(0, 1), b.t(), b.T, b.mT, b.H, b.mH, b.permute(1, 0), b.unsqueeze(0), b.unsqueeze(-1)
b.unsqueeze(1).squeeze(1), b.unsqueeze(0).squeeze(), b.flatten(), b.movedim(0, 1), b.expand(5, 2, 3), r.expand(2, 3)
b.repeat(2, 1), r.repeat(2, 2), b.flip(0), b.roll(1, 1), b.roll(1), b.expand_as(b), b.chunk(2, 0), b.split(2, 1)
b.unbind(0), b.unbind(-1), b.select(1, 0), b.narrow(1, 0, 2), b.diagonal(), r.diag(), b[0], b[:, 1], b[..., 0]
b[None], b[0, 1:], b[:, [0, 2]], b[torch.tensor([0, 1, 0])], b[0, torch.tensor([2, 1])], r[i], b[:, i], y[i]
b[0][i[0]], r.gather(0, i), torch.gather(b, 1, i[None]), torch.index_select(b, 1, torch.tensor([0, 2]))
torch.cat([b, b], 0), torch.cat([b, r[None]], 0), torch.stack([r, y]), torch.stack([r, r], -1), torch.cat([r, y])
torch.zeros_like(b), torch.ones_like(r), b.new_zeros(2), b.new_ones(3, 2), torch.full_like(r, 2.0)
b.new_full((2,), 1.0), b @ c, b @ r, r @ m, m @ r, r @ r, r @ y, b @ m, m @ c, torch.mm(b, c), torch.mv(b, r)
torch.dot(r, r), torch.bmm(b[None], c[None]), torch.matmul(r, c), torch.matmul(b[None], c)
torch.matmul(b, torch.stack([m, m])), torch.outer(r, r), F.linear(b, m), F.linear(r, m, y)
torch.einsum('ij,jk->ik', b, c), torch.einsum('i,i', r, r), torch.einsum('ij,j->i', b, y), torch.einsum('i,j', r, y)
F.linear(r, b), F.linear(r, b, r[:2]), torch.addmm(c[:2], b, c), torch.addmm(y, b, m), torch.linalg.det(b @ c)
torch.linalg.inv(b @ b.mT), F.layer_norm(b, (3,)), F.layer_norm(b, (3,), y, y), F.layer_norm(b, (3,), r, r)
F.group_norm(b, 1), F.normalize(b, dim=1), F.mse_loss(b, b * 2), F.mse_loss(r, r * 2, reduction='sum')
F.l1_loss(r, y, reduction='none'), F.binary_cross_entropy_with_logits(r, y.sigmoid()), F.cross_entropy(b, i[:2])
F.cross_entropy(r, i[0]), F.cross_entropy(b, torch.tensor([0, 2])), F.nll_loss(b.log_softmax(1), i[:2])
F.cross_entropy(b, i[:2], reduction='sum'), F.cross_entropy(b, i[:2], reduction='none')
F.cross_entropy(b, b.softmax(1)), F.smooth_l1_loss(b, b * 0), F.huber_loss(r, r * 2), F.kl_div(b, b.exp())
F.cosine_similarity(b, b * 2, dim=1), F.conv1d(b, torch.ones(2, 2, 2)), F.conv1d(b[None], torch.ones(2, 2, 2))
F.conv1d(torch.ones(1, 2, 3), b[None]), F.max_pool1d(b, 2), F.avg_pool1d(b[None], 2)
F.conv2d(b[None, None], torch.ones(1, 1, 2, 2), torch.ones(1)), F.max_pool2d(b[None], 2)
F.adaptive_avg_pool2d(b[None], 1), F.pad(b, (1, 1)), F.embedding(i, m), F.embedding(torch.tensor([0, 1]), b)
F.one_hot(i, 3), F.scaled_dot_product_attention(b, b, b), F.interpolate(b[None], 6), b.float(), b.double(), b.long()
i + 0.5, i / 2, b.to(torch.float64), b.clone(), b.detach(), b.contiguous(), r.tril() if False else b.tril()
b.sum(0).exp().log1p(), (b * r).sum(1) / r.norm(), torch.linalg.norm(b), torch.trace(b[:, :2]), torch.kron(r, r)
torch.cdist(b, b), torch.linalg.solve(b @ b.mT, b), torch.linalg.cholesky(b @ b.mT + torch.eye(2))
torch.linalg.slogdet(b @ c), torch.triu(b), torch.cumsum(r, 0), torch.scatter(b, 1, i[None, :2], 1.0)
torch.scatter_add(r, 0, i, r), r.index_select(0, torch.tensor([1])), torch.take_along_dim(b, i[None], 1)
b.clone().add_(1), b.clone().mul_(r), r.clone().copy_(y), r.clone().zero_(), r.clone().exp_()
b.clone().index_fill_(1, torch.tensor([0]), 2.0), r.sum() + s, r.sum() * torch.tensor(2.0, dtype=torch.float64)
r * torch.tensor(2.0, dtype=torch.float64), i.sum() + s, r.sum().double() * r, torch.tensor(3.0) * r.sum()
r.sum() > 0, torch.logical_and(t, r.sum() > 0), r.sum().unsqueeze(0), r.sum().expand(3), r.sum().reshape(1, 1)
b.dim() * r, b.size(0) * r, b.shape[1] * r, b.numel() * r, len(b) * r, sum(b.shape) * r, b.ndim * r
"""


def _names(torch: Any) -> dict[str, Any]:
    values = torch.arange(24)
    return {
        "torch": torch,
        "F": torch.nn.functional,
        **{name: getattr(torch.func, name) for name in torch.func.__all__ if hasattr(torch.func, name)},
        "vmap": torch.vmap,
        "x": torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.3, -0.7]]),
        "y": torch.tensor([0.2, 1.1, -0.4]),
        "w": torch.tensor([0.3, -0.2, 0.9], requires_grad=True),
        "s": torch.tensor(0.7),
        "m": torch.tensor([[2.0, 0.1, 0.3], [0.2, 1.5, -0.4], [0.0, 0.6, 1.2]]),
        "b": ((values * 7 % 25 - 12) / 8 + 0.0625).view(4, 2, 3),
        "c": ((values * 11 % 27 - 13) / 8).view(4, 3, 2),
        "r": ((values[:12] * 5 % 13 - 6) / 4 + 0.125).view(4, 3),
        "i": (torch.arange(12) * 5 % 3).view(4, 3),
        "t": torch.tensor([True, False, True, True]),
    }


def _lines(table: str) -> list[str]:
    return [line for line in table.strip().split("\n") if line]


@pytest.mark.parametrize("text", _lines(DERIVATIVES) + _lines(MAPS))
def test_expression(text: str) -> None:
    agree(lambda torch: eval(text, _names(torch)))


@pytest.mark.parametrize("text", _lines(RANDOM))
def test_random(text: str) -> None:
    agree(lambda torch: eval(text, _names(torch)))


def _split(line: str) -> list[str]:
    """The expressions of a line, which commas separate."""
    tree = ast.parse(line, mode="eval").body
    return [ast.unparse(part) for part in tree.elts] if isinstance(tree, ast.Tuple) else [line]


@pytest.mark.parametrize("text", [part for line in _lines(INSIDE) for part in _split(line)])
def test_inside_vmap(text: str) -> None:
    """The same as torch, inside one vmap and inside two; and the gradient flows through it."""

    def program(torch: Any, log: Any) -> Any:
        names = _names(torch)
        given = [names[name] for name in "bcrit"]

        def example(b: Any, c: Any, r: Any, i: Any, t: Any) -> Any:
            result = eval(text, {**names, "b": b, "c": c, "r": r, "i": i, "t": t})
            return tuple(result) if isinstance(result, (list, tuple)) else result

        log("once", torch.vmap(example)(*given))
        if "bmm" not in text:
            log("mixed", torch.vmap(example, (None, 0, 0, 0, 0))(given[0][0], *given[1:]))
        pairs = [torch.stack([value, value.flip(0)]) for value in given]
        twice = torch.vmap(torch.vmap(example))
        log("twice", twice(*pairs))
        leaf = given[0].clone().requires_grad_()
        out = torch.vmap(example)(leaf, *given[1:])
        outs = [one for one in (out if isinstance(out, tuple) else (out,)) if one.requires_grad]
        if outs:
            log("gradient", torch.autograd.grad([one.sum() for one in outs], leaf, allow_unused=True))

    agree(program, rtol=1e-4, atol=1e-5)


# --- programs


@cases
def transforms_do_not_write_to_tensors_around_their_function(torch, log):
    func, x, y = torch.func, torch.arange(1.0, 4.0), torch.zeros(3)

    def add(x):
        y.add_(x)
        return y.sum()

    def count(x):
        y.add_(1)
        return (x * y).sum()

    def own(x):
        y = torch.zeros(3)
        y.add_(x)
        y[0] = x[1]
        return y.sum()

    def outer(x):
        def inner(z):
            x.mul_(z)
            return x.sum()

        return func.grad(inner)(x * 1).sum()

    for function in (add, count, own, outer):
        attempt(log, "grad", lambda f=function: func.grad(f)(x))
        attempt(log, "vjp", lambda f=function: func.vjp(f, x)[1](torch.ones(())))
        attempt(log, "jvp", lambda f=function: func.jvp(f, (x,), (x,)))
        attempt(log, "jacfwd", lambda f=function: func.jacfwd(f)(x))
    log(y)
    y.add_(1)
    log(y)


@cases
def gradients_per_example(torch, log):
    F, func = torch.nn.functional, torch.func
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    params = {name: p.detach() for name, p in model.named_parameters()}
    data, labels = torch.randn(5, 3), torch.tensor([0, 1, 1, 0, 1])

    def loss(params, x, label):
        out = func.functional_call(model, params, (x.unsqueeze(0),))
        return F.cross_entropy(out, label.unsqueeze(0))

    found = func.vmap(func.grad(loss), (None, 0, 0))(params, data, labels)
    for name, part in found.items():
        log(name, part)
    one = func.grad(loss)(params, data[2], labels[2])
    log([torch.allclose(found[name][2], one[name], atol=1e-6) for name in one])


@cases
def gradients_per_example_of_a_convolution(torch, log):
    func, F = torch.func, torch.nn.functional
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(18, 2))
    params = {name: p.detach() for name, p in model.named_parameters()}
    data = torch.randn(3, 1, 5, 5)

    def loss(params, x):
        return F.mse_loss(func.functional_call(model, params, (x.unsqueeze(0),)), torch.ones(1, 2))

    return func.vmap(func.grad(loss), (None, 0))(params, data)


@cases
def an_ensemble(torch, log):
    func = torch.func
    models = [
        torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 1)) for _ in range(3)
    ]
    params, buffers = func.stack_module_state(models)
    data = torch.randn(5, 3)

    def call(params, buffers, x):
        return func.functional_call(models[0], (params, buffers), (x,))

    out = func.vmap(call, in_dims=(0, 0, None))(params, buffers, data)
    log(out, params)
    out.sum().backward()
    return {name: p.grad for name, p in params.items()}


@cases
def jacobian_by_mapping_over_vectors(torch, log):
    func = torch.func
    x = torch.tensor([0.3, -0.5, 1.1])
    function = lambda x: torch.stack([x.sin().sum(), (x**2).sum()])
    _, pull = func.vjp(function, x)
    log(func.vmap(pull)(torch.eye(2)))
    log(func.vmap(lambda v: func.jvp(function, (x,), (v,))[1])(torch.eye(3)))
    log(func.vmap(func.jacrev(function))(torch.stack([x, x * 2])))
    log(func.vmap(func.jacfwd(function))(torch.stack([x, x * 2])))
    log(func.vmap(func.hessian(lambda x: (x**3).sum()))(torch.stack([x, x * 2])))
    log(func.jacrev(func.vmap(torch.sin))(x))
    log(func.jacfwd(func.vmap(lambda v: v**2))(x))
    log(func.vmap(func.vmap(func.grad(lambda v: v.sin())))(torch.stack([x, x * 2])))


@cases
def hessian_vector_products(torch, log):
    func = torch.func
    f = lambda x: (x.sin() * x**2).sum()
    x, v = torch.tensor([0.3, -0.5]), torch.tensor([1.0, 2.0])
    log(func.jvp(func.grad(f), (x,), (v,)))
    log(func.vjp(func.grad(f), x)[1](v))
    log(func.grad(lambda x: func.jvp(f, (x,), (v,))[1])(x))
    log(func.jvp(lambda x: func.jvp(f, (x,), (v,))[1], (x,), (v,)))


@cases
def modes(torch, log):
    func = torch.func
    w, x = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 4.0])
    with torch.no_grad():
        log(func.grad(lambda x: (x * w).sum())(x), func.vjp(lambda x: x * w, x)[0])

    def inside(x):
        with torch.no_grad():
            constant = x * x
        log(x.requires_grad, constant.requires_grad)
        return (x * constant).sum()

    log(func.grad(inside)(x))


@cases
def writes_inside(torch, log):
    func = torch.func

    def f(x):
        y = x.clone()
        y.mul_(x)
        y[0] = 2 * x[1]
        return y.sum()

    x = torch.tensor([3.0, 4.0])
    log(func.grad(f)(x), func.vmap(func.grad(f))(torch.stack([x, x + 1])), func.hessian(f)(x))


@cases
def custom_functions(torch, log):
    class Cube(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x**2

    func, x = torch.func, torch.tensor([1.0, 2.0])
    log(func.grad(lambda x: Cube.apply(x).sum())(x), func.vmap(Cube.apply)(x), func.vmap(func.grad(Cube.apply))(x))
    log(func.grad(func.grad(Cube.apply))(torch.tensor(2.0)))


@cases
def custom_functions_with_a_map_of_their_own(torch, log):
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(x, factor):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.factor = inputs[1]

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor, None

        @staticmethod
        def vmap(info, in_dims, x, factor):
            log(info.batch_size, info.randomness, in_dims, x.shape)
            return Scale.apply(x, factor), in_dims[0]

    class Unmapped(Scale):
        vmap = torch.autograd.Function.vmap

    class Both(Scale):
        generate_vmap_rule = True

    func, x = torch.func, torch.tensor([1.0, 2.0])
    log(func.vmap(lambda x: Scale.apply(x, 3.0))(x), func.vmap(func.grad(lambda x: Scale.apply(x, 3.0)))(x))
    for wrong in (Unmapped, Both):
        attempt(log, wrong.__name__, lambda: func.vmap(lambda x: wrong.apply(x, 3.0))(x))


@cases
def outer_graph_goes_on(torch, log):
    func = torch.func
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    x = torch.tensor([0.5, -1.0])
    slope = func.grad(lambda x: ((x * w) ** 3).sum())(x)
    log(slope.requires_grad)
    slope.sum().backward()
    log(w.grad)
    value, pull = func.vjp(lambda v: v * w, w)
    log(value, torch.autograd.grad(pull(x)[0].sum(), w))
    mapped = func.vmap(lambda x: (x * w).sum())(torch.stack([x, x]))
    log(torch.autograd.grad(mapped.sum(), w))


@cases
def running_averages(torch, log):
    func = torch.func
    x = torch.randn(3, 4, 2)
    layers = [
        torch.nn.BatchNorm1d(2),
        torch.nn.BatchNorm1d(2).eval(),
        torch.nn.BatchNorm1d(2, track_running_stats=False),
    ]
    for layer in layers:
        attempt(log, "norm", lambda: func.vmap(layer)(x), words=12)
    log(func.vmap(func.replace_all_batch_norm_modules_(layers[0]))(x))


@cases
def printed(torch, log):
    torch.vmap(lambda x: print(x) or x)(torch.ones(2, 2))


@cases
def names_and_docs(torch, log):
    def named(x):
        """About it."""
        return x.sum()

    for made in (torch.func.grad(named), torch.vmap(named), torch.func.jacrev(named), torch.func.jacfwd(named)):
        log(made.__name__, made.__doc__)


@cases
def dual_numbers(torch, log):
    fw = torch.autograd.forward_ad
    x, v = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    attempt(log, "no level", lambda: fw.make_dual(x, v))
    log(fw.unpack_dual(x))
    with fw.dual_level():
        dual = fw.make_dual(x, v)
        log(fw.unpack_dual(dual).tangent is v, fw.unpack_dual(dual))
        out = (dual * 2).sin()
        log(fw.unpack_dual(out), fw.unpack_dual(out.sum()), fw.unpack_dual(x), fw.unpack_dual(dual.detach()))
        two = dual * fw.make_dual(v, x)
        log(fw.unpack_dual(two))
        attempt(log, "twice", lambda: fw.make_dual(dual, v))
        attempt(log, "nested", lambda: fw.dual_level().__enter__())
        attempt(log, "size", lambda: fw.make_dual(x, v[:1]))
        attempt(log, "kind", lambda: fw.make_dual(torch.tensor([1, 2]), v))
        param = torch.tensor([1.0, 1.0], requires_grad=True)
        fw.unpack_dual(dual * param**2).tangent.sum().backward()
        log(param.grad)
    log(fw.unpack_dual(out).tangent)
    with torch.no_grad(), fw.dual_level():
        log(fw.unpack_dual(fw.make_dual(x, v) ** 2))


@cases.test
def test_program(program: Any) -> None:
    agree(program)


@pytest.mark.parametrize("transform", ["grad", "vmap", "vjp", "jacfwd"])
def test_custom_functions_must_be_split_for_transforms(transform):
    def program(torch):
        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g * 2

        def total(x):
            return Twice.apply(x).sum()

        x = torch.ones(2)
        calls = {
            "grad": lambda: torch.func.grad(total)(x),
            "vmap": lambda: torch.func.vmap(Twice.apply)(x),
            "vjp": lambda: torch.func.vjp(total, x),
            "jacfwd": lambda: torch.func.jacfwd(total)(x),
        }
        try:
            calls[transform]()
        except RuntimeError as error:
            return str(error).split()[:8], Twice.apply(x)

    agree(program)


@pytest.mark.parametrize("create_graph", [False, True])
def test_vmap_over_the_gradients_of_outputs_that_autograd_grad_is_given(create_graph):
    def program(torch):
        x = torch.arange(3.0, requires_grad=True)
        unused = torch.ones(2, requires_grad=True)
        y, z = x**3, x.sum()
        both = torch.eye(3)

        def pulled_back(row, scale):
            got = torch.autograd.grad(
                [y, z], [x, unused], [row, scale], retain_graph=True, create_graph=create_graph, allow_unused=True
            )
            return got[0] * 2

        found = torch.vmap(pulled_back)(both, torch.arange(3.0)), torch.vmap(pulled_back, (0, None))(both, both[0, 0])
        chunked = torch.vmap(lambda row: torch.autograd.grad(y, x, row, retain_graph=True)[0], chunk_size=2)(both)
        nested = torch.vmap(torch.vmap(lambda row: torch.autograd.grad(y, x, row, retain_graph=True)[0]))(both[None])
        zeros = torch.vmap(
            lambda row: torch.autograd.grad((y, z), unused, (row, None), retain_graph=True, materialize_grads=True)[0]
        )(both)
        if create_graph:
            found[0].sum().backward()
        return found, chunked, nested, zeros, x.grad

    agree(program)


def test_vmap_of_keywords() -> None:
    def program(torch: Any) -> Any:
        x, mask = torch.arange(6).reshape(2, 3), torch.tensor([True, False, True])
        return (
            torch.vmap(lambda x: torch.masked_select(input=x, mask=mask))(x),
            torch.vmap(lambda x: torch.nn.functional.one_hot(input=x, num_classes=6))(x),
        )

    agree(program)


def test_refusals_of_transforms() -> None:
    def program(torch: Any, log: Any) -> None:
        x = torch.ones(3, 4)
        for call in (
            lambda: torch.vmap(lambda row: row.add_(x))(x.clone()),
            lambda: torch.vmap(lambda row: row.mul_(torch.ones(2, 1, 1)))(x.clone()),
            lambda: torch.vmap(lambda row: row, out_dims="a")(x),
            lambda: torch.func.jvp(lambda x: (x, torch.ones(1)), (x,), (x,), strict=True),
        ):
            try:
                call()
            except (RuntimeError, ValueError) as error:
                log(type(error).__name__, str(error).split()[:8])

    agree(program)


def test_slopes_of_xlogy_and_frames_of_batches() -> None:
    def program(torch: Any, log: Any) -> None:
        jvp, pad, x = torch.func.jvp, torch.nn.functional.pad, torch.arange(48.0).reshape(2, 2, 3, 4)
        start, one = torch.tensor([0.0, 0.3]), torch.ones(2)
        log(jvp(lambda v: torch.xlogy(v, torch.tensor(0.7)), (start,), (one,)))
        log(jvp(lambda v: torch.special.xlog1py(v, torch.tensor(0.7)), (start,), (one,)))
        leaf = torch.tensor([0.0, 0.0, 1.0, 2.0], requires_grad=True)
        other = torch.tensor([0.0, -1.0, 2.0, 0.0])
        for weights in (torch.ones(4), torch.zeros(4)):
            log(torch.autograd.grad(torch.xlogy(leaf, other), leaf, weights))
        log(torch.vmap(lambda v: pad(v, (1, 2), mode="circular"))(x), torch.vmap(lambda v: pad(v, (1, 2)))(x))
        log(torch.vmap(lambda v: pad(v, (1, 1, 1, 1), mode="reflect"))(x))
        log(torch.vmap(lambda v: v.count_nonzero(dim=0))(start))

    agree(program)
