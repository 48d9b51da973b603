"""A sparse mixture of experts with a noisy top-k router and a load-balancing loss."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Expert(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x):
        return self.down(F.silu(self.up(x)))


class Router(nn.Module):
    def __init__(self, width, experts, k):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.noise = nn.Linear(width, experts, bias=False)
        self.k = k

    def forward(self, x):
        logits = self.gate(x)
        if self.training:
            logits = logits + torch.randn_like(logits) * F.softplus(self.noise(x))
        top, index = logits.topk(self.k, dim=-1)
        weights = torch.zeros_like(logits).scatter(-1, index, top.softmax(-1))
        return weights, index


class Mixture(nn.Module):
    def __init__(self, width=8, hidden=12, experts=4, k=2):
        super().__init__()
        self.router = Router(width, experts, k)
        self.experts = nn.ModuleList([Expert(width, hidden) for _ in range(experts)])
        self.balance = None

    def forward(self, x):
        weights, index = self.router(x)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = (index == number).any(-1).nonzero().squeeze(1)
            if len(rows):
                out = out.index_add(0, rows, expert(x[rows]) * weights[rows, number].unsqueeze(1))
        importance = weights.sum(0)
        self.balance = importance.var() / (importance.mean() ** 2 + 1e-6)
        return out


class Model(nn.Module):
    def __init__(self, inputs=6, width=8, classes=3):
        super().__init__()
        self.embed = nn.Linear(inputs, width)
        self.norm = nn.LayerNorm(width)
        self.mixture = Mixture(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        hidden = self.embed(x)
        hidden = hidden + self.mixture(self.norm(hidden))
        return self.head(hidden)


def batch(count):
    x = torch.randn(count, 6)
    return x, (x.abs().sum(1) * 0.8).long().clamp(3, 5) - 3


torch.manual_seed(15)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
usage = torch.zeros(4)
for step in range(6):
    x, y = batch(32)
    logits = model(x)
    task = F.cross_entropy(logits, y)
    loss = task + 0.01 * model.mixture.balance
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        weights, index = model.mixture.router(model.norm(model.embed(x)))
        usage += F.one_hot(index, 4).sum(dim=(0, 1))
    print(f"step {step} task {task.item():.3f} balance {model.mixture.balance.item():.3f}")
print(usage.tolist())
