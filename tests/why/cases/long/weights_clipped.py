import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
gen = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
oc = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
og = torch.optim.RMSprop(gen.parameters(), lr=1e-3)
for it in range(6):
    real = torch.randn(5, 2) + 2
    fake = gen(torch.randn(5, 2)).detach()
    oc.zero_grad()
    (critic(fake).mean() - critic(real).mean()).backward()
    oc.step()
    for p in critic.parameters():
        p.data.clamp_(-0.05, 0.05)
    if it % 3 == 2:
        og.zero_grad()
        (-critic(gen(torch.randn(5, 2))).mean()).backward()
        og.step()
