"""Probes of every kind that come and go: contexts, once-only hooks, keyword hooks, retained gradients, hooks in forward."""

import contextlib
import weakref

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd.graph import register_multi_grad_hook


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.probe = None

    def forward(self, x, *, mask=None):
        weights = (self.q(x) @ self.k(x).transpose(-1, -2)) / x.shape[-1] ** 0.5
        if mask is not None:
            weights = weights.masked_fill(mask, -1e9)
        weights = weights.softmax(-1)
        if self.probe is not None and weights.requires_grad:
            weights.register_hook(self.probe)
        return weights @ self.v(x)


class Model(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.embed = nn.Embedding(12, width)
        self.attention = Attention(width)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, 12)

    def forward(self, tokens):
        x = self.embed(tokens)
        mask = torch.triu(torch.ones(tokens.shape[1], tokens.shape[1]), 1).bool()
        return self.out(self.norm(x + self.attention(x, mask=mask)))


@contextlib.contextmanager
def recording(model, store):
    """Outputs of all leaf modules while the block lasts."""
    handles = []
    for name, module in model.named_modules():
        if not list(module.children()):
            handles.append(module.register_forward_hook(lambda m, a, out, name=name: store.update({name: out.detach().std()})))
    try:
        yield store
    finally:
        for handle in handles:
            handle.remove()


class Once:
    """A hook that takes itself away after its first call."""

    def __init__(self, parameter, seen):
        self.seen = seen
        self.handle = parameter.register_hook(self)

    def __call__(self, grad):
        self.seen.append(grad.norm().item())
        self.handle.remove()


class Scale:
    """Halves the gradient that leaves a module; lives as long as its owner wants."""

    def __init__(self, module):
        self.owner = weakref.ref(module)
        self.handle = module.register_full_backward_pre_hook(lambda m, grads: tuple(g * 0.5 for g in grads))


def loss_of(model, tokens):
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def saliency(model, tokens):
    """How much each token's embedding matters."""
    kept = []

    def keep(module, args, output):
        output.retain_grad()
        kept.append(output)

    with model.embed.register_forward_hook(keep):
        loss_of(model, tokens).backward()
    model.zero_grad()
    return kept[0].grad.norm(dim=-1)


torch.manual_seed(2)
model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
first, sizes, together, probed, calls = [], {}, [], [], []
Once(model.out.weight, first)
scale = Scale(model.attention)
pair = register_multi_grad_hook((model.embed.weight, model.out.bias), lambda grads: together.append(len(grads)))
keyword = model.attention.register_forward_pre_hook(lambda m, args, kwargs: calls.append(sorted(kwargs)), with_kwargs=True)
for step in range(5):
    tokens = torch.randint(0, 12, (4, 7))
    model.attention.probe = (lambda grad: probed.append(grad.abs().max().item())) if step == 2 else None
    context = recording(model, sizes) if step % 2 == 0 else contextlib.nullcontext()
    with context:
        loss = loss_of(model, tokens)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        validation = loss_of(model, tokens)
    print(f"step {step} loss {loss.item():.3f} valid {validation.item():.3f}")
scale.handle.remove()
keyword.remove()
pair.remove()
print(len(first), len(sizes), together, len(probed), len(calls), saliency(model, tokens).shape)
