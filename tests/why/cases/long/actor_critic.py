import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
GAMMA = 0.95


class Chain:
    """Walk right to be paid."""

    def __init__(self, length=6):
        self.length = length

    def reset(self):
        self.at = 0
        return self.observe()

    def observe(self):
        return F.one_hot(torch.tensor(self.at), self.length).float()

    def step(self, action):
        self.at = max(0, min(self.length - 1, self.at + (1 if action == 1 else -1)))
        done = self.at == self.length - 1
        return self.observe(), 1.0 if done else -0.05, done


class Policy(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(size, 16), nn.Tanh())
        self.actor = nn.Linear(16, 2)
        self.critic = nn.Linear(16, 1)

    def forward(self, state):
        h = self.body(state)
        return F.log_softmax(self.actor(h), dim=-1), self.critic(h).squeeze(-1)


def rollout(env, policy, limit=12):
    log_probs, values, entropies, rewards = [], [], [], []
    state = env.reset()
    for _ in range(limit):
        logits, value = policy(state)
        probs = logits.exp()
        action = torch.multinomial(probs.detach(), 1).item()
        log_probs.append(logits[action])
        entropies.append(-(probs * logits).sum())
        values.append(value)
        state, reward, done = env.step(action)
        rewards.append(reward)
        if done:
            break
    with torch.no_grad():
        last = torch.tensor(0.0) if done else policy(state)[1]
    return torch.stack(log_probs), torch.stack(values), torch.stack(entropies), rewards, last


def discounted(rewards, last):
    returns, total = [], last
    for reward in reversed(rewards):
        total = reward + GAMMA * total
        returns.insert(0, total)
    return torch.stack(returns)


env = Chain()
policy = Policy(env.length)
optimizer = torch.optim.RMSprop(policy.parameters(), lr=1e-2)
rewards_seen, stats = [], {"actor": [], "critic": []}
for episode in range(4):
    log_probs, values, entropies, rewards, last = rollout(env, policy)
    returns = discounted(rewards, last)
    advantages = returns - values.detach()
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-6)
    actor_loss = -(log_probs * advantages).mean()
    critic_loss = F.smooth_l1_loss(values, returns)
    loss = actor_loss + 0.5 * critic_loss - 0.01 * entropies.mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
    optimizer.step()
    stats["actor"].append(actor_loss.item())
    stats["critic"].append(critic_loss.item())
    rewards_seen.append(sum(rewards))
print(rewards_seen, {k: sum(v) / len(v) for k, v in stats.items()})
