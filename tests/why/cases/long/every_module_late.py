import torch
from torch import nn
from torch.nn.modules.module import register_module_full_backward_hook

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
log = []
loss = net(torch.randn(4, 3)).sum()
handle = register_module_full_backward_hook(lambda m, gi, go: log.append(type(m).__name__))
loss.backward()
handle.remove()
print(log)
