import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
out = net(torch.randn(2, 3))
loss = out.square().mean()
calls = []
loss.backward()
loss.grad_fn.register_hook(lambda gi, go: calls.append(go[0].item()))
print(calls)
