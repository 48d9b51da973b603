"""Self-supervised learning with an online and a target network; the target follows as a moving average."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp(inputs, hidden, outputs):
    return nn.Sequential(nn.Linear(inputs, hidden), nn.BatchNorm1d(hidden), nn.ReLU(inplace=True), nn.Linear(hidden, outputs))


class Encoder(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.proj = nn.Linear(4 * 4 * 4, width)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)))
        return self.proj(x.flatten(1))


class Online(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.encoder = Encoder(width)
        self.projector = mlp(width, 16, 8)
        self.predictor = mlp(8, 16, 8)

    def forward(self, x):
        projection = self.projector(self.encoder(x))
        return self.predictor(projection), projection


class Byol(nn.Module):
    def __init__(self, momentum=0.95):
        super().__init__()
        self.online = Online()
        self.target = copy.deepcopy(self.online)
        for p in self.target.parameters():
            p.requires_grad_(False)
        self.momentum = momentum

    def similarity_loss(self, prediction, projection):
        prediction = F.normalize(prediction, dim=-1)
        projection = F.normalize(projection, dim=-1)
        return 2 - 2 * (prediction * projection).sum(dim=-1).mean()

    def forward(self, first, second):
        p1, _ = self.online(first)
        p2, _ = self.online(second)
        with torch.no_grad():
            _, z1 = self.target(first)
            _, z2 = self.target(second)
        return self.similarity_loss(p1, z2) + self.similarity_loss(p2, z1)

    @torch.no_grad()
    def follow(self):
        for kept, new in zip(self.target.parameters(), self.online.parameters()):
            kept.mul_(self.momentum).add_(new, alpha=1 - self.momentum)
        for kept, new in zip(self.target.buffers(), self.online.buffers()):
            kept.copy_(new)


def augment(x):
    shift = torch.randint(-1, 2, (1,)).item()
    return torch.roll(x, shift, dims=3) + 0.05 * torch.randn_like(x)


def probe(encoder, images, labels, steps=3):
    encoder.eval()
    with torch.no_grad():
        features = encoder(images)
    head = nn.Linear(features.shape[1], 2)
    optimizer = torch.optim.Adam(head.parameters(), lr=0.05)
    for _ in range(steps):
        loss = F.cross_entropy(head(features), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    encoder.train()
    return (head(features).argmax(1) == labels).float().mean().item()


torch.manual_seed(10)
labels = torch.randint(0, 2, (24,))
images = torch.randn(24, 1, 8, 8) * 0.2
images[labels == 1, :, 2:6, 2:6] += 1
model = Byol()
optimizer = torch.optim.AdamW(model.online.parameters(), lr=3e-3, weight_decay=1e-4)
scores = []
for epoch in range(3):
    for part in torch.randperm(24).chunk(2):
        batch = images[part]
        loss = model(augment(batch), augment(batch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.follow()
    scores.append(probe(model.online.encoder, images, labels))
    print(f"epoch {epoch} loss {loss.item():.3f} probe {scores[-1]:.2f}")
