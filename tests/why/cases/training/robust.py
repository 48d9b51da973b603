"""Adversarial training: projected gradient steps on the input, a universal perturbation, gradient checks by eye."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(6))
        self.layers = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, x):
        return self.layers(x - self.mean)


def pgd(model, x, y, size=0.3, rate=0.1, steps=3):
    delta = torch.empty_like(x).uniform_(-size, size)
    for _ in range(steps):
        delta.requires_grad_(True)
        loss = F.cross_entropy(model(x + delta), y)
        (grad,) = torch.autograd.grad(loss, delta)
        with torch.no_grad():
            delta = (delta + rate * grad.sign()).clamp(-size, size)
    return (x + delta).detach()


def fgsm(model, x, y, size=0.2):
    x = x.clone().requires_grad_()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    attack = x + size * x.grad.sign()
    return attack.detach()


class Universal:
    """One perturbation for all inputs, climbed by hand."""

    def __init__(self, shape, size):
        self.delta = torch.zeros(shape, requires_grad=True)
        self.size = size

    def climb(self, model, x, y, rate=0.05):
        loss = F.cross_entropy(model(x + self.delta), y)
        loss.backward()
        with torch.no_grad():
            self.delta += rate * self.delta.grad.sign()
            self.delta.clamp_(-self.size, self.size)
        self.delta.grad.zero_()
        return loss.item()


def batch(count):
    x = torch.randn(count, 6)
    return x, x[:, :3].argmax(1)


torch.manual_seed(2)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
universal = Universal((6,), 0.2)
for step in range(5):
    x, y = batch(24)
    model.eval()
    hard, fast = pgd(model, x, y), fgsm(model, x, y)
    attack = universal.climb(model, x, y)
    model.train()
    optimizer.zero_grad()
    clean = F.cross_entropy(model(x), y)
    robust = F.cross_entropy(model(hard), y) + F.cross_entropy(model(fast), y)
    (clean + 0.5 * robust).backward()
    largest = max(p.grad.abs().max().item() for p in model.parameters())
    optimizer.step()
    print(f"step {step} clean {clean.item():.3f} robust {robust.item():.3f} attack {attack:.3f} largest {largest:.2f}")
