import torch
from torch import nn

torch.manual_seed(0)
members = [nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)) for _ in range(5)]
opts = [torch.optim.SGD(m.parameters(), lr=0.1) for m in members]
x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
for m, opt in zip(members, opts):
    opt.zero_grad()
    nn.functional.cross_entropy(m(x), y).backward()
    opt.step()
votes = [m(x).argmax(-1) for m in members]
logits = [m(x) for m in members]
print(torch.stack(votes).mode(0).values, torch.stack(logits).mean(0).argmax(-1))
