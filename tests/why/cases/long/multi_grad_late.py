import torch
from torch import nn
import torch.autograd.graph as graph

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
counts = []
net(torch.randn(2, 3)).sum().backward()
graph.register_multi_grad_hook(list(net.parameters()), lambda grads: counts.append(len(grads)))
print(counts)
