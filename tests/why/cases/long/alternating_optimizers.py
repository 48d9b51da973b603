import copy

import torch
from torch import nn
import torch.nn.functional as F

STATE, ACTION = 4, 2


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(STATE, 24), nn.ReLU())
        self.mean, self.log_std = nn.Linear(24, ACTION), nn.Linear(24, ACTION)

    def forward(self, state):
        h = self.body(state)
        mean, log_std = self.mean(h), self.log_std(h).clamp(-5, 2)
        noise = torch.randn_like(mean)
        raw = mean + log_std.exp() * noise
        action = torch.tanh(raw)
        log_prob = (-0.5 * noise.pow(2) - log_std).sum(1) - torch.log(1 - action.pow(2) + 1e-6).sum(1)
        return action, log_prob


class Twin(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1 = nn.Sequential(nn.Linear(STATE + ACTION, 24), nn.ReLU(), nn.Linear(24, 1))
        self.q2 = nn.Sequential(nn.Linear(STATE + ACTION, 24), nn.ReLU(), nn.Linear(24, 1))

    def forward(self, state, action):
        both = torch.cat([state, action], 1)
        return self.q1(both).squeeze(1), self.q2(both).squeeze(1)


class Replay:
    def __init__(self, count):
        self.state, self.following = torch.randn(count, STATE), torch.randn(count, STATE)
        self.action, self.reward = torch.rand(count, ACTION) * 2 - 1, torch.randn(count)

    def sample(self, size):
        i = torch.randint(0, len(self.reward), (size,))
        return self.state[i], self.action[i], self.reward[i], self.following[i]


torch.manual_seed(0)
actor, critic = Actor(), Twin()
target = copy.deepcopy(critic)
for p in target.parameters():
    p.requires_grad_(False)
log_alpha = torch.zeros(1, requires_grad=True)
opt_actor = torch.optim.Adam(actor.parameters(), lr=3e-3)
opt_critic = torch.optim.Adam(critic.parameters(), lr=3e-3)
opt_alpha = torch.optim.Adam([log_alpha], lr=3e-3)
replay, log = Replay(64), []
for step in range(4):
    state, action, reward, following = replay.sample(16)
    with torch.no_grad():
        next_action, next_log_prob = actor(following)
        q1, q2 = target(following, next_action)
        goal = reward + 0.99 * (torch.min(q1, q2) - log_alpha.exp() * next_log_prob)
    q1, q2 = critic(state, action)
    critic_loss = F.mse_loss(q1, goal) + F.mse_loss(q2, goal)
    opt_critic.zero_grad()
    critic_loss.backward()
    opt_critic.step()

    new_action, log_prob = actor(state)
    actor_loss = (log_alpha.exp().detach() * log_prob - torch.min(*critic(state, new_action))).mean()
    opt_actor.zero_grad()
    actor_loss.backward()
    opt_actor.step()

    alpha_loss = -(log_alpha * (log_prob + ACTION).detach()).mean()
    opt_alpha.zero_grad()
    alpha_loss.backward()
    opt_alpha.step()
    with torch.no_grad():
        for mine, theirs in zip(target.parameters(), critic.parameters()):
            mine.lerp_(theirs, 0.05)
    log.append((critic_loss.item(), actor_loss.item(), log_alpha.item()))
print(log[-1])
