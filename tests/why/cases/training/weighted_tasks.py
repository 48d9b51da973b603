"""Two tasks on one trunk, weighted by learned variances, and a regression by hand."""

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(59)


class Trunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.stack = nn.Sequential(nn.Linear(6, 12), nn.SiLU(), nn.Linear(12, 8))

    def forward(self, x):
        return F.silu(self.stack(x))


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.regress = nn.Linear(8, 1)
        self.classify = nn.Linear(8, 3)

    def forward(self, h):
        return self.regress(h).squeeze(-1), self.classify(h)


class Weighting(nn.Module):
    def __init__(self, tasks=2):
        super().__init__()
        self.log_var = nn.Parameter(torch.zeros(tasks))

    def forward(self, losses):
        stacked = torch.stack(losses)
        return (torch.exp(-self.log_var) * stacked + self.log_var).sum()


def freeze(module):
    for parameter in module.parameters():
        parameter.requires_grad = False


class MultiTask:
    def __init__(self):
        self.trunk, self.heads, self.weigh = Trunk(), Heads(), Weighting()
        everything = [*self.trunk.parameters(), *self.heads.parameters()]
        self.opt = torch.optim.AdamW(everything, lr=1e-2)
        self.weight_opt = torch.optim.SGD([self.weigh.log_var], lr=1e-2)
        self.fired = []

    def after(self, p):
        return None

    def losses(self, x, value, label):
        h = self.trunk(x)
        predicted, logits = self.heads(h)
        first = F.smooth_l1_loss(predicted, value)
        second = F.cross_entropy(logits, label)
        return first, second

    def step(self, batch):
        first, second = self.losses(*batch)
        self.opt.zero_grad()
        self.weight_opt.zero_grad()
        loss = self.weigh([first, second])
        shared = list(self.trunk.parameters())
        loss.backward()
        self.weight_opt.step()
        self.opt.step()
        return loss.item()


def manual(x, value, steps=3):
    w = torch.zeros(6, requires_grad=True)
    for _ in range(steps):
        loss = F.mse_loss(x @ w, value)
        loss.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
        w.grad = None
    return loss.item()


x = torch.randn(20, 6)
value, label = x[:, 0] * 2, (x[:, 1] > 0).long()
task = MultiTask()
for i in range(3):
    print(i, task.step((x, value, label)))
print(manual(x, value))
