import torch
from torch import nn
from torch.autograd.graph import register_multi_grad_hook

torch.manual_seed(0)
enc = nn.Linear(3, 4)
dec = nn.Linear(4, 3)
seen = []
x = torch.randn(5, 3)
z = enc(x)
rec = dec(z)
side = z.mean(0).exp()
register_multi_grad_hook((z, side), lambda grads: seen.append(len(grads)))
loss = (rec - x).square().mean()
loss.backward()
print("fired", len(seen))
