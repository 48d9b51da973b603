import torch
from torch import nn
import torch.nn.functional as F


class Coder(nn.Module):
    def __init__(self, levels=8):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 4))
        self.dec = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 10))
        self.levels = levels

    def quantise(self, z):
        scaled = torch.sigmoid(z) * (self.levels - 1)
        return torch.round(scaled) / (self.levels - 1)

    def forward(self, x):
        z = self.enc(x)
        return self.dec(self.quantise(z)), z


def rate(z):
    with torch.no_grad():
        return torch.sigmoid(z).std().item()


torch.manual_seed(0)
coder = Coder()
optimizer = torch.optim.Adam(coder.parameters(), lr=1e-2)
data = torch.randn(64, 10)
for epoch in range(3):
    for batch in data.split(16):
        out, z = coder(batch)
        loss = F.mse_loss(out, batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(coder.parameters(), 1.0)
        optimizer.step()
    print(epoch, loss.item(), rate(z))
