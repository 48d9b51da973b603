import torch
from torch import nn

torch.manual_seed(0)
seen = []
nn.modules.module.register_module_forward_pre_hook(lambda m, args: seen.append(type(m).__name__))
a, b = nn.Linear(3, 4), nn.Linear(4, 1)
out = b.forward(torch.relu(a.forward(torch.randn(2, 3))))
out.sum().backward()
print(seen)
