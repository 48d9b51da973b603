import torch
from torch import nn

from parts.tracking import Tracker

torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
tracker = Tracker("train")
for step in range(6):
    x = torch.randn(4, 3)
    loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    tracker.track(step, loss)
tracker.report()
