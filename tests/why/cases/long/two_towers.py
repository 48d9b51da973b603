import torch
from torch import nn

from parts.tower_losses import contrastive

torch.manual_seed(0)
left, right = nn.Linear(4, 3), nn.Linear(5, 3)
opt = torch.optim.Adam([*left.parameters(), *right.parameters()])
for _ in range(2):
    a, b = left(torch.randn(6, 4)), right(torch.randn(6, 5))
    loss = contrastive(a, b)
    opt.zero_grad()
    loss.backward()
    opt.step()
