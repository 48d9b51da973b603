from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

torch.manual_seed(0)
nets = [nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)) for _ in range(4)]
opts = [torch.optim.Adam(net.parameters()) for net in nets]
seen = []
for net in nets:
    net[0].register_full_backward_hook(lambda m, gi, go: seen.append(1))
    net[0].weight.register_hook(lambda g: g * 0.5)


def train(i):
    for _ in range(10):
        opts[i].zero_grad()
        loss = nets[i](torch.randn(8, 4)).square().mean()
        loss.backward()
        opts[i].step()
    return loss.item()


with ThreadPoolExecutor(4) as pool:
    print(list(pool.map(train, range(4))), len(seen))
