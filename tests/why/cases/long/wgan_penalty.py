import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(3, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
generator = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 3))
opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))
opt_g = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.0, 0.9))
log = []


def gradient_penalty(real, fake):
    alpha = torch.rand(real.size(0), 1)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    scores = critic(mixed)
    gradients = torch.autograd.grad(
        outputs=scores,
        inputs=mixed,
        grad_outputs=torch.ones_like(scores),
        create_graph=True,
        retain_graph=True,
        only_inputs=True,
    )[0]
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


def set_requires_grad(module, flag):
    for p in module.parameters():
        p.requires_grad_(flag)


for step in range(3):
    set_requires_grad(critic, True)
    for _ in range(2):
        real = torch.randn(12, 3) + 2
        with torch.no_grad():
            fake = generator(torch.randn(12, 2))
        loss_c = critic(fake).mean() - critic(real).mean() + 10 * gradient_penalty(real, fake)
        opt_c.zero_grad()
        loss_c.backward()
        opt_c.step()
    set_requires_grad(critic, False)
    loss_g = -critic(generator(torch.randn(12, 2))).mean()
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
    log.append((loss_c.item(), loss_g.item()))
print(log)
