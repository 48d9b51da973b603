import copy

import torch
from torch import nn
import torch.nn.functional as F


def mlp(a, hidden, b):
    return nn.Sequential(nn.Linear(a, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, b))


class Online(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = mlp(10, 16, 8)
        self.projector = mlp(8, 16, 6)
        self.predictor = mlp(6, 16, 6)

    def forward(self, x):
        return self.predictor(self.projector(self.encoder(x)))


class Target(nn.Module):
    def __init__(self, online):
        super().__init__()
        self.encoder = copy.deepcopy(online.encoder)
        self.projector = copy.deepcopy(online.projector)
        for p in self.parameters():
            p.requires_grad = False

    @torch.no_grad()
    def update(self, online, tau):
        pairs = zip((*online.encoder.parameters(), *online.projector.parameters()), self.parameters())
        for source, mine in pairs:
            mine.data.mul_(tau).add_(source.data, alpha=1 - tau)

    @torch.no_grad()
    def forward(self, x):
        return self.projector(self.encoder(x))


def regression_loss(a, b):
    return 2 - 2 * (F.normalize(a, dim=-1) * F.normalize(b, dim=-1)).sum(dim=-1)


def augment(x):
    return x + 0.1 * torch.randn_like(x)


torch.manual_seed(0)
online = Online()
target = Target(online)
optimizer = torch.optim.AdamW(online.parameters(), lr=1e-2)
data = torch.randn(64, 10)
losses = []
for step in range(5):
    batch = data[torch.randperm(64)[:32]]
    one, two = augment(batch), augment(batch)
    loss = (regression_loss(online(one), target(two)) + regression_loss(online(two), target(one))).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    target.update(online, 0.9)
    losses.append(float(loss))
    assert all(p.grad is None for p in target.parameters())
print("loss", losses[0], "->", losses[-1])
