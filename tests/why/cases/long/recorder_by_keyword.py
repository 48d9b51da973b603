from collections import defaultdict

import torch
from torch import nn


class Recorder:
    def __init__(self):
        self.values = defaultdict(list)

    def log(self, **entries):
        for key, value in entries.items():
            self.values[key].append(value)

    def mean(self, key):
        return sum(float(v) for v in self.values[key]) / len(self.values[key])


torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
recorder = Recorder()
for step in range(6):
    x = torch.randn(4, 3)
    loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    recorder.log(loss=loss)
print(recorder.mean("loss"))
