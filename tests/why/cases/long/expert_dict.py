import torch
from torch import nn
import torch.nn.functional as F


def expert(width):
    return nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))


class Mixture(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inp = nn.Linear(4, width)
        self.gate = nn.Linear(width, 2)
        self.experts = {"left": expert(width), "right": expert(width)}
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        h = torch.relu(self.inp(x))
        weights = F.softmax(self.gate(h), dim=-1)
        parts = torch.stack([self.experts["left"](h), self.experts["right"](h)], dim=-1)
        return self.out((parts * weights.unsqueeze(1)).sum(-1))


def fit(model, x, y, epochs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(epochs):
        for xb, yb in zip(x.split(8), y.split(8)):
            optimizer.zero_grad()
            F.mse_loss(model(xb), yb).backward()
            optimizer.step()
            for e in model.experts.values():
                e.zero_grad(set_to_none=False)
        with torch.no_grad():
            print(epoch, F.mse_loss(model(x), y).item())


torch.manual_seed(0)
model = Mixture(6)
first = model.experts["left"][0].weight.detach().clone()
x = torch.randn(32, 4)
fit(model, x, x.prod(1, keepdim=True), 3)
