import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
image = torch.randn(1, 4)
score = net(image).max()
image.requires_grad_()
score.backward()
print(image.grad)
