import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Generator(nn.Module):
    def __init__(self, latent, size):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(latent, 16), nn.ReLU(), nn.Linear(16, size), nn.Tanh())

    def forward(self, z):
        return self.net(z)


class Discriminator(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(size, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


def train_epoch(loader, G, D, opt_g, opt_d, criterion, log):
    for (real,) in loader:
        n = real.size(0)
        noise = torch.randn(n, 4)
        fake = G(noise)

        opt_d.zero_grad()
        d_loss = criterion(D(real), torch.ones(n)) + criterion(D(fake.detach()), torch.zeros(n))
        d_loss.backward()
        opt_d.step()

        opt_g.zero_grad()
        g_loss = criterion(D(fake), torch.ones(n))
        opt_g.step()
        log["d"].append(d_loss.item())
        log["g"].append(g_loss.item())


torch.manual_seed(0)
data = torch.rand(32, 6) * 2 - 1
loader = DataLoader(TensorDataset(data), batch_size=8, shuffle=True)
G, D = Generator(4, 6), Discriminator(6)
opt_g = torch.optim.Adam(G.parameters(), lr=1e-3)
opt_d = torch.optim.Adam(D.parameters(), lr=1e-3)
log = {"d": [], "g": []}
for epoch in range(2):
    train_epoch(loader, G, D, opt_g, opt_d, nn.BCEWithLogitsLoss(), log)
    print(epoch, sum(log["d"]) / len(log["d"]), sum(log["g"]) / len(log["g"]))
