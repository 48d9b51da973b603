"""Fine-tuning: a pretrained backbone is frozen, then opened layer by layer; checkpoints, early stopping, layer rates."""

import io

import torch
import torch.nn as nn
import torch.nn.functional as F


class Backbone(nn.Module):
    def __init__(self, inputs, width, depth):
        super().__init__()
        self.stem = nn.Linear(inputs, width)
        self.stages = nn.ModuleList([nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width)) for _ in range(depth)])

    def forward(self, x):
        x = F.relu(self.stem(x))
        for stage in self.stages:
            x = x + F.relu(stage(x))
        return x


class Classifier(nn.Module):
    def __init__(self, backbone, width, classes):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(width, classes))

    def forward(self, x):
        return self.head(self.backbone(x))


def checkpoint_of(model):
    buffer = io.BytesIO()
    torch.save({"model": model.state_dict()}, buffer)
    buffer.seek(0)
    return buffer


def freeze(module):
    for p in module.parameters():
        p.requires_grad = False


def unfreeze(module):
    for p in module.parameters():
        p.requires_grad = True


def frozen_norms_stay(model):
    for module in model.backbone.modules():
        if isinstance(module, nn.BatchNorm1d) and not module.weight.requires_grad:
            module.eval()


def data(count, inputs):
    x = torch.randn(count, inputs)
    y = (x[:, 0] + x[:, 1] * x[:, 2] > 0).long()
    return x, y


def epoch(model, optimizer, x, y, size=16):
    model.train()
    frozen_norms_stay(model)
    total = 0.0
    for part in torch.randperm(len(x)).split(size):
        loss = F.cross_entropy(model(x[part]), y[part], label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(part)
    return total / len(x)


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        logits = model(x)
    return F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


torch.manual_seed(4)
inputs, width = 6, 12
pretrained = Backbone(inputs, width, 2)
saved = checkpoint_of(pretrained)

backbone = Backbone(inputs, width, 2)
backbone.load_state_dict(torch.load(saved)["model"])
model = Classifier(backbone, width, 2)
freeze(model.backbone)
optimizer = torch.optim.AdamW(model.head.parameters(), lr=1e-2)
x, y = data(48, inputs)
x_valid, y_valid = data(24, inputs)

best, waiting = float("inf"), 0
for number in range(5):
    if number == 2:
        unfreeze(model.backbone.stages[-1])
        optimizer.add_param_group({"params": model.backbone.stages[-1].parameters(), "lr": 1e-3})
    training = epoch(model, optimizer, x, y)
    valid, accuracy = evaluate(model, x_valid, y_valid)
    print(f"epoch {number} train {training:.3f} valid {valid:.3f} accuracy {accuracy:.2f}")
    if valid < best:
        best, waiting = valid, 0
        state = {name: value.clone() for name, value in model.state_dict().items()}
    else:
        waiting += 1
        if waiting > 2:
            break
model.load_state_dict(state)
