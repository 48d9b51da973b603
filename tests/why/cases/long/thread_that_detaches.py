import threading

import torch
from torch import nn

torch.manual_seed(0)


class Worker(threading.Thread):
    def __init__(self, steps):
        super().__init__()
        self.steps = steps
        self.net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def run(self):
        for _ in range(self.steps):
            x = torch.randn(4, 2)
            hidden = self.net[:2](x).detach()
            loss = self.net[2](hidden).square().mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()


worker = Worker(3)
worker.start()
worker.join()
print(worker.net[0].weight.grad)
