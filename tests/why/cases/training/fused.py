"""The optimizer lives in the backward pass: each parameter steps as soon as its gradient is there, and forgets it."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class FusedSteps:
    """One small optimizer per parameter, run by its post-accumulate hook."""

    def __init__(self, model, rate):
        self.optimizers = {p: torch.optim.SGD([p], lr=rate, momentum=0.9) for p in model.parameters()}
        self.handles = [p.register_post_accumulate_grad_hook(self.step) for p in model.parameters()]
        self.count = 0

    def step(self, parameter):
        self.optimizers[parameter].step()
        self.optimizers[parameter].zero_grad()
        self.count += 1

    def close(self):
        for handle in self.handles:
            handle.remove()


class ByHand:
    """The same without optimizers: a step of descent inside the hook."""

    def __init__(self, model, rate):
        self.rate = rate
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(self.descend)

    def descend(self, parameter):
        with torch.no_grad():
            parameter.sub_(self.rate * parameter.grad)
        parameter.grad = None


def net():
    return nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 1))


def fit(model, steps):
    losses = []
    for _ in range(steps):
        x = torch.randn(16, 4)
        loss = F.mse_loss(model(x).squeeze(1), x[:, 0] - x[:, 1])
        loss.backward()
        losses.append(loss.item())
    return losses


torch.manual_seed(0)
model = net()
fused = FusedSteps(model, 0.05)
print([round(value, 3) for value in fit(model, 5)], fused.count)
fused.close()
print("left", [p.grad for p in model.parameters() if p.grad is not None])
other = net()
by_hand = ByHand(other, 0.05)
print([round(value, 3) for value in fit(other, 5)])
print("gradients are gone:", all(p.grad is None for p in other.parameters()), other[0].weight.grad)
