"""Model-agnostic meta-learning on sines: an inner loop on functional parameters, an outer step through it."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call


class Regressor(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.one = nn.Linear(1, width)
        self.two = nn.Linear(width, width)
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        return self.out(torch.tanh(self.two(torch.tanh(self.one(x)))))


class Task:
    def __init__(self):
        self.amplitude = 0.5 + 2 * torch.rand(())
        self.phase = math.pi * torch.rand(())

    def draw(self, count):
        x = 6 * torch.rand(count, 1) - 3
        return x, self.amplitude * torch.sin(x + self.phase)


def adapt(model, params, x, y, rate, steps, second_order=True):
    for _ in range(steps):
        loss = F.mse_loss(functional_call(model, params, (x,)), y)
        grads = torch.autograd.grad(loss, list(params.values()), create_graph=second_order)
        params = {name: p - rate * g for (name, p), g in zip(params.items(), grads)}
    return params


def meta_step(model, optimizer, tasks, rate=0.05, steps=2):
    optimizer.zero_grad()
    total = 0.0
    for task in tasks:
        support, query = task.draw(8), task.draw(8)
        fast = adapt(model, dict(model.named_parameters()), *support, rate, steps)
        loss = F.mse_loss(functional_call(model, fast, (query[0],)), query[1]) / len(tasks)
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
    optimizer.step()
    return total


def evaluate(model, task, rate=0.05, steps=3):
    x, y = task.draw(8)
    start = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    fast = adapt(model, start, x, y, rate, steps, second_order=False)
    with torch.no_grad():
        x, y = task.draw(16)
        return F.mse_loss(functional_call(model, fast, (x,)), y).item()


torch.manual_seed(6)
model = Regressor()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for iteration in range(4):
    loss = meta_step(model, optimizer, [Task() for _ in range(3)])
    print(f"{iteration}: meta loss {loss:.3f} held out {evaluate(model, Task()):.3f}")
