import copy

import torch
from torch import nn
import torch.nn.functional as F


class Recorder:
    def __init__(self):
        self.count = 0
        self.means = []

    def __call__(self, module, args, output):
        self.count += 1
        self.means.append(output.mean().item())


def build():
    return nn.Sequential(nn.Linear(5, 10), nn.GELU(), nn.Linear(10, 3))


class Ensemble:
    def __init__(self, base, members):
        self.members = [copy.deepcopy(base) for _ in range(members)]
        self.optimizers = [torch.optim.Adam(m.parameters(), lr=1e-2) for m in self.members]

    def step(self, x, y):
        losses = []
        for member, optimizer in zip(self.members, self.optimizers):
            loss = F.cross_entropy(member(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return sum(losses) / len(losses)


torch.manual_seed(0)
base, recorder = build(), Recorder()
base[1].register_forward_hook(recorder)
ensemble = Ensemble(base, 2)
for step in range(3):
    x, y = torch.randn(8, 5), torch.randint(0, 3, (8,))
    print(step, ensemble.step(x, y), "recorded", recorder.count)
