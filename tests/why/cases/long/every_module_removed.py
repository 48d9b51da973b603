import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

torch.manual_seed(0)
names = []
with register_module_forward_hook(lambda m, a, o: names.append(type(m).__name__)):
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
net(torch.randn(2, 3)).sum().backward()
print(names)
