import torch
from torch import nn
import torch.nn.functional as F


class VAE(nn.Module):
    def __init__(self, size=6, latent=2):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(size, 12), nn.ReLU(), nn.Linear(12, 2 * latent))
        self.dec = nn.Sequential(nn.Linear(latent, 12), nn.ReLU(), nn.Linear(12, size))
        self.register_buffer("prior", torch.zeros(latent))

    def forward(self, x):
        mean, logvar = self.enc(x).chunk(2, dim=1)
        z = mean + torch.exp(0.5 * logvar) * torch.randn_like(mean)
        kl = 0.5 * ((mean - self.prior).pow(2) + logvar.exp() - 1 - logvar).sum(1).mean()
        return self.dec(z), kl


def loss_fn(model, x, beta):
    out, kl = model(x)
    return F.mse_loss(out, x, reduction="sum") / x.size(0) + beta * kl


torch.manual_seed(0)
vae = VAE()
optimizer = torch.optim.Adam([{"params": vae.parameters()}, {"params": [vae.prior], "lr": 1e-1}], lr=1e-2)
for epoch in range(3):
    beta = min(1.0, epoch / 2)
    for _ in range(2):
        loss = loss_fn(vae, torch.randn(16, 6), beta)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item(), vae.prior.tolist())
