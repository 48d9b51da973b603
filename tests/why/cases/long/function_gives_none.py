import torch
from torch import nn


class Mul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad * w, None


class Scale(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.w = nn.Parameter(torch.ones(n))

    def forward(self, x):
        return Mul.apply(x, self.w)


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 3), Scale(3), nn.Linear(3, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    opt.zero_grad()
    net(torch.randn(4, 3)).sum().backward()
    opt.step()
print(net[1].w.grad)
