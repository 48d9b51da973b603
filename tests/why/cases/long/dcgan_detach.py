import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
LATENT, SIZE = 5, 8


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(LATENT, 16 * 2 * 2)
        self.net = nn.Sequential(
            nn.BatchNorm2d(16),
            nn.ReLU(True),
            nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(True),
            nn.ConvTranspose2d(8, 1, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.net(self.fc(z).view(-1, 16, 2, 2))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 4, 2, 1),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(8, 16, 4, 2, 1),
            nn.LeakyReLU(0.2, inplace=True),
        )
        self.score = nn.Linear(16 * 2 * 2, 1)

    def forward(self, x):
        return self.score(self.features(x).flatten(1)).squeeze(1)


def weights_init(m):
    if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(m.weight.data, 0.0, 0.02)
    elif isinstance(m, nn.BatchNorm2d):
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


images = torch.rand(36, 1, SIZE, SIZE) * 2 - 1
loader = DataLoader(TensorDataset(images), batch_size=12, shuffle=True)
G, D = Generator(), Discriminator()
G.apply(weights_init)
D.apply(weights_init)
opt_g = torch.optim.Adam(G.parameters(), lr=2e-3, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(D.parameters(), lr=2e-3, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
fixed = torch.randn(4, LATENT)
g_losses, d_losses, pictures = [], [], []

for epoch in range(2):
    for (real,) in loader:
        ones, zeros = torch.ones(real.size(0)), torch.zeros(real.size(0))
        # discriminator
        D.zero_grad()
        loss_real = criterion(D(real), ones)
        loss_real.backward()
        fake = G(torch.randn(real.size(0), LATENT))
        loss_fake = criterion(D(fake.detach()), zeros)
        loss_fake.backward()
        opt_d.step()
        # generator
        G.zero_grad()
        loss_g = criterion(D(fake), ones)
        loss_g.backward()
        opt_g.step()
        d_losses.append((loss_real + loss_fake).item())
        g_losses.append(loss_g.item())
    with torch.no_grad():
        pictures.append(G(fixed).detach().cpu())
print("D", d_losses[-1], "G", g_losses[-1], len(pictures))
