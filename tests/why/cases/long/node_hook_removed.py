import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
loss = net(torch.randn(4, 3)).mean()
node = loss.grad_fn.next_functions[0][0]
norms = []
handle = node.register_hook(lambda gi, go: norms.append(go[0].norm()))
print("watching", node.name())
handle.remove()
loss.backward()
