"""A variational autoencoder with a flow on its latent and a custom Function."""

import torch
from torch import nn
import torch.nn.functional as F
from torch.distributions import Normal, kl_divergence

torch.manual_seed(71)


class ScaleGrad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return x * scale

    @staticmethod
    def backward(ctx, grad):
        x, scale = ctx.saved_tensors
        if x.numel() == 0:
            return grad, None
        return grad * scale, (grad * x).sum()


class Coupling(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d // 2, 8), nn.Tanh(), nn.Linear(8, d))

    def forward(self, z):
        a, b = z.chunk(2, -1)
        s, t = self.net(a).chunk(2, -1)
        s = torch.tanh(s)
        return torch.cat([b * torch.exp(s) + t, a], -1), s.sum(-1)


class FlowVAE(nn.Module):
    def __init__(self, d=4):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(6, 10), nn.ELU(), nn.Linear(10, 2 * d))
        self.flow = nn.ModuleList([Coupling(d), Coupling(d)])
        self.dec = self.make_decoder(d)
        self.prior = nn.Parameter(torch.zeros(d))
        self.scale = nn.Parameter(torch.ones(()))
        self.beta = nn.Parameter(torch.tensor(0.5))

    def make_decoder(self, d=4):
        return nn.Sequential(nn.Linear(d, 10), nn.ELU(), nn.Linear(10, 6))

    def forward(self, x):
        mean, logvar = self.enc(x).chunk(2, -1)
        std = torch.exp(0.5 * logvar)
        q = Normal(mean, std)
        z = q.rsample()
        logdet = 0.0
        for layer in self.flow:
            z, ld = layer(z)
            logdet = logdet + ld
        out = self.dec(z)
        p = Normal(self.prior, torch.ones_like(self.prior))
        kl = kl_divergence(q, p).sum(-1)
        return ScaleGrad.apply(out, self.scale), kl, logdet


class Trainer:
    def __init__(self, model):
        self.model = model
        params = list(model.parameters())
        self.opt = torch.optim.SGD(params, lr=1e-2)

    def loss(self, x):
        out, kl, logdet = self.model(x)
        rebuild = F.mse_loss(out, x)
        weight = F.softplus(self.model.beta)
        total = rebuild + weight * kl.mean() * 0.1 - 0.1 * logdet.mean()
        return total

    def step(self, x):
        self.opt.zero_grad()
        loss = self.loss(x)
        loss.backward()
        for p in self.model.parameters():
            if p.grad is not None:
                p.grad.mul_(1.0)
        self.opt.step()
        return loss.item()


model = FlowVAE()
trainer = Trainer(model)
x = torch.randn(8, 6)
for i in range(3):
    print(i, trainer.step(x))
