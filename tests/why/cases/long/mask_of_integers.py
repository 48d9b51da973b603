import torch
from torch import nn
import torch.nn.functional as F


class Pruner:
    """Keeps pruned weights at zero by masking their gradients."""

    def __init__(self, layer, keep):
        flat = layer.weight.detach().abs().flatten()
        order = flat.argsort(descending=True).argsort()
        self.mask = (keep * flat.numel() - order) // flat.numel()
        self.mask = self.mask.clamp(min=0).view_as(layer.weight).float()
        self.handle = layer.weight.register_hook(self.apply)

    def apply(self, grad):
        return grad * self.mask


class MLP(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)


torch.manual_seed(0)
model = MLP([6, 12, 12, 2])
pruners = [Pruner(layer, keep=0.5) for layer in list(model.layers)[:2]]
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(16, 6)
    y = (x[:, 0] > 0).long()
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
