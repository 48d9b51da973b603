import math

import torch
from torch import nn
import torch.nn.functional as F


class TwoTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 16), nn.ReLU())
        self.depth = nn.Linear(16, 1)
        self.label = nn.Linear(16, 3)

    def forward(self, x):
        h = self.trunk(x)
        return self.depth(h), self.label(h)


class Balance(nn.Module):
    """Weighs losses by learned uncertainties."""

    def __init__(self, tasks):
        super().__init__()
        self.log_vars = nn.Parameter(torch.zeros(tasks))

    def forward(self, losses):
        total = 0.0
        for i, loss in enumerate(losses):
            precision = math.exp(-self.log_vars[i].item())
            total = total + precision * loss + 0.5 * i
        return total


def batches(count, size=16):
    for _ in range(count):
        x = torch.randn(size, 6)
        yield x, x.sum(1, keepdim=True), torch.randint(0, 3, (size,))


torch.manual_seed(0)
net, balance = TwoTask(), Balance(2)
optimizer = torch.optim.Adam([*net.parameters(), *balance.parameters()], lr=1e-2)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
for epoch in range(2):
    seen = []
    for x, depth, label in batches(3):
        pd, pl = net(x)
        loss = balance([F.l1_loss(pd, depth), F.cross_entropy(pl, label)])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
    scheduler.step()
    print(epoch, sum(seen) / len(seen), balance.log_vars.tolist())
