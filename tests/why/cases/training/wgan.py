"""A Wasserstein GAN with gradient penalty: several critic steps per generator step."""

import torch
from torch import autograd, nn


def block(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, outputs), nn.LeakyReLU(0.2))


class Generator(nn.Module):
    def __init__(self, noise, width):
        super().__init__()
        self.noise = noise
        self.body = nn.Sequential(block(noise, width), block(width, width))
        self.out = nn.Linear(width, 2)

    def forward(self, count):
        z = torch.randn(count, self.noise)
        return self.out(self.body(z))


class Critic(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(block(2, width), block(width, width))
        self.score = nn.Linear(width, 1)

    def forward(self, x):
        return self.score(self.body(x)).squeeze(1)


def real_batch(count):
    centre = torch.randint(0, 4, (count,)).float() * 1.5
    return torch.stack([centre.cos(), centre.sin()], 1) + 0.1 * torch.randn(count, 2)


def gradient_penalty(critic, real, fake):
    mix = torch.rand(real.shape[0], 1)
    between = (mix * real + (1 - mix) * fake).requires_grad_(True)
    score = critic(between)
    (grad,) = autograd.grad(score.sum(), between, create_graph=True)
    return ((grad.norm(2, dim=1) - 1) ** 2).mean()


class Gan:
    def __init__(self, noise=4, width=24, critic_steps=3, penalty=10.0):
        self.generator = Generator(noise, width)
        self.critic = Critic(width)
        self.optim_g = torch.optim.Adam(self.generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
        self.optim_c = torch.optim.Adam(self.critic.parameters(), lr=1e-3, betas=(0.5, 0.9))
        self.critic_steps = critic_steps
        self.penalty = penalty
        self.log = []

    def critic_step(self, size):
        real = real_batch(size)
        fake = self.generator(size).detach()
        loss = self.critic(fake).mean() - self.critic(real).mean()
        loss = loss + self.penalty * gradient_penalty(self.critic, real, fake)
        self.optim_c.zero_grad()
        loss.backward()
        self.optim_c.step()
        return loss.item()

    def generator_step(self, size):
        for p in self.critic.parameters():
            p.requires_grad_(False)
        loss = -self.critic(self.generator(size)).mean()
        self.optim_g.zero_grad()
        loss.backward()
        self.optim_g.step()
        for p in self.critic.parameters():
            p.requires_grad_(True)
        return loss.item()

    def fit(self, rounds, size=32):
        for number in range(rounds):
            critic_loss = sum(self.critic_step(size) for _ in range(self.critic_steps)) / self.critic_steps
            generator_loss = self.generator_step(size)
            self.log.append((critic_loss, generator_loss))
            if number % 2 == 0:
                print(f"{number}: critic {critic_loss:.3f} generator {generator_loss:.3f}")


torch.manual_seed(0)
gan = Gan()
gan.fit(5)
with torch.inference_mode():
    samples = gan.generator(64)
print(samples.mean(0).tolist())
