"""The features are detached on their way to the loss, so that the encoder never learns."""

import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
head = nn.Linear(8, 1)
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
for _ in range(5):
    x = torch.randn(16, 4)
    features = encoder(x)
    loss = (head(features.detach()).squeeze(1) - x.sum(1)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(encoder[0].weight.grad)
