from collections import defaultdict

import torch
from torch import nn
import torch.nn.functional as F


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 20), nn.Tanh(), nn.Linear(20, 1))

    def forward(self, x):
        return self.net(x)


def step(model, batch):
    x, y = batch
    return F.mse_loss(model(x), y)


def make(count):
    x = torch.randn(count, 5)
    return x, x[:, :1] * x[:, 1:2]


torch.manual_seed(0)
model = Regressor()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
metrics = defaultdict(list)
train, valid = make(40), make(20)
for epoch in range(6):
    model.train()
    loss = step(model, train)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    metrics["train"].append(loss.item())
    model.eval()
    valid_loss = step(model, valid)
    metrics["valid"].append(valid_loss)
    print(epoch, f"{loss.item():.4f} {valid_loss.item():.4f}")
best = min(range(6), key=lambda i: metrics["valid"][i].item())
print("best epoch", best)
