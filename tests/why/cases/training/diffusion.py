"""Denoising diffusion on points: classifier-free guidance, an averaged model, cosine noise schedule, sampling."""

import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class TimeEmbedding(nn.Module):
    def __init__(self, width):
        super().__init__()
        frequencies = torch.exp(-math.log(100) * torch.arange(width // 2) / (width // 2))
        self.register_buffer("frequencies", frequencies)
        self.project = nn.Sequential(nn.Linear(width, width), nn.SiLU())

    def forward(self, t):
        angle = t[:, None].float() * self.frequencies
        return self.project(torch.cat([angle.sin(), angle.cos()], dim=1))


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.scale_shift = nn.Linear(width, 2 * width)
        self.mix = nn.Linear(width, width)
        nn.init.zeros_(self.mix.weight)
        nn.init.zeros_(self.mix.bias)

    def forward(self, x, condition):
        scale, shift = self.scale_shift(condition).chunk(2, dim=1)
        return x + self.mix(F.silu(self.norm(x) * (1 + scale) + shift))


class Denoiser(nn.Module):
    def __init__(self, width=16, classes=2, blocks=2):
        super().__init__()
        self.time = TimeEmbedding(width)
        self.label = nn.Embedding(classes + 1, width)
        self.enter = nn.Linear(2, width)
        self.blocks = nn.ModuleList([Residual(width) for _ in range(blocks)])
        self.leave = nn.Linear(width, 2)

    def forward(self, x, t, label):
        condition = self.time(t) + self.label(label)
        hidden = self.enter(x)
        for block in self.blocks:
            hidden = block(hidden, condition)
        return self.leave(hidden)


class Diffusion:
    def __init__(self, steps=20):
        t = torch.linspace(0, 1, steps + 1)
        curve = torch.cos((t + 0.01) / 1.01 * math.pi / 2) ** 2
        self.steps = steps
        self.kept = (curve / curve[0])[1:].clamp(1e-4, 0.9999)

    def loss(self, model, x, label, drop=0.2):
        t = torch.randint(0, self.steps, (len(x),))
        noise = torch.randn_like(x)
        kept = self.kept[t][:, None]
        noisy = kept.sqrt() * x + (1 - kept).sqrt() * noise
        hidden = torch.where(torch.rand(len(x)) < drop, torch.full_like(label, 2), label)
        weight = (kept / (1 - kept)).clamp(max=5.0).squeeze(1)
        error = F.mse_loss(model(noisy, t, hidden), noise, reduction="none").mean(1)
        return (weight * error).mean()

    @torch.no_grad()
    def sample(self, model, label, guidance=1.5):
        x = torch.randn(len(label), 2)
        for t in reversed(range(self.steps)):
            time = torch.full((len(label),), t)
            with_label = model(x, time, label)
            without = model(x, time, torch.full_like(label, 2))
            noise = without + guidance * (with_label - without)
            start = (x - (1 - self.kept[t]).sqrt() * noise) / self.kept[t].sqrt()
            before = self.kept[t - 1] if t else torch.tensor(1.0)
            x = before.sqrt() * start + (1 - before).sqrt() * noise
        return x


def points(count):
    label = torch.randint(0, 2, (count,))
    return torch.randn(count, 2) * 0.2 + (label * 2.0 - 1.0)[:, None], label


torch.manual_seed(4)
model = Denoiser()
averaged = copy.deepcopy(model).eval().requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
diffusion = Diffusion()
for step in range(6):
    x, label = points(32)
    loss = diffusion.loss(model, x, label)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for kept, new in zip(averaged.parameters(), model.parameters()):
            kept.mul_(0.9).add_(new, alpha=0.1)
    print(f"step {step} loss {loss.item():.3f}")
print(diffusion.sample(averaged, torch.tensor([0, 1])).shape)
