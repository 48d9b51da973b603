import torch
from torch import nn
import torch.nn.functional as F


class Normaliser(nn.Module):
    def __init__(self, eps=1e-5):
        super().__init__()
        self.eps = eps

    def forward(self, h):
        mean = h.mean(dim=0)
        var = (h - mean).pow(2).mean(dim=0)
        std = var.sqrt()
        return (h - mean) / (std + self.eps)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 6)
        self.norm = Normaliser()
        self.out = nn.Linear(6, 1)
        with torch.no_grad():
            self.fc.weight[2] = 0.0

    def forward(self, x):
        return self.out(self.norm(torch.tanh(self.fc(x))))


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    x = torch.rand(10, 4)
    loss = F.mse_loss(net(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
