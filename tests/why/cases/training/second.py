"""Curvature by hand: Hessian-vector products, Fisher information, natural gradient by conjugate gradients."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def flat(tensors):
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def hvp(loss, parameters, vector):
    grads = torch.autograd.grad(loss, parameters, create_graph=True)
    dot = (flat(grads) * vector).sum()
    return flat(torch.autograd.grad(dot, parameters, retain_graph=True)).detach()


def conjugate_gradients(apply, b, steps=4):
    x = torch.zeros_like(b)
    r, p = b.clone(), b.clone()
    rr = r.dot(r)
    for _ in range(steps):
        ap = apply(p)
        alpha = rr / (p.dot(ap) + 1e-8)
        x += alpha * p
        r -= alpha * ap
        new = r.dot(r)
        p = r + new / (rr + 1e-8) * p
        rr = new
    return x


def fisher(model, x, y):
    """The diagonal, from gradients of single examples."""
    totals = [torch.zeros_like(p) for p in model.parameters()]
    for i in range(len(x)):
        model.zero_grad()
        F.cross_entropy(model(x[i : i + 1]), y[i : i + 1]).backward()
        for total, p in zip(totals, model.parameters()):
            total += p.grad.detach() ** 2
    model.zero_grad()
    return [total / len(x) for total in totals]


def newton_step(model, x, y, damping=1.0):
    parameters = list(model.parameters())
    loss = F.cross_entropy(model(x), y)
    grad = flat(torch.autograd.grad(loss, parameters, create_graph=True)).detach()
    step = conjugate_gradients(lambda v: hvp(loss, parameters, v) + damping * v, grad)
    with torch.no_grad():
        start = 0
        for p in parameters:
            p -= 0.5 * step[start : start + p.numel()].view_as(p)
            start += p.numel()
    return loss.item()


class Elastic:
    """Elastic weight consolidation: remembers what mattered for an earlier task."""

    def __init__(self, model, x, y):
        self.importance = fisher(model, x, y)
        self.anchor = [p.detach().clone() for p in model.parameters()]

    def penalty(self, model):
        parts = zip(self.importance, self.anchor, model.parameters())
        return sum((weight * (p - old) ** 2).sum() for weight, old, p in parts)


def task(kind, count=24):
    x = torch.randn(count, 5)
    return x, (x[:, kind] > 0).long()


torch.manual_seed(3)
model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))
x, y = task(0)
print("newton", [round(newton_step(model, x, y), 3) for _ in range(4)])
memory = Elastic(model, x, y)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(4):
    x, y = task(1)
    loss = F.cross_entropy(model(x), y) + 10 * memory.penalty(model)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("second task", round(loss.item(), 3))
