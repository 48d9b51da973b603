import torch
from torch import nn
import torch.nn.functional as F


class Compression:
    """Stands for gradient compression before an all-reduce."""

    def __init__(self, model):
        self.bytes = 0
        for p in model.parameters():
            p.register_hook(self.compress)

    def compress(self, grad):
        small = grad.half()
        self.bytes += small.numel() * small.element_size()
        return small


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 1))

    def forward(self, x):
        return self.net(x)


torch.manual_seed(0)
net = Net()
compression = Compression(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    x = torch.randn(10, 4)
    loss = F.mse_loss(net(x), x.mean(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), compression.bytes)
