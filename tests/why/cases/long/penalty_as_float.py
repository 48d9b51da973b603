import torch
from torch import nn


class Penalty(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.reference = [p.detach().clone() for p in model.parameters()]
        self.model = model

    def forward(self):
        total = 0.0
        for p, r in zip(self.model.parameters(), self.reference):
            total = total + float((p - r).pow(2).sum())
        return total


torch.manual_seed(0)
model = nn.Linear(3, 1)
gain = nn.Parameter(torch.ones(1))
penalty = Penalty(model)
opt = torch.optim.SGD([*model.parameters(), gain], lr=0.1)
for _ in range(3):
    loss = gain.sum() * (penalty() + 1.0)
    opt.zero_grad()
    loss.backward()
    opt.step()
