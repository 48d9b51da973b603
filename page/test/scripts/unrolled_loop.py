"""A recurrent loop without modules: twelve hundred nodes, a weight that every step uses, a stack of all states."""

import torch

torch.manual_seed(0)
w = torch.full((8,), 0.5, requires_grad=True)
b = torch.zeros(8, requires_grad=True)
h = torch.ones(8)
states = []
for _ in range(400):
    h = torch.tanh(w * h + b)
    states.append(h)
loss = torch.stack(states).pow(2).mean()
loss.backward()
print(w.grad.norm())
