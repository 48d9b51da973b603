import statistics

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
bias = nn.Parameter(torch.ones(1))
opt = torch.optim.SGD([*net.parameters(), bias], lr=0.1)
for _ in range(3):
    errors = [(net(torch.randn(3)) - 1).abs().tolist()[0] for _ in range(4)]
    loss = statistics.fmean(errors) + bias.square().sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
