import torch
from torch import nn


class Masked(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n, n))
        self.register_buffer("mask", (torch.rand(n, n) > 0.3).float())

    def forward(self, x):
        self.weight = nn.Parameter(self.weight * self.mask)
        return x @ self.weight


torch.manual_seed(0)
net = Masked(4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    net(torch.randn(2, 4)).square().mean().backward()
    opt.step()
