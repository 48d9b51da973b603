import torch
from torch import nn
import torch.nn.functional as F


class LowRank(nn.Module):
    """A frozen linear layer with a trained low-rank side path."""

    def __init__(self, base, rank):
        super().__init__()
        self.base = base
        self.base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(base.in_features, rank) * 0.1)
        self.up = nn.Parameter(torch.zeros(rank, base.out_features))

    def forward(self, x):
        return self.base(x) + x @ self.down @ self.up


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.ModuleList([nn.Linear(8, 8) for _ in range(2)])
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        for layer in self.body:
            x = torch.tanh(layer(x))
        return self.head(x)


def add_adapters(model, rank=2):
    for i, layer in enumerate(model.body):
        model.body[i] = LowRank(layer, rank)


def train(model, optimizer, steps):
    for step in range(steps):
        x = torch.randn(12, 8)
        y = (x.sum(1) > 0).long()
        loss = F.cross_entropy(model(x), y)
        model.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


torch.manual_seed(0)
model = Model()
for p in model.body.parameters():
    p.requires_grad = False
optimizer = torch.optim.AdamW(filter(lambda p: p.requires_grad, model.parameters()), lr=1e-2)
add_adapters(model)
train(model, optimizer, 4)
