import torch
from torch import nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 12), nn.ELU(), nn.Linear(12, 4))

    def forward(self, x):
        return self.net(x)


def reconstruction(decoder, z, x):
    return F.mse_loss(decoder(z), x)


def clustering(centres, z):
    return torch.cdist(z, centres).min(dim=1).values.mean()


torch.manual_seed(0)
encoder, decoder = Encoder(), nn.Linear(4, 6)
centres = nn.Parameter(torch.randn(3, 4))
opt_ae = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
opt_c = torch.optim.Adam([centres], lr=1e-2)
for step in range(2):
    x = torch.randn(16, 6)
    z = encoder(x)
    opt_ae.zero_grad()
    opt_c.zero_grad()
    loss_a = reconstruction(decoder, z, x)
    loss_a.backward()
    loss_b = clustering(centres, z)
    loss_b.backward()
    opt_ae.step()
    opt_c.step()
    print(step, loss_a.item(), loss_b.item())
