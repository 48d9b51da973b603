"""A loss that is finite and a gradient that is not: find the line with `undertow debug --stop nan`."""

import torch
from torch import nn


class Distance(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(3, 4)

    def forward(self, left, right):
        difference = self.encoder(left) - self.encoder(right)
        return difference.pow(2).sum(dim=1).sqrt()


def halve(gradient):
    return gradient / 2


torch.manual_seed(0)
net = Distance()
net.encoder.bias.register_hook(halve)
left = torch.randn(4, 3)
right = left + torch.tensor([[0.1], [0.2], [0.0], [0.3]])
loss = net(left, right).mean()
loss.backward()
print(f"loss {loss.item():.4f}, gradient {net.encoder.weight.grad.norm().item():.4f}")
