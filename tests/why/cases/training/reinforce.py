"""REINFORCE with a learned baseline: log-probabilities of an episode are kept until it ends, then differentiated."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical


class Agent(nn.Module):
    def __init__(self, states=4, actions=2, width=12):
        super().__init__()
        self.body = nn.Linear(states, width)
        self.policy = nn.Linear(width, actions)
        self.baseline = nn.Linear(width, 1)
        self.saved = []
        self.rewards = []

    def act(self, state):
        hidden = torch.tanh(self.body(state))
        distribution = Categorical(logits=self.policy(hidden))
        action = distribution.sample()
        self.saved.append((distribution.log_prob(action), self.baseline(hidden).squeeze(-1), distribution.entropy()))
        return action.item()


class Pole:
    """Keep a number near zero by pushing it left or right."""

    def reset(self):
        self.x = torch.randn(2) * 0.1
        return self.state()

    def state(self):
        return torch.cat([self.x, self.x.abs()])

    def step(self, action):
        force = 0.2 if action else -0.2
        self.x = torch.stack([self.x[0] + 0.1 * self.x[1], self.x[1] + force + 0.1 * torch.randn(())])
        return self.state(), 1.0 - self.x[0].abs().item(), bool(self.x[0].abs() > 1)


def returns_of(rewards, discount=0.95):
    total, result = 0.0, []
    for reward in reversed(rewards):
        total = reward + discount * total
        result.insert(0, total)
    result = torch.tensor(result)
    return (result - result.mean()) / (result.std() + 1e-6)


def finish_episode(agent, optimizer):
    policy_losses, value_losses, entropies = [], [], []
    for (log_prob, value, entropy), target in zip(agent.saved, returns_of(agent.rewards)):
        advantage = target - value.item()
        policy_losses.append(-log_prob * advantage)
        value_losses.append(F.smooth_l1_loss(value, target))
        entropies.append(entropy)
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum() - 0.01 * torch.stack(entropies).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    del agent.saved[:], agent.rewards[:]
    return loss.item()


torch.manual_seed(0)
agent, world = Agent(), Pole()
optimizer = torch.optim.Adam(agent.parameters(), lr=1e-2)
lengths = []
for episode in range(6):
    state, done = world.reset(), False
    while not done and len(agent.rewards) < 12:
        state, reward, done = world.step(agent.act(state))
        agent.rewards.append(reward)
    lengths.append(len(agent.rewards))
    loss = finish_episode(agent, optimizer)
    print(f"episode {episode} length {lengths[-1]} loss {loss:.3f}")
