"""A codebook behind an encoder with quantised weights and their learned steps."""

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(13)


class LearnedStep(torch.autograd.Function):
    """Quantises to multiples of a learned step."""

    @staticmethod
    def forward(ctx, x, step, bits):
        top = 2 ** (bits - 1) - 1
        scaled = x / step
        q = scaled.round().clamp(-top - 1, top)
        ctx.save_for_backward(scaled, q)
        ctx.top = top
        out = q * step
        return out

    @staticmethod
    def backward(ctx, grad):
        scaled, q = ctx.saved_tensors
        inside = (scaled.abs() <= ctx.top).to(grad.dtype)
        grad_x = grad * inside
        grad_step = (grad * (q - scaled * inside)).sum()
        if not ctx.needs_input_grad[0]:
            return None, grad_step, None
        return grad_x, grad_step, None




class QuantLinear(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.inner = nn.Linear(n_in, n_out)
        self.step = nn.Parameter(torch.tensor(0.05))

    def forward(self, x):
        weight = self.inner.weight
        q = LearnedStep.apply(weight, self.step, 4)
        return F.linear(x, q, self.inner.bias)


class Codebook(nn.Module):
    def __init__(self, codes=6, dim=4):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(codes, dim))

    def forward(self, z):
        distance = torch.cdist(z, self.codes)
        index = distance.argmin(1)
        chosen = self.codes[index]
        commit = F.mse_loss(z, chosen.detach())
        learn = F.mse_loss(chosen, z.detach())
        passed = z + (chosen - z).detach()
        return passed, commit + learn


class VQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(QuantLinear(6, 8), nn.Tanh(), nn.Linear(8, 4))
        self.book = Codebook()
        self.decode = nn.Linear(4, 6)

    def forward(self, x):
        z, extra = self.book(self.encode(x))
        return self.decode(z), extra


model = VQ()
groups = [
    {"params": [p for n, p in model.named_parameters() if not n.endswith("step")], "lr": 1e-2},
    {"params": [p for n, p in model.named_parameters() if n.endswith("step")], "lr": 1e-4},
]
optimizer = torch.optim.Adam(groups)
data = torch.randn(32, 6)
for epoch in range(2):
    for batch in data.split(8):
        out, extra = model(batch)
        loss = F.mse_loss(out, batch) + 0.25 * extra
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
