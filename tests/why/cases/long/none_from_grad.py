import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 2)
temperature = torch.tensor(2.0, requires_grad=True)
logits = net(torch.randn(4, 3)) / temperature.detach()
loss = nn.functional.cross_entropy(logits, torch.tensor([0, 1, 1, 0]))
grads = torch.autograd.grad(loss, [net.weight, temperature], allow_unused=True)
print([g.norm() for g in grads])
