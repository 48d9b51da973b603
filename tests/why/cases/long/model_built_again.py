import torch
from torch import nn


class Learner:
    def __init__(self):
        self.build()
        self.opt = torch.optim.Adam(self.model.parameters(), lr=1e-2)

    def build(self):
        self.model = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 1))

    def reset(self):
        self.build()

    def fit(self, steps):
        for _ in range(steps):
            x = torch.randn(6, 3)
            loss = (self.model(x) - x.sum(1, keepdim=True)).square().mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return loss.item()


torch.manual_seed(0)
learner = Learner()
learner.reset()
print(learner.fit(3))
