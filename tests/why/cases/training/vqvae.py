"""A vector-quantised autoencoder: nearest codes with a straight-through gradient, commitment loss, code statistics."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Quantiser(nn.Module):
    def __init__(self, codes, width, commitment=0.25):
        super().__init__()
        self.codebook = nn.Embedding(codes, width)
        self.codebook.weight.data.uniform_(-1 / codes, 1 / codes)
        self.commitment = commitment
        self.register_buffer("counts", torch.zeros(codes))

    def forward(self, z):
        flat = z.reshape(-1, z.shape[-1])
        distances = torch.cdist(flat, self.codebook.weight)
        index = distances.argmin(1)
        self.counts += torch.bincount(index, minlength=len(self.counts)).to(self.counts.dtype)
        chosen = self.codebook(index).view_as(z)
        loss = F.mse_loss(chosen, z.detach()) + self.commitment * F.mse_loss(z, chosen.detach())
        return z + (chosen - z).detach(), loss, index


class Autoencoder(nn.Module):
    def __init__(self, inputs=12, width=4, codes=8):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, width))
        self.quantise = Quantiser(codes, width)
        self.decode = nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, inputs))

    def forward(self, x):
        z = self.encode(x)
        quantised, loss, index = self.quantise(z)
        return self.decode(quantised), loss, index


def batch(count):
    kind = torch.randint(0, 3, (count, 1))
    t = torch.linspace(0, 1, 12)
    return torch.sin((kind + 1) * 3 * t) + 0.05 * torch.randn(count, 12)


def perplexity(index, codes):
    share = F.one_hot(index, codes).float().mean(0)
    return torch.exp(-(share * torch.log(share + 1e-10)).sum())


torch.manual_seed(16)
model = Autoencoder()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
log = []
for step in range(8):
    x = batch(32)
    output, vq, index = model(x)
    reconstruction = F.mse_loss(output, x)
    loss = reconstruction + vq
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    log.append((reconstruction.item(), vq.item(), perplexity(index, 8).item()))
print([tuple(round(v, 3) for v in row) for row in log[::4]])
