import torch
from torch import nn
import torch.nn.functional as F


class Meter:
    """Keeps a smoothed loss for the progress line."""

    def __init__(self, beta=0.9):
        self.beta = beta
        self.smooth = torch.tensor(0.0)
        self.count = 0

    def update(self, loss):
        self.count += 1
        self.smooth = self.beta * self.smooth + (1 - self.beta) * loss

    def show(self):
        return f"{float(self.smooth) / (1 - self.beta ** self.count):.4f}"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 1))

    def forward(self, x):
        return self.layers(x)


torch.manual_seed(0)
net, meter = Net(), Meter()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, weight_decay=0.01)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 4))
for step in range(12):
    x = torch.randn(16, 6)
    loss = F.huber_loss(net(x), x.abs().sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    meter.update(loss)
    if step % 4 == 3:
        print(step, meter.show())
