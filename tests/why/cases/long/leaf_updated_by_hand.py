import torch
from torch import nn

torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
for _ in range(2):
    loss = (w * w).sum()
    loss.backward()
    w -= 0.1 * w.grad
    w.grad.zero_()
