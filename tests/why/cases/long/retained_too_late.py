import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 4)
hidden = net(torch.randn(2, 3))
loss = torch.tanh(hidden).sum()
loss.backward()
hidden.retain_grad()
print(hidden.grad)
