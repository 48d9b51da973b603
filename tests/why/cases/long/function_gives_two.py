import torch


class Blend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, t):
        ctx.t = t
        return a * (1 - t) + b * t

    @staticmethod
    def backward(ctx, grad):
        return grad * (1 - ctx.t), grad * ctx.t


a = torch.ones(3, requires_grad=True)
b = torch.zeros(3, requires_grad=True)
Blend.apply(a, b, 0.3).sum().backward()
