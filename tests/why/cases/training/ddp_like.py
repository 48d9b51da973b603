"""Two replicas in one process: post-accumulate hooks average gradients in buckets before the optimizers step."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class Replica(nn.Module):
    """Wraps a module, and reports each gradient as soon as it is complete."""

    def __init__(self, module, reducer, rank):
        super().__init__()
        self.module = module
        self.rank = rank
        for name, parameter in module.named_parameters():
            parameter.register_post_accumulate_grad_hook(self.ready(name, reducer))

    def ready(self, name, reducer):
        def hook(parameter):
            reducer.add(self.rank, name, parameter)

        return hook

    def forward(self, *args):
        return self.module(*args)


class Reducer:
    def __init__(self, world):
        self.world = world
        self.waiting = {}
        self.reduced = 0

    def add(self, rank, name, parameter):
        self.waiting.setdefault(name, {})[rank] = parameter
        if len(self.waiting[name]) == self.world:
            members = self.waiting.pop(name).values()
            with torch.no_grad():
                mean = torch.stack([member.grad for member in members]).mean(0)
                for member in members:
                    member.grad.copy_(mean)
            self.reduced += 1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(6, 10)
        self.two = nn.Linear(10, 10)
        self.out = nn.Linear(10, 2)

    def forward(self, x):
        x = F.relu(self.one(x))
        x = x + F.relu(self.two(x))
        return self.out(x)


def shard(count):
    x = torch.randn(count, 6)
    return x, (x[:, 0] * x[:, 1] > 0).long()


torch.manual_seed(17)
reducer = Reducer(world=2)
first = Net()
replicas = [Replica(net, reducer, rank) for rank, net in enumerate([first, copy.deepcopy(first)])]
optimizers = [torch.optim.SGD(replica.parameters(), lr=0.1, momentum=0.9) for replica in replicas]
for step in range(5):
    losses = []
    for replica, optimizer in zip(replicas, optimizers):
        x, y = shard(16)
        optimizer.zero_grad()
        loss = F.cross_entropy(replica(x), y)
        loss.backward()
        losses.append(loss.item())
    for optimizer in optimizers:
        optimizer.step()
    print(step, [round(value, 3) for value in losses])
same = all(torch.equal(a, b) for a, b in zip(replicas[0].parameters(), replicas[1].parameters()))
print("replicas agree:", same, "reduced", reducer.reduced)
