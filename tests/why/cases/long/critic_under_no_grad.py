import copy

import torch
from torch import nn
import torch.nn.functional as F


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, state, action):
        return self.q(torch.cat([state, action], dim=1)).squeeze(1)


class Agent:
    def __init__(self):
        self.actor = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2), nn.Tanh())
        self.critic = Critic()
        self.target = copy.deepcopy(self.critic)
        self.opt_actor = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.opt_critic = torch.optim.Adam(self.critic.parameters(), lr=1e-3)

    def value(self, critic, state, action):
        with torch.no_grad():
            return critic(state, action)

    def learn(self, batch):
        state, action, reward, following = batch
        goal = reward + 0.9 * self.value(self.target, following, self.actor(following))
        critic_loss = F.mse_loss(self.critic(state, action), goal)
        self.opt_critic.zero_grad()
        critic_loss.backward()
        self.opt_critic.step()

        actor_loss = -self.value(self.critic, state, self.actor(state)).mean()
        self.opt_actor.zero_grad()
        actor_loss.backward()
        self.opt_actor.step()
        return critic_loss.item(), actor_loss.item()


torch.manual_seed(0)
agent = Agent()
actor = agent.actor
for step in range(3):
    batch = torch.randn(8, 3), torch.rand(8, 2), torch.randn(8), torch.randn(8, 3)
    print(agent.learn(batch))
