import warnings

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

warnings.simplefilter("ignore")


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.second = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        self.out = nn.Linear(8, 1)

    def forward(self, x):
        x = checkpoint(self.first, x, use_reentrant=True)
        return self.out(self.second(x))


torch.manual_seed(0)
model = Deep()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    opt.zero_grad()
    model(torch.randn(6, 4)).mean().backward()
    opt.step()
print(model.first[0].weight.grad)
