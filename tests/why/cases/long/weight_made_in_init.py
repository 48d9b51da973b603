import torch
from torch import nn
import torch.nn.functional as F


class NormedLinear(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.v = nn.Parameter(torch.randn(o, i))
        self.g = nn.Parameter(torch.ones(o, 1))
        self.weight = self.g * self.v / self.v.norm(dim=1, keepdim=True)

    def forward(self, x):
        return F.linear(x, self.weight)


torch.manual_seed(0)
net = nn.Sequential(NormedLinear(3, 4), nn.Tanh(), nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    loss = net(torch.randn(2, 3)).sum()
    loss.backward()
    opt.step()
