import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
out = net(torch.randn(5, 3))
loss = (out**2).mean().detach().numpy()
loss.backward()
