"""Proximal policy optimisation on a target-reaching task: rollouts, advantages, several epochs over the same data."""

import torch
import torch.nn as nn
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self, observations, actions, width=16):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(observations, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.actor = nn.Linear(width, actions)
        self.critic = nn.Linear(width, 1)

    def forward(self, observation):
        hidden = self.trunk(observation)
        return Categorical(logits=self.actor(hidden)), self.critic(hidden).squeeze(-1)


class World:
    def __init__(self, count):
        self.count = count
        self.reset()

    def reset(self):
        self.position = torch.rand(self.count) * 2 - 1
        self.goal = torch.rand(self.count) * 2 - 1
        return self.observe()

    def observe(self):
        return torch.stack([self.position, self.goal, self.goal - self.position], 1)

    def step(self, action):
        self.position = (self.position + (action.float() - 1) * 0.1).clamp(-1, 1)
        return self.observe(), -(self.goal - self.position).abs()


@torch.no_grad()
def rollout(policy, world, steps):
    observation = world.reset()
    store = {"observation": [], "action": [], "logp": [], "reward": [], "value": []}
    for _ in range(steps):
        distribution, value = policy(observation)
        action = distribution.sample()
        store["observation"].append(observation)
        store["action"].append(action)
        store["logp"].append(distribution.log_prob(action))
        store["value"].append(value)
        observation, reward = world.step(action)
        store["reward"].append(reward)
    _, last = policy(observation)
    return {name: torch.stack(values) for name, values in store.items()}, last


def advantages(store, last, gamma=0.95, smooth=0.9):
    result = torch.zeros_like(store["reward"])
    running = torch.zeros_like(last)
    following = last
    for t in reversed(range(len(store["reward"]))):
        delta = store["reward"][t] + gamma * following - store["value"][t]
        running = delta + gamma * smooth * running
        result[t] = running
        following = store["value"][t]
    return result, result + store["value"]


def update(policy, optimizer, store, advantage, returns, epochs=3, parts=2, clip=0.2):
    flat = {name: values.flatten(0, 1) for name, values in store.items()}
    advantage, returns = advantage.flatten(), returns.flatten()
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    count = advantage.shape[0]
    report = []
    for _ in range(epochs):
        for index in torch.randperm(count).chunk(parts):
            distribution, value = policy(flat["observation"][index])
            ratio = (distribution.log_prob(flat["action"][index]) - flat["logp"][index]).exp()
            unclipped = ratio * advantage[index]
            clipped = ratio.clamp(1 - clip, 1 + clip) * advantage[index]
            policy_loss = -torch.min(unclipped, clipped).mean()
            value_loss = 0.5 * (value - returns[index]).pow(2).mean()
            entropy = distribution.entropy().mean()
            loss = policy_loss + 0.5 * value_loss - 0.01 * entropy
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            optimizer.step()
            report.append((policy_loss.item(), value_loss.item(), entropy.item()))
    return torch.tensor(report).mean(0)


torch.manual_seed(5)
policy = Policy(3, 3)
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3, eps=1e-5)
world = World(8)
for iteration in range(3):
    store, last = rollout(policy, world, 10)
    advantage, returns = advantages(store, last)
    means = update(policy, optimizer, store, advantage, returns)
    print(iteration, "reward", round(store["reward"].mean().item(), 3), "losses", [round(m, 3) for m in means.tolist()])
