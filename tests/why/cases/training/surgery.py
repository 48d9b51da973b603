"""Gradient surgery between conflicting tasks, sharpness-aware steps, and weight averaging at the end."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh())
        self.left = nn.Linear(16, 1)
        self.right = nn.Linear(16, 1)

    def forward(self, x):
        hidden = self.trunk(x)
        return self.left(hidden), self.right(hidden)


def flat(grads):
    return torch.cat([g.reshape(-1) for g in grads])


def unflat(vector, like):
    parts, start = [], 0
    for p in like:
        parts.append(vector[start : start + p.numel()].view_as(p))
        start += p.numel()
    return parts


def project(losses, shared):
    """Removes from each task's gradient what points against another's."""
    grads = [flat(torch.autograd.grad(loss, shared, retain_graph=True)) for loss in losses]
    result = []
    for i, g in enumerate(grads):
        g = g.clone()
        for j, other in enumerate(grads):
            dot = torch.dot(g, other)
            if i != j and dot < 0:
                g -= dot / other.norm().pow(2) * other
        result.append(g)
    return unflat(torch.stack(result).sum(0), shared)


class SAM:
    def __init__(self, parameters, base, rho=0.05):
        self.parameters = list(parameters)
        self.base = base
        self.rho = rho
        self.moved = []

    @torch.no_grad()
    def climb(self):
        norm = torch.stack([p.grad.norm() for p in self.parameters]).norm() + 1e-12
        self.moved = [p.grad * (self.rho / norm) for p in self.parameters]
        for p, e in zip(self.parameters, self.moved):
            p.add_(e)
        self.base.zero_grad()

    @torch.no_grad()
    def descend(self):
        for p, e in zip(self.parameters, self.moved):
            p.sub_(e)
        self.base.step()
        self.base.zero_grad()


def losses_of(model, x, a, b):
    left, right = model(x)
    return F.mse_loss(left.squeeze(1), a), F.mse_loss(right.squeeze(1), b)


torch.manual_seed(18)
model = Shared()
base = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
sam = SAM(model.parameters(), base)
averaged = torch.optim.swa_utils.AveragedModel(model)
shared = list(model.trunk.parameters())
for step in range(6):
    x = torch.randn(24, 8)
    a, b = x[:, 0] - x[:, 1], x[:, 1] * x[:, 2]
    first, second = losses_of(model, x, a, b)
    (first + second).backward()
    sam.climb()
    first, second = losses_of(model, x, a, b)
    surgery = project([first, second], shared)
    (first + second).backward()
    for p, g in zip(shared, surgery):
        p.grad = g.clone()
    sam.descend()
    if step >= 3:
        averaged.update_parameters(model)
    print(f"step {step} {first.item():.3f} {second.item():.3f}")
with torch.no_grad():
    print(losses_of(averaged, x, a, b)[0].item())
