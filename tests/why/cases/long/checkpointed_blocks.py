import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(F.silu(self.up(self.norm(x))))


class Deep(nn.Module):
    def __init__(self, width=8, depth=4, use_reentrant=False):
        super().__init__()
        self.inp = nn.Linear(4, width)
        self.blocks = nn.ModuleList(Residual(width) for _ in range(depth))
        self.out = nn.Linear(width, 1)
        self.use_reentrant = use_reentrant

    def forward(self, x):
        x = self.inp(x)
        for i, block in enumerate(self.blocks):
            if self.training and i % 2 == 0:
                x = checkpoint(block, x, use_reentrant=self.use_reentrant)
            else:
                x = block(x)
        return self.out(x)


torch.manual_seed(0)
x, y = torch.randn(24, 4), torch.randn(24, 1)
curves = {}
for kind in (False, True):
    torch.manual_seed(1)
    net = Deep(use_reentrant=kind)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3)
    curve = []
    for epoch in range(3):
        net.train()
        total = 0.0
        for xb, yb in zip(x.split(6), y.split(6)):
            loss = F.mse_loss(net(xb), yb) / 4
            loss.backward()
            total += loss.item()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        curve.append(total)
    curves[kind] = curve
    net.train()
    F.mse_loss(net(x), y).backward()
print(curves)
