"""Domain adaptation with a gradient reversal layer, and a quantiser with a straight-through gradient."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.strength * grad, None


class Quantise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, levels):
        ctx.save_for_backward(x)
        return torch.round(x.clamp(-1, 1) * levels) / levels

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= 1).to(grad.dtype), None


class Extractor(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, width), nn.ELU(), nn.Linear(width, width))
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return Quantise.apply(self.body(x) * self.scale, 8)


class Adapter(nn.Module):
    def __init__(self, inputs=5, width=12, classes=3):
        super().__init__()
        self.extract = Extractor(inputs, width)
        self.label = nn.Linear(width, classes)
        self.domain = nn.Sequential(nn.Linear(width, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x, strength):
        features = self.extract(x)
        return self.label(features), self.domain(Reverse.apply(features, strength))


def source_batch(count):
    x = torch.randn(count, 5)
    return x, x[:, :3].argmax(1)


def target_batch(count):
    return torch.randn(count, 5) * 1.3 + 0.4


def train(model, steps):
    optimizer = torch.optim.SGD(
        [
            {"params": model.extract.parameters(), "lr": 0.02},
            {"params": [*model.label.parameters(), *model.domain.parameters()], "lr": 0.05},
        ],
        momentum=0.9,
    )
    report = []
    for step in range(steps):
        strength = step / steps
        x, y = source_batch(24)
        z = target_batch(24)
        labels, source_domain = model(x, strength)
        _, target_domain = model(z, strength)
        label_loss = F.cross_entropy(labels, y)
        domains = torch.cat([source_domain, target_domain])
        truth = torch.cat([torch.zeros(24), torch.ones(24)]).long()
        domain_loss = F.cross_entropy(domains, truth)
        optimizer.zero_grad(set_to_none=True)
        (label_loss + 0.3 * domain_loss).backward()
        optimizer.step()
        report.append((label_loss.item(), domain_loss.item()))
    return report


torch.manual_seed(8)
model = Adapter()
report = train(model, 6)
print([(round(a, 3), round(b, 3)) for a, b in report])
with torch.no_grad():
    x, y = source_batch(100)
    print("accuracy", (model(x, 0.0)[0].argmax(1) == y).float().mean().item())
