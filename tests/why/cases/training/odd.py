"""Correct and unusual: stochastic depth, alternating tasks, skipped steps, a rate finder, warm restarts, leftovers."""

import copy
import math
from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F


class Drop(nn.Module):
    """A residual block that is skipped now and then."""

    def __init__(self, width, keep):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(width, width), nn.ReLU(inplace=True), nn.Linear(width, width))
        self.keep = keep

    def forward(self, x):
        if self.training and torch.rand(()) > self.keep:
            return x
        return x + self.inner(x) / (self.keep if self.training else 1.0)


class Net(nn.Module):
    def __init__(self, width=10):
        super().__init__()
        self.enter = nn.Linear(5, width)
        self.blocks = nn.Sequential(Drop(width, 0.9), Drop(width, 0.7), Drop(width, 0.6))
        self.heads = nn.ModuleDict({"sum": nn.Linear(width, 1), "sign": nn.Linear(width, 2)})
        self.frozen_table = nn.Embedding(4, width)
        self.frozen_table.weight.requires_grad_(False)

    def forward(self, x, task):
        x = self.enter(x) + self.frozen_table((x[:, 0] > 0).long())
        return self.heads[task](self.blocks(x))


def loss_of(model, task, x):
    out = model(x, task)
    if task == "sum":
        return F.smooth_l1_loss(out.squeeze(1), x.sum(1))
    return F.cross_entropy(out, (x[:, 1] > 0).long())


def find_rate(model, rates):
    """Tries rates on a copy, which is thrown away."""
    trial = copy.deepcopy(model)
    optimizer = torch.optim.SGD([p for p in trial.parameters() if p.requires_grad], lr=rates[0])
    best, chosen = math.inf, rates[0]
    for rate in rates:
        optimizer.param_groups[0]["lr"] = rate
        losses = [loss_of(trial, task, torch.randn(12, 5)) for task in ("sum", "sign")]
        optimizer.zero_grad()
        sum(losses).backward()
        optimizer.step()
        if sum(losses).item() < best:
            best, chosen = sum(losses).item(), rate
    return chosen


def train(model, steps, accumulate=3):
    rate = find_rate(model, [0.3, 0.1, 0.03])
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=rate, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=4)
    recent = deque(maxlen=5)
    smooth, best, kept = None, math.inf, None
    for step in range(steps):
        task = ("sum", "sign")[step % 2]
        x = torch.randn(12, 5)
        loss = loss_of(model, task, x)
        if not torch.isfinite(loss):
            continue
        (loss / accumulate).backward()
        recent.append(loss.detach())
        smooth = loss.item() if smooth is None else 0.9 * smooth + 0.1 * loss.item()
        if (step + 1) % accumulate:
            continue
        missing = [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None]
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if norm.isfinite() and len(missing) < 20:
            optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if smooth < best:
            best, kept = smooth, {name: value.detach().clone() for name, value in model.state_dict().items()}
    return torch.stack(list(recent)).mean().item(), kept


@torch.no_grad()
def test(model, batches=4):
    model.eval()
    outputs, total = [], 0
    for _ in range(batches):
        x = torch.randn(12, 5)
        outputs.append(model(x, "sign"))
        total = total + loss_of(model, "sum", x)
    model.train()
    return torch.cat(outputs).argmax(1).float().mean(), total / batches


def main():
    torch.manual_seed(1)
    model = Net()
    handle = model.enter.register_forward_hook(lambda module, args, output: print("entered", tuple(output.shape)))
    with torch.no_grad():
        model(torch.randn(2, 5), "sum")
    handle.remove()
    mean, kept = train(model, 20)
    if kept is not None:
        model.load_state_dict(kept)
    share, loss = test(model)
    print(f"mean {mean:.3f} share {share:.2f} loss {loss:.3f}")
    frozen = {name: p.grad for name, p in model.named_parameters() if not p.requires_grad}
    assert all(grad is None for grad in frozen.values())


if __name__ == "__main__":
    main()
