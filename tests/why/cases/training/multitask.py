"""Three tasks over one trunk: losses weighted by learned uncertainty, one head switched on late, per-task metrics."""

from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Batch:
    x: torch.Tensor
    age: torch.Tensor
    group: torch.Tensor
    rank: torch.Tensor


@dataclass
class Metrics:
    total: list = field(default_factory=list)
    parts: dict = field(default_factory=dict)

    def add(self, total, parts):
        self.total.append(float(total))
        for name, value in parts.items():
            self.parts.setdefault(name, []).append(value.detach().item())


def draw(count):
    x = torch.randn(count, 10)
    age = (x[:, :2].sum(1) * 3 + 40).unsqueeze(1)
    group = (x[:, 2] > 0).long() + (x[:, 3] > 0.5).long()
    rank = torch.sigmoid(x[:, 4])
    return Batch(x, age, group, rank)


class Trunk(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(inputs, width), nn.Linear(width, width)])
        self.gate = nn.Linear(inputs, width)

    def forward(self, x):
        hidden = x
        for layer in self.layers:
            hidden = F.gelu(layer(hidden))
        return hidden * torch.sigmoid(self.gate(x))


class MultiTask(nn.Module):
    tasks = ("age", "group", "rank")

    def __init__(self, inputs=10, width=16):
        super().__init__()
        self.trunk = Trunk(inputs, width)
        self.heads = nn.ModuleDict({"age": nn.Linear(width, 1), "group": nn.Linear(width, 3), "rank": nn.Linear(width, 1)})
        self.log_variance = nn.ParameterDict({name: nn.Parameter(torch.zeros(())) for name in self.tasks})

    def forward(self, x):
        features = self.trunk(x)
        return {name: head(features) for name, head in self.heads.items()}

    def losses(self, batch):
        out = self(batch.x)
        return {
            "age": F.smooth_l1_loss(out["age"] / 10, batch.age / 10),
            "group": F.cross_entropy(out["group"], batch.group),
            "rank": F.binary_cross_entropy_with_logits(out["rank"].squeeze(1), batch.rank),
        }

    def combine(self, losses, active):
        total = 0
        for name in active:
            s = self.log_variance[name]
            total = total + torch.exp(-s) * losses[name] + s
        return total


def schedule(step):
    return ("age", "group") if step < 3 else ("age", "group", "rank")


torch.manual_seed(12)
model = MultiTask()
optimizer = torch.optim.Adam(
    [{"params": model.trunk.parameters()}, {"params": model.heads.parameters()}, {"params": model.log_variance.parameters(), "lr": 1e-2}],
    lr=4e-3,
)
metrics = Metrics()
for step in range(8):
    batch = draw(32)
    losses = model.losses(batch)
    total = model.combine(losses, schedule(step))
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
    metrics.add(total, losses)
print([round(value, 3) for value in metrics.total])
print({name: round(values[-1], 3) for name, values in metrics.parts.items()})
