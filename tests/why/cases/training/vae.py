"""A variational autoencoder on two-dimensional rings, with KL warm-up and an averaged copy of the weights."""

import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def rings(count):
    angle = torch.rand(count) * 2 * math.pi
    radius = torch.where(torch.rand(count) < 0.5, torch.tensor(1.0), torch.tensor(2.0))
    points = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    return points + 0.05 * torch.randn(count, 2)


class Encoder(nn.Module):
    def __init__(self, width, latent):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.mean = nn.Linear(width, latent)
        self.log_variance = nn.Linear(width, latent)

    def forward(self, x):
        hidden = self.body(x)
        return self.mean(hidden), self.log_variance(hidden)


class Decoder(nn.Module):
    def __init__(self, latent, width):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(latent, width), nn.Linear(width, width), nn.Linear(width, 2)])

    def forward(self, z):
        for layer in self.layers[:-1]:
            z = F.silu(layer(z))
        return self.layers[-1](z)


class VAE(nn.Module):
    def __init__(self, width=32, latent=2):
        super().__init__()
        self.encoder = Encoder(width, latent)
        self.decoder = Decoder(latent, width)

    def sample(self, mean, log_variance):
        noise = torch.randn_like(mean)
        return mean + noise * (0.5 * log_variance).exp()

    def forward(self, x):
        mean, log_variance = self.encoder(x)
        z = self.sample(mean, log_variance)
        return self.decoder(z), mean, log_variance


class Average:
    def __init__(self, model, decay):
        self.model = copy.deepcopy(model)
        self.model.requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for kept, new in zip(self.model.parameters(), model.parameters()):
            kept.lerp_(new, 1 - self.decay)


def elbo(output, x, mean, log_variance, weight):
    reconstruction = F.mse_loss(output, x, reduction="none").sum(1).mean()
    divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum(1).mean()
    return reconstruction + weight * divergence, reconstruction, divergence


def train(model, loader, epochs):
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    average = Average(model, decay=0.9)
    history = {"loss": [], "kl": []}
    step = 0
    for epoch in range(epochs):
        running = 0.0
        for (batch,) in loader:
            weight = min(1.0, step / 10)
            output, mean, log_variance = model(batch)
            loss, reconstruction, divergence = elbo(output, batch, mean, log_variance, weight)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            average.update(model)
            running += loss.item()
            history["kl"].append(divergence.detach())
            step += 1
        history["loss"].append(running / len(loader))
        print(f"epoch {epoch} loss {history['loss'][-1]:.3f} norm {norm:.3f}")
    return average.model, history


torch.manual_seed(3)
data = rings(128)
loader = DataLoader(TensorDataset(data), batch_size=32, shuffle=True)
vae = VAE()
averaged, history = train(vae, loader, epochs=4)
with torch.no_grad():
    grid = averaged.decoder(torch.randn(8, 2))
print("samples", grid.shape, "kl", torch.stack(history["kl"]).mean().item())
