"""Pipeline stages by hand: activations cross as new leaves, gradients are handed back; and a gradient cache."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Stage:
    def __init__(self, module, rate):
        self.module = module
        self.optimizer = torch.optim.SGD(module.parameters(), lr=rate)
        self.waiting = []

    def forward(self, x):
        given = x.detach().requires_grad_(x.is_floating_point())
        output = self.module(given)
        self.waiting.append((given, output))
        return output

    def backward(self, grad):
        given, output = self.waiting.pop(0)
        output.backward(grad)
        return given.grad

    def step(self):
        self.optimizer.step()
        self.optimizer.zero_grad()


class Pipeline:
    def __init__(self, modules, rate=0.1):
        self.stages = [Stage(module, rate) for module in modules]

    def train(self, batches):
        outputs = []
        for x, y in batches:
            for stage in self.stages:
                x = stage.forward(x)
            outputs.append((x, y))
        total = 0.0
        for output, y in outputs:
            output = output.detach().requires_grad_()
            loss = F.cross_entropy(output, y) / len(batches)
            loss.backward()
            grad = output.grad
            for stage in reversed(self.stages):
                grad = stage.backward(grad)
            total += loss.item()
        for stage in self.stages:
            stage.step()
        return total


def cached_contrast(encoder, optimizer, x, chunks):
    """A large contrastive batch in small pieces: gradients of the embeddings first, then of the encoder."""
    parts = x.chunk(chunks)
    with torch.no_grad():
        embeddings = torch.cat([encoder(part) for part in parts])
    embeddings.requires_grad_(True)
    normal = F.normalize(embeddings, dim=1)
    logits = normal @ normal.t() / 0.5
    loss = F.cross_entropy(logits - 1e9 * torch.eye(len(x)), torch.arange(len(x)).roll(1))
    loss.backward()
    cache = embeddings.grad.chunk(chunks)
    optimizer.zero_grad()
    for part, grad in zip(parts, cache):
        surrogate = (encoder(part) * grad).sum()
        surrogate.backward()
    optimizer.step()
    return loss.item()


torch.manual_seed(1)
pipeline = Pipeline([nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Sequential(nn.Linear(8, 8), nn.Tanh()), nn.Linear(8, 2)])
for step in range(4):
    batches = []
    for _ in range(3):
        x = torch.randn(8, 4)
        batches.append((x, (x.sum(1) > 0).long()))
    print("pipeline", round(pipeline.train(batches), 3))
encoder = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-2)
for step in range(3):
    print("contrast", round(cached_contrast(encoder, optimizer, torch.randn(12, 4), 3), 3))
