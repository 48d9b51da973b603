import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.LazyLinear(6)
        self.b = nn.LazyLinear(2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


torch.manual_seed(0)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
net(torch.randn(1, 5))
for _ in range(3):
    loss = nn.functional.cross_entropy(net(torch.randn(4, 5)), torch.tensor([0, 1, 1, 0]))
    opt.zero_grad()
    loss.backward()
    opt.step()
