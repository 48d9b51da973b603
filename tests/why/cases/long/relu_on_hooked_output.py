import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 1))
grads = []
net[0].register_full_backward_hook(lambda m, gi, go: grads.append(go[0]))
out = net(torch.randn(2, 3))
out.sum().backward()
