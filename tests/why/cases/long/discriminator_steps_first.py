import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class D(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 12), nn.LeakyReLU(0.2), nn.Linear(12, 1))

    def forward(self, x):
        return self.net(x)


def hinge(real, fake):
    return F.relu(1 - real).mean() + F.relu(1 + fake).mean()


def update(opt, loss, retain=False):
    opt.zero_grad()
    loss.backward(retain_graph=retain)
    opt.step()


G = nn.Sequential(nn.Linear(2, 12), nn.ReLU(), nn.Linear(12, 4))
D = D()
opt_g = torch.optim.Adam(G.parameters(), lr=1e-3)
opt_d = torch.optim.Adam(D.parameters(), lr=1e-3)
for step in range(3):
    real = torch.randn(8, 4) + 1
    fake = G(torch.randn(8, 2))
    score_real, score_fake = D(real), D(fake)
    d_loss = hinge(score_real, score_fake)
    g_loss = -score_fake.mean()
    update(opt_d, d_loss, retain=True)
    update(opt_g, g_loss)
    print(step, d_loss.item(), g_loss.item())
