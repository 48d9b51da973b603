"""Deep Q-learning on a corridor: replay memory, target network, epsilon-greedy."""

import random
from collections import deque, namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F

Transition = namedtuple("Transition", "state action reward following done")


class Corridor:
    def __init__(self, length=6):
        self.length = length

    def reset(self):
        self.position = 1
        return self.observe()

    def observe(self):
        state = torch.zeros(self.length)
        state[self.position] = 1.0
        return state

    def step(self, action):
        self.position += 1 if action == 1 else -1
        done = self.position in (0, self.length - 1)
        reward = 1.0 if self.position == self.length - 1 else (-1.0 if done else -0.01)
        return self.observe(), reward, done


class Memory:
    def __init__(self, size):
        self.buffer = deque(maxlen=size)

    def push(self, *parts):
        self.buffer.append(Transition(*parts))

    def sample(self, count):
        parts = Transition(*zip(*random.sample(self.buffer, count)))
        return (
            torch.stack(parts.state),
            torch.tensor(parts.action),
            torch.tensor(parts.reward),
            torch.stack(parts.following),
            torch.tensor(parts.done, dtype=torch.float32),
        )

    def __len__(self):
        return len(self.buffer)


class QNetwork(nn.Module):
    def __init__(self, states, actions, width=16):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(states, width), nn.Tanh())
        self.value = nn.Linear(width, 1)
        self.advantage = nn.Linear(width, actions)

    def forward(self, state):
        hidden = self.body(state)
        advantage = self.advantage(hidden)
        return self.value(hidden) + advantage - advantage.mean(-1, keepdim=True)


class Agent:
    def __init__(self, states, actions, gamma=0.9):
        self.online = QNetwork(states, actions)
        self.target = QNetwork(states, actions)
        self.target.load_state_dict(self.online.state_dict())
        self.target.eval()
        self.optimizer = torch.optim.RMSprop(self.online.parameters(), lr=3e-3)
        self.gamma = gamma
        self.actions = actions
        self.losses = []

    def act(self, state, epsilon):
        if random.random() < epsilon:
            return random.randrange(self.actions)
        with torch.no_grad():
            return self.online(state).argmax().item()

    def learn(self, memory, size):
        state, action, reward, following, done = memory.sample(size)
        chosen = self.online(state).gather(1, action.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = self.target(following).max(1).values
            expected = reward + self.gamma * best * (1 - done)
        loss = F.smooth_l1_loss(chosen, expected)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(self.online.parameters(), 1.0)
        self.optimizer.step()
        self.losses.append(loss.item())

    def follow(self, rate):
        for kept, new in zip(self.target.parameters(), self.online.parameters()):
            kept.data.copy_(rate * new.data + (1 - rate) * kept.data)


random.seed(0)
torch.manual_seed(0)
world = Corridor()
agent = Agent(world.length, 2)
memory = Memory(200)
for episode in range(8):
    state, done, steps = world.reset(), False, 0
    while not done and steps < 12:
        action = agent.act(state, max(0.1, 1 - episode / 6))
        following, reward, done = world.step(action)
        memory.push(state, action, reward, following, done)
        state = following
        steps += 1
        if len(memory) >= 8:
            agent.learn(memory, 8)
            agent.follow(0.1)
print(f"{len(agent.losses)} updates, last loss {agent.losses[-1]:.4f}")
