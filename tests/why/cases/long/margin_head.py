import torch
from torch import nn
import torch.nn.functional as F


class Embedder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 8, width))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


class MarginLoss(nn.Module):
    """Cosine margin loss with one learned centre per class."""

    def __init__(self, width, classes, scale=8.0, margin=0.2):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(classes, width))
        self.scale, self.margin = scale, margin

    def forward(self, embedding, label):
        cosine = embedding @ F.normalize(self.weight, dim=1).t()
        target = F.one_hot(label, cosine.size(1)).float()
        return F.cross_entropy(self.scale * (cosine - self.margin * target), label)


torch.manual_seed(0)
embedder, margin = Embedder(5), MarginLoss(5, 4)
optimizer = torch.optim.Adam(embedder.parameters(), lr=5e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=6)
start = margin.weight.detach().clone()
for step in range(6):
    x, y = torch.randn(10, 1, 10), torch.randint(0, 4, (10,))
    loss = margin(embedder(x), y)
    optimizer.zero_grad()
    margin.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    print(step, f"{loss.item():.3f}")
