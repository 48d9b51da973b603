"""Soft actor-critic with twin critics and a learned temperature."""

import itertools
import random
import torch
from torch import nn
from torch.distributions import Normal
import torch.nn.functional as F

torch.manual_seed(29)
random.seed(0)
OBS, ACT = 4, 2


def mlp(*sizes):
    layers = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(OBS, 16, 2 * ACT)

    def forward(self, obs):
        mean, log_std = self.net(obs).chunk(2, -1)
        dist = Normal(mean, log_std.clamp(-4, 1).exp())
        raw = dist.rsample()
        action = torch.tanh(raw)
        log_prob = (dist.log_prob(raw) - torch.log(1 - action.pow(2) + 1e-6)).sum(-1)
        return action, log_prob


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = mlp(OBS + ACT, 16, 1)

    def forward(self, obs, action):
        return self.q(torch.cat([obs, action], -1)).squeeze(-1)


class SAC:
    def __init__(self):
        self.actor = Actor()
        self.q1, self.q2 = Critic(), Critic()
        self.t1, self.t2 = Critic(), Critic()
        self.t1.load_state_dict(self.q1.state_dict())
        self.t2.load_state_dict(self.q2.state_dict())
        self.log_alpha = nn.Parameter(torch.zeros(()))
        self.pi_opt = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        both = [*self.q1.parameters(), *self.q2.parameters()]
        self.q_opt = torch.optim.Adam(both, lr=1e-3)
        self.a_opt = torch.optim.Adam([self.log_alpha], lr=1e-3)
        self.buffer = []

    def act(self, obs):
        with torch.no_grad():
            return self.actor(obs)[0]

    def remember(self, *transition):
        self.buffer.append(transition)

    def critic_loss(self, obs, act, rew, nxt):
        with torch.no_grad():
            a2, lp = self.actor(nxt)
            target = rew + 0.9 * (torch.min(self.t1(nxt, a2), self.t2(nxt, a2)) - self.log_alpha.exp() * lp)
        first = F.mse_loss(self.q1(obs, act), target)
        second = F.mse_loss(self.q2(obs, act), target)
        return first + second

    def update(self):
        obs, act, rew, nxt = (torch.stack(c) for c in zip(*random.sample(self.buffer, 6)))
        self.q_opt.zero_grad()
        self.critic_loss(obs, act, rew, nxt).backward()
        self.q_opt.step()

        critics = [*self.q1.parameters(), *self.q2.parameters()]
        action, lp = self.actor(obs)
        q = torch.min(self.q1(obs, action), self.q2(obs, action))
        pi_loss = (self.log_alpha.exp().detach() * lp - q).mean()
        self.pi_opt.zero_grad()
        pi_loss.backward()
        self.pi_opt.step()

        alpha = self.log_alpha.exp()
        a_loss = -(alpha * (lp.detach() - ACT + 3.0)).mean()
        self.a_opt.zero_grad()
        a_loss.backward()
        self.a_opt.step()
        with torch.no_grad():
            for slow, fast in [(self.t1, self.q1), (self.t2, self.q2)]:
                for s, f in zip(slow.parameters(), fast.parameters()):
                    s.mul_(0.9).add_(f, alpha=0.1)
        return pi_loss.item()


agent = SAC()
obs = torch.randn(OBS)
for t in range(12):
    act = agent.act(obs)
    nxt = 0.9 * obs + 0.1 * torch.randn(OBS)
    agent.remember(obs, act, -(nxt**2).sum(), nxt)
    obs = nxt
    if t >= 8:
        print(t, agent.update())
