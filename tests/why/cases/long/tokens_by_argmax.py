import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
gen = nn.Linear(3, 5)
disc = nn.Linear(5, 1)
opt = torch.optim.Adam(gen.parameters())
for _ in range(2):
    tokens = F.one_hot(gen(torch.randn(4, 3)).argmax(-1), 5).float()
    loss = -disc(tokens).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
