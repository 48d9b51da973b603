import torch
from torch import nn
import torch.nn.functional as F


class SignSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sign()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= 1).float()


class BinaryLinear(nn.Linear):
    def forward(self, x):
        weight = SignSTE.apply(self.weight)
        return F.linear(x, weight * self.weight.abs().mean().detach(), self.bias)


class VectorQuantised(nn.Module):
    def __init__(self, width=4, codes=6):
        super().__init__()
        self.encode = BinaryLinear(5, width)
        self.codebook = nn.Parameter(torch.randn(codes, width))
        self.decode = nn.Linear(width, 5)

    def forward(self, x):
        z = torch.tanh(self.encode(x))
        distance = (z.unsqueeze(1) - self.codebook).pow(2).sum(-1)
        code = self.codebook[distance.argmin(dim=1)]
        commit = F.mse_loss(z, code.detach())
        embed = F.mse_loss(code, z.detach())
        z = z + (code - z).detach()
        return self.decode(z), embed + 0.25 * commit


torch.manual_seed(0)
net = VectorQuantised()
mask = torch.ones(6, 1)
mask[0] = 0.0
handles = [
    net.codebook.register_hook(lambda g: g * mask),
    net.decode.weight.register_hook(lambda g: g.clamp(-0.1, 0.1)),
]
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(32, 5)
peaks = []
for step in range(4):
    out, extra = net(x)
    loss = F.mse_loss(out, x) + extra
    optimizer.zero_grad()
    loss.backward()
    peaks.append(net.decode.weight.grad.abs().max().item())
    optimizer.step()
for handle in handles:
    handle.remove()
print(peaks)
